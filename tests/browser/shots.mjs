/* shots.mjs - the pictures of the page: light, dark and on a phone. Started by shots.py. */

import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Browser } from "./chromium.mjs";
import { login, open, row, tokens } from "./page.mjs";
import { shrink } from "./png.mjs";

const [, , directory] = process.argv;

async function shoot(page, name, options) {
  const file = join(directory, `${name}.png`);
  await page.shot(file, options);
  writeFileSync(file, shrink(readFileSync(file)));
  console.log(`${file}: ${Math.round(statSync(file).size / 1024)} KB`);
}

const browser = await Browser.start();
try {
  const page = await browser.page();
  await page.size(1280, 1000);
  await login(page, tokens.boss);
  await page.until(row, "Profiles", "default");
  await page.until(() => document.querySelectorAll("path").length >= 9 && document.querySelectorAll("table")[2].rows.length > 5);
  await new Promise((resolve) => setTimeout(resolve, 2500));
  await shoot(page, "ui");
  await page.scheme("dark");
  await page.run(open, "#/boxes");
  await page.until(() => document.querySelector("tbody tr") !== null);
  await page.size(1280, 620);
  await shoot(page, "ui-dark");
  await page.scheme("light");
  await page.run(open, "#/");
  await page.until(row, "Profiles", "default");
  await page.size(360, 740);
  await page.until(() => document.querySelectorAll("path").length >= 9);
  await shoot(page, "ui-phone");
} finally {
  await browser.close();
}
