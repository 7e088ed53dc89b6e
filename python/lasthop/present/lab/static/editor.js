"use strict";
// The text of the scenario, with line numbers and errors.
{
  lab.Editor = class {
    constructor(changed) {
      this.area = lab.byId("text");
      this.numbers = lab.byId("numbers");
      this.list = lab.byId("errors");
      this.wrong = new Set();
      this.area.addEventListener("input", () => {
        this.number();
        changed(this.area.value);
      });
      this.area.addEventListener("scroll", () => (this.numbers.scrollTop = this.area.scrollTop));
    }

    /** Show another text, unless it is already shown. */
    follow(text) {
      if (this.area.value === text) return;
      const { scrollTop, selectionStart } = this.area;
      this.area.value = text;
      this.area.selectionStart = this.area.selectionEnd = Math.min(selectionStart, text.length);
      this.area.scrollTop = scrollTop;
      this.number();
    }

    number() {
      const count = this.area.value.split("\n").length;
      const lines = Array.from({ length: count }, (_, place) => {
        const line = lab.make("span", { text: String(place + 1) });
        if (this.wrong.has(place + 1)) line.className = "wrong";
        return line;
      });
      this.numbers.replaceChildren(...lines);
      this.numbers.scrollTop = this.area.scrollTop;
    }

    /** Show errors, each with a line number of this text or null. */
    complain(errors) {
      this.wrong = new Set(errors.map((error) => error.line).filter(Boolean));
      this.number();
      this.area.setAttribute("aria-invalid", errors.length > 0);
      this.list.replaceChildren(...errors.map(({ line, text }) => {
        if (!line) return lab.make("li", { text });
        const button = lab.make("button", { type: "button", text: `line ${line}`, click: () => this.select(line) });
        return lab.make("li", {}, button, ` ${text}`);
      }));
    }

    select(line) {
      const lines = this.area.value.split("\n");
      const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
      this.area.focus();
      this.area.setSelectionRange(start, start + (lines[line - 1] || "").length);
      this.area.scrollTop = Math.max((line - 4) * 18, 0);
    }
  };
}
