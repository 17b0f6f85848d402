// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/** Sections about one run. */
import { axis, chart, legend, Option } from "./chart";
import { Bank, Graph, Layer, Run, RunEntry } from "./data";
import { bytes, h, modelName, number, percent, si, whole, words } from "./dom";
import { Column, table } from "./table";
import { colour, kPalette, kStalls, textOn } from "./theme";

/** A section of the page; the title is also its entry in the navigation. */
export function section(title: string, ...parts: (HTMLElement | null)[]): HTMLElement {
  const id = title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  return h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), ...parts);
}

export const note = (text: string): HTMLElement => h("p", { class: "note" }, text);

/** Cycles of a layer that sum to those of the run, where the simulator counted them. */
export function ownCycles(layer: Layer): number {
  return layer.critical_cycles ?? layer.cycles;
}

/** Layers, with the members of fusion groups in place of the groups. */
function leaves(layers: Layer[]): Layer[] {
  return layers.flatMap((layer) => (layer.members?.length ? leaves(layer.members) : [layer]));
}

function facts(entries: [name: string, value: string | null][]): HTMLElement {
  return h("dl", { class: "facts" }, ...entries.filter(([, value]) => value !== null)
    .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** The schedule that was asked for, and the one that was taken where several ran. */
export function schedule(run: Run): string {
  const asked = words(run.schedule ?? "program"), ran = words(run.schedule_ran ?? asked);
  return asked === ran ? asked : `${asked}: ${ran}`;
}

export function summary({ file, document: run }: RunEntry): HTMLElement {
  const cycles = run.total_cycles, bound = run.lower_bound_cycles, m = run.machine;
  const moved = (run.dram_read_bytes ?? 0) + (run.dram_write_bytes ?? 0);
  const tensor = run.engines?.find((engine) => engine.name === "tensor");
  const stalls = Object.entries(tensor?.stalls ?? {}).sort((a, b) => b[1] - a[1]);
  return section("Summary",
    h("div", { class: "tiles" }, ...([
      [whole(cycles), "cycles"],
      [run.total_milliseconds === undefined ? "–" : `${number(run.total_milliseconds)} ms`, `at ${m.clock_mhz} MHz`],
      [percent(run.utilisation), "utilisation of the array"],
      [cycles && bound ? `${(cycles / bound).toFixed(2)} x` : "–", `lower bound ${whole(bound)}${run.bound_by ? ` (${run.bound_by})` : ""}`],
      [bytes(moved), `DRAM${run.lower_bound_dram_bytes === undefined ? "" : `, at least ${bytes(run.lower_bound_dram_bytes)}`}`],
      [run.energy ? si(run.energy.total_joules, "J") : "–", run.energy ? `energy, estimate for ${run.energy.technology}` : "no energy in the file"],
    ] as [string, string][]).map(([value, name]) => h("div", { class: "tile" }, h("strong", {}, value), h("span", {}, name)))),
    facts([
      ["Model", modelName(run.model)],
      ["Machine", m.name + (m.overrides ? ` (${m.overrides})` : "")],
      ["Array", `${m.rows} x ${m.cols} ${m.array_type}, ${number(m.peak_macs_per_cycle)} MACs per cycle`],
      ["On-chip memory", bytes(m.scratchpad_bytes)],
      ["DRAM", `${number(m.dram.peak_bytes_per_cycle)} bytes per cycle${m.dram.ideal ? ", ideal" : ""}`],
      ["Schedule", schedule(run)],
      ["Simulator", run.simulator],
      ["MACs", whole(run.macs)],
      ["Power", run.energy ? `${si(run.energy.average_watts, "W")} on average` : null],
      ["Area", run.area ? `${number(run.area.total_mm2)} mm², estimate` : null],
      ["Largest stall", stalls.length && cycles && stalls[0][1] ? `${words(stalls[0][0])}: ${percent(stalls[0][1] / cycles)} of the tensor engine's cycles` : null],
      ["File", file],
    ]));
}

export function roofline(run: Run, select: (layer: string) => void): HTMLElement | null {
  const layers = leaves(run.layers ?? []).filter((layer) => layer.macs > 0 && layer.cycles > 0);
  if (!layers.length)
    return null;
  const peak = run.machine.peak_macs_per_cycle, slope = run.machine.dram.peak_bytes_per_cycle, ridge = peak / slope;
  const withTraffic = layers.filter((layer) => layer.dram_bytes > 0).map((layer) => layer.macs / layer.dram_bytes);
  const low = Math.min(ridge, ...withTraffic) / 2, high = Math.max(ridge, ...withTraffic) * 4;
  // A layer whose operands stay on chip stands at the right edge.
  const points = layers.map((layer) => ({
    name: layer.name, layer, value: [layer.dram_bytes > 0 ? layer.macs / layer.dram_bytes : high, layer.macs / layer.cycles],
  }));
  const largest = Math.max(...layers.map(ownCycles), 1);
  const floor = Math.min(...points.map((point) => point.value[1]), peak) / 2;
  const make = (): Option => ({
    grid: { left: 70, right: 30, top: 36, bottom: 52 },
    legend: legend(),
    xAxis: axis("MACs per byte of DRAM traffic", { type: "log", min: low, max: high, axisLabel: { color: colour("ink"), showMinLabel: false, showMaxLabel: false, formatter: (v: number) => number(v) } }),
    yAxis: axis("MACs per cycle", { type: "log", min: floor, nameGap: 48, axisLabel: { color: colour("ink"), showMinLabel: false, formatter: (v: number) => number(v) } }),
    tooltip: {
      confine: true, backgroundColor: colour("panel"), borderColor: colour("line"), textStyle: { color: colour("ink") },
      formatter: ({ data }: { data: { layer?: Layer } }) => data.layer ? tip(data.layer) : "",
    },
    series: [
      { name: "roof of the machine", type: "line", symbol: "none", lineStyle: { width: 2, color: colour("ink") }, itemStyle: { color: colour("ink") },
        data: [[low, low * slope], [ridge, peak], [high, peak]] },
      { name: "layers", type: "scatter", data: points, symbolSize: (_: unknown, { data }: { data: { layer: Layer } }) => 7 + 22 * Math.sqrt(ownCycles(data.layer) / largest),
        itemStyle: { color: kPalette[0], opacity: 0.75, borderColor: colour("panel") } },
    ],
  });
  const apart = (run.layers ?? []).length && layers.length < leaves(run.layers ?? []).length ? " Layers without MACs are left out." : "";
  return section("Roofline", note("A circle is a layer, its size the layer's part of the critical path. Layers without DRAM traffic stand at the right edge." + apart),
    chart(400, `Roofline: ${layers.length} layers under a roof of ${number(peak)} MACs per cycle and ${number(slope)} bytes per cycle. The table of layers has the numbers.`,
      make, (name) => select(name)));
}

function escaped(text: string): string {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
}

function tip(layer: Layer): string {
  return `<b>${escaped(layer.name)}</b><br>${whole(layer.macs)} MACs in ${whole(layer.cycles)} cycles: ${percent(layer.utilisation)}<br>` +
    `DRAM ${bytes(layer.dram_bytes)}, bound by ${layer.bound_by ?? "–"}`;
}

/** Stacked bars, one for each name; `parts`: the series. */
function stacked(names: string[], parts: { name: string; colour: string; values: number[] }[], unit: string, text: (value: number) => string, label: string,
                 select?: (name: string) => void): HTMLElement {
  const many = names.length > 40;
  const make = (): Option => ({
    grid: { left: 8, right: 24, top: 50, bottom: 40, containLabel: true },
    legend: legend(),
    tooltip: {
      trigger: "axis", axisPointer: { type: "shadow" }, confine: true, backgroundColor: colour("panel"), borderColor: colour("line"),
      textStyle: { color: colour("ink") }, valueFormatter: text, order: "seriesAsc",
    },
    xAxis: axis(unit, { type: "value", nameGap: 26, axisLabel: { color: colour("ink"), hideOverlap: true, formatter: text } }),
    yAxis: { type: "category", data: names, inverse: true, axisLabel: { color: colour("ink"), width: 150, overflow: "truncate", interval: many ? "auto" : 0 }, axisLine: { lineStyle: { color: colour("muted") } } },
    series: parts.map((part) => ({ name: part.name, type: "bar", stack: "all", data: part.values, itemStyle: { color: part.colour }, barCategoryGap: many ? "10%" : "25%" })),
  });
  return chart(Math.min(1400, 110 + names.length * (many ? 14 : 22)), label, make, select);
}

export function stalls(run: Run, select: (layer: string) => void): HTMLElement | null {
  const engines = run.engines ?? [];
  if (!engines.length)
    return null;
  const value = (engine: { [key: string]: unknown; stalls: { [cause: string]: number } }, key: string): number =>
    (key in engine.stalls ? engine.stalls[key] : (engine[key] as number | undefined)) ?? 0;
  const parts = (entries: { [key: string]: unknown; stalls: { [cause: string]: number } }[]) => kStalls
    .map(([key, fill]) => ({ name: words(key), colour: fill, values: entries.map((entry) => value(entry, key)) }))
    .filter((part) => part.values.some((v) => v > 0));
  const short = (v: number): string => si(v, "").trim();
  const rows = (run.layers ?? []).filter((layer) => layer.engines?.length);
  const perLayer = h("div");
  const choice = h("select", { change: () => drawLayers() }, ...engines.filter((e) => rows.some((row) => row.engines?.some((x) => x.name === e.name)))
    .map((engine) => h("option", { value: engine.name, selected: engine.name === "tensor" }, engine.name)));
  function drawLayers(): void {
    const empty = { busy_cycles: 0, stalls: {} };
    perLayer.replaceChildren(stacked(rows.map((layer) => layer.name),
      parts(rows.map((layer) => ({ ...(layer.engines?.find((e) => e.name === choice.value) ?? empty) }))), "cycles", short,
      `Cycles of engine ${choice.value} by cause, for each layer`, select));
  }
  if (rows.length)
    drawLayers();
  return section("Stalls", note("What each engine does in every cycle of the run. Causes: docs/timing.md, section 11."),
    stacked(engines.map((engine) => engine.name), parts(engines.map((engine) => ({ ...engine }))), "cycles", short,
      `Cycles of ${engines.length} engines by cause`),
    table({
      caption: "Cycles of engines", rows: engines, columns: [
        { title: "engine", value: (e) => e.name }, { title: "instructions", value: (e) => e.instructions, text: (e) => whole(e.instructions) },
        ...kStalls.map(([key]) => ({ title: words(key), value: (e: typeof engines[0]) => value({ ...e }, key), text: (e: typeof engines[0]) => whole(value({ ...e }, key)) })),
      ],
    }),
    rows.length ? h("h3", {}, "By layer: ", h("label", {}, h("span", { class: "hidden" }, "engine"), choice)) : null, rows.length ? perLayer : null);
}

export function layerTable(run: Run, select: (layer: string) => void): HTMLElement | null {
  const rows: { layer: Layer; group: string }[] = (run.layers ?? []).flatMap((layer) =>
    [{ layer, group: "" }, ...(layer.members ?? []).map((member) => ({ layer: member, group: layer.name }))]);
  if (!rows.length)
    return null;
  const energy = new Map((run.energy?.layers ?? []).map((entry) => [entry.name, entry.joules]));
  const total = run.total_cycles ?? 1;
  type Row = typeof rows[0];
  const columns: Column<Row>[] = [
    { title: "layer", value: ({ layer, group }) => (group ? `${group} › ` : "") + layer.name },
    { title: "cycles", help: "from the first start to the last retirement; layers overlap", value: (r) => r.layer.cycles, text: (r) => whole(r.layer.cycles) },
    { title: "critical", help: "cycles of the critical path; they sum to the total", value: (r) => r.layer.critical_cycles, text: (r) => whole(r.layer.critical_cycles) },
    { title: "% of run", value: (r) => r.layer.critical_cycles === null ? null : r.layer.critical_cycles / total * 100, text: (r) => r.layer.critical_cycles === null ? "–" : (r.layer.critical_cycles / total * 100).toFixed(1) },
    { title: "MACs", value: (r) => r.layer.macs, text: (r) => whole(r.layer.macs) },
    { title: "util %", value: (r) => r.layer.utilisation * 100, text: (r) => (r.layer.utilisation * 100).toFixed(1) },
    { title: "bound", value: (r) => r.layer.bound_cycles, text: (r) => whole(r.layer.bound_cycles) },
    { title: "bound by", value: (r) => r.layer.bound_by },
    { title: "DRAM bytes", value: (r) => r.layer.dram_bytes, text: (r) => whole(r.layer.dram_bytes) },
    { title: "least bytes", help: "of the layer alone, from DRAM to DRAM", value: (r) => r.layer.unavoidable_dram_bytes, text: (r) => whole(r.layer.unavoidable_dram_bytes) },
  ];
  if (energy.size)
    columns.push({ title: "energy", value: (r) => (r.group ? null : energy.get(r.layer.name) ?? null), text: (r) => { const j = r.group ? undefined : energy.get(r.layer.name); return j === undefined ? "–" : si(j, "J"); } });
  return section("Layers", note("A condition such as > 1000 filters numbers, a part of a word filters texts. A layer's name shows it in the timeline."),
    table({ caption: `${run.layers?.length} layers in the order of the program`, rows, columns, onSelect: (row) => select(row.layer.name), mark: (row) => (row.group ? "member" : "") }));
}

/** From pale to dark blue, for parts from 0 to 1. */
function shade(part: number): string {
  const mix = (from: number, to: number): string => Math.round(from + (to - from) * Math.min(1, Math.sqrt(part))).toString(16).padStart(2, "0");
  return `#${mix(0xe6, 0x00)}${mix(0xf1, 0x4a)}${mix(0xfa, 0x7c)}`;
}

export function graph(run: Run, layout: Graph | undefined, select: (layer: string) => void): HTMLElement | null {
  const layers = run.layers ?? [];
  if (!layout?.nodes.length)
    return null;
  const kNs = "http://www.w3.org/2000/svg", { node_width: width, node_height: height } = layout;
  const svg = document.createElementNS(kNs, "svg");
  const make = (tag: string, attributes: { [name: string]: string | number }, parent: Element = svg): Element => {
    const element = document.createElementNS(kNs, tag);
    for (const [name, value] of Object.entries(attributes))
      element.setAttribute(name, String(value));
    parent.append(element);
    return element;
  };
  svg.setAttribute("viewBox", `0 0 ${layout.width} ${layout.height}`);
  svg.setAttribute("role", "group");
  svg.setAttribute("aria-label", `${layout.nodes.length} layers of the network and ${layout.edges.length} edges between them`);
  svg.style.width = `${layout.width}px`;
  const marker = make("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, make("defs", {}));
  make("path", { d: "M0 0L8 4L0 8z", class: "head" }, marker);
  const edges = layout.edges.map(({ path }) => make("path", { d: path, class: "edge", "marker-end": "url(#arrow)" }));
  const largest = Math.max(1, ...layers.map(ownCycles)), targets = [...new Set(layout.nodes.map((node) => node.target))];
  const own = (layer: number | null): number => (layer === null ? 0 : ownCycles(layers[layer]));
  const fills = {
    cycles: layout.nodes.map((node) => (node.layer === null ? "#d9d9d9" : shade(own(node.layer) / largest))),
    target: layout.nodes.map((node) => kPalette[targets.indexOf(node.target) % kPalette.length]),
  };
  const boxes = layout.nodes.map((node, i) => {
    const layer = node.layer === null ? null : layers[node.layer];
    const box = make("g", { transform: `translate(${node.x} ${node.y})`, class: "node", ...(layer ? { tabindex: 0, role: "button" } : { role: "img" }) });
    const sources = layout.edges.filter((edge) => edge.to === i).map((edge) => layout.nodes[edge.from].name);
    make("title", {}, box).textContent = `${node.name}\n` +
      (layer ? `${whole(ownCycles(layer))} cycles of the critical path, utilisation ${percent(layer.utilisation)}\n${layer.nodes?.join(", ") ?? ""}` : `runs on ${node.target}`) +
      (!layout.chain && sources.length ? `\nreads ${sources.join(", ")}` : "");
    const rect = make("rect", { width, height, rx: 6 }, box);
    const text = (line: string, at: number, size: number): Element => {
      const element = make("text", { x: width / 2, y: at, "font-size": size, "text-anchor": "middle" }, box);
      element.textContent = line;
      return element;
    };
    const short = node.name.length > 19 ? `${node.name.slice(0, 8)}…${node.name.slice(-10)}` : node.name;
    const lines = [text(short, 16, 12), text(layer ? `${whole(ownCycles(layer))} cycles` : node.target, 31, 11)];
    const light = (on: boolean): void => layout.edges.forEach((edge, e) => { if (edge.from === i || edge.to === i) edges[e].classList.toggle("near", on); });
    for (const [event, on] of [["pointerenter", true], ["pointerleave", false], ["focus", true], ["blur", false]] as [string, boolean][])
      box.addEventListener(event, () => light(on));
    if (layer) {
      box.addEventListener("click", () => select(layer.name));
      box.addEventListener("keydown", (event) => {
        if ((event as KeyboardEvent).key === "Enter" || (event as KeyboardEvent).key === " ") {
          event.preventDefault();
          select(layer.name);
        }
      });
    }
    return { rect, lines };
  });
  const key = h("span");
  const paint = (by: "cycles" | "target"): void => {
    boxes.forEach(({ rect, lines }, i) => {
      rect.setAttribute("fill", fills[by][i]);
      for (const line of lines)
        line.setAttribute("fill", textOn(fills[by][i]));
    });
    key.replaceChildren(...(by === "cycles" ? [h("span", { class: "key" }, "The darker, the larger the part of the critical path.")]
      : targets.map((target, i) => h("span", { class: "key" }, h("i", { style: `background:${kPalette[i % kPalette.length]}` }), target))));
  };
  paint("cycles");
  const choice = h("select", { change: (event) => paint((event.target as HTMLSelectElement).value as "cycles" | "target") },
    h("option", { value: "cycles" }, "cycles"), h("option", { value: "target" }, "target"));
  return section("Network", note(layout.chain ? "The file does not say what layers read: they stand in the order of the program."
    : "An edge leads from a layer to one that reads its result. A click on a layer shows it in the timeline."),
    h("div", { class: "bar" }, h("label", {}, "colour by ", choice), key),
    h("div", { class: "scroll graph", tabindex: 0, role: "region", "aria-label": "Graph of layers" }, svg as unknown as HTMLElement));
}

export function energy(run: Run, select: (layer: string) => void): HTMLElement | null {
  if (!run.energy)
    return null;
  const { components, total_joules: total, layers, no_layer: rest } = run.energy;
  const names = Object.keys(components).sort((a, b) => components[b] - components[a]);
  const joules = (v: number): string => si(v, "J");
  const make = (): Option => ({
    grid: { left: 8, right: 70, top: 10, bottom: 40, containLabel: true },
    tooltip: { confine: true, backgroundColor: colour("panel"), borderColor: colour("line"), textStyle: { color: colour("ink") }, valueFormatter: joules },
    xAxis: axis("joules", { type: "value", nameGap: 26, axisLabel: { color: colour("ink"), formatter: joules } }),
    yAxis: { type: "category", data: names.map(words), inverse: true, axisLabel: { color: colour("ink") } },
    series: [{ type: "bar", data: names.map((name) => components[name]), itemStyle: { color: kPalette[0] },
      label: { show: true, position: "right", color: colour("ink"), formatter: ({ value }: { value: number }) => percent(value / total) } }],
  });
  const largest = names.slice(0, 6), all = [...layers, ...(rest?.joules ? [{ ...rest, name: "no layer" }] : [])];
  const parts = [...largest.map((name, i) => ({ name: words(name), colour: kPalette[i], values: all.map((layer) => layer.components[name] ?? 0) })),
    { name: "others", colour: "#9a9a9a", values: all.map((layer) => layer.joules - largest.reduce((sum, name) => sum + (layer.components[name] ?? 0), 0)) }];
  return section("Energy", note(`${joules(total)} in all, an estimate for ${run.energy.technology} (docs/energy.md).`),
    chart(70 + 24 * names.length, `Energy by component: ${names.slice(0, 4).map((name) => `${words(name)} ${percent(components[name] / total)}`).join(", ")}`, make),
    all.length ? h("h3", {}, "By layer") : null,
    all.length ? stacked(all.map((layer) => layer.name), parts, "joules", joules, "Energy of layers by component", select) : null);
}

export function traffic(run: Run, select: (layer: string) => void): HTMLElement | null {
  const layers = (run.layers ?? []).filter((layer) => layer.dram_bytes > 0);
  if (!layers.length)
    return null;
  const moved = layers.reduce((sum, layer) => sum + layer.dram_bytes, 0), least = layers.reduce((sum, layer) => sum + layer.unavoidable_dram_bytes, 0);
  return section("DRAM traffic", note(`${bytes(moved)} of operands and results; with every layer alone, from DRAM to DRAM, at least ${bytes(least)}.` +
    (run.fetch_bytes ? ` The program itself: ${bytes(run.fetch_bytes)}.` : "")),
    stacked(layers.map((layer) => layer.name), [
      { name: "read", colour: kPalette[0], values: layers.map((layer) => layer.dram_read_bytes) },
      { name: "written", colour: kPalette[1], values: layers.map((layer) => layer.dram_write_bytes) },
    ], "bytes", (value) => si(value, "B"), "DRAM bytes read and written by each layer", select));
}

/** Channels and banks of the DRAM, with the rows that accesses met. */
export function channels(run: Run): HTMLElement | null {
  const all = run.dram_channels ?? [];
  if (!all.length)
    return null;
  const kRows: [key: "row_hits" | "row_misses" | "row_conflicts", name: string, colour: string][] =
    [["row_hits", "row hits", kPalette[0]], ["row_misses", "misses", kPalette[1]], ["row_conflicts", "conflicts", kPalette[5]]];
  const names = all.map((_, i) => `channel ${i}`), short = (v: number): string => si(v, "").trim();
  const rows = (bank: Bank): number | null => (bank.row_hits === null ? null : bank.row_hits + (bank.row_misses ?? 0) + (bank.row_conflicts ?? 0));
  const hits = (bank: Bank): number | null => { const sum = rows(bank); return sum ? (bank.row_hits ?? 0) / sum : null; };
  const columns = <T extends Bank>(): Column<T>[] => [
    { title: "read bytes", value: (r) => r.read_bytes, text: (r) => whole(r.read_bytes) },
    { title: "written bytes", value: (r) => r.write_bytes, text: (r) => whole(r.write_bytes) },
    ...kRows.map(([key, name]) => ({ title: name, value: (r: T) => r[key], text: (r: T) => whole(r[key]) })),
    { title: "hit %", value: (r: T) => { const part = hits(r); return part === null ? null : part * 100; }, text: (r: T) => { const part = hits(r); return part === null ? "–" : (part * 100).toFixed(1); } },
  ];
  const hasRows = all.some((channel) => rows(channel));
  const banks = all.flatMap((channel, c) => channel.banks.map((bank, b) => ({ ...bank, channel: c, number: b }))).filter((bank) => bank.read_bytes + bank.write_bytes > 0);
  const charts = all.length > 1 || hasRows;
  return section("DRAM channels", note("Accesses of loads, stores and program fetch, a burst each. A hit finds its row open and used before, a miss finds the bank closed, a conflict another row open."),
    charts ? stacked(names, [
      { name: "read", colour: kPalette[0], values: all.map((channel) => channel.read_bytes) },
      { name: "written", colour: kPalette[1], values: all.map((channel) => channel.write_bytes) },
    ], "bytes", (value) => si(value, "B"), "Bytes read and written by each channel") : null,
    hasRows ? stacked(names, kRows.map(([key, name, fill]) => ({ name, colour: fill, values: all.map((channel) => channel[key] ?? 0) })), "accesses", short,
      `Row hits, misses and conflicts of each channel: ${names.map((name, i) => `${name} ${percent(hits(all[i]))} hits`).slice(0, 8).join(", ")}`) : null,
    table({
      caption: `${all.length} channels`, rows: all.map((channel, i) => ({ ...channel, number: i })), columns: [
        { title: "channel", value: (r) => r.number, text: (r) => `channel ${r.number}` }, ...columns<typeof all[0] & { number: number }>(),
        { title: "bus busy %", help: "part of all cycles", value: (r) => r.data_bus_busy * 100, text: (r) => (r.data_bus_busy * 100).toFixed(1) },
        { title: "refreshes", value: (r) => r.refreshes, text: (r) => whole(r.refreshes) },
      ],
    }),
    banks.length ? h("h3", {}, "By bank") : null,
    banks.length ? table({
      caption: `${banks.length} banks with accesses, by rank, bank group and bank`, rows: banks,
      columns: [{ title: "bank", value: (r) => r.channel * 1e6 + r.number, text: (r) => `channel ${r.channel}, bank ${r.number}` }, ...columns<typeof banks[0]>()],
    }) : null);
}
