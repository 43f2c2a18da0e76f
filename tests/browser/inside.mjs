/* inside.mjs - processes, files and a terminal of a real box. Started by tests/integration/test_boxes_ui.py. */

import assert from "node:assert/strict";
import { Browser } from "./chromium.mjs";
import { api, hostile, login, open, press, row, rows, staysHere, tokens, until } from "./page.mjs";

const box = process.env.SANDPOOL_BOX;
const job = process.env.SANDPOOL_JOB;

async function endsAJob(page) {
  await page.until(press, "Processes");
  await page.until(row, "Jobs", job);
  const cells = await page.run(row, "Jobs", job);
  assert.equal(cells[1], `sleep 300 # ${hostile}`);
  assert.equal(cells[2], "running");
  assert(await page.run(press, `End job ${job}`));
  assert(await page.run(press, "End"));
  await until("it has ended", async () => /signalled|killed/.test((await page.run(row, "Jobs", job))[2]));
}

async function readsFiles(page) {
  assert(await page.run(press, "Files"));
  await page.until(press, "d/");
  await page.until(() => document.getElementById("path").value.endsWith("/d"));
  assert.deepEqual(await page.run(rows, "Files"), [hostile, "bytes"]);
  assert(await page.run(press, hostile));
  await page.until(() => document.querySelector("pre")?.textContent === "<script>alert(1)</script>");
  assert(await page.run(press, "bytes"));
  await page.until(() => document.querySelector("pre").textContent.startsWith("It is no text"));
  assert(await page.run(press, "Download bytes"));
  await page.until(() => document.getElementById("notice").textContent === "bytes was downloaded.");
  assert(await page.run(press, "Up"));
  await page.until(() => !document.getElementById("path").value.endsWith("/d"));
}

const screen = () => document.querySelector(".xterm-rows")?.innerText ?? "";

async function usesTheTerminal(page) {
  assert(await page.run(press, "Terminal"));
  await page.until(() => document.activeElement?.className.includes("xterm-helper-textarea"));
  await page.type("stty size; echo $((6*7)):$TERM");
  await page.press("Enter");
  await page.until(() => document.querySelector(".xterm-rows").innerText.includes("42:xterm-256color"));
  const size = (await page.run(screen)).match(/^(\d+) (\d+)/m);
  const shown = await page.run(() => document.querySelector(".xterm-rows").childElementCount);
  assert.equal(Number(size[1]), shown, "the shell knows how large the window is");
  assert(Number(size[2]) > 100);
  /* Text of any kind is text, colours are set without inline styles. */
  await page.type(`printf '\\033[38;2;255;0;7;4mred\\033[0m%s\\n' '${hostile}'`);
  await page.press("Enter");
  await page.until((text) => document.querySelector(".xterm-rows").innerText.includes(`red${text}`), hostile);
  const color = await page.run(() => [...document.querySelectorAll(".xterm-rows span")].map((s) => getComputedStyle(s).color).includes("rgb(255, 0, 7)"));

  assert(color, "the colour that was asked for");
  await page.size(800, 900);
  await until("it is smaller", async () => {
    await page.type("stty size");
    await page.press("Enter");
    return (await page.run(screen)).match(/^\d+ \d+/gm).at(-1) !== size[0];
  });
}

const browser = await Browser.start();
try {
  await browser.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: process.env.SANDPOOL_DOWNLOADS });
  const page = await browser.page();
  await page.size(1280, 900);
  await login(page, tokens.boss);
  await page.run(open, `#/box/${box}`);
  await endsAJob(page);
  await readsFiles(page);
  if (process.env.SANDPOOL_TERMINAL === "1") await usesTheTerminal(page);
  staysHere(page);
  assert.deepEqual(page.problems, []);
  assert.equal((await api(`/v1/sandboxes/${box}`)).state, "leased");
  await page.close();
} finally {
  await browser.close();
}
