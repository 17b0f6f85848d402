// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens pages in Chromium and checks them: node browser.mjs CHROMIUM NODE_MODULES PAGES.json [SHOTS]
// PAGES.json: a list of {file, sections, events: of the timeline, shortcuts: edges of the network that make it no tree}. SHOTS: a folder for a picture of every section.
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

/**
 * Script times of STEPS frames that move or zoom, each of which shows other cycles; prints percentiles and returns the 95th in ms. They are
 * times of the page's thread on a processor, garbage collection included: others on this machine do not count.
 */
async function timeline(page, events) {
  const canvas = page.locator("#timeline canvas");
  await canvas.scrollIntoViewIfNeeded();
  await canvas.focus();
  await page.evaluate(() => new Promise((done) => setTimeout(done, 200)));
  const session = await page.context().newCDPSession(page), traced = [];
  session.on("Tracing.dataCollected", ({ value }) => traced.push(...value));
  await session.send("Tracing.start", { traceConfig: { includedCategories: ["devtools.timeline"], excludedCategories: ["*"] }, transferMode: "ReportEvents" });
  const count = await page.evaluate(async (steps) => {
    const canvas = document.querySelector("#timeline canvas"), frame = () => new Promise((done) => requestAnimationFrame(done));
    performance.clearMeasures("timeline");
    // Most are far out, where most is to be drawn; 50 go down to single instructions and up again.
    const far = ["+", "+", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowLeft", "-", "-"];
    const near = [...Array(20).fill("+"), ...Array(10).fill("ArrowRight"), ...Array(20).fill("-")];
    const keys = [...Array(10).fill(far).flat(), ...near, ...Array(5).fill(far).flat()];
    for (let i = 0; i < steps; ++i) {
      canvas.dispatchEvent(new KeyboardEvent("keydown", { key: keys[i] }));
      await frame();
      await frame();
    }
    return performance.getEntriesByName("timeline").length;
  }, STEPS);
  const complete = new Promise((done) => session.once("Tracing.tracingComplete", done));
  await session.send("Tracing.end");
  await complete;
  await session.detach();
  // Of the callbacks in between some only wait: the longest are those that draw.
  const frames = traced.filter((event) => event.name === "FireAnimationFrame" && event.ph === "X");
  const sorted = (key) => frames.map((event) => event[key] / 1000).sort((a, b) => b - a).slice(0, count).reverse();
  const times = sorted("tdur"), walls = sorted("dur");
  const at = (list, part) => list[Math.min(list.length - 1, Math.floor(list.length * part))];
  const text = (list) => `median ${at(list, 0.5).toFixed(1)} ms, 95 % ${at(list, 0.95).toFixed(1)} ms, longest ${at(list, 1).toFixed(1)} ms`;
  check(count >= STEPS * 0.95 && times.length === count, `only ${count} frames were drawn, and ${times.length} measured`);
  console.log(`timeline: ${events} events, ${count} frames: ${text(times)} (by the clock: ${text(walls)})`);
  return at(times, 0.95);
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

/** Edges of the graph go to and from layers; colours change; the memory map follows the timeline. */
async function networkAndMemory(page, name, shortcuts) {
  const network = page.locator("#network");
  const edges = await network.locator(".edge").count(), nodes = await network.locator(".node").count();
  check(edges >= nodes - 1 + shortcuts, `${name}: the network has ${edges} edges between ${nodes} layers`);
  check(!(await network.textContent()).includes("does not say what layers read"), `${name}: the network is a chain`);
  const fill = () => network.locator(".node rect").first().getAttribute("fill");
  const before = await fill();
  await network.locator("select").selectOption("target");
  check(await fill() !== before, `${name}: colours by target are those by cycles`);
  await network.locator("select").selectOption("cycles");
  const map = page.locator("#memory-map canvas");
  await map.scrollIntoViewIfNeeded();
  await map.focus();
  await page.keyboard.press("n");
  await page.waitForFunction(() => document.querySelector("#memory-map .detail").textContent.includes("cycles"));
  const picture = () => page.evaluate(async () => {
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return document.querySelector("#memory-map canvas").toDataURL();
  });
  const whole = await picture();
  await page.locator("#timeline canvas").focus();
  await page.keyboard.press("+");
  const after = await picture();
  // The long timeline is of another run than the map, which is a sliver of it.
  if (!name.startsWith("long"))
    check(after !== whole, `${name}: the memory map does not follow the timeline`);
  await page.keyboard.press("Home");
}

/** A picture of each section, without the header over it. */
async function pictures(page, ids, before, after) {
  mkdirSync(shots, { recursive: true });
  await page.setViewportSize({ width: 1366, height: 3600 });
  await page.addStyleTag({ content: "header { position: static !important }" });
  await page.evaluate(() => document.activeElement?.blur());
  await page.waitForTimeout(300);
  for (const id of ids)
    await page.locator(`section[id="${id}"]`).screenshot({ path: path.join(shots, before + id + after) });
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
for (const { file, sections, events, shortcuts = 0 } of JSON.parse(readFileSync(list, "utf8"))) {
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
    if (colorScheme === "light" && sections.includes("memory-map"))
      await networkAndMemory(page, name, shortcuts);
    if (colorScheme === "light" && events) {
      const p95 = await timeline(page, events);
      check(p95 <= FRAME_MS, `${name}: the 95th percentile of frames is ${p95.toFixed(1)} ms`);
    }
    if (shots)
      await pictures(page, ids, `${name}-`, `-${colorScheme}.png`);
    await context.close();
  }
}
await browser.close();
console.log(failures ? `${failures} failures` : "all right");
process.exit(failures ? 1 : 0);
