"use strict";
// The metrics of a run, beside those of a pinned one: what was changed, and what became of it.
{
  const WORDS = { true: "on", false: "off", null: "not set" };
  const worded = (value) => (value === undefined ? "not there" : WORDS[value] ?? String(value));

  /** What differs between two resolved scenarios. */
  const changes = (before, after) =>
    [...new Set([...Object.keys(before), ...Object.keys(after)])]
      .filter((key) => before[key] !== after[key] && !key.endsWith(".name"))
      .map((key) => `${key}: ${worded(before[key])} → ${worded(after[key])}`);

  const difference = (before, after) => {
    if (before === after) return "=";
    if (before === 0) return after > 0 ? "new" : "–";
    const share = (100 * (after - before)) / Math.abs(before);
    return `${share > 0 ? "+" : "−"}${lab.digits(Math.abs(share))} %`;
  };

  const row = (metric, other, pinned) => {
    const cells = [lab.make("th", { scope: "row", text: metric.label, title: metric.help })];
    if (pinned) cells.push(lab.make("td", { text: other ? other.text : "–" }));
    cells.push(lab.make("td", { text: metric.text }));
    if (pinned) cells.push(lab.make("td", { class: "change", text: other ? difference(other.value, metric.value) : "" }));
    return lab.make("tr", {}, ...cells);
  };

  const table = (part, pinned) => {
    const others = pinned && pinned.measures.find((each) => each.of === part.of);
    const rows = part.metrics.map((metric) => row(metric, others && others.metrics.find((each) => each.name === metric.name), pinned));
    const names = pinned ? ["", "pinned", "now", "change"] : ["", ""];
    const head = lab.make("thead", {}, lab.make("tr", {}, ...names.map((text) => lab.make("th", { scope: "col", text }))));
    return lab.make("table", {}, lab.make("caption", { text: part.of }), ...(pinned ? [head] : []), lab.make("tbody", {}, ...rows));
  };

  /** Show the metrics of a run, first those of one flow, and how they differ from those of the pinned one. */
  lab.compare = (host, run, pinned, flow) => {
    const own = run.measures.filter((part) => part.of === flow);
    const parts = [...own, ...run.measures.filter((part) => part.of !== flow)].map((part) => table(part, pinned));
    const said = [];
    if (pinned) {
      const changed = changes(pinned.resolved, run.resolved);
      if (run.replication !== pinned.replication) changed.push(`replication: ${pinned.replication} → ${run.replication}`);
      const text = changed.length ? `Changed since the pin (drawn pale): ${changed.slice(0, 8).join("; ")}${changed.length > 8 ? "; …" : ""}.` : "Nothing has changed since the pin. Move a knob.";
      said.push(lab.make("p", { class: "changed", text }));
    }
    host.classList.toggle("compared", Boolean(pinned));
    host.replaceChildren(...said, lab.make("div", { class: "tables" }, ...parts));
  };
}
