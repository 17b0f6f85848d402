// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens pages in Chromium and checks them: node browser.mjs CHROMIUM NODE_MODULES PAGES.json [SHOTS]
// PAGES.json: a list of {file, sections, timeline: events of the timeline}. SHOTS: a folder for a picture of every section.
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [executablePath, modules, list, shots] = process.argv.slice(2);
const require = createRequire(path.join(path.resolve(modules), "x.js"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const READY_MS = 2000, FRAME_MS = 16, STEPS = 200;
let failures = 0;
function check(right, what) {
  if (!right) {
    console.error(`FAILED: ${what}`);
    ++failures;
  }
}

async function open(browser, file, options) {
  const context = await browser.newContext({ viewport: { width: 1366, height: 768 }, bypassCSP: true, ...options });
  const page = await context.newPage();
  const requests = [];
  page.on("request", (request) => { if (!request.url().startsWith("data:")) requests.push(request.url()); });
  page.on("pageerror", (error) => check(false, `${file}: ${error.message}`));
  page.on("console", (message) => check(message.type() !== "error", `${file}: console: ${message.text()}`));
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector("html[data-ready]");
  return { context, page, requests };
}

/** Violations that axe calls serious or critical. */
async function accessibility(page, what) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  for (const { id, impact, nodes } of violations)
    check(!["serious", "critical"].includes(impact), `${what}: axe ${id} (${impact}): ${nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" | ")}`);
}

/** Drawing times of STEPS moves and zooms; prints and returns the 95th percentile in ms. */
async function timeline(page, events) {
  const canvas = page.locator(".timeline canvas");
  await canvas.scrollIntoViewIfNeeded();
  await canvas.focus();
  await page.evaluate(() => new Promise((done) => setTimeout(done, 200)));
  const times = await page.evaluate(async (steps) => {
    const canvas = document.querySelector(".timeline canvas"), frame = () => new Promise((done) => requestAnimationFrame(done));
    performance.clearMeasures("timeline");
    for (let i = 0; i < steps; ++i) {
      const key = i < 60 ? "+" : i < 100 ? "ArrowRight" : i < 160 ? "-" : ["+", "ArrowRight", "-", "ArrowLeft"][i % 4];
      // Every third step zooms, the others move: most are far out, where most is to be drawn.
      canvas.dispatchEvent(new KeyboardEvent("keydown", { key: i % 3 && i > 160 ? "ArrowRight" : key }));
      await frame();
      await frame();
    }
    return performance.getEntriesByName("timeline").map((entry) => entry.duration);
  }, STEPS);
  times.sort((a, b) => a - b);
  const p95 = times[Math.floor(times.length * 0.95)];
  console.log(`timeline: ${events} events, ${times.length} frames, median ${times[times.length >> 1].toFixed(1)} ms, 95 % ${p95.toFixed(1)} ms`);
  check(times.length >= STEPS * 0.7, `only ${times.length} frames were drawn`);
  return p95;
}

/** Keyboard alone: sort and filter the table of layers, switch the theme. */
async function keyboard(page) {
  const head = page.locator("#layers thead th button").nth(1);
  await head.focus();
  await page.keyboard.press("Enter");
  check(await page.locator("#layers thead th").nth(1).getAttribute("aria-sort") === "descending", "Enter sorts the layers, the largest first");
  const before = await page.locator("#layers tbody tr").count();
  await page.locator("#layers .filters input").nth(1).fill("> 1e15");
  check(await page.locator("#layers tbody tr").count() === 0, "a condition filters the layers");
  await page.locator("#layers .filters input").nth(1).fill("");
  check(await page.locator("#layers tbody tr").count() === before, "without the condition, all layers are back");
  const dark = () => page.evaluate(() => getComputedStyle(document.documentElement).colorScheme);
  const was = await dark();
  await page.getByRole("button", { name: "Light or dark" }).focus();
  await page.keyboard.press("Enter");
  check(await dark() !== was, "the switch changes light and dark");
  await page.keyboard.press("Enter");
}

/** A picture of each section, without the header over it. */
async function pictures(page, ids, before, after) {
  mkdirSync(shots, { recursive: true });
  await page.setViewportSize({ width: 1366, height: 3600 });
  await page.addStyleTag({ content: "header { position: static !important }" });
  await page.waitForTimeout(300);
  for (const id of ids)
    await page.locator(`section[id="${id}"]`).screenshot({ path: path.join(shots, before + id + after) });
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
for (const { file, sections, events } of JSON.parse(readFileSync(list, "utf8"))) {
  for (const colorScheme of ["light", "dark"]) {
    const { context, page, requests } = await open(browser, file, { colorScheme });
    const name = path.basename(file, ".html");
    const ready = await page.evaluate(() => performance.getEntriesByName("ready")[0].startTime);
    console.log(`${name}, ${colorScheme}: ready after ${ready.toFixed(0)} ms`);
    check(ready <= READY_MS, `${name}: ready after ${ready.toFixed(0)} ms`);
    check(requests.length === 1, `${name}: requests ${requests.join(", ")}`);
    const ids = await page.evaluate(() => [...document.querySelectorAll("main > section")].map((part) => part.id));
    for (const id of sections)
      check(ids.includes(id), `${name}: no section ${id} in ${ids.join(", ")}`);
    check(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name}: the page is wider than 1366 pixels`);
    // Charts are drawn when they come near the screen.
    for (const box of await page.locator(".chart").all())
      await box.evaluate((node) => new Promise((done) => { node.scrollIntoView(); requestAnimationFrame(() => requestAnimationFrame(done)); }));
    check(await page.evaluate(() => [...document.querySelectorAll(".chart")].every((box) => box.querySelector("canvas"))), `${name}: a chart is empty`);
    await accessibility(page, `${name}, ${colorScheme}`);
    if (colorScheme === "light" && sections.includes("layers"))
      await keyboard(page);
    if (colorScheme === "light" && events) {
      // Others may use the processor at the same time: the best of five counts.
      let best = Infinity;
      for (let attempt = 0; attempt < 5 && best > FRAME_MS; ++attempt)
        best = Math.min(best, await timeline(page, events));
      check(best <= FRAME_MS, `${name}: the 95th percentile of frames is ${best.toFixed(1)} ms`);
    }
    if (shots)
      await pictures(page, ids, `${name}-`, `-${colorScheme}.png`);
    await context.close();
  }
}
await browser.close();
console.log(failures ? `${failures} failures` : "all right");
process.exit(failures ? 1 : 0);
