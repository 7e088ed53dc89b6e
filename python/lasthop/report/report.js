"use strict";
// Figures are drawn when they come near the window, so that a report with many of them opens at once.
(function () {
  const config = { responsive: true, displaylogo: false, modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]] };
  const draw = function (element) {
    if (element.dataset.drawn) { return; }
    element.dataset.drawn = "yes";
    const figure = JSON.parse(element.nextElementSibling.textContent);
    Plotly.newPlot(element, figure.data, figure.layout, config);
  };
  // One figure per turn: the page stays responsive while a screenful of them is drawn.
  const queue = [];
  const drawNext = function () {
    const element = queue.shift();
    if (element) { draw(element); setTimeout(drawNext, 0); }
  };
  const enqueue = function (element) {
    queue.push(element);
    if (queue.length === 1) { setTimeout(drawNext, 0); }
  };
  const figures = document.querySelectorAll(".plot");
  const watcher = new IntersectionObserver(function (entries) {
    entries.forEach(function (entry) {
      if (entry.isIntersecting) { watcher.unobserve(entry.target); enqueue(entry.target); }
    });
  }, { rootMargin: "900px" });
  figures.forEach(function (element) { watcher.observe(element); });
  window.addEventListener("beforeprint", function () { figures.forEach(function (element) { if (element.offsetParent) { draw(element); } }); });

  const filter = document.getElementById("filter");
  const tables = document.querySelectorAll("details.table");
  if (filter) {
    filter.addEventListener("input", function () {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      tables.forEach(function (table) {
        const title = table.querySelector("summary").textContent.toLowerCase();
        table.hidden = !words.every(function (word) { return title.includes(word); });
      });
    });
  }
  document.querySelectorAll("button[data-open]").forEach(function (button) {
    button.addEventListener("click", function () {
      tables.forEach(function (table) { if (!table.hidden) { table.open = button.dataset.open === "yes"; } });
    });
  });
})();
