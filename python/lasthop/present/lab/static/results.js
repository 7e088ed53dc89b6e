"use strict";
// Finished results: points for each cell; clicking a point opens its run.
{
  const HEIGHT = 190, LEFT = 58, RIGHT = 14, BOTTOM = 24, TOP = 8, NEAR = 9;
  let figure = null, hits = [], open = null, canvas, table, note;

  const named = (levels) => Object.entries(levels).map(([factor, level]) => `${factor}=${level}`).join(", ") || "all runs";

  /** The part of the levels that differs between cells. */
  const short = (cell) => {
    const varied = Object.keys(cell.levels).filter((factor) => new Set(figure.cells.map((each) => each.levels[factor])).size > 1);
    return varied.map((factor) => cell.levels[factor]).join(", ") || "all runs";
  };

  const openRun = (cell, [value, replication, first]) => {
    open = { cell, replication };
    lab.open({ text: lab.config.text, levels: cell.levels, replication, seed: figure.seed, first });
    note.textContent = `Open: ${named(cell.levels)}, replication ${replication} (${lab.digits(value)}). Now click a drop or timeout in the pictures.`;
    draw();
  };

  const draw = () => {
    if (!figure || !canvas.parentElement.clientWidth) return;
    const width = canvas.parentElement.clientWidth;
    const context = lab.context(canvas, width, HEIGHT);
    const values = figure.cells.flatMap((cell) => cell.points.map((point) => point[0]));
    const [least, most] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
    const isFar = least > most / 2; // from zero
    const low = isFar ? least - (most - least || least) * 0.15 : Math.min(0, least);
    const high = most + (most - low) * 0.08 || 1;
    const sy = (value) => HEIGHT - BOTTOM - ((value - low) / (high - low)) * (HEIGHT - BOTTOM - TOP);
    const room = (width - LEFT - RIGHT) / figure.cells.length;
    lab.grid(context, [low, high], 4, sy, width);
    hits = [];
    context.textAlign = "center";
    figure.cells.forEach((cell, place) => {
      const middle = LEFT + (place + 0.5) * room, spread = Math.min(room * 0.7, 60);
      const isOpen = (point) => open && open.cell === cell && open.replication === point[1];
      cell.points.forEach((point, number) => {
        const x = middle + (((number * 0.618) % 1) - 0.5) * spread, y = sy(point[0]);
        hits.push({ x, y, cell, point });
        context.fillStyle = isOpen(point) ? lab.style("--cursor") : lab.style("--accent");
        context.globalAlpha = isOpen(point) ? 1 : 0.5;
        context.beginPath();
        context.arc(x, y, isOpen(point) ? 5 : 2.6, 0, 7);
        context.fill();
      });
      context.globalAlpha = 1;
      context.strokeStyle = lab.style("--ink");
      context.lineWidth = 1.6;
      context.beginPath();
      context.moveTo(middle - spread / 2 - 3, sy(cell.median));
      context.lineTo(middle + spread / 2 + 3, sy(cell.median));
      context.stroke();
      context.lineWidth = 1;
      context.fillStyle = lab.style("--muted");
      const text = short(cell);
      if (context.measureText(text).width < room) context.fillText(text, middle, HEIGHT - 10);
    });
  };

  const fill = () => {
    const rows = figure.cells.map((cell) => {
      const button = lab.make("button", { type: "button", text: lab.digits(cell.median), "aria-label": `Open the median run of ${named(cell.levels)}`, click: () => openRun(cell, cell.nearest) });
      return lab.make("tr", {}, lab.make("th", { scope: "row", text: named(cell.levels) }), lab.make("td", {}, button), lab.make("td", { text: `${cell.points.length} runs` }));
    });
    const head = lab.make("tr", {}, ...["cell", `median ${figure.axis}`, ""].map((text) => lab.make("th", { scope: "col", text })));
    table.replaceChildren(lab.make("thead", {}, head), lab.make("tbody", {}, ...rows));
    note.textContent = `Each point is a run; click a point to open the run.${figure.left_out ? ` ${figure.left_out} runs are not drawn.` : ""}`;
  };

  lab.offerResults = async () => {
    const choices = lab.config.results;
    if (!choices) return;
    const host = lab.byId("results");
    host.hidden = false;
    const select = (name) => lab.make("select", { "aria-label": name });
    const [what, who, metric] = ["Table", "Flow", "Metric"].map(select);
    const options = (box, items) => box.replaceChildren(...items.map(([value, text]) => lab.make("option", { value, text })));
    canvas = lab.make("canvas", { role: "img", "aria-label": "Results: a point for each run" });
    table = lab.make("table");
    note = lab.make("p", { class: "quiet", role: "status" });
    host.replaceChildren(lab.make("div", { class: "choices" }, lab.make("h2", { text: "Results" }), what, who, metric), lab.make("div", { class: "strip" }, canvas), note, lab.make("div", { class: "cells" }, table));
    const load = async () => {
      figure = await lab.askResults({ title: what.value, who: who.value, metric: metric.value });
      open = null;
      fill();
      draw();
    };
    const change = () => {
      const chosen = choices.find((each) => each.title === what.value);
      options(who, chosen.who.map((name) => [name, name]));
      options(metric, chosen.metrics.map(({ name, label }) => [name, label]));
      return load();
    };
    options(what, choices.map(({ title }) => [title, title]));
    what.hidden = choices.length < 2;
    what.addEventListener("change", change);
    who.addEventListener("change", load);
    metric.addEventListener("change", load);
    canvas.addEventListener("click", (event) => {
      const hit = lab.nearest(hits, event, NEAR);
      if (hit) openRun(hit.cell, hit.point);
    });
    canvas.addEventListener("pointermove", (event) => {
      const hit = lab.nearest(hits, event, NEAR);
      canvas.style.cursor = hit ? "pointer" : "";
      canvas.title = hit ? `${named(hit.cell.levels)}, replication ${hit.point[1]}: ${lab.digits(hit.point[0])}` : "";
    });
    new ResizeObserver(draw).observe(host);
    await change();
  };
  lab.hitsOfResults = () => hits;
}
