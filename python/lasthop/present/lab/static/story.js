"use strict";
// The output of `lasthop explain` for a flow; its entries move the cursor, and marks in the pictures open entries.
{
  const NEAR_S = 0.002;

  lab.Story = class {
    constructor(goTo) {
      Object.assign(this, { goTo, host: lab.byId("story"), card: lab.byId("packet"), answer: null, flow: "" });
    }

    wait() {
      this.answer = this.pending = null;
      this.card.hidden = true;
      this.host.classList.add("old");
    }

    /** Whether the story covers the whole run. */
    get isWhole() {
      return Boolean(this.answer) && !this.answer.part;
    }

    /** The part of a long run that the story covers, and how to see another. */
    partOf({ start, stop, end, is_cut: isCut }) {
      const digits = Math.min(Math.max(1 - Math.floor(Math.log10(stop - start)), 0), 6);
      const [from, to, whole, stretch] = [start, stop, end, stop - start].map((time) => Number(time.toFixed(digits)));
      const where = `From ${from} to ${to} s of ${whole} s`;
      if (lab.config.exported) return `${where}: this page does not contain the rest of the story.`;
      return `${where}; zoom${isCut ? ` in to about ${stretch} s` : ""} to read another part.`;
    }

    show(answer, flow) {
      Object.assign(this, { answer, flow });
      this.host.classList.remove("old");
      if (answer.errors) {
        this.host.replaceChildren(lab.make("h2", { text: "The story" }), ...answer.errors.map(({ text }) => lab.make("p", { class: "quiet", text })));
        return;
      }
      const story = answer.stories.find((each) => each.of === flow) || answer.stories[0];
      if (!story) {
        this.host.replaceChildren();
        return;
      }
      const entries = story.entries.map(([time, text], place) => {
        const [first, ...details] = text.split("\n").filter(Boolean);
        const button = lab.make("button", { type: "button", "data-place": place, click: () => this.choose(place) },
          lab.make("time", { text: `${time.toFixed(3)} s` }), lab.make("span", { text: first }));
        const more = details.length ? [lab.make("ul", {}, ...details.map((detail) => lab.make("li", { text: detail })))] : [];
        return lab.make("li", {}, button, ...more);
      });
      const { part } = answer;
      const parts = part ? [lab.make("p", { class: "part", text: this.partOf(part) })] : [];
      for (const [time, text] of story.before || []) parts.push(lab.make("p", { class: "quiet", text: `Before this part, at ${time.toFixed(3)} s: ${text.split("\n")[0]}` }));
      if (part && !entries.length) parts.push(lab.make("p", { class: "quiet", text: "The story has no entries in this part." }));
      const summary = story.summary.map((text) => lab.make("p", { text }));
      this.story = story;
      this.list = lab.make("ol", {}, ...entries);
      this.host.replaceChildren(lab.make("h2", { text: `The story of ${story.of}` }), lab.make("p", { class: "quiet", text: story.head }), ...parts, this.list,
        ...(summary.length ? [lab.make("details", { open: true }, lab.make("summary", { text: part ? "Summary of the whole run" : "Summary" }), ...summary)] : []));
      if (this.pending) this.open(this.pending);
    }

    choose(place) {
      this.mark(place);
      this.goTo(this.story.entries[place][0]);
    }

    mark(place) {
      for (const item of this.list.children) item.removeAttribute("aria-current");
      const item = this.list.children[place];
      if (!item) return;
      item.setAttribute("aria-current", "true");
      const box = item.getBoundingClientRect(), frame = this.host.getBoundingClientRect();
      const scroller = this.host.scrollHeight > this.host.clientHeight + 2 ? this.host : null;
      if (scroller && (box.top < frame.top || box.bottom > frame.bottom)) scroller.scrollTop += box.top - frame.top - 60;
    }

    /** Mark the last entry before a time. */
    follow(time) {
      if (!this.answer || !this.story) return;
      let last = 0;
      this.story.entries.forEach((entry, place) => {
        if (entry[0] <= time + 1e-6) last = place;
      });
      this.mark(last);
    }

    /** Open the entry of a drop or timeout, and show the packet. */
    open(hit) {
      this.pending = this.answer ? null : hit; // the story may not have arrived yet
      if (!this.answer || this.answer.errors) return;
      const life = this.nearest(this.answer.lives.filter((each) => each.about === hit.mark.about), (each) => Math.abs(each.at - hit.time));
      const flow = life ? life.flow : hit.flow;
      if (flow && flow !== this.story.of) {
        if (this.answer.stories.some((each) => each.of === flow)) this.show(this.answer, flow);
      }
      let best = null, least = NEAR_S;
      this.story.entries.forEach((entry, place) => {
        for (const time of entry[2]) {
          if (Math.abs(time - hit.time) < least) [best, least] = [place, Math.abs(time - hit.time)];
        }
      });
      if (best === null) this.follow(hit.time);
      else this.mark(best);
      if (life) this.showPacket(hit, life);
    }

    nearest(lives, distance) {
      return lives.reduce((best, each) => (distance(each) < (best ? distance(best) : NEAR_S) ? each : best), null);
    }

    showPacket(hit, { flow, life }) {
      const steps = life.steps.map(([time, clock, text]) =>
        lab.make("li", {}, lab.make("button", { type: "button", click: () => this.goTo(time) }, lab.make("time", { text: clock }), lab.make("span", { text }))));
      const close = lab.make("button", { type: "button", class: "close", "aria-label": "Close", text: "×", click: () => (this.card.hidden = true) });
      const what = hit.mark.about === "drop" ? "The packet" : "The unacknowledged segment";
      this.card.replaceChildren(close, lab.make("h2", { text: what }), lab.make("p", { class: "quiet", text: `${flow}: ${life.what}` }), lab.make("ol", {}, ...steps));
      this.card.hidden = false;
    }
  };
}
