"use strict";
// The metrics of a run next to those of a pinned run, and the changes of the scenario.
{
  const WORDS = { true: "on", false: "off", null: "not set" };
  const inWords = (value) => (value === undefined ? "not present" : WORDS[value] ?? String(value));

  /** The differences between two resolved scenarios. */
  const changes = (before, after) =>
    [...new Set([...Object.keys(before), ...Object.keys(after)])]
      .filter((key) => before[key] !== after[key] && !key.endsWith(".name"))
      .map((key) => `${key}: ${inWords(before[key])} → ${inWords(after[key])}`);

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

  /** Show the metrics of a run, first those of a flow, and their differences from the pinned run. */
  lab.compare = (host, run, pinned, flow) => {
    const own = run.measures.filter((part) => part.of === flow);
    const parts = [...own, ...run.measures.filter((part) => part.of !== flow)].map((part) => table(part, pinned));
    const remarks = [];
    if (pinned) {
      const changed = changes(pinned.resolved, run.resolved);
      if (run.replication !== pinned.replication) changed.push(`replication: ${pinned.replication} → ${run.replication}`);
      const text = changed.length ? `Changes since the pinned run (drawn pale): ${changed.slice(0, 8).join("; ")}${changed.length > 8 ? "; …" : ""}.` : "No changes since the pinned run. Move a control.";
      remarks.push(lab.make("p", { class: "changed", text }));
    }
    host.classList.toggle("compared", Boolean(pinned));
    host.replaceChildren(...remarks, lab.make("div", { class: "tables" }, ...parts));
  };
}
