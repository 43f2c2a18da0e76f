/* walk.mjs - what a person does with the page, in a real browser: what is seen equals what the API says. Started by
 * tests/integration/test_ui.py, beside a daemon. */

import assert from "node:assert/strict";
import { Browser } from "./chromium.mjs";
import { api, hostile, login, open, press, row, rows, staysHere, tokens, until, url } from "./page.mjs";

/* What is seen is what is said: the pool goes on meanwhile, so both are asked for until they agree. */
async function agree(seen, said) {
  const both = [];
  await until(() => `seen and said: ${JSON.stringify(both)}`, async () => {
    both.splice(0, 2, await seen(), await said());
    return JSON.stringify(both[0]) === JSON.stringify(both[1]);
  });
}

const tile = (title) => [...document.querySelectorAll(".tile")].find((t) => t.firstChild.textContent === title)?.children[1].textContent;

/* --- the steps --- */

async function seesThePool(page) {
  await page.until(row, "Profiles", "default");
  const profile = async (name) => (await api("/v1/pool")).profiles.find((p) => p.name === name);
  await agree(
    async () => (await page.run(row, "Profiles", "default")).slice(0, 8),
    async () => {
      const p = await profile("default");
      return [p.name, p.mode, `${p.blank}/${p.target}`, p.leased, p.parked, p.starting, p.breaker.failures, p.waiting].map(String);
    },
  );
  assert.equal((await page.run(row, "Profiles", "default"))[10], "closed");
  assert.match((await page.run(row, "Profiles", "broken"))[10], /^(open|not ready).*the simulated machine failed/);
  await agree(async () => (await page.run(row, "Profiles", "broken"))[6], async () => String((await profile("broken")).breaker.failures));
  await agree(
    () => page.run(tile, "Boxes"),
    async () => {
      const pool = await api("/v1/pool");
      return `${pool.total}/${pool.max_boxes}`;
    },
  );
  await agree(async () => (await page.run(row, "Acquires by source", "warm"))[1], async () => String((await api("/v1/pool")).acquires.warm));
  assert.match((await page.run(row, "Acquires by source", "warm"))[2], /^\d/);
  await page.until((want) => document.querySelector("table caption") && document.body.innerText.includes(want), "leased");
  assert.equal(await page.run(() => document.querySelectorAll("svg.chart").length), 4);
}

/* The charts end with what the daemon has of its last step. */
async function seesTheHour(page) {
  const now = (n) => [...document.querySelectorAll("svg.chart")][n].ariaLabel;
  const last = (column) => column.at(-1) ?? "-";
  await until("a step has ended", async () => (await api("/v1/pool/history")).steps > 2);
  await agree(
    async () => (await page.run(now, 0)).replace(/, starting.*/, ""),
    async () => {
      const { boxes } = await api("/v1/pool/history");
      return `Boxes, now: leased ${last(boxes.leased)}, blank ${last(boxes.blank)}, parked ${last(boxes.parked)}`;
    },
  );
  assert.match(await page.run(now, 1), /^Hit rate, now: /);
  assert(await page.run(() => document.querySelector("path.area").getAttribute("d").startsWith("M")));
  await page.run(() => document.querySelector("svg.chart").focus());
  await page.press("ArrowLeft");
  await page.press("ArrowLeft");
  await page.until(() => !document.querySelector("svg.chart").ariaLabel.includes("now") || document.querySelector(".cursor").getAttribute("visibility") === "visible");
}

/* A change elsewhere is seen without being asked for. */
async function seesChanges(page) {
  await api("/v1/acquire", { method: "POST", body: { thread_id: "seen-live" } });
  const { profiles } = await api("/v1/pool");
  const leased = String(profiles.find((p) => p.name === "default").leased);
  await until("the new lease is seen", async () => (await page.run(row, "Profiles", "default"))[3] === leased);
}

async function pausesAProfile(page) {
  assert(await page.run(press, "Pause default"));
  await page.until(() => document.activeElement?.id === "f-message");
  await page.type(hostile);
  assert(await page.run(press, "Pause"));
  await until("it is paused", async () => (await page.run(row, "Profiles", "default"))[1] === "paused");
  const { profiles } = await api("/v1/pool");
  const shown = profiles.find((p) => p.name === "default");
  assert.deepEqual([shown.mode, shown.message], ["paused", hostile]);
  await until("callers see why", async () => (await page.run(() => document.querySelector("td[title]:not([title=''])").title)) === hostile);
  assert(await page.run(press, "Resume default"));
  assert(await page.run(press, "Resume"));
  await until("it is resumed", async () => (await page.run(row, "Profiles", "default"))[1] === "running");
}

