/* main.js - which view is shown, and the one stream of the pool that all of them live on. */

import { get, hasToken, onLoginNeeded, setToken } from "./api.js";
import { hasTerminal } from "./build.js";
import { showBox } from "./box.js";
import { showBoxes } from "./boxes.js";
import { setText } from "./dom.js";
import { showLogin } from "./login.js";
import { showPool } from "./pool.js";
import { Stream } from "./stream.js";

const main = document.getElementById("main");
const link = document.getElementById("link");
const logout = document.getElementById("logout");
const views = [
  [/^#?\/?$/, "pool", "Pool", showPool],
  [/^#\/boxes(?:\?(.*))?$/, "boxes", "Sandboxes", showBoxes],
  [/^#\/box\/([^?]+)$/, "boxes", "Sandbox", showBox],
];

let stream = null;
let view = null; /* what is shown: onPool(), close() */
let latest = null; /* of the stream */

function showState(state, why) {
  setText(link, state === "live" ? "live" : "away");
  link.title = why ?? "";
  link.classList.toggle("good", state === "live");
  link.classList.toggle("bad", state !== "live");
}

function onEvent(name, data) {
  if (name !== "pool") return;
  data.at = performance.now();
  latest = data;
  setText(document.getElementById("instance"), data.pool.instance ?? "");
  view?.onPool?.(data);
}

function navigate() {
  if (stream === null) return;
  view?.close?.();
  const found = views.find(([pattern]) => pattern.test(location.hash)) ?? views[0];
  const [pattern, name, title, show] = found;
  for (const a of document.querySelectorAll("nav a")) {
    if (a.dataset.view === name) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  document.title = `${title} - sandpool`;
  main.replaceChildren();
  view = show(main, pattern.exec(location.hash)?.[1] ?? "");
  if (latest !== null) view?.onPool?.(latest);
}

function close() {
  stream?.stop();
  stream = null;
  view?.close?.();
  view = null;
  latest = null;
}

function login() {
  if (view?.isLogin) return;
  close();
  setToken(null);
  logout.hidden = true;
  showState("away", "not logged in");
  setText(link, "logged out");
  showLogin(main, open);
  view = { isLogin: true };
}

async function open() {
  try {
    const version = await get("v1/version");
    setText(document.getElementById("version"), `sandpool ${version.version}`);
  } catch (problem) {
    if (problem.status === 401) return;
    showState("away", problem.message);
    setTimeout(open, 2000);
    return;
  }
  close();
  logout.hidden = !hasToken();
  stream = new Stream("v1/pool/live?every_ms=1000", { onEvent, onState: showState });
  navigate();
}

document.getElementById("licence").hidden = !hasTerminal;
logout.addEventListener("click", login);
window.addEventListener("hashchange", () => {
  navigate();
  main.focus({ preventScroll: true });
});
onLoginNeeded(login);
open();
