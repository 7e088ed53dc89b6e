"use strict";
// A class: students join under a name, predict the answers to the questions of the sheet, then measure them.
{
  const questions = lab.config.classroom || [];
  // This browser keeps the current student's name, and for each student ticket, answers and notes by question.
  const CURRENT = `lasthop class ${lab.token}`;
  let saved = null;
  const read = (key) => {
    try {
      return JSON.parse(localStorage.getItem(key));
    } catch {
      return null; // Without storage, answers last as long as the page.
    }
  };
  const write = (key, value) => {
    try {
      localStorage.setItem(key, JSON.stringify(value));
    } catch {
      // as above
    }
  };
  const keyOf = (name) => `${CURRENT} ${name.normalize("NFKC").trim().replace(/\s+/g, " ").toLowerCase()}`;
  const save = () => write(keyOf(lab.student.name), saved);

  /** The answer of the server as JSON, or the text of its error. */
  const request = async (path, body) => {
    try {
      const answer = await lab.post(path, body);
      if (answer.status === 409) return { failure: "A newer measurement replaced this one." };
      const content = await answer.json();
      return answer.ok ? { content } : { failure: content.errors.map(({ text }) => text).join(" ") };
    } catch {
      return { failure: "The lab does not respond. Is it still running?" };
    }
  };

  /** Join under a name; return the text of the error, if any. */
  const enter = async (name) => {
    saved = { ticket: "", answers: {}, notes: {}, ...read(keyOf(name)) };
    const { content, failure } = await request("/join", { name, ticket: saved.ticket });
    if (!content) return failure;
    lab.student = content;
    // The browser may have measurements, and predictions from before a restart of the lab.
    Object.assign(saved, { ticket: content.ticket, answers: { ...content.answers, ...saved.answers } });
    save();
    write(CURRENT, content.name);
    return "";
  };

  /** Resolve once the student has joined. */
  lab.join = async () => {
    const form = lab.byId("join"), box = form.elements.student, alert = form.querySelector("[role=alert]");
    box.value = read(CURRENT) || "";
    if (box.value) alert.textContent = await enter(box.value);
    if (!lab.student) {
      document.body.classList.add("joining");
      form.hidden = false;
      box.focus();
      await new Promise((resolve) => {
        form.addEventListener("submit", async (event) => {
          event.preventDefault();
          alert.textContent = await enter(box.value);
          if (lab.student) resolve();
        });
      });
      form.hidden = true;
      document.body.classList.remove("joining");
    }
    const leave = lab.make("button", { type: "button", text: "Leave", click: () => {
      write(CURRENT, "");
      location.reload();
    } });
    lab.byId("student").replaceChildren(`${lab.student.name}, seed ${lab.student.seed} `, leave);
    if (questions.length) showSheet();
  };

  const download = () => {
    const { name, seed } = lab.student;
    const answers = questions.map((_, number) => saved.answers[number] && { ...saved.answers[number], notes: saved.notes[number] || "" });
    const content = JSON.stringify({ student: name, seed, answers: answers.filter(Boolean) }, null, 2);
    const url = URL.createObjectURL(new Blob([content], { type: "application/json" }));
    lab.make("a", { href: url, download: `answers ${name.replace(/[^\p{L}\p{N}]+/gu, " ").trim()}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };

  const showSheet = () => {
    const items = questions.map((_, number) => lab.make("li"));
    const done = lab.make("p", { class: "quiet", role: "status" });
    const count = () => {
      const measured = questions.filter((_, number) => saved.answers[number] && saved.answers[number].record.measured_text);
      done.textContent = `${measured.length} of ${questions.length} measured. Hand in the downloaded file.`;
    };
    const fill = (number) => {
      items[number].replaceChildren(...question(number, fill));
      count();
    };
    lab.byId("sheet").replaceChildren(lab.make("h2", { text: "Predict, then measure" }), lab.make("ol", {}, ...items), done,
      lab.make("button", { type: "button", id: "download", text: "Download my answers", click: download }));
    questions.forEach((_, number) => fill(number));
    const isNarrow = matchMedia("(max-width: 820px)"); // as in lab.css: the pictures come first there
    const place = () => lab.byId(isNarrow.matches ? "middle" : "right").prepend(lab.byId("sheet"));
    isNarrow.addEventListener("change", place);
    place();
    lab.byId("sheet").hidden = false;
  };

  /** The parts of a question: its text, and what the student can do next. */
  const question = (number, fill) => {
    const { text, label, units } = questions[number];
    const answer = saved.answers[number];
    const alert = lab.make("p", { role: "alert" });
    const send = async (path, body) => {
      const { content, failure } = await request(path, { number, ...body });
      if (!content) {
        alert.textContent = failure;
        return;
      }
      saved.answers[number] = content;
      save();
      fill(number);
      const next = lab.byId("sheet").querySelectorAll("li")[number].querySelector("button, textarea");
      if (next) next.focus();
      if (path === "/predict") lab.look(); // the page may show the metric now
    };
    if (!answer) {
      const box = lab.make("input", { type: "text", required: true, "aria-label": `Prediction of ${label}`, placeholder: units.length ? `such as 1 ${units[0]}` : "" });
      const submit = (event) => {
        event.preventDefault();
        send("/predict", { prediction: box.value });
      };
      return [lab.make("p", { text }), lab.make("form", { submit }, lab.make("label", {}, `${label}: `, box), lab.make("button", { type: "submit", text: "Predict" })), alert];
    }
    const { prediction, prediction_text: predicted, measured, measured_text: result } = answer.record;
    const measure = lab.make("button", { type: "button", text: result ? "Measure again" : "Measure the run that is shown", click: () => send("/measure", { ...lab.questionToMeasure(), answer }) });
    const parts = [lab.make("p", { text }), lab.make("p", { text: `Predicted ${label}: ${predicted}` })];
    if (!result) return [...parts, measure, alert];
    const error = measured ? `; the prediction is off by ${lab.digits(100 * Math.abs((prediction - measured) / measured))} %` : "";
    const notes = lab.make("textarea", { rows: 2, text: saved.notes[number] || "", input: () => {
      saved.notes[number] = notes.value;
      save();
    } });
    return [...parts, lab.make("p", {}, "Measured: ", lab.make("b", { text: result }), error), lab.make("label", {}, "Notes ", notes), measure, alert];
  };
}