async function findsBoxes(page) {
  await page.run(open, "#/boxes");
  await until("a full page", async () => (await page.run(rows, "Sandboxes")).length === 50);
  const first = (await api("/v1/sandboxes?limit=50")).sandboxes.map((b) => b.sandbox_id ?? `box:${b.box_id}`);
  assert.deepEqual(await page.run(rows, "Sandboxes"), first);
  assert(await page.run(press, "Next"));
  await until("the second page", async () => (await page.run(rows, "Sandboxes"))[0] !== first[0]);
  assert(await page.run(press, "Previous"));
  await until("the first page", async () => (await page.run(rows, "Sandboxes"))[0] === first[0]);
  await page.run(() => document.getElementById("text").focus());
  await page.type("thread-17");
  const [wanted] = (await api("/v1/sandboxes?thread_id=thread-17")).sandboxes;
  await until("it is found", async () => JSON.stringify(await page.run(rows, "Sandboxes")) === JSON.stringify([wanted.sandbox_id]));
  return wanted;
}

async function seesABox(page, box) {
  await page.run((id) => [...document.querySelectorAll("tbody a")].find((a) => a.textContent === id).click(), box.sandbox_id);
  await page.until((id) => document.querySelector("h1")?.textContent === id && document.querySelector(".members")?.textContent.includes("thread-17"), box.sandbox_id);
  const text = await page.run(() => document.querySelector(".members").textContent);
  for (const part of [box.box_id, "ana/thread-17", "leased", box.principal_name, hostile]) assert(text.includes(part), part);
  const { events } = await api(`/v1/events?format=json&since=0&id=${box.sandbox_id}`);
  await page.until((n) => document.querySelectorAll("section:last-of-type tbody tr").length === n, events.length);
  assert.deepEqual((await page.run(rows, "Events")).length, events.length);
}

async function actsOnBoxes(page) {
  const [doomed] = (await api("/v1/sandboxes?thread_id=to-be-destroyed")).sandboxes;
  await page.run(open, `#/box/${doomed.sandbox_id}`);
  await page.until(press, "Destroy");
  assert.equal(await page.run(() => document.activeElement.textContent), "Cancel");
  await page.press("Escape");
  await page.until(() => document.querySelector("dialog") === null);
  assert.equal((await api(`/v1/sandboxes/${doomed.sandbox_id}`)).state, "leased", "a no is a no");
  await page.run(press, "Destroy");
  await page.run(() => document.querySelector("dialog button.danger").click());
  await until("it is gone", async () => "error" in (await api(`/v1/sandboxes/${doomed.sandbox_id}`)));
  const [parked] = (await api("/v1/sandboxes?thread_id=to-be-released")).sandboxes;
  await page.run(open, `#/box/${parked.sandbox_id}`);
  await page.until(press, "Release");
  await page.run(() => document.querySelector("dialog button.primary").click());
  await until("it is parked", async () => (await api(`/v1/sandboxes/${parked.sandbox_id}`)).state === "parked");
}

/* With keys alone: from the address bar to the first action and back. */
async function walksByKeys(page) {
  await page.run(open, "#/");
  await page.until(row, "Profiles", "default");
  await page.run(() => document.querySelector("a").focus()); /* where a new page begins */
  const seen = [];
  for (let n = 0; n < 40 && seen.at(-1)?.[0] !== "Pause default"; n++) {
    if (n > 0) await page.press("Tab");
    seen.push(await page.run(() => {
      const e = document.activeElement;
      return [e.ariaLabel ?? e.textContent, getComputedStyle(e).outlineStyle];
    }));
  }
  const names = seen.map(([name]) => name);
  for (const name of ["To the content", "Pool", "Sandboxes", "Log out", "Profiles", "Pause default"]) assert(names.includes(name), `${name} in ${names}`);
  assert(seen.every(([, outline]) => outline !== "none"), "what has the focus is marked");
  await page.press("Enter");
  await page.until(() => document.querySelector("dialog[open]") !== null);
  await page.press("Escape");
  await page.until(() => document.activeElement.ariaLabel === "Pause default");
}

