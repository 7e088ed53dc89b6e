"use strict";
// Figures are drawn when they approach the window, so that a report with many of them opens at once. They and plotly.js are packed
// (packed.py); after unpacking, the page's root has the attribute data-ready.
(function () {
  const PAPER_PX = 680; // the usable width of A4 and Letter in portrait
  const config = { responsive: true, displaylogo: false, modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]] };
  const NARROW_PX = 600, LETTER_PX = 7; // the least width for buttons next to a legend; the width of a letter in a level's name
  const figures = document.querySelectorAll(".plot");
  // In a narrow window the panels of a single row are stacked. Other figures scroll.
  const stack = function (layout) {
    const axes = Object.keys(layout).filter(function (key) { return /^xaxis\d*$/.test(key) && layout[key].domain; });
    const count = axes.length;
    const rows = new Set(axes.map(function (key) { return String(layout[key.replace("x", "y")].domain); }));
    if (count < 2 || rows.size > 1) { return false; }
    const row = layout.height - layout.margin.t - layout.margin.b;
    const pitch = row + layout.margin.b + 50;
    const total = count * pitch - (pitch - row);
    const titles = (layout.annotations || []).slice();
    axes.forEach(function (key, index) {
      const x = layout[key], y = layout[key.replace("x", "y")], legend = layout[key.replace("xaxis", "legend")];
      const middle = (x.domain[0] + x.domain[1]) / 2, top = 1 - index * pitch / total;
      const title = titles.find(function (own) { return Math.abs(own.x - middle) < 0.005; });
      if (title) { titles.splice(titles.indexOf(title), 1); title.x = 0.5; title.y = top; }
      x.domain = [0, 1];
      y.domain = [Math.max(0, top - row / total), top];
      y.showticklabels = true;
      y.title = y.title || layout.yaxis.title;
      if (legend) {
        legend.x = 0;
        legend.y = legend.y > 1 ? 1 + (legend.y - 1) * row / total : y.domain[0] + legend.y * row / total;
      }
    });
    layout.height = total + layout.margin.t + layout.margin.b;
    return true;
  };
  // Names of levels that are too long for the axis are all tilted, as plotly would omit some.
  const tilt = function (layout, width) {
    const room = width - layout.margin.l - layout.margin.r;
    Object.keys(layout).filter(function (key) { return /^xaxis/.test(key) && layout[key].ticktext; }).forEach(function (key) {
      const axis = layout[key], names = axis.ticktext, [start, end] = axis.domain || [0, 1];
      const longest = Math.max.apply(null, names.map(function (name) { return name.length; }));
      axis.tickangle = longest * names.length * LETTER_PX > room * (end - start) ? -30 : 0;
    });
  };
  // If there are more flows than colours, the selected one, or the one under the pointer, is black in all panels, and the others are faint.
  const highlight = function (element) {
    const select = element.closest("figure").querySelector("select");
    const whole = JSON.parse(JSON.stringify(element.data));
    const all = whole.map(function (trace, index) { return index; }).filter(function (index) { return whole[index].meta; });
    const colour = function (key, chosen) {
      return all.map(function (index) {
        const own = key === "fillcolor" ? whole[index].fillcolor : (whole[index][key] || {}).color;
        return own && chosen.has(whole[index].meta) ? "#000" : own;
      });
    };
    let current = "";
    const show = function (flows) {
      const chosen = new Set(flows);
      if (current === flows.join("\n")) { return; }
      current = flows.join("\n");
      Plotly.restyle(element, {
        opacity: all.map(function (index) { return !chosen.size || chosen.has(whole[index].meta) ? 1 : 0.15; }),
        fillcolor: colour("fillcolor", chosen), "line.color": colour("line", chosen), "marker.color": colour("marker", chosen),
      }, all);
    };
    const showSelected = function () { show(select.value ? [select.value] : []); };
    const entry = function (event) {
      const item = event.target.closest(".scrollbox .traces");
      return item ? item.__data__[0].trace : null;
    };
    select.addEventListener("input", showSelected);
    element.on("plotly_hover", function (event) { if (event.points[0].data.meta) { show([event.points[0].data.meta]); } });
    element.on("plotly_unhover", showSelected);
    element.on("plotly_click", function (event) {
      const flow = event.points[0].data.meta;
      select.value = !flow || flow === select.value ? "" : flow;
      showSelected();
    });
    element.addEventListener("mouseover", function (event) {
      const trace = entry(event);
      if (trace && trace.meta) {
        show(all.filter(function (index) { return whole[index].name === trace.name; }).map(function (index) { return whole[index].meta; }));
      }
    });
    element.addEventListener("mouseout", function (event) { if (entry(event)) { showSelected(); } });
  };
  const draw = function (element) {
    if (element.dataset.drawn) { return; }
    element.dataset.drawn = "yes";
    const figure = unpacked.get(element);
    if (element.parentElement.clientWidth < parseFloat(element.style.minWidth) && stack(figure.layout)) {
      element.style.minWidth = "0";
    }
    tilt(figure.layout, element.clientWidth);
    const buttons = { displayModeBar: element.clientWidth < NARROW_PX ? false : "hover" };
    Plotly.newPlot(element, figure.data, figure.layout, Object.assign(buttons, config));
    if (figure.layout.meta) { highlight(element); }
  };
  // One figure per turn of the event loop keeps the page responsive.
  const queue = [];
  const drawNext = function () {
    const element = queue.shift();
    if (element) { draw(element); setTimeout(drawNext, 0); }
  };
  const enqueue = function (element) {
    queue.push(element);
    if (queue.length === 1) { setTimeout(drawNext, 0); }
  };
  const watcher = new IntersectionObserver(function (entries) {
    entries.forEach(function (entry) {
      if (entry.isIntersecting) { watcher.unobserve(entry.target); enqueue(entry.target); }
    });
  }, { rootMargin: "900px" });
  const unpacked = new Map();
  const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%/()*+-;,=.?@^_`{|}~";
  const digit = new Uint8Array(128);
  for (let value = 0; value < 85; value += 1) { digit[DIGITS.charCodeAt(value)] = value; }
  // Five digits of base 85 are four bytes; the last ones may be fewer.
  const decode = function (text) {
    const whole = text.padEnd(Math.ceil(text.length / 5) * 5, "~"), words = new DataView(new ArrayBuffer(whole.length / 5 * 4));
    for (let from = 0, to = 0; from < whole.length; to += 4) {
      let word = 0;
      for (const end = from + 5; from < end; from += 1) { word = word * 85 + digit[whole.charCodeAt(from)]; }
      words.setUint32(to, word);
    }
    return new Uint8Array(words.buffer, 0, Math.floor(text.length * 4 / 5));
  };
  const unpack = async function (element) {
    const bytes = decode(element.textContent);
    element.remove();
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
  };
  const start = async function () {
    if (!window.DecompressionStream) {
      figures.forEach(function (element) { element.textContent = "This browser is too old to draw the figure."; });
      return;
    }
    const script = document.createElement("script");
    script.textContent = await unpack(document.getElementById("plotly"));
    document.head.append(script);
    const all = JSON.parse(await unpack(document.getElementById("figures")));
    figures.forEach(function (element, index) { unpacked.set(element, all[index]); });
    figures.forEach(function (element) { watcher.observe(element); });
    document.documentElement.dataset.ready = "yes";
  };
  start();

  // In print everything is open, and figures and tables fit the width of the paper.
  const wide = document.querySelectorAll(".scroll > table");
  let folded = [];
  window.addEventListener("beforeprint", function () {
    folded = Array.from(document.querySelectorAll("details:not([open])"));
    folded.forEach(function (element) { element.open = true; });
    wide.forEach(function (table) {
      table.style.width = "min-content";
      const least = table.offsetWidth;
      table.style.width = "";
      if (least > PAPER_PX) { table.style.zoom = PAPER_PX / least; }
    });
    unpacked.forEach(function (_, element) {
      draw(element);
      element.style.width = PAPER_PX + "px";
      element.dataset.least = element.style.minWidth;
      element.style.minWidth = "0";
      Plotly.relayout(element, { width: PAPER_PX });
    });
  });
  window.addEventListener("afterprint", function () {
    folded.forEach(function (element) { element.open = false; });
    wide.forEach(function (table) { table.style.zoom = ""; });
    unpacked.forEach(function (_, element) {
      element.style.width = "";
      element.style.minWidth = element.dataset.least;
      Plotly.relayout(element, { width: null, autosize: true });
    });
  });

  const tables = document.querySelectorAll("#tables details.table");
  const filter = document.getElementById("filter");
  if (filter) {
    const none = document.getElementById("no-match");
    filter.addEventListener("input", function () {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      let matches = 0;
      document.querySelectorAll("#tables .group").forEach(function (group) {
        const heading = group.querySelector("h3").textContent;
        let visible = 0;
        group.querySelectorAll("details.table").forEach(function (table) {
          const title = (heading + " " + table.querySelector("summary").textContent).toLowerCase();
          table.hidden = !words.every(function (word) { return title.includes(word); });
          if (!table.hidden) { visible += 1; }
        });
        group.hidden = visible === 0;
        matches += visible;
      });
      none.hidden = matches > 0;
      none.textContent = matches > 0 ? "" : "No table matches “" + filter.value.trim() + "”.";
    });
  }
  document.querySelectorAll("button[data-open]").forEach(function (button) {
    button.addEventListener("click", function () {
      tables.forEach(function (table) { if (!table.hidden) { table.open = button.dataset.open === "yes"; } });
    });
  });
})();
