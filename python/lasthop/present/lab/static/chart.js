"use strict";
// Pictures of runs, on canvases above each other over a common time axis.
{
  const LEFT = 58, RIGHT = 14, TOP = 6, NEAR = 12;
  const HEIGHTS = { sequence: 210 };
  const OTHER_HEIGHT = 104;
  const AXIS_HEIGHT = 22;

  /** Index of the first value that is not less; arrays of times are sorted. */
  const firstAt = (values, wanted) => {
    let low = 0, high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] < wanted) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  const ticks = (low, high, most) => {
    const rough = (high - low) / most;
    const power = 10 ** Math.floor(Math.log10(rough || 1));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) || rough || 1;
    const places = [];
    for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) places.push(at);
    return places;
  };

  /** Set the size of a canvas, whatever the resolution of the screen, and return its drawing context. */
  lab.context = (canvas, width, height) => {
    const ratio = devicePixelRatio || 1;
    Object.assign(canvas, { width: width * ratio, height: height * ratio });
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = `11px ${lab.style("--font")}`;
    return context;
  };

  /** Draw labelled lines at round values. */
  lab.grid = (context, [low, high], most, sy, width) => {
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.lineWidth = 1;
    for (const value of ticks(low, high, most)) {
      const y = Math.round(sy(value)) + 0.5;
      context.strokeStyle = lab.style(value === 0 ? "--axis" : "--grid");
      context.beginPath();
      context.moveTo(LEFT, y);
      context.lineTo(width - RIGHT, y);
      context.stroke();
      context.fillStyle = lab.style("--muted");
      context.fillText(lab.digits(value), LEFT - 8, y);
    }
  };

  /** The hit nearest to the pointer, if it is within a distance. */
  lab.nearest = (hits, event, near) => {
    let best = null, least = near;
    for (const hit of hits) {
      const distance = Math.hypot(hit.x - event.offsetX, hit.y - event.offsetY);
      if (distance < least) [best, least] = [hit, distance];
    }
    return best;
  };

  const TURNS = { "triangle-up": -90, "triangle-down": 90, "y-up": -90, "y-down": 90 };

  const polygon = (context, x, y, radius, corners, turn) => {
    for (let corner = 0; corner < corners; corner += 1) {
      const angle = ((turn + (360 * corner) / corners) * Math.PI) / 180;
      context.lineTo(x + radius * Math.cos(angle), y + radius * Math.sin(angle));
    }
    context.closePath();
  };

  const spokes = (context, x, y, radius, angles) => {
    for (const angle of angles) {
      const [dx, dy] = [radius * Math.cos((angle * Math.PI) / 180), radius * Math.sin((angle * Math.PI) / 180)];
      context.moveTo(x, y);
      context.lineTo(x + dx, y + dy);
    }
  };

  /** Draw a symbol with the name that plotly uses, at most `size` wide. */
  const symbol = (context, name, x, y, size) => {
    const open = name.endsWith("-open");
    const base = name.replace(/-open$/, "").replace(/-thin$/, "");
    const radius = size / 2;
    context.beginPath();
    if (base === "circle") context.arc(x, y, radius, 0, 7);
    else if (base === "square") context.rect(x - radius * 0.9, y - radius * 0.9, radius * 1.8, radius * 1.8);
    else if (base.startsWith("diamond")) polygon(context, x, y, radius * 1.2, 4, 0);
    else if (base.startsWith("triangle")) polygon(context, x, y, radius * 1.2, 3, TURNS[base]);
    else if (base === "pentagon" || base === "hexagon") polygon(context, x, y, radius * 1.1, base === "pentagon" ? 5 : 6, -90);
    else if (base === "star") spokes(context, x, y, radius * 1.2, [18, 90, 162, 234, 306]);
    else if (base === "x") spokes(context, x, y, radius * 1.2, [45, 135, 225, 315]);
    else if (base === "cross") spokes(context, x, y, radius * 1.2, [0, 90, 180, 270]);
    else if (base === "asterisk") spokes(context, x, y, radius * 1.2, [0, 45, 90, 135, 180, 225, 270, 315]);
    else spokes(context, x, y, radius * 1.2, [TURNS[base] || 0, (TURNS[base] || 0) + 120, (TURNS[base] || 0) + 240]);
    const thin = ["x", "cross", "asterisk", "star"].includes(base) || base.startsWith("y-");
    if (open || thin) context.stroke();
    else context.fill();
  };

  const DASHES = { dash: [6, 4], dot: [2, 3], solid: [] };

  const shortly = (name) => name.replace("packets in the router queue", "queue");

  /** The symbol of a mark in a legend. */
  const keyOf = (mark, color) => {
    const canvas = lab.make("canvas", { "aria-hidden": "true" });
    const context = lab.context(canvas, 16, 11);
    context.strokeStyle = context.fillStyle = color;
    if (mark.shape === "steps") {
      context.lineWidth = Math.max(mark.width, 1.6);
      context.setLineDash(DASHES[mark.dash] || []);
      context.moveTo(0, 5.5);
      context.lineTo(16, 5.5);
      context.stroke();
    } else if (mark.symbol && mark.size > 3) {
      context.lineWidth = 1.5;
      symbol(context, mark.symbol, 8, 5.5, Math.min(mark.size, 8));
    } else context.fillRect(7, 0, 2, 11);
    return canvas;
  };

  class Panel {
    constructor(panel, run, pinned) {
      Object.assign(this, { panel, run, pinned, hits: [] });
      this.title = lab.make("span", { class: "quantity", text: panel.quantity + (panel.unit ? ` (${panel.unit})` : "") });
      this.legend = lab.make("span", { class: "legend" });
      this.readout = lab.make("span", { class: "readout" });
      this.canvas = lab.make("canvas", { "aria-hidden": "true" });
      const label = `Picture of the ${panel.quantity} over time`;
      this.figure = lab.make("figure", { class: `panel ${panel.kind}`, "aria-label": label },
        lab.make("figcaption", {}, this.title, this.legend), this.canvas, this.readout);
      this.height = HEIGHTS[panel.kind] || OTHER_HEIGHT;
      this.describe();
    }

    describe() {
      const several = this.run.flows.length > 1;
      const subject = this.panel.subject ? lab.make("span", { class: "subject", text: this.panel.subject }) : "";
      if (subject) this.title.prepend(subject, " ");
      const named = new Map();
      for (const layer of this.panel.layers) {
        const mark = this.run.marks[layer.mark];
        const name = shortly(several ? mark.quantity : mark.name.replace(/ of .*$/, ""));
        const shared = several && mark.owner && this.panel.kind !== "sequence";
        if (!named.has(name)) named.set(name, { mark, color: shared ? lab.style("--muted") : lab.color(mark.color) });
      }
      for (const [name, { mark, color }] of named) this.legend.append(lab.make("span", { class: "key" }, keyOf(mark, color), name));
    }

    layers() {
      const own = this.panel.layers.map((layer) => ({ layer, run: this.run, factor: 1, pinned: false }));
      if (!this.pinned) return own;
      const factor = lab.conversion(this.pinned.panel.unit, this.panel.unit);
      return [...this.pinned.panel.layers.map((layer) => ({ layer, run: this.pinned.run, factor, pinned: true })), ...own];
    }

    /** Least and greatest value between two times. */
    range(view) {
      if (this.panel.top) return [0, this.panel.top];
      let low = Infinity, high = -Infinity;
      for (const { layer, run, factor } of this.layers()) {
        // The advertised window does not count: segments that were sent fill the picture.
        if (this.panel.kind === "sequence" && run.marks[layer.mark].dash !== "solid") continue;
        const x = run.values(layer.x), y = run.values(layer.y), far = run.values(layer.far);
        const first = Math.max(firstAt(x, view[0]) - 1, 0);
        for (let i = first; i < x.length && x[i] <= view[1]; i += 1) {
          const top = (far ? far[i] : y[i]) * factor;
          if (top > high) high = top;
          if (y[i] * factor < low) low = y[i] * factor;
        }
      }
      if (high === -Infinity) return [0, 1];
      if (this.panel.kind !== "sequence") low = Math.min(low, 0);
      const room = (high - low || high || 1) * 0.06;
      return [low === 0 ? 0 : Math.max(low - room, 0), high + room];
    }

    draw(view, width) {
      const { height } = this;
      const context = lab.context(this.canvas, width, height);
      const range = this.range(view);
      const inner = { width: width - LEFT - RIGHT, height: height - TOP - 4 };
      const sx = (time) => LEFT + ((time - view[0]) / (view[1] - view[0])) * inner.width;
      const sy = (value) => TOP + inner.height - ((value - range[0]) / (range[1] - range[0])) * inner.height;
      this.scales = { sx, sy };
      this.frame(context, range, sx, sy, view, width);
      context.save();
      context.beginPath();
      context.rect(LEFT, 0, inner.width + RIGHT, height);
      context.clip();
      this.hits = [];
      for (const each of this.layers()) {
        const isMark = each.run.marks[each.layer.mark].shape !== "steps";
        context.globalAlpha = each.pinned ? (isMark ? 0.2 : 0.34) : 1;
        this.layer(context, each, view, sx, (value) => sy(value * each.factor));
      }
      context.restore();
    }

    frame(context, range, sx, sy, view, width) {
      for (const period of this.run.bad) {
        if (period.stop < view[0] || period.start > view[1]) continue;
        const from = Math.max(sx(period.start), LEFT), to = Math.min(sx(period.stop), width - RIGHT);
        context.fillStyle = lab.color(period.color);
        context.fillRect(from, TOP, Math.max(to - from, 1), this.height - TOP - 4);
      }
      lab.grid(context, range, this.height > 150 ? 5 : 3, sy, width);
    }

    layer(context, { layer, run, pinned }, view, sx, sy) {
      const mark = run.marks[layer.mark];
      if (pinned && mark.dash !== "solid") return; // thresholds and limits would clutter the comparison
      const x = run.values(layer.x), y = run.values(layer.y), far = run.values(layer.far);
      const first = Math.max(firstAt(x, view[0]) - 1, 0);
      let stop = firstAt(x, view[1]);
      while (stop < x.length && x[stop] <= view[1]) stop += 1;
      context.strokeStyle = context.fillStyle = lab.color(mark.color);
      context.lineWidth = (mark.width || 1.4) + (pinned ? 2.5 : 0);
      context.setLineDash(DASHES[mark.dash] || []);
      if (mark.shape === "steps") this.steps(context, x, y, first, stop, sx, sy, view[1]);
      else this.marks(context, { mark, layer, pinned, x, y, far, first, stop, sx, sy });
      context.setLineDash([]);
    }

    /** A step line; in each column of pixels only the least, greatest and last values are drawn. */
    steps(context, x, y, first, stop, sx, sy, end) {
      let column = -1, low = 0, high = 0, last = NaN;
      const flush = () => {
        if (column < 0) return;
        context.lineTo(column, low);
        context.lineTo(column, high);
        context.lineTo(column, last);
      };
      context.beginPath();
      for (let i = first; i < stop; i += 1) {
        const at = Math.round(sx(x[i])), value = sy(y[i]);
        if (Number.isNaN(value)) {
          flush();
          if (column >= 0) context.lineTo(at, last);
          column = -1;
          continue;
        }
        if (at === column) {
          low = Math.min(low, value);
          high = Math.max(high, value);
        } else {
          if (column < 0) context.moveTo(at, value);
          else {
            flush();
            context.lineTo(at, last);
          }
          column = at;
          low = high = value;
        }
        last = value;
      }
      flush();
      if (column >= 0) context.lineTo(sx(stop < x.length ? x[stop] : Math.min(end, x[x.length - 1])), last);
      context.stroke();
    }

    marks(context, { mark, layer, pinned, x, y, far, first, stop, sx, sy }) {
      const width = Math.max(mark.width || 1.6, 1.4);
      let beforeX = NaN, beforeY = NaN;
      context.lineWidth = mark.about ? 1.7 : 1.3;
      for (let i = first; i < stop; i += 1) {
        const at = sx(x[i]), bottom = sy(y[i]), top = far ? sy(far[i]) : bottom;
        const middle = (top + bottom) / 2;
        if (Number.isNaN(middle)) continue;
        if (mark.about && !pinned) this.hits.push({ x: at, y: middle, time: x[i], flow: layer.flow || mark.owner || this.panel.subject, mark });
        if (Math.abs(at - beforeX) < 0.7 && Math.abs(middle - beforeY) < 0.7 && !mark.about) continue;
        beforeX = at;
        beforeY = middle;
        if (far && mark.width) context.fillRect(at - width / 2, Math.min(top, bottom - 1.4), width, Math.max(bottom - top, 1.4));
        if (mark.symbol && (!far || mark.size > 3)) {
          if (stop - first > 1500 && !mark.about) context.fillRect(at - 1, middle - 1, 2, 2);
          else symbol(context, mark.symbol, at, middle, mark.size || 5);
        } else if (!far) context.fillRect(at - 1, middle - 1, 2, 2);
      }
    }

    /** The values of the lines at a time. */
    say(time, flow) {
      const values = [];
      const unit = ["packets", "segments"].includes(this.panel.unit) ? "" : ` ${this.panel.unit}`;
      for (const layer of this.panel.layers) {
        const mark = this.run.marks[layer.mark];
        if (mark.about || mark.dash === "dash" || layer.far || (layer.flow && flow && layer.flow !== flow)) continue;
        const x = this.run.values(layer.x);
        const place = firstAt(x, time + 1e-6) - 1;
        const value = place < 0 ? NaN : this.run.values(layer.y)[place];
        if (!Number.isNaN(value)) values.push(`${shortly(mark.quantity)} ${lab.digits(value)}${unit}`);
      }
      return values.join(" · ");
    }
  }

  /** All pictures of a run; `listener` is notified of the cursor, of chosen marks, and of zooming. */
  lab.Chart = class {
    constructor(host, listener) {
      this.host = host;
      this.listener = listener;
      this.panels = [];
      this.line = lab.make("div", { class: "cursor", hidden: true });
      this.chosen = lab.make("div", { class: "stretch", hidden: true });
      this.axis = lab.make("canvas", { class: "axis", "aria-hidden": "true" });
      this.view = null;
      this.time = 0;
      this.listen();
      new ResizeObserver(() => this.draw()).observe(host);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.run && this.show(this.run, this.pinned, this.flow));
    }

    show(run, pinned, flow) {
      Object.assign(this, { run, pinned, flow });
      const shown = (each) => each.panels.filter((panel) => panel.layers.length && (panel.kind !== "sequence" || panel.subject === this.sequenceOf(each)));
      const others = pinned ? shown(pinned) : [];
      this.panels = shown(run).map((panel) => {
        const other = others.find((each) => each.kind === panel.kind && each.subject === panel.subject);
        return new Panel(panel, run, other && { panel: other, run: pinned });
      });
      this.end = Math.max(run.end, pinned ? pinned.end : 0);
      if (!this.view || this.view[1] > this.end * 1.02 || this.whole) this.showAll();
      this.host.replaceChildren(...this.panels.map((panel) => panel.figure), this.axis, this.line, this.chosen);
      this.draw();
    }

    sequenceOf(run) {
      const subjects = run.panels.filter((panel) => panel.kind === "sequence").map((panel) => panel.subject);
      return subjects.includes(this.flow) ? this.flow : subjects[0];
    }

    showAll() {
      this.view = [0, this.end * 1.01 || 1];
      this.whole = true;
    }

    zoom(from, to) {
      if (to - from < 1e-4) return;
      this.whole = from <= 0 && to >= this.end;
      if (this.whole) this.showAll();
      else this.view = [Math.max(from, 0), to];
      this.draw();
      this.listener.viewed();
    }

    zoomBy(factor) {
      if (!factor) {
        this.showAll();
        this.draw();
        this.listener.viewed();
        return;
      }
      const half = ((this.view[1] - this.view[0]) * factor) / 2;
      const middle = Math.min(Math.max(this.time, this.view[0]), this.view[1]);
      this.zoom(middle - half, middle + half);
    }

    draw() {
      if (!this.run || !this.host.clientWidth) return;
      const width = this.host.clientWidth;
      for (const panel of this.panels) panel.draw(this.view, width);
      this.drawAxis(width);
      this.moveTo(this.time);
      lab.drawnAt = performance.now();
    }

    drawAxis(width) {
      const context = lab.context(this.axis, width, AXIS_HEIGHT);
      context.fillStyle = lab.style("--muted");
      context.textAlign = "center";
      const times = ticks(this.view[0], this.view[1], width / 90);
      times.forEach((time, place) => {
        const x = LEFT + ((time - this.view[0]) / (this.view[1] - this.view[0])) * (width - LEFT - RIGHT);
        context.fillText(`${Number(time.toPrecision(6))}${place === times.length - 1 ? " s" : ""}`, Math.min(x, width - 16), 14);
      });
    }

    /** Move the cursor to a time, and the view if necessary. */
    goTo(time) {
      const [from, to] = this.view;
      this.time = time;
      if (time < from || time > to) {
        const half = (to - from) / 2;
        this.zoom(Math.max(time - half, 0), Math.max(time - half, 0) + 2 * half);
      }
      this.moveTo(time);
    }

    moveTo(time) {
      const width = this.host.clientWidth;
      const x = LEFT + ((time - this.view[0]) / (this.view[1] - this.view[0])) * (width - LEFT - RIGHT);
      this.line.hidden = x < LEFT - 1 || x > width;
      this.line.style.transform = `translateX(${x}px)`;
      for (const panel of this.panels) panel.readout.textContent = panel.say(time, this.flow);
    }

    timeAt(event) {
      const box = this.host.getBoundingClientRect();
      const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
      return this.view[0] + Math.min(Math.max(share, 0), 1) * (this.view[1] - this.view[0]);
    }

    /** The drop or timeout under the pointer. */
    hit(event) {
      const panel = this.panels.find((each) => each.canvas === event.target);
      return panel ? lab.nearest(panel.hits, event, NEAR) : null;
    }

    listen() {
      let from = null;
      this.host.addEventListener("pointerdown", (event) => {
        if (event.button === 0 && event.target.tagName === "CANVAS") from = event.clientX;
      });
      this.host.addEventListener("pointermove", (event) => {
        if (!this.run) return;
        if (from !== null && Math.abs(event.clientX - from) > 5) {
          const box = this.host.getBoundingClientRect();
          this.chosen.hidden = false;
          this.chosen.style.left = `${Math.min(from, event.clientX) - box.left}px`;
          this.chosen.style.width = `${Math.abs(event.clientX - from)}px`;
        } else {
          this.moveTo(this.timeAt(event));
          this.host.style.cursor = this.hit(event) ? "pointer" : "";
        }
      });
      this.host.addEventListener("pointerleave", () => this.run && this.moveTo(this.time));
      window.addEventListener("pointerup", (event) => {
        if (from === null) return;
        const began = from;
        from = null;
        this.chosen.hidden = true;
        if (Math.abs(event.clientX - began) > 5) {
          const times = [this.timeAt({ clientX: began }), this.timeAt(event)].sort((a, b) => a - b);
          this.zoom(...times);
          return;
        }
        const hit = this.hit(event);
        this.time = hit ? hit.time : this.timeAt(event);
        this.moveTo(this.time);
        if (hit) this.listener.picked(hit);
        else this.listener.moved(this.time);
      });
      this.host.addEventListener("dblclick", () => this.zoomBy(0));
    }
  };
}