/* What a program that reads the page out needs. */
async function isNamed(page) {
  const problems = await page.run(() => {
    const nameless = [...document.querySelectorAll("button, a, input, select, svg, [role=region]")].filter(
      (e) => !(e.ariaLabel || e.textContent.trim() || e.labels?.length || e.getAttribute("aria-labelledby")),
    );
    const headless = [...document.querySelectorAll("table")].filter((t) => !t.caption || [...t.tHead.rows[0].cells].some((c) => c.scope !== "col"));
    const landmarks = ["header", "nav", "main", "footer"].filter((tag) => !document.querySelector(tag));
    return [...nameless.map((e) => e.outerHTML), ...headless.map((t) => t.outerHTML.slice(0, 99)), ...landmarks, document.documentElement.lang ? "" : "lang", document.querySelectorAll("h1").length === 1 ? "" : "h1"].filter(Boolean);
  });
  assert.deepEqual(problems, []);
}

async function fitsAPhone(page) {
  await page.size(360, 740);
  for (const hash of ["#/", "#/boxes"]) {
    await page.run(open, hash);
    await page.until(() => document.querySelector("tbody tr") !== null);
    assert.equal(await page.run(() => document.documentElement.scrollWidth), 360, hash);
  }
  await page.size(1280, 900);
}

/* Text and its ground differ enough, in both schemes. */
async function hasContrast(page) {
  await page.run(open, "#/");
  await page.until(row, "Profiles", "default");
  for (const scheme of ["dark", "light"]) {
    await page.scheme(scheme);
    const [ratio, ground] = await page.run(() => {
      const light = (color) => {
        const parts = color.match(/[\d.]+/g).slice(0, 3).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
      };
      const ground = light(getComputedStyle(document.querySelector(".card")).backgroundColor);
      const worst = [".faint", "h2", "a"].map((s) => light(getComputedStyle(document.querySelector(`main ${s}`) ?? document.querySelector(s)).color));
      return [Math.min(...worst.map((l) => (Math.max(l, ground) + 0.05) / (Math.min(l, ground) + 0.05))), ground];
    });
    assert(ratio >= 4.5, `${scheme}: ${ratio}`);
    assert(scheme === "dark" ? ground < 0.1 : ground > 0.8, scheme);
  }
}

/* Who is no operator sees its own sandboxes only, and has no buttons that would be refused. */
async function isForOthers(browser) {
  await api("/v1/acquire", { token: tokens.other, method: "POST", body: { thread_id: "of-another", metadata: { note: hostile } } });
  const page = await browser.page();
  await login(page, tokens.other);
  await page.until(row, "Profiles", "default");
  assert.equal(await page.run(press, "Pause default"), false);
  await page.run(open, "#/boxes");
  await until("only its own", async () => (await page.run(rows, "Sandboxes")).length === 1);
  assert.deepEqual(page.problems, []);
  /* Loaded anew, the token is gone. */
  await page.goto(`${url}/ui`);
  await page.until(() => document.activeElement?.id === "token");
  assert.equal(await page.run(() => Object.keys(localStorage).length + Object.keys(sessionStorage).length + document.cookie.length), 0);
  await page.close();
}

const browser = await Browser.start();
try {
  const page = await browser.page();
  await page.size(1280, 900);
  await login(page, tokens.boss);
  await seesThePool(page);
  await seesTheHour(page);
  await seesChanges(page);
  await pausesAProfile(page);
  await isNamed(page);
  const box = await findsBoxes(page);
  await isNamed(page);
  await seesABox(page, box);
  await isNamed(page);
  page.problems = page.problems.filter((p) => !p.includes("404"));
  await actsOnBoxes(page);
  await walksByKeys(page);
  await fitsAPhone(page);
  await hasContrast(page);
  await isForOthers(browser);
  staysHere(page);
  const real = page.problems.filter((p) => !/status of (404|410)/.test(p)); /* of the box that was destroyed */
  assert.deepEqual(real, []);
  console.log("the walk is over");
} finally {
  await browser.close();
}
