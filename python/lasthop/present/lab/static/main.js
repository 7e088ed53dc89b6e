"use strict";
// Connects the parts: questions to the server, and their answers.
{
  const PATIENCE_MS = 500; // a newer question interrupts a longer run
  const state = { text: lab.config.text, levels: {}, chosen: null, replication: 1, seed: null, first: null, run: null, pinned: null, flow: "" };
  const changes = new Map();
  const { exported } = lab.config;
  let pending = null, wanted = false;

  const chart = new lab.Chart(lab.byId("panels"), {
    picked: (hit) => {
      showTime(hit.time);
      story.open(hit);
    },
    moved: (time) => {
      showTime(time);
      story.follow(time);
    },
    viewed: () => {
      if (!story.isWhole && !exported) loadStory();
    },
  });
  const goTo = (time) => {
    chart.goTo(time);
    showTime(time);
  };
  const story = new lab.Story(goTo);
  const controls = new lab.Controls(lab.byId("controls"), (path, value) => {
    changes.set(path, value);
    look();
  });
  const typed = lab.later(250, (text) => {
    state.text = text;
    changes.clear();
    look();
  });
  const editor = new lab.Editor(typed);

  const showTime = (time) => {
    const slider = lab.byId("cursor");
    slider.value = chart.end ? Math.round((1000 * time) / chart.end) : 0;
    const values = chart.panels.map((panel) => panel.say(time, state.flow)).filter(Boolean).join(" · ");
    slider.setAttribute("aria-valuetext", `${time.toFixed(3)} s: ${values}`);
    lab.byId("at").textContent = `${time.toFixed(3)} s`;
  };

  const question = (ask, sent) => ({
    ask,
    text: state.text,
    levels: state.levels,
    chosen: state.chosen,
    replication: state.replication,
    seed: state.seed,
    first: state.first,
    changes: sent.map(([path, value]) => ({ path, value })),
    ...(exported ? { key: lab.keyOf(state.levels) } : {}),
  });

  /** Request the current run. While a request is pending, only the newest question waits. */
  const look = async () => {
    wanted = true;
    if (pending && performance.now() - pending.since < PATIENCE_MS) {
      clearTimeout(pending.again);
      pending.again = setTimeout(() => wanted && look(), PATIENCE_MS);
      return;
    }
    wanted = false;
    const mine = { since: performance.now(), again: 0 };
    pending = mine;
    const sent = [...changes];
    const run = await lab.ask(question("look", sent));
    clearTimeout(mine.again);
    if (pending !== mine) return;
    pending = null;
    if (run) show(run, sent);
    if (wanted || !run) look();
  };

  const show = (run, sent) => {
    const typing = state.text !== lab.byId("text").value && document.activeElement === lab.byId("text");
    if (!run.lost && !typing) {
      for (const [path, value] of sent) if (changes.get(path) === value) changes.delete(path);
      state.text = run.text;
      editor.follow(run.text);
    }
    if (run.errors && run.lost) changes.clear();
    editor.complain(run.errors || []);
    document.body.classList.toggle("wrong", Boolean(run.errors));
    lab.byId("status").textContent = run.errors ? "The pictures show the last run without errors." : "";
    if (run.errors) return;
    Object.assign(state, { run, levels: run.levels, replication: run.replication });
    if (!run.flows.some((flow) => flow.name === state.flow)) state.flow = run.flow;
    if (!changes.size) controls.follow(run.controls);
    draw();
    story.wait();
    loadStory();
    saveLater();
  };

  const draw = () => {
    const { run, pinned } = state;
    lab.byId("title").textContent = run.title;
    chart.show(run, pinned, state.flow);
    lab.compare(lab.byId("measures"), run, pinned, state.flow);
    lab.byId("network").innerHTML = run.network;
    lab.byId("notes").replaceChildren(...[...run.notices, ...run.notes].map((text) => lab.make("li", { text })));
    showFlows(run);
    showLevels(run);
    lab.byId("replication").querySelector("input").value = run.replication;
    showTime(chart.time);
    lab.shown = (lab.shown || 0) + 1;
  };

  const showFlows = (run) => {
    const host = lab.byId("flows");
    host.hidden = run.flows.length < 2;
    host.replaceChildren(...run.flows.map(({ name, color }) => {
      const chip = lab.make("button", { type: "button", role: "radio", "aria-checked": String(name === state.flow), text: name, click: () => chooseFlow(name) });
      chip.style.setProperty("--key", lab.color(color));
      return chip;
    }));
  };

  const chooseFlow = (name) => {
    state.flow = name;
    draw();
    if (story.answer) story.show(story.answer, name);
  };

  const showLevels = (run) => {
    const boxes = Object.entries(run.factors).filter(([, levels]) => levels.length > 1).map(([factor, levels]) => {
      const options = levels.map((level) => lab.make("option", { value: level, text: level, selected: run.levels[factor] === level }));
      const box = lab.make("select", { "data-factor": factor, change: () => chooseLevel(factor, box.value) }, ...options);
      return lab.make("label", {}, `${factor} `, box);
    });
    const host = lab.byId("levels");
    if (!host.contains(document.activeElement) || host.children.length !== boxes.length) host.replaceChildren(...boxes);
  };

  const chooseLevel = (factor, level) => {
    state.levels = { ...state.levels, [factor]: level };
    state.chosen = factor;
    look();
  };

  const loadStory = lab.later(350, async () => {
    const { run } = state;
    const answer = await lab.ask({ ...question("story", []), span: chart.view });
    if (run !== state.run || !answer) return;
    const { pending: hit } = story;
    story.show(answer, state.flow);
    if (!hit) story.follow(chart.time);
  });

  // The page's address contains the scenario.
  const packed = async (text) => {
    const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    return btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  };
  const unpacked = async (text) => {
    const bytes = Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
  };
  const save = async () => {
    const { text, levels, replication } = state;
    const hash = await packed(JSON.stringify(exported ? { levels, positions: lab.positions } : { text, levels, replication }));
    history.replaceState(null, "", `${location.pathname}${location.search}#${hash}`);
  };
  const saveLater = lab.later(400, save);
  const restore = async () => {
    const hash = location.hash.slice(1);
    if (!hash) return;
    try {
      const { text = state.text, levels, replication, positions } = JSON.parse(await unpacked(hash));
      Object.assign(state, { text: String(text), levels: levels || {}, replication: Number(replication) || 1 });
      if (positions) Object.assign(lab.positions, positions);
    } catch {
      lab.byId("status").textContent = "The scenario in the link cannot be read.";
    }
  };

  /** Show another scenario: a lesson's, or a run of results. */
  lab.open = ({ text, levels = {}, replication = 1, seed = null, first = null }) => {
    Object.assign(state, { text, levels, replication, seed, first, chosen: null, pinned: null, flow: "" });
    changes.clear();
    pressed(false);
    chart.time = 0;
    chart.whole = true;
    editor.follow(text);
    return look();
  };
  lab.look = look;
  lab.questionToMeasure = () => question("measure", [...changes]);
  lab.state = state;
  lab.chart = chart;

  const pressed = (on) => {
    const button = lab.byId("pin");
    button.setAttribute("aria-pressed", String(on));
    button.textContent = on ? "Unpin" : "Pin this run";
  };

  lab.byId("pin").addEventListener("click", () => {
    state.pinned = state.pinned ? null : state.run;
    pressed(Boolean(state.pinned));
    draw();
  });
  lab.byId("cursor").addEventListener("input", (event) => {
    const time = (Number(event.target.value) / 1000) * chart.end;
    chart.goTo(time);
    showTime(time);
    story.follow(time);
  });
  for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => chart.zoomBy(Number(button.dataset.zoom)));
  const replicate = (number) => {
    state.replication = Math.max(Math.round(number) || 1, 1);
    look();
  };
  for (const button of document.querySelectorAll("[data-step]")) button.addEventListener("click", () => replicate(state.replication + Number(button.dataset.step)));
  lab.byId("replication").querySelector("input").addEventListener("change", (event) => replicate(Number(event.target.value)));
  lab.byId("link").addEventListener("click", async (event) => {
    await save();
    // Browsers have a clipboard only for HTTPS and for pages of this machine.
    const copied = navigator.clipboard ? navigator.clipboard.writeText(location.href) : Promise.reject();
    const done = await copied.then(() => "Copied", () => "Copy it from the address bar");
    event.target.textContent = done;
    setTimeout(() => (event.target.textContent = "Copy link"), 1500);
  });

  lab.start = async () => {
    lab.offerLessons();
    if (exported) {
      state.levels = exported.levels;
      lab.byId("text").readOnly = true;
      lab.byId("replication").hidden = true;
    }
    await restore();
    if (lab.config.classroom) await lab.join();
    editor.follow(state.text);
    await Promise.all([look(), lab.offerResults()]);
  };
}
lab.start();
