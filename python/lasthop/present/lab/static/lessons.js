"use strict";
// Guided lessons: choosing a lesson opens its scenario and shows its text.
{
  const show = (lesson) => {
    const host = lab.byId("lesson");
    host.hidden = !lesson;
    if (!lesson) return;
    const listed = (title, items) => [lab.make("h3", { text: title }), lab.make("ol", {}, ...items.map((text) => lab.make("li", { text })))];
    host.replaceChildren(
      lab.make("h2", { text: lesson.title }),
      lab.make("p", { class: "statement", text: lesson.statement }),
      lab.make("p", { text: lesson.text.trim() }),
      ...listed("Look for", lesson.look_for),
      ...listed("Try", lesson.questions),
    );
    host.scrollTop = 0;
  };

  lab.offerLessons = () => {
    const box = lab.byId("lessons");
    const { lessons } = lab.config;
    if (lab.config.exported) {
      box.hidden = true;
      show(lessons.find((lesson) => lesson.scenario === lab.config.text));
      return;
    }
    const options = lessons.map((lesson, place) => lab.make("option", { value: place, text: `${place + 1}. ${lesson.title}` }));
    box.replaceChildren(lab.make("option", { value: "", text: "Lessons: none" }), ...options);
    box.addEventListener("change", () => {
      const lesson = lessons[Number(box.value)];
      const chosen = box.value === "" ? null : lesson;
      show(chosen);
      lab.open({ text: chosen ? chosen.scenario : lab.config.text });
    });
  };
}
