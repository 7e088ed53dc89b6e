"use strict";
// What `lasthop explain` tells of a flow; its sentences move the cursor, and marks in the pictures open theirs.
{
  const NEAR_S = 0.002;

  lab.Story = class {
    constructor(goTo) {
      Object.assign(this, { goTo, host: lab.byId("story"), card: lab.byId("packet"), told: null, flow: "" });
    }

    wait() {
      this.told = this.asked = null;
      this.card.hidden = true;
      this.host.classList.add("old");
    }

    /** Whether it is here for every time of the run. */
    get isWhole() {
      return Boolean(this.told) && !this.told.part;
    }

    /** What part of a long run the story is of, and how to hear of another. */
    partOf({ start, stop, end, is_cut: isCut }) {
      const digits = Math.min(Math.max(1 - Math.floor(Math.log10(stop - start)), 0), 6);
      const [from, to, whole, stretch] = [start, stop, end, stop - start].map((time) => Number(time.toFixed(digits)));
      const where = `From ${from} to ${to} s of ${whole} s`;
      if (lab.config.exported) return `${where}: this page has no more of the story.`;
      return `${where}; zoom${isCut ? ` in to about ${stretch} s` : ""} to hear of another part.`;
    }

    show(told, flow) {
      Object.assign(this, { told, flow });
      this.host.classList.remove("old");
      if (told.errors) {
        this.host.replaceChildren(lab.make("h2", { text: "The story" }), ...told.errors.map(({ text }) => lab.make("p", { class: "quiet", text })));
        return;
      }
      const story = told.stories.find((each) => each.of === flow) || told.stories[0];
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
      const { part } = told;
      const parts = part ? [lab.make("p", { class: "part", text: this.partOf(part) })] : [];
      for (const [time, text] of story.before || []) parts.push(lab.make("p", { class: "quiet", text: `Last before that, at ${time.toFixed(3)} s: ${text.split("\n")[0]}` }));
      if (part && !entries.length) parts.push(lab.make("p", { class: "quiet", text: "Nothing begins in this time that the story tells of." }));
      const summary = story.summary.map((text) => lab.make("p", { text }));
      this.story = story;
      this.list = lab.make("ol", {}, ...entries);
      this.host.replaceChildren(lab.make("h2", { text: `The story of ${story.of}` }), lab.make("p", { class: "quiet", text: story.head }), ...parts, this.list,
        ...(summary.length ? [lab.make("details", { open: true }, lab.make("summary", { text: part ? "Summary of the whole run" : "Summary" }), ...summary)] : []));
      if (this.asked) this.open(this.asked);
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

    /** Mark the last sentence before a time. */
    follow(time) {
      if (!this.told || !this.story) return;
      let last = 0;
      this.story.entries.forEach((entry, place) => {
        if (entry[0] <= time + 1e-6) last = place;
      });
      this.mark(last);
    }

    /** Open the sentence of a drop or timeout, and show the packet. */
    open(hit) {
      this.asked = this.told ? null : hit; // the story may still be on its way
      if (!this.told || this.told.errors) return;
      const life = this.nearest(this.told.lives.filter((each) => each.about === hit.mark.about), (each) => Math.abs(each.at - hit.time));
      const flow = life ? life.flow : hit.flow;
      if (flow && flow !== this.story.of) {
        if (this.told.stories.some((each) => each.of === flow)) this.show(this.told, flow);
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

    nearest(found, distance) {
      return found.reduce((best, each) => (distance(each) < (best ? distance(best) : NEAR_S) ? each : best), null);
    }

    showPacket(hit, { flow, life }) {
      const steps = life.steps.map(([time, clock, text]) =>
        lab.make("li", {}, lab.make("button", { type: "button", click: () => this.goTo(time) }, lab.make("time", { text: clock }), lab.make("span", { text }))));
      const close = lab.make("button", { type: "button", class: "close", "aria-label": "Close", text: "×", click: () => (this.card.hidden = true) });
      const what = hit.mark.about === "drop" ? "The packet" : "The segment that was waited for";
      this.card.replaceChildren(close, lab.make("h2", { text: what }), lab.make("p", { class: "quiet", text: `${flow}: ${life.what}` }), lab.make("ol", {}, ...steps));
      this.card.hidden = false;
    }
  };
}
