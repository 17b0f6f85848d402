// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/** Sections about two runs, about profiles and comparisons, and about sweeps. */
import { axis, chart, legend, Option } from "./chart";
import { Cell, Entry, Layer, RunEntry, Sweep } from "./data";
import { h, modelName, number, percent, whole, words } from "./dom";
import { note, ownCycles, schedule, section } from "./sections";
import { Column, table } from "./table";
import { colour, kPalette } from "./theme";

interface Pair { name: string; a: number; b: number }

/** Layers of two runs by name; those of one run alone by the nodes of the model that they share, directly or through others. */
export function pairs(a: Layer[], b: Layer[]): Pair[] {
  const parent = new Map<string, string>();
  const root = (key: string): string => {
    let at = key;
    while (parent.get(at) !== at)
      at = parent.get(at) as string;
    return at;
  };
  const join = (x: string, y: string): void => {
    for (const key of [x, y])
      if (!parent.has(key))
        parent.set(key, key);
    parent.set(root(x), root(y));
  };
  const inB = new Set(b.map((layer) => layer.name)), common = new Set(a.map((layer) => layer.name).filter((name) => inB.has(name)));
  const keys = (layer: Layer): string[] => (layer.nodes?.length && !common.has(layer.name) ? layer.nodes.map((node) => `node ${node}`) : [`layer ${layer.name}`]);
  for (const layer of [...a, ...b])
    for (const key of keys(layer))
      join(keys(layer)[0], key);
  const found = new Map<string, { names: string[]; a: number; b: number }>();
  for (const [layers, side] of [[a, "a"], [b, "b"]] as [Layer[], "a" | "b"][])
    for (const layer of layers) {
      const key = root(keys(layer)[0]), entry = found.get(key) ?? { names: [], a: 0, b: 0 };
      entry[side] += ownCycles(layer);
      if (!entry.names.includes(layer.name))
        entry.names.push(layer.name);
      found.set(key, entry);
    }
  return [...found.values()].map((entry) => ({ name: entry.names.slice(0, 3).join(", ") + (entry.names.length > 3 ? ", …" : ""), a: entry.a, b: entry.b }));
}

const runName = ({ file, document: run }: RunEntry): string => `${modelName(run.model)} on ${run.machine.name}, ${schedule(run)} (${file})`;

export function twoRuns(runs: RunEntry[]): HTMLElement | null {
  if (runs.length < 2)
    return null;
  const body = h("div");
  const choice = (selected: number): HTMLSelectElement =>
    h("select", { change: () => draw() }, ...runs.map((run, i) => h("option", { value: i, selected: i === selected }, runName(run))));
  const left = choice(0), right = choice(1);
  function draw(): void {
    const a = runs[Number(left.value)].document, b = runs[Number(right.value)].document;
    const rows = pairs(a.layers ?? [], b.layers ?? []).sort((x, y) => y.b - y.a - (x.b - x.a));
    const shown = rows.length > 24 ? [...rows.slice(0, 12), ...rows.slice(-12)] : rows;
    const make = (): Option => ({
      grid: { left: 8, right: 40, top: 10, bottom: 40, containLabel: true },
      tooltip: { confine: true, backgroundColor: colour("panel"), borderColor: colour("line"), textStyle: { color: colour("ink") }, valueFormatter: whole },
      xAxis: axis("cycles of B less cycles of A", { type: "value", nameGap: 26, axisLabel: { color: colour("ink"), hideOverlap: true } }),
      yAxis: { type: "category", data: shown.map((row) => row.name), inverse: true, axisLabel: { color: colour("ink"), width: 170, overflow: "truncate", interval: 0 } },
      series: [{ type: "bar", data: shown.map((row) => ({ value: row.b - row.a, itemStyle: { color: row.b > row.a ? kPalette[5] : kPalette[0] } })) }],
    });
    const signed = (value: number): string => (value > 0 ? "+" : "") + whole(value);
    const ta = a.total_cycles ?? 0, tb = b.total_cycles ?? 0;
    body.replaceChildren(
      h("p", {}, `A: ${whole(ta)} cycles. B: ${whole(tb)} cycles, ${signed(tb - ta)}${ta ? ` (${tb > ta ? "+" : ""}${((tb / ta - 1) * 100).toFixed(1)} %)` : ""}.`),
      chart(70 + shown.length * 22, "Cycles of B less those of A, layer by layer, the largest slowdown first", make),
      table({
        caption: "A against B, the largest slowdown first", rows, sort: { column: 3, down: true }, columns: [
          { title: "layer", value: (r) => r.name }, { title: "A cycles", value: (r) => r.a, text: (r) => whole(r.a) },
          { title: "B cycles", value: (r) => r.b, text: (r) => whole(r.b) }, { title: "B − A", value: (r) => r.b - r.a, text: (r) => signed(r.b - r.a) },
          { title: "B / A", value: (r) => (r.a ? r.b / r.a : null), text: (r) => (r.a ? (r.b / r.a).toFixed(3) : "–") },
        ],
      }));
  }
  draw();
  return section("A against B", h("div", { class: "bar" }, h("label", {}, "A ", left), h("label", {}, "B ", right)),
    note("Cycles of the critical path where both runs have them; they sum to the totals. Orange: B is slower; blue: B is faster."), body);
}

