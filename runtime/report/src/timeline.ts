// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/** The timeline: every engine and queue on one canvas, from the whole run to single cycles. */
import { Columns, Trace } from "./data";
import { h, whole } from "./dom";
import { colour, kBlues, kPalette, stallColour, textOn } from "./theme";
import { kAxisHeight, kLabelWidth, pixelOf, TimeCanvas } from "./timecanvas";

/** Slices in the order of their starts, for binary search. `last`: the latest end so far; `sum`: durations of the slices before. */
interface Lane { start: Float64Array; end: Float64Array; last: Float64Array; sum: Float64Array; columns: Columns }

/** `planned`: what the compiler expected, a thin bar below the rest. */
interface Row { name: string; work: Lane; stalls: Lane; planned: Lane | null; top: number; height: number }

interface Arrow { at: number; from: number; end: number; to: number; name: number }

interface Hit { row: Row; lane: Lane; index: number; kind: "work" | "stall" | "planned" }

/** Text on a slice. */
interface Label { text: string; x: number; y: number; space: number; fill: string }

const kCounterHeight = 34, kPlannedHeight = 6;
const kMaxArrows = 400;
/** A single short slice stays visible. */
const kLeastShare = 0.2;
const kPlanned = "#7a8793";

function lane(columns: Columns): Lane {
  const count = columns.gap.length;
  const start = new Float64Array(count), end = new Float64Array(count), last = new Float64Array(count), sum = new Float64Array(count + 1);
  let before = 0, latest = 0;
  for (let i = 0; i < count; ++i) {
    start[i] = before + columns.gap[i];
    before = end[i] = start[i] + columns.duration[i];
    latest = last[i] = Math.max(latest, before);
    sum[i + 1] = sum[i] + columns.duration[i];
  }
  return { start, end, last, sum, columns };
}

