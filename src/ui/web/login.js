/* login.js - asks for the token of a caller on TCP. On the Unix socket nobody is asked: the daemon knows who is there. */

import { get, setToken } from "./api.js";
import { el } from "./dom.js";

export function showLogin(main, onDone) {
  const input = el("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const problem = el("p", { class: "bad-text", role: "alert" });
  const form = el(
    "form",
    { class: "card login" },
    el("h1", {}, "Log in"),
    el("p", { class: "faint" }, "With a token of this daemon. It is kept in this page only: log in again after loading it anew."),
    el("label", { for: "token" }, "Token"),
    input,
    problem,
    el("p", { class: "buttons" }, el("button", { type: "submit", class: "primary" }, "Log in")),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    setToken(input.value.trim());
    try {
      await get("v1/version");
      onDone();
    } catch (failed) {
      setToken(null);
      problem.textContent = failed.status === 401 ? "The daemon does not know this token." : failed.message;
      input.select();
    }
  });
  main.replaceChildren(form);
  input.focus();
}
