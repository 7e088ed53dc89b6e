"use strict";
// Functions that the parts of the page share. Each file adds its part to `lab`.
const lab = { config: JSON.parse(document.getElementById("config").textContent) };

lab.byId = (id) => document.getElementById(id);

/** Make an element; attributes that are functions become event listeners, `text` is its text. */
lab.make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "text") element.textContent = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
};

lab.later = (delay, action) => {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), delay);
  };
};

lab.isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;

/** A colour of a picture on this page, which may be dark. */
lab.color = (color) => (lab.isDark() ? lab.config.dark[color] || color : color);

lab.style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Three or four digits of a number. */
lab.digits = (value) => {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1000) return String(Math.round(value));
  return String(Number(value.toPrecision(3)));
};

/** Units of values with their sizes, in descending order. */
lab.units = {
  rate: { "Gbit/s": 1e9, "Mbit/s": 1e6, "kbit/s": 1e3, "bit/s": 1 },
  time: { h: 3600, min: 60, s: 1, ms: 1e-3, us: 1e-6, ns: 1e-9 },
  size: { GiB: 2 ** 30, MiB: 2 ** 20, KiB: 1024, GB: 1e9, MB: 1e6, kB: 1e3, B: 1 },
  share: { "%": 0.01, "": 1 },
};
const PANEL_UNITS = {
  B: 1, kB: 1e3, MB: 1e6, GB: 1e9, s: 1, ms: 1e-3, "µs": 1e-6, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9,
};

/** The factor that converts values from one unit of a panel to another. */
lab.conversion = (from, to) => (PANEL_UNITS[from] || 1) / (PANEL_UNITS[to] || 1);
