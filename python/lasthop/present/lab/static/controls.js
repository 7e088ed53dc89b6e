"use strict";
// Controls of a scenario: sliders, switches and lists, which show and change values of the text.
{
  // Ends of sliders in the base unit of their kind; `zero` is whether the left end is 0.
  const ENDS = {
    rate: { low: 8e3, high: 1e9 },
    time: { low: 1e-3, high: 2, zero: true },
    size: { low: 1e3, high: 1e9 },
    packets: { low: 1, high: 2000 },
    bytes: { low: 1500, high: 1e7 },
    share: { low: 1e-4, high: 0.5, zero: true },
    number: { low: 1, high: 100, zero: true },
  };
  const LONG_TIMES = { low: 0.1, high: 600, zero: true };
  const POSITIONS = 200;
  const LONG = new Set(["duration", "start", "rto max", "fin timeout", "interval"]);

  /** Number and unit of a value in the notation of scenarios. */
  const parsed = (text) => {
    const match = /^\s*([0-9.]+)\s*(\S*)\s*$/.exec(String(text));
    return match ? { number: Number(match[1]), unit: match[2] } : null;
  };

  const isPackets = (unit) => unit.startsWith("packet");

  /** The scale of a slider: ends, and value to position and back; null if the value is not a simple number. */
  const scaleOf = (control) => {
    const value = parsed(control.value);
    if (!value) return null;
    let kind = control.kind, size = 1;
    if (kind === "queue") kind = isPackets(value.unit) ? "packets" : "bytes";
    if (kind !== "packets" && kind !== "number") size = lab.units[kind === "bytes" ? "size" : kind][value.unit];
    if (size === undefined) return null;
    const base = value.number * size;
    const ends = { ...(kind === "time" && LONG.has(control.label) ? LONG_TIMES : ENDS[kind]) };
    if (base > ends.high) ends.high = base;
    if (base > 0 && base < ends.low) ends.low = base;
    const span = Math.log(ends.high / ends.low);
    const position = base <= 0 ? 0 : 1 + ((POSITIONS - 1) * Math.log(base / ends.low)) / span;
    const at = (place) => (place === 0 && ends.zero ? 0 : ends.low * Math.exp((span * Math.max(place - 1, 0)) / (POSITIONS - 1)));
    return { kind, position, at, least: ends.zero ? 0 : 1 };
  };

  /** A value in the base unit as text with a readable unit; two digits, or more for long numbers. */
  const written = (kind, base) => {
    if (kind === "packets") return `${Math.max(Math.round(base), 1)} packets`;
    if (kind === "number") return Math.round(base);
    if (kind === "share") return `${Number((base * 100).toPrecision(2))} %`;
    const units = Object.entries(lab.units[kind === "bytes" ? "size" : kind]).filter(([unit]) => !["h", "min", "KiB", "MiB", "GiB"].includes(unit));
    const smallest = units[units.length - 1];
    if (base <= 0) return kind === "time" ? "0 s" : `0 ${smallest[0]}`;
    const rounded = Number(base.toPrecision(base < 0.1 && kind !== "time" ? 1 : 2));
    const [unit, size] = units.find((each) => rounded >= each[1]) || smallest;
    return `${Number((rounded / size).toPrecision(3))} ${unit}`;
  };

  /** The same value in a more readable unit: 100 kB instead of 100000 B. */
  const readable = (control) => {
    const value = parsed(control.value);
    const units = { rate: lab.units.rate, size: lab.units.size, queue: lab.units.size }[control.kind];
    if (!value || !units || !units[value.unit]) return control.value;
    const base = value.number * units[value.unit];
    const [unit, size] = Object.entries(units).filter(([name]) => !name.includes("i")  || name.endsWith("bit/s")).find(([, each]) => base >= each) || [value.unit, units[value.unit]];
    return Number((base / size).toPrecision(12)) === Number((base / size).toPrecision(4)) ? `${Number((base / size).toPrecision(12))} ${unit}` : control.value;
  };

  const safe = (path) => `c-${path.replace(/\W/g, "-")}`;

  class Control {
    constructor(control, change) {
      this.id = safe(control.path);
      this.path = control.path;
      this.kind = control.kind;
      this.change = change;
      this.make(control);
      this.follow(control);
    }

    make(control) {
      this.knob = lab.config.exported && lab.config.exported.knobs.find((knob) => knob.path === control.path);
      const label = lab.make("label", { for: this.id, text: control.label, title: control.help });
      this.row = lab.make("div", { class: `control ${control.kind}`, "data-path": control.path }, label);
      if (this.knob) {
        const last = this.knob.positions.length - 1;
        this.slider = lab.make("input", { id: this.id, type: "range", min: 0, max: last, step: 1, input: () => this.turn() });
        this.input = lab.make("output", { for: this.id });
        this.row.append(this.slider, this.input);
      } else if (control.kind === "switch") {
        this.input = lab.make("input", { id: this.id, type: "checkbox", role: "switch", change: () => this.change(this.path, this.input.checked) });
        this.row.append(this.input);
      } else if (control.kind === "choice") {
        const options = control.choices.map(({ value, help }) => lab.make("option", { value, text: value, title: help }));
        this.input = lab.make("select", { id: this.id, change: () => this.change(this.path, this.input.value) }, ...options);
        this.row.append(this.input);
      } else {
        this.slider = lab.make("input", { id: this.id, type: "range", max: POSITIONS, step: 1, input: () => this.slide() });
        this.input = lab.make("input", { type: "text", "aria-label": `${control.label}, exactly`, change: () => this.type(), keydown: (event) => event.key === "Enter" && this.type() });
        this.row.append(this.slider, this.input);
      }
    }

    /** Move a control of an exported page to one of its positions. */
    turn() {
      lab.positions[this.path] = Number(this.slider.value);
      this.change(this.path, this.knob.positions[this.slider.value]);
    }

    slide() {
      const value = written(this.scale.kind, this.scale.at(Number(this.slider.value)));
      this.input.value = value;
      this.slider.setAttribute("aria-valuetext", value);
      this.change(this.path, value);
    }

    type() {
      const value = this.kind === "number" ? Number(this.input.value) : this.input.value.trim();
      if (String(value) !== String(this.value)) this.change(this.path, value);
    }

    /** Show the value in the text. */
    follow(control) {
      this.value = control.value;
      if (this.knob) {
        this.slider.value = lab.positions[this.path];
        this.input.textContent = String(this.knob.positions[this.slider.value]);
        this.slider.setAttribute("aria-valuetext", this.input.textContent);
      } else if (control.kind === "switch") this.input.checked = control.value;
      else if (control.kind === "choice") this.input.value = control.value;
      else {
        this.scale = scaleOf(control);
        this.slider.hidden = !this.scale;
        if (document.activeElement !== this.input) this.input.value = readable(control);
        if (!this.scale) return;
        this.slider.min = this.scale.least;
        if (!this.slider.matches(":active")) this.slider.value = Math.round(this.scale.position);
        this.slider.setAttribute("aria-valuetext", this.input.value);
      }
    }
  }

  lab.Controls = class {
    constructor(host, change) {
      Object.assign(this, { host, change, shape: "", rows: new Map() });
    }

    follow(all) {
      const { exported } = lab.config;
      const controls = exported ? all.filter(({ path }) => exported.knobs.some((knob) => knob.path === path)) : all;
      const shape = JSON.stringify(controls.map(({ path, kind, group }) => [path, kind, group]));
      if (shape !== this.shape) this.build(controls, shape);
      for (const control of controls) this.rows.get(control.path).follow(control);
    }

    build(controls, shape) {
      const open = new Map([...this.host.querySelectorAll("details")].map((each) => [each.dataset.group, each.open]));
      const focused = document.activeElement && document.activeElement.id;
      this.shape = shape;
      this.rows.clear();
      const groups = new Map();
      for (const control of controls) {
        if (!groups.has(control.group)) groups.set(control.group, []);
        groups.get(control.group).push(control);
      }
      const parts = [...groups].map(([group, members]) => {
        const rows = members.map((control) => {
          const row = new Control(control, this.change);
          this.rows.set(control.path, row);
          return row.row;
        });
        const usual = group === "Downlink" || group === "TCP" || group.startsWith("Flow");
        return lab.make("details", { "data-group": group, open: open.get(group) ?? usual }, lab.make("summary", { text: group }), ...rows);
      });
      this.host.replaceChildren(...parts);
      if (focused && this.host.querySelector(`#${CSS.escape(focused)}`)) lab.byId(focused).focus();
    }
  };
}
