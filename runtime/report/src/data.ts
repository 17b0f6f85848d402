// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/** The data that runtime/python/tilewright/report puts into the page. */

export interface Stalls { [cause: string]: number }

export interface Engine { name: string; instructions: number; busy_cycles: number; idle_cycles: number; stalls: Stalls }

export interface Layer {
  name: string;
  nodes: string[];
  /** In the order of the program; null: a group, or what belongs to no layer. */
  number?: number | null;
  cycles: number;
  first_start_cycle: number;
  last_retirement_cycle: number;
  critical_cycles: number | null;
  instructions: number;
  macs: number;
  utilisation: number;
  bound_cycles: number | null;
  bound_by: string | null;
  alone_bound_cycles: number;
  dram_bytes: number;
  unavoidable_dram_bytes: number;
  dram_read_bytes: number;
  dram_write_bytes: number;
  tile: string | null;
  engines: { name: string; busy_cycles: number; stalls: Stalls }[] | null;
  members: Layer[];
}

export interface Joules { name: string; joules: number; components: { [component: string]: number } }

/** What a bank or a channel of the DRAM did; an ideal one has no rows. */
export interface Bank { read_bytes: number; write_bytes: number; row_hits: number | null; row_misses: number | null; row_conflicts: number | null }

/** `spans`: first row, rows, first cycle, cycle after the last, number of the layer. */
export interface Memory { name: string; bytes: number; banks: number; row_bytes: number; spans: [number, number, number, number, number][] }

export interface Run {
  model: string;
  machine: {
    name: string; overrides: string; array_type: string; rows: number; cols: number; clock_mhz: number;
    peak_macs_per_cycle: number; scratchpad_bytes: number; dram: { ideal: boolean; peak_bytes_per_cycle: number };
  };
  schedule: string | null;
  schedule_ran?: string;
  simulator: string;
  batch: number;
  macs: number;
  total_cycles?: number;
  total_milliseconds?: number;
  utilisation?: number;
  lower_bound_cycles?: number;
  bound_by?: string;
  lower_bound_dram_bytes?: number;
  dram_read_bytes?: number;
  dram_write_bytes?: number;
  fetch_bytes?: number;
  dram_channels?: (Bank & { data_bus_busy: number; refreshes: number; banks: Bank[] })[];
  memory_map?: { step_cycles: number; memories: Memory[] };
  engines?: Engine[];
  layers?: Layer[];
  energy?: {
    technology: string; total_joules: number; average_watts: number; picojoules_per_mac: number | null;
    components: { [component: string]: number }; layers: Joules[]; no_layer: Joules;
  };
  area?: { total_mm2: number; components: { [component: string]: number } };
}

/** Laid out, in pixels. `layer`: an index into the layers of the run; null: a kernel of another target. */
export interface Graph {
  chain: boolean;
  width: number;
  height: number;
  node_width: number;
  node_height: number;
  nodes: { name: string; layer: number | null; target: string; x: number; y: number }[];
  edges: { from: number; to: number; path: string }[];
}

/** A document of `tilewright run`, `profile` or `compare`; only runs have a graph. */
export interface Entry { file: string; kind: "run" | "profile" | "compare"; document: Record<string, unknown>; graph?: Graph }
export interface RunEntry { file: string; document: Run; graph?: Graph }

export interface Columns { gap: number[]; duration: number[]; name: number[]; layer: number[]; detail: number[] }

export interface Trace {
  file: string;
  machine: string;
  total_cycles: number;
  /** The cycles that the page has. */
  first: number;
  last: number;
  /** Slices shorter than so many cycles are one in each bucket; 1: all are there. */
  bucket: number;
  names: string[];
  layers: string[];
  causes: string[];
  /** `planned`: what the compiler expected; its details are the cycles in which the instructions started. */
  tracks: { name: string; work: Columns; stalls: Columns; planned?: Columns }[];
  arrows: { gap: number[]; from: number[]; duration: number[]; to: number[]; name: number[] };
  counters: { name: string; at: number[]; value: number[] }[];
}

export type Cell = number | string | boolean | null;

export interface Sweep {
  file: string;
  name: string;
  axes: string[];
  /** `field`: what an objective names, with its unit; empty for an expression. */
  objectives: { name: string; field: string; larger_is_better: boolean }[];
  fields: string[];
  rows: Cell[][];
  front: number[];
  messages: { [number: string]: string };
}

export interface PageData { title: string; documents: Entry[]; traces: Trace[]; sweeps: Sweep[] }

/** The data of the page; null in the bare template. Throws where the text is broken. */
export async function load(): Promise<PageData | null> {
  const script = document.getElementById("data");
  const text = script?.textContent?.trim() ?? "null";
  if (script?.dataset.encoding !== "deflate")
    return JSON.parse(text) as PageData | null;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = (await new Response(stream).json()) as PageData;
  script.textContent = "";
  return data;
}