/** Columns for lists of objects whose keys the page does not know. */
function columnsOf(rows: { [key: string]: unknown }[]): Column<{ [key: string]: unknown }>[] {
  const flat = (value: unknown): Cell =>
    value === null || value === undefined ? null : typeof value === "object"
      ? Array.isArray(value) ? value.slice(0, 3).map((part) => (typeof part === "object" ? JSON.stringify(part) : String(part))).join(", ") + (value.length > 3 ? ` and ${value.length - 3} more` : "")
        : Object.entries(value as object).map(([key, part]) => `${words(key)} ${typeof part === "number" ? number(part) : String(part)}`).join(", ")
      : (value as Cell);
  return [...new Set(rows.flatMap((row) => Object.keys(row)))].map((key) => ({
    title: words(key), value: (row) => flat(row[key]),
    text: (row) => { const value = flat(row[key]); return typeof value === "number" ? number(value) : String(value ?? "–"); },
  }));
}

/** Every list of objects in a document of `profile` or `compare`, as a table. */
export function tables(entry: Entry): HTMLElement {
  const found: HTMLElement[] = [], facts: string[] = [];
  const walk = (value: unknown, path: string): void => {
    if (Array.isArray(value)) {
      const rows = value.filter((row): row is { [key: string]: unknown } => typeof row === "object" && row !== null && !Array.isArray(row));
      if (rows.length)
        found.push(h("h3", {}, words(path)), table({ caption: `${words(path)} of ${entry.file}`, rows, columns: columnsOf(rows) }));
    } else if (typeof value === "object" && value !== null) {
      for (const [key, part] of Object.entries(value))
        if (!["machine", "energy", "area"].includes(key))
          walk(part, path ? `${path}, ${key}` : key);
    } else if (typeof value === "number" && !path.includes(",")) {
      facts.push(`${words(path)} ${number(value)}`);
    }
  };
  walk(entry.document, "");
  const title = entry.kind === "profile" ? "Profile" : "Comparison";
  return section(`${title} ${entry.file}`, note(`${modelName(String(entry.document.model))}: ${facts.join(", ")}`),
    entry.kind === "compare" ? times(entry) : losses(entry), ...found);
}

/** A bar for each of the largest values. */
function bars(names: string[], values: number[], unit: string, label: string): HTMLElement {
  return chart(70 + names.length * 24, label, () => ({
    grid: { left: 8, right: 70, top: 10, bottom: 40, containLabel: true },
    xAxis: axis(unit, { type: "value", nameGap: 26, axisLabel: { color: colour("ink"), hideOverlap: true } }),
    yAxis: { type: "category", data: names, inverse: true, axisLabel: { color: colour("ink"), width: 340, overflow: "truncate", interval: 0 } },
    series: [{ type: "bar", data: values, itemStyle: { color: kPalette[0] }, label: { show: true, position: "right", color: colour("ink"), formatter: ({ value }: { value: number }) => number(value) } }],
  }));
}

function times(entry: Entry): HTMLElement | null {
  const rows = (entry.document.rows as { [key: string]: unknown }[]).flatMap((row) => {
    const ms = row.milliseconds as { median?: number } | number | null;
    const value = typeof ms === "number" ? ms : ms?.median;
    return typeof value === "number" ? [{ name: String(row.name ?? row.target ?? row.device ?? ""), value }] : [];
  });
  return rows.length ? bars(rows.map((row) => row.name), rows.map((row) => row.value), "milliseconds, median", "Median time of each target") : null;
}

function losses(entry: Entry): HTMLElement | null {
  const rows = ((entry.document.losses ?? entry.document.rows) as { [key: string]: unknown }[] | undefined)?.filter((row) => typeof row.cycles === "number") ?? [];
  const largest = rows.sort((a, b) => (b.cycles as number) - (a.cycles as number)).slice(0, 15);
  return largest.length ? bars(largest.map((row) => [row.layer, row.kind, row.phase].filter(Boolean).join(", ")), largest.map((row) => row.cycles as number), "lost cycles of the tensor engine",
    "The largest losses of the tensor engine") : null;
}

/** A column's name with its unit. */
const plain = (name: string): string => name.replace(/_/g, " ");

