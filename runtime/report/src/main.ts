// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import { load, PageData, RunEntry, Trace } from "./data";
import { h, modelName, whole } from "./dom";
import { sweepSections, tables, twoRuns } from "./others";
import { memoryMap } from "./memorymap";
import { channels, energy, graph, layerTable, note, roofline, section, stalls, summary, traffic } from "./sections";
import "./style.css";
import { switchTheme } from "./theme";
import { Timeline } from "./timeline";

const kLicences = "This page holds Apache ECharts 6.1.0 (Apache License 2.0) with zrender 6.1.0 (BSD 3-Clause) and tslib (0BSD).";

interface TimelineSection {
  element: HTMLElement | null;
  select: (layer: string) => void;
  /** That of a run with so many cycles, all of it. */
  of: (cycles: number | undefined) => Timeline | undefined;
}

function timelineSection(traces: Trace[]): TimelineSection {
  const made = new Map<number, Timeline>();
  const body = h("div");
  const choice = h("select", { change: () => draw() }, ...traces.map((trace, i) => h("option", { value: i }, `${trace.machine} (${trace.file})`)));
  let current: Timeline | undefined;
  function timeline(index: number): Timeline {
    const found = made.get(index) ?? new Timeline(traces[index]);
    made.set(index, found);
    return found;
  }
  function draw(): void {
    current = timeline(Number(choice.value));
    body.replaceChildren(current.element);
  }
  if (!traces.length)
    return { element: null, select: () => undefined, of: () => undefined };
  draw();
  const element = section("Timeline", note("Wheel: zoom; drag, or wheel with Shift: move; double click: zoom in. Keys: arrows, + and −, Home, N and P for the next and previous instruction."),
    traces.length > 1 ? h("label", {}, "file ", choice) : null, body);
  const select = (layer: string): void => {
    if (current?.showLayer(layer))
      element.scrollIntoView({ block: "start" });
  };
  const of = (cycles: number | undefined): Timeline | undefined => {
    const index = traces.findIndex((trace) => trace.total_cycles === cycles && trace.first === 0 && trace.last === cycles);
    return index < 0 ? undefined : timeline(index);
  };
  return { element, select, of };
}

function sections(data: PageData, run: RunEntry | undefined, timeline: TimelineSection): (HTMLElement | null)[] {
  const runs = data.documents.filter((entry) => entry.kind === "run") as unknown as RunEntry[];
  const of = run?.document, { select } = timeline;
  // A document that lacks what one section needs keeps the others.
  const guarded = (title: string, make: () => HTMLElement | null): HTMLElement | null => {
    try {
      return make();
    } catch (error) {
      console.error(error);
      return section(title, note(`The file lacks what this section shows: ${String(error)}`));
    }
  };
  return [
    run ? guarded("Summary", () => summary(run)) : null,
    ...(of ? [guarded("Roofline", () => roofline(of, select)), guarded("Stalls", () => stalls(of, select)), guarded("Layers", () => layerTable(of, select))] : []),
    timeline.element,
    ...(of ? [guarded("Memory map", () => memoryMap(of, timeline.of(of.total_cycles))), guarded("Network", () => graph(of, run?.graph, select)), guarded("Energy", () => energy(of, select)),
      guarded("DRAM traffic", () => traffic(of, select)), guarded("DRAM channels", () => channels(of))] : []),
    guarded("A against B", () => twoRuns(runs)),
    ...data.documents.filter((entry) => entry.kind !== "run").map((entry) => guarded(entry.file, () => tables(entry))),
    ...data.sweeps.map((sweep) => guarded(`Sweep ${sweep.name}`, () => sweepSections(sweep))),
  ];
}

function page(data: PageData): void {
  const runs = data.documents.filter((entry) => entry.kind === "run") as unknown as RunEntry[];
  const timeline = timelineSection(data.traces);
  const main = h("main", { id: "content", tabindex: -1 }), links = h("ul");
  const show = (index: number): void => {
    const parts = sections(data, runs[index], timeline).filter((part): part is HTMLElement => part !== null);
    main.replaceChildren(...parts, h("footer", {}, h("p", {}, kLicences)));
    links.replaceChildren(...parts.map((part) => h("li", {}, h("a", { href: `#${part.id}` }, part.querySelector("h2")?.textContent ?? ""))));
  };
  const choice = runs.length > 1 && h("label", { class: "run" }, "Run ", h("select", { change: (event) => show(Number((event.target as HTMLSelectElement).value)) },
    ...runs.map(({ file, document: run }, i) => h("option", { value: i }, `${modelName(run.model)}, ${whole(run.total_cycles)} cycles (${file})`))));
  document.body.append(
    h("a", { class: "skip", href: "#content" }, "Skip to the content"),
    h("header", {}, h("h1", {}, data.title), choice,
      h("button", { type: "button", click: switchTheme }, "Light or dark"), h("button", { type: "button", click: () => print() }, "Print")),
    h("div", { class: "columns" }, h("nav", { "aria-label": "Sections" }, links), main));
  show(0);
}

load().then((data) => {
  if (data)
    page(data);
  else
    document.body.append(h("main", {}, h("h1", {}, "Tilewright report"), h("p", {}, "This is the template; `tilewright report` fills it.")));
  performance.mark("ready");
  document.documentElement.dataset.ready = "true";
}).catch((error: unknown) => {
  console.error(error);
  document.body.append(h("main", {}, h("h1", {}, "Tilewright report"), h("p", { role: "alert" }, `The data of this page cannot be read: ${String(error)}`)));
});