/** The first index from `low` on whose value in the ascending `values` is larger than `limit`. */
function above(values: Float64Array, limit: number, low = 0): number {
  // What is looked for is mostly near.
  let high = low + 1, step = 1;
  while (high < values.length && values[high] <= limit) {
    low = high + 1;
    high += step *= 2;
  }
  high = Math.min(high, values.length);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

export class Timeline extends TimeCanvas {
  readonly element: HTMLElement;
  private readonly detail = h("p", { class: "detail", "aria-live": "polite" });
  private readonly rows: Row[];
  private readonly arrows: Arrow[] = [];
  private readonly arrowStarts: Float64Array;
  private readonly layerColours: string[];
  private readonly nameColours: string[];
  private readonly stallColours: string[];
  private readonly textWidths = new Map<string, number>();
  private byLayer = false;
  private withArrows = true;
  private withPlan = true;
  private marked: Hit | null = null;

  constructor(private readonly trace: Trace) {
    super(trace.first, trace.last, "timeline");
    this.layerColours = this.trace.layers.map((_, i) => kPalette[i % kPalette.length]);
    this.nameColours = this.trace.names.map((_, i) => kBlues[i % kBlues.length]);
    this.stallColours = this.trace.names.map(stallColour);
    let top = kAxisHeight;
    this.rows = trace.tracks.map((track) => {
      const isQueue = track.name.endsWith(" queue"), height = isQueue ? 12 : track.planned ? 24 + kPlannedHeight : 24;
      const row = { name: track.name, work: lane(track.work), stalls: lane(track.stalls), planned: track.planned ? lane(track.planned) : null, top, height };
      top += height + (isQueue ? 7 : 2);
      return row;
    });
    this.setHeight(top + 4 + kCounterHeight * trace.counters.length);
    let at = 0;
    trace.arrows.gap.forEach((gap, i) => {
      at += gap;
      this.arrows.push({ at, from: trace.arrows.from[i], end: at + trace.arrows.duration[i], to: trace.arrows.to[i], name: trace.arrows.name[i] });
    });
    this.arrowStarts = Float64Array.from(this.arrows, (arrow) => arrow.at);
    this.canvas.setAttribute("aria-label", `Timeline of ${whole(trace.total_cycles)} cycles: ${trace.tracks.map((t) => t.name).join(", ")}. ` +
      "Arrow left and right move, plus and minus zoom, Home shows all, N and P go to the next and previous instruction.");
    this.element = h("div", { class: "timeline" }, this.toolbar(), this.canvas, this.detail, this.legend());
  }

  private toolbar(): HTMLElement {
    const button = (text: string, label: string, act: () => void): HTMLElement => h("button", { type: "button", "aria-label": label, title: label, click: act }, text);
    const box = (text: string, checked: boolean, act: (on: boolean) => void): HTMLElement =>
      h("label", {}, h("input", { type: "checkbox", checked, change: (e) => { act((e.target as HTMLInputElement).checked); this.draw(); } }), ` ${text}`);
    return h("div", { class: "bar" },
      button("+", "zoom in", () => this.zoom(0.5)), button("−", "zoom out", () => this.zoom(2)),
      button("←", "earlier", () => this.pan(-0.25)), button("→", "later", () => this.pan(0.25)),
      h("button", { type: "button", title: "whole run", click: () => this.showAll() }, "All"),
      this.arrows.length > 0 && box("semaphores", true, (on) => { this.withArrows = on; }),
      this.rows.some((row) => row.planned) && box("plan", true, (on) => { this.withPlan = on; }),
      box("colour by layer", false, (on) => { this.byLayer = on; }),
      h("label", {}, "find layer ", this.layerChoice()));
  }

  private layerChoice(): HTMLElement {
    const select = h("select", { change: () => { this.showLayer(select.value); } }, h("option", { value: "" }, "–"),
      ...this.trace.layers.filter((name) => name && name !== "no layer").map((name) => h("option", { value: name }, name)));
    return select;
  }

  /** Shows the span of all instructions of a layer. False: the timeline has none of it. */
  showLayer(name: string): boolean {
    const layer = this.trace.layers.indexOf(name);
    let begin = Infinity, end = 0;
    for (const { name: track, work } of this.rows)
      if (track !== "critical path" && !track.endsWith(" queue"))
        for (let i = 0; i < work.start.length; ++i)
          if (work.columns.layer[i] === layer) {
            begin = Math.min(begin, work.start[i]);
            end = Math.max(end, work.end[i]);
          }
    if (layer < 0 || end <= begin)
      return false;
    this.show(begin - (end - begin) * 0.05, end + (end - begin) * 0.05);
    return true;
  }

  private legend(): HTMLElement {
    const entry = (text: string, fill: string): HTMLElement => h("span", { class: "key" }, h("i", { style: `background:${fill}` }), text);
    const stalls = new Set<string>();
    for (const { stalls: { columns } } of this.rows)
      for (const name of columns.name)
        stalls.add(this.trace.names[name]);
    const { bucket } = this.trace;
    return h("p", { class: "note" }, bucket > 1 && `The timeline is long: within ${whole(bucket)} cycles, shorter slices are one, as long as their sum; report --cycles FIRST:LAST has all of a part. `, "Upper part of a lane: instructions, by mnemonic. ",
      this.rows.some((row) => row.planned) && "Thin bar below: where the compiler expected them: ", this.rows.some((row) => row.planned) && entry("plan", kPlanned),
      "Lower part: stalls: ", ...[...stalls].map((name) => entry(name.replace(/_/g, " "), stallColour(name))));
  }

  protected key(key: string): boolean {
    const by = key === "n" ? 1 : key === "p" ? -1 : 0;
    if (by)
      this.step(by);
    return by !== 0;
  }

  protected point(x: number, y: number): void {
    this.mark(this.hit(x, y));
  }

  /** Heights of the parts of a row: instructions, stalls, plan. */
  private static parts(row: Row): { work: number; stalls: number; planned: number } {
    const planned = row.planned ? kPlannedHeight : 0, rest = row.height - planned;
    const work = row.stalls.start.length > 0 && !row.name.endsWith(" queue") ? rest * 0.64 : rest;
    return { work, stalls: rest - work, planned };
  }

  private hit(x: number, y: number): Hit | null {
    const row = this.rows.find((r) => y >= r.top && y < r.top + r.height);
    if (!row || x < kLabelWidth)
      return null;
    const at = this.cycleAt(x), slack = this.perPixel(), { work, planned } = Timeline.parts(row);
    const lanes: [Lane, Hit["kind"]][] = [[row.work, "work"], [row.stalls, "stall"]];
    if (y > row.top + work)
      lanes.reverse();
    if (row.planned && y > row.top + row.height - planned)
      lanes.unshift([row.planned, "planned"]);
    for (const [part, kind] of lanes) {
      const index = above(part.last, at - slack);
      if (index < part.start.length && part.start[index] <= at + slack)
        return { row, lane: part, index, kind };
    }
    return null;
  }

  /** Goes to the next or the previous instruction of the marked engine. */
  private step(by: number): void {
    const from = this.marked?.kind === "work" ? this.marked : null;
    const row = from?.row ?? this.rows.find((r) => r.name === "tensor" && r.work.start.length > 0) ?? this.rows.find((r) => r.work.start.length > 0);
    if (!row)
      return;
    const part = row.work;
    const index = Math.min(part.start.length - 1, Math.max(0, from ? from.index + by : above(part.end, this.begin)));
    this.mark({ row, lane: part, index, kind: "work" });
    const middle = (part.start[index] + part.end[index]) / 2, half = (this.end - this.begin) / 2;
    if (part.start[index] < this.begin || part.end[index] > this.end)
      this.show(middle - half, middle + half);
  }

  private mark(hit: Hit | null): void {
    if (hit?.lane === this.marked?.lane && hit?.index === this.marked?.index)
      return;
    this.marked = hit;
    if (hit) {
      const { columns, start, end } = hit.lane, i = hit.index, extra = columns.detail[i], critical = hit.row.name === "critical path";
      const name = critical ? "" : ` ${this.trace.names[columns.name[i]].replace(/_/g, " ")}`;
      const late = extra - start[i];
      const detail = extra < -2 ? `, ${whole(-extra - 1)} of them together`
        : hit.kind === "stall" ? `, ${this.trace.causes[extra]}`
          : hit.kind === "planned" ? `, planned; it started in cycle ${whole(extra)}, ${whole(Math.abs(late))} ${late < 0 ? "earlier" : "later"}`
            : !critical && extra >= 0 ? `, word ${whole(extra)}` : "";
      this.detail.textContent = `${hit.row.name}:${name} ${this.trace.layers[columns.layer[i]]}, cycles ${whole(start[i])} to ${whole(end[i])} ` +
        `(${whole(end[i] - start[i])})${detail}`;
    }
    this.draw();
  }

  protected paint(context: CanvasRenderingContext2D, width: number, scale: number): void {
    const ink = colour("ink"), numbers = this.axis(colour("line"), width, scale), labels: Label[] = [];
    for (const row of this.rows) {
      const queue = row.name.endsWith(" queue"), critical = row.name === "critical path", heights = Timeline.parts(row);
      const byLayer = this.byLayer || critical, { columns } = row.work;
      this.paintLane(row.work, row.top, heights.work, scale, byLayer ? columns.layer : columns.name, byLayer ? this.layerColours : this.nameColours, queue ? 0.55 : 1,
        heights.work > 12 ? (i, x, right, fill) => this.label(labels, (critical ? this.trace.layers : this.trace.names)[(critical ? columns.layer : columns.name)[i]], x, Math.min(right, width), row.top + heights.work / 2, fill) : null);
      this.paintLane(row.stalls, row.top + heights.work, heights.stalls, scale, row.stalls.columns.name, this.stallColours, 1, null);
      if (row.planned && this.withPlan)
        this.paintLane(row.planned, row.top + row.height - heights.planned + 1, heights.planned - 1, scale, row.planned.columns.name, null, 1, null);
    }
    this.paintCounters(scale);
    // Nothing stands left of the cycles but names.
    this.pixels.fill(0, 0, Math.round(kLabelWidth * scale), this.pixels.height, 0);
    this.pixels.show(context);
    this.paintNumbers(context, numbers, ink);
    context.save();
    context.beginPath();
    context.rect(kLabelWidth, 0, width - kLabelWidth, this.height);
    context.clip();
    for (const { text, x, y, space, fill } of labels) {
      const shown = this.cut(context, text, space);
      context.fillStyle = textOn(fill);
      context.fillText(shown, x, y);
    }
    if (this.withArrows)
      this.paintArrows(context, ink);
    this.paintMark(context, ink);
    context.restore();
    context.fillStyle = ink;
    for (const small of [false, true]) {
      context.font = small ? "10px system-ui, sans-serif" : "12px system-ui, sans-serif";
      for (const row of this.rows)
        if (row.name.endsWith(" queue") === small)
          context.fillText(row.name, 4, row.top + row.height / 2, kLabelWidth - 8);
    }
    context.font = "11px system-ui, sans-serif";
    this.trace.counters.forEach((counter, i) => context.fillText(`${counter.name} %`, 4, this.counterTop(i) + kCounterHeight / 2, kLabelWidth - 8));
  }

  private label(labels: Label[], text: string, x: number, right: number, y: number, fill: string): void {
    const from = Math.max(x, kLabelWidth), space = right - from - 6;
    if (space > 34)
      labels.push({ text, x: from + 3, y, space, fill });
  }

  /** What of a text fits; widths are measured once. */
  private cut(context: CanvasRenderingContext2D, text: string, space: number): string {
    let width = this.textWidths.get(text);
    if (width === undefined)
      this.textWidths.set(text, width = context.measureText(text).width);
    return width <= space ? text : `${text.slice(0, Math.max(1, Math.floor(text.length * space / width) - 1))}…`;
  }

  /**
   * Draws what is in view. Where slices are narrower than a pixel, one stands for all that end in its pixel, as high as the part of
   * the pixel's cycles that they take, and a binary search finds the next: the time depends on the pixels, not on the slices.
   * `key`: for each slice the number of its colour; `fills` null: all look the same.
   */
  private paintLane(part: Lane, top: number, height: number, scale: number, key: number[], fills: string[] | null, alpha: number,
                    label: ((index: number, x: number, right: number, fill: string) => void) | null): void {
    const { start, end, last, sum } = part, { pixels, begin } = this, left = kLabelWidth * scale;
    const perPixel = this.perPixel() / scale, y = Math.round(top * scale), base = Math.round((top + height) * scale), tallest = base - y;
    const colours = (fills ?? [kPlanned]).map((fill) => pixelOf(fill, alpha));
    // Neighbours that look the same are drawn at once.
    let from = 0, until = 0, tall = 0, pixel = 0;
    let i = above(last, begin);
    while (i < start.length && start[i] < this.end) {
      const x = left + (start[i] - begin) / perPixel, right = left + (end[i] - begin) / perPixel, next = colours[fills ? key[i] : 0];
      if (right - x < 1) {
        const column = Math.floor(right), beyond = Math.max(i + 1, above(last, begin + (column - left + 1) * perPixel, i));
        const share = (sum[beyond] - sum[i]) / perPixel;
        const high = Math.ceil(tallest * (share > 1 ? 1 : share > kLeastShare ? share : kLeastShare));
        if (column !== until || high !== tall || next !== pixel) {
          pixels.fill(from, base - tall, until, base, pixel);
          from = column;
          tall = high;
          pixel = next;
        }
        until = column + 1;
        i = beyond;
        continue;
      }
      const first = Math.round(x);
      pixels.fill(first, y, Math.max(first + 1, Math.round(right) - (right - x > 4 * scale ? Math.round(scale) : 0)), base, next);
      if (label && right - x > 40 * scale)
        label(i, x / scale, right / scale, fills ? fills[key[i]] : kPlanned);
      ++i;
    }
    pixels.fill(from, base - tall, until, base, pixel);
  }

  private paintArrows(context: CanvasRenderingContext2D, ink: string): void {
    // Zoomed out they would hide everything.
    const first = above(this.arrowStarts, this.begin - (this.end - this.begin)), beyond = above(this.arrowStarts, this.end);
    if (beyond - first > kMaxArrows)
      return;
    const perPixel = this.perPixel(), lines = new Path2D(), heads = new Path2D();
    for (let i = first; i < beyond; ++i) {
      const arrow = this.arrows[i];
      if (arrow.end < this.begin)
        continue;
      const from = this.rows[arrow.from], to = this.rows[arrow.to];
      const x = kLabelWidth + (arrow.at - this.begin) / perPixel, right = kLabelWidth + (arrow.end - this.begin) / perPixel;
      const y = from.top + from.height / 2, bottom = to.top + to.height / 2, bend = Math.max(12, (right - x) / 3);
      lines.moveTo(x, y);
      lines.bezierCurveTo(x + bend, y, right - bend, bottom, right, bottom);
      heads.moveTo(right, bottom);
      heads.lineTo(right - 6, bottom - 3);
      heads.lineTo(right - 6, bottom + 3);
    }
    context.strokeStyle = context.fillStyle = ink;
    context.globalAlpha = 0.75;
    context.stroke(lines);
    context.fill(heads);
    context.globalAlpha = 1;
  }

  private paintMark(context: CanvasRenderingContext2D, ink: string): void {
    if (!this.marked)
      return;
    const { row, lane: part, index, kind } = this.marked, perPixel = this.perPixel();
    const x = kLabelWidth + (part.start[index] - this.begin) / perPixel, planned = kind === "planned";
    context.strokeStyle = ink;
    context.lineWidth = 2;
    context.strokeRect(x, planned ? row.top + row.height - kPlannedHeight : row.top, Math.max(2, (part.end[index] - part.start[index]) / perPixel), planned ? kPlannedHeight : row.height);
    context.lineWidth = 1;
  }

  private counterTop(index: number): number {
    return this.height - (this.trace.counters.length - index) * kCounterHeight;
  }

  private paintCounters(scale: number): void {
    const perPixel = this.perPixel(), pixel = pixelOf(kPalette[0]);
    this.trace.counters.forEach((counter, row) => {
      const bottom = Math.round((this.counterTop(row) + kCounterHeight - 2) * scale);
      for (let i = 0; i < counter.at.length && counter.at[i] <= this.end; ++i) {
        const until = counter.at[i + 1] ?? this.trace.last;
        if (until < this.begin)
          continue;
        const x = Math.round((kLabelWidth + (counter.at[i] - this.begin) / perPixel) * scale), right = Math.round((kLabelWidth + (until - this.begin) / perPixel) * scale);
        this.pixels.fill(x, bottom - Math.round((counter.value[i] / 100) * (kCounterHeight - 6) * scale), Math.max(x + 1, right), bottom, pixel);
      }
    });
  }
}