export function sweepSections(sweep: Sweep): HTMLElement {
  const first = 2 + sweep.axes.length, names = ["number", "status", ...sweep.axes, ...sweep.objectives.map((o) => (o.field && o.field !== o.name ? `${o.name}, ${o.field}` : o.name)), ...sweep.fields];
  const best = new Set(sweep.front), rows = sweep.rows.map((cells, index) => ({ cells, index }));
  const numeric = names.map((_, column) => rows.some((row) => typeof row.cells[column] === "number"));
  const measures = names.map((_, i) => i).filter((i) => i >= 2 && numeric[i]);
  const where = (cells: Cell[]): string => names.slice(2).map((name, i) => `${name}: ${typeof cells[i + 2] === "number" ? number(cells[i + 2] as number) : cells[i + 2] ?? "–"}`).join("<br>");
  const cloud = h("div");
  const pick = (selected: number): HTMLSelectElement => h("select", { change: () => draw() }, ...measures.map((i) => h("option", { value: i, selected: i === selected }, plain(names[i]))));
  const x = pick(sweep.objectives.length > 1 ? first + 1 : measures[0]), y = pick(first);
  function draw(): void {
    const i = Number(x.value), j = Number(y.value);
    const points = (front: boolean): unknown[] => rows.filter(({ cells, index }) => best.has(index) === front && typeof cells[i] === "number" && typeof cells[j] === "number")
      .map(({ cells }) => ({ value: [cells[i], cells[j]], cells }));
    const make = (): Option => ({
      grid: { left: 90, right: 30, top: 36, bottom: 52 }, legend: legend(),
      xAxis: axis(plain(names[i]), { type: "value", scale: true, axisLabel: { color: colour("ink"), hideOverlap: true, formatter: number } }),
      yAxis: axis(plain(names[j]), { type: "value", scale: true, nameGap: 66, axisLabel: { color: colour("ink"), formatter: number } }),
      tooltip: { confine: true, backgroundColor: colour("panel"), borderColor: colour("line"), textStyle: { color: colour("ink") }, formatter: ({ data }: { data: { cells: Cell[] } }) => where(data.cells) },
      series: [
        { name: "dominated", type: "scatter", symbol: "circle", symbolSize: 8, data: points(false), itemStyle: { color: "#9a9a9a" } },
        { name: "Pareto front", type: "scatter", symbol: "diamond", symbolSize: 14, data: points(true), itemStyle: { color: kPalette[5] } },
      ],
    });
    cloud.replaceChildren(chart(360, `${plain(names[j])} over ${plain(names[i])} of ${rows.length} points; ${best.size} are on the Pareto front`, make));
  }
  if (measures.length)
    draw();
  const axes = [...new Set([...measures.filter((i) => i < first + sweep.objectives.length)])].slice(0, 10);
  const parallel = (): Option => ({
    legend: legend(),
    parallel: { left: 60, right: 80, top: 70, bottom: 20, parallelAxisDefault: {
      type: "value", nameTextStyle: { color: colour("ink") }, axisLabel: { color: colour("ink") }, axisLine: { lineStyle: { color: colour("muted") } },
      scale: true, areaSelectStyle: { width: 16, color: kPalette[4] },
    } },
    parallelAxis: axes.map((i, dim) => ({ dim, name: plain(names[i]), axisLabel: { color: colour("ink"), formatter: number } })),
    series: ([[false, "dominated", "#9a9a9a"], [true, "Pareto front", kPalette[5]]] as [boolean, string, string][]).map(([front, name, fill]) => ({
      name, type: "parallel", lineStyle: { color: fill, width: front ? 2 : 1, opacity: front ? 0.95 : 0.5 }, itemStyle: { color: fill },
      inactiveOpacity: 0.04, data: rows.filter(({ cells, index }) => best.has(index) === front && axes.every((i) => typeof cells[i] === "number")).map(({ cells }) => axes.map((i) => cells[i])),
    })),
  });
  const goal = sweep.objectives.map((o) => `${o.larger_is_better ? "maximise" : "minimise"} ${o.name}`).join(", ");
  return section(`Sweep ${sweep.name}`, note(`${rows.length} points; ${goal}. ${best.size} of them are on the front: no other point of their model is as good in every objective and better in one.`),
    h("div", { class: "bar" }, h("label", {}, "across ", x), h("label", {}, "up ", y)), cloud,
    axes.length > 1 ? h("h3", {}, "Parallel coordinates") : null, axes.length > 1 ? note("Drag along an axis to keep the lines that cross that range.") : null,
    axes.length > 1 ? chart(380, `Parallel coordinates of ${rows.length} points over ${axes.map((i) => plain(names[i])).join(", ")}`, parallel) : null,
    table({
      caption: `Points of ${sweep.name}`, rows, mark: (row) => (best.has(row.index) ? "best" : ""),
      columns: [
        { title: "number", value: (r) => r.cells[0] }, { title: "front", value: (r) => (best.has(r.index) ? "yes" : "no") },
        ...names.slice(1).map((name, i) => ({
          title: plain(name), value: (r: typeof rows[0]) => r.cells[i + 1] ?? null,
          text: (r: typeof rows[0]) => {
            const value = r.cells[i + 1] ?? null;
            if (name === "status" && value !== "ok")
              return `${value}: ${sweep.messages[String(r.cells[0])] ?? ""}`;
            return typeof value === "number" ? (name === "utilisation" ? percent(value) : number(value)) : String(value ?? "–");
          },
        })),
      ],
    }));
}
