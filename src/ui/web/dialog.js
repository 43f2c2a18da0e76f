/* dialog.js - questions before something is changed, and what came of it. */

import { el } from "./dom.js";

/* Resolves to null (no), or to the values of the fields ({name: text}); {} when there are none. */
export function ask({ title, text, verb, isDangerous = false, fields = [] }) {
  return new Promise((resolve) => {
    const inputs = fields.map((f) => el("input", { id: `f-${f.name}`, name: f.name, maxlength: f.max ?? 200, autocomplete: "off" }));
    const rows = fields.map((f, i) => el("p", {}, el("label", { for: `f-${f.name}` }, f.label), inputs[i]));
    const no = el("button", { type: "button", value: "no" }, "Cancel");
    const yes = el("button", { type: "button", class: isDangerous ? "danger" : "primary" }, verb);
    const dialog = el(
      "dialog",
      { "aria-labelledby": "ask-title", "aria-describedby": "ask-text" },
      el("h2", { id: "ask-title" }, title),
      el("p", { id: "ask-text" }, text),
      ...rows,
      el("p", { class: "buttons" }, no, yes),
    );
    const before = document.activeElement;
    const end = (answer) => {
      dialog.close();
      dialog.remove();
      before?.focus?.();
      resolve(answer);
    };
    no.addEventListener("click", () => end(null));
    yes.addEventListener("click", () => end(Object.fromEntries(inputs.map((i) => [i.name, i.value.trim()]))));
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      end(null);
    });
    document.getElementById("dialogs").append(dialog);
    dialog.showModal();
    (inputs[0] ?? no).focus();
  });
}

let timer = null;

/* One line for everybody, screen readers too. */
export function say(text, isBad = false) {
  const notice = document.getElementById("notice");
  notice.textContent = text;
  notice.classList.toggle("bad", isBad);
  notice.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => (notice.hidden = true), isBad ? 15000 : 6000);
}

export const sayProblem = (what, problem) => say(`${what}: ${problem.message}`, true);
