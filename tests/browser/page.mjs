/* page.mjs - what the walks share: the daemon beside the page, and how a person logs in. */

import assert from "node:assert/strict";

export const url = process.env.SANDPOOL_URL;
export const tokens = JSON.parse(process.env.SANDPOOL_TOKENS);
export const hostile = process.env.SANDPOOL_HOSTILE;
const WAIT_MS = 30000 * Number(process.env.SANDPOOL_TEST_SLOW ?? 1);

export async function api(path, { token = tokens.boss, method = "GET", body } = {}) {
  const response = await fetch(`${url}${path}`, { method, headers: { Authorization: `Bearer ${token}` }, body: body && JSON.stringify(body) });
  return response.json();
}

export async function until(what, f) {
  const end = Date.now() + WAIT_MS;
  while (!(await f())) {
    assert(Date.now() < end, typeof what === "function" ? what() : what);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}

/* --- functions that are run in the page --- */

/* The cells of the row that begins with this name. */
export const row = (caption, name) => {
  const table = [...document.querySelectorAll("table")].find((t) => t.caption?.textContent === caption);
  const found = [...(table?.tBodies[0].rows ?? [])].find((r) => r.cells[0].textContent === name);
  return found ? [...found.cells].map((c) => c.textContent) : null;
};
export const rows = (caption) => {
  const table = [...document.querySelectorAll("table")].find((t) => t.caption?.textContent === caption);
  return [...(table?.tBodies[0].rows ?? [])].map((r) => r.cells[0].textContent);
};
export const press = (text) => {
  const buttons = document.querySelector("dialog[open]")?.querySelectorAll("button") ?? document.querySelectorAll("main button");
  const button = [...buttons].find((b) => (b.ariaLabel ?? b.textContent) === text && !b.disabled);
  button?.click();
  return Boolean(button);
};
export const open = (hash) => {
  location.hash = hash;
};

export async function login(page, token) {
  await page.goto(`${url}/ui`);
  await page.until(() => document.activeElement?.id === "token");
  await page.type("no such token of mine");
  await page.press("Enter");
  await page.until(() => document.querySelector("[role=alert]")?.textContent.includes("does not know"));
  await page.type(token);
  await page.press("Enter");
  await page.until(() => document.querySelector("#link").textContent === "live");
  /* Who asks without a token is refused: that is all the page has done wrong. */
  page.problems = page.problems.filter((p) => !p.includes("401 (Unauthorized)"));
}

/* Nothing but the daemon was asked for, and no address has a token in it. */
export function staysHere(page) {
  for (const request of page.requests) {
    assert(request.url.startsWith(url) || request.url.startsWith(url.replace("http", "ws")) || request.url.startsWith(`blob:${url}`), request.url);
    for (const token of Object.values(tokens)) assert(!decodeURIComponent(request.url).includes(token), "a token in an address");
  }
}
