// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/** The timeline: every engine and queue on one canvas, from the whole run to single cycles. */
import { Columns, Trace } from "./data";
import { h, whole } from "./dom";
import { colour, kBlues, kPalette, onTheme, stallColour } from "./theme";

/** Slices in the order of their starts, for binary search. `last`: the latest end so far; `sum`: durations of the slices before. */
interface Lane { start: Float64Array; end: Float64Array; last: Float64Array; sum: Float64Array; columns: Columns }

interface Row { name: string; work: Lane; stalls: Lane; top: number; height: number }

interface Arrow { at: number; from: number; end: number; to: number; name: number }

interface Hit { row: Row; lane: Lane; index: number; stall: boolean }

const kLabelWidth = 130, kAxisHeight = 22, kCounterHeight = 34;
const kMaxArrows = 400;
/** A single short slice stays visible. */
const kLeastShare = 0.2;

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

export class Timeline {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { tabindex: 0, role: "application" });
  private readonly detail = h("p", { class: "detail", "aria-live": "polite" });
  private readonly rows: Row[];
  private readonly arrows: Arrow[] = [];
  private readonly arrowStarts: Float64Array;
  private readonly height: number;
  private begin: number;
  private end: number;
  private readonly layerColours: string[];
  private readonly nameColours: string[];
  private byLayer = false;
  private withArrows = true;
  private marked: Hit | null = null;
  private pending = false;
  private visible = false;

  constructor(private readonly trace: Trace) {
    this.layerColours = this.trace.layers.map((_, i) => kPalette[i % kPalette.length]);
    this.nameColours = this.trace.names.map((_, i) => kBlues[i % kBlues.length]);
    this.begin = trace.first;
    this.end = trace.last;
    let top = kAxisHeight;
    this.rows = trace.tracks.map((track) => {
      const height = track.name.endsWith(" queue") ? 12 : 24;
      const row = { name: track.name, work: lane(track.work), stalls: lane(track.stalls), top, height };
      top += height + (track.name.endsWith(" queue") ? 7 : 2);
      return row;
    });
    this.height = top + 4 + kCounterHeight * trace.counters.length;
    let at = 0;
    trace.arrows.gap.forEach((gap, i) => {
      at += gap;
      this.arrows.push({ at, from: trace.arrows.from[i], end: at + trace.arrows.duration[i], to: trace.arrows.to[i], name: trace.arrows.name[i] });
    });
    this.arrowStarts = Float64Array.from(this.arrows, (arrow) => arrow.at);
    this.canvas.style.height = `${this.height}px`;
    this.canvas.setAttribute("aria-label", `Timeline of ${whole(trace.total_cycles)} cycles: ${trace.tracks.map((t) => t.name).join(", ")}. ` +
      "Arrow left and right move, plus and minus zoom, Home shows all, N and P go to the next and previous instruction.");
    this.element = h("div", { class: "timeline" }, this.toolbar(), this.canvas, this.detail, this.key());
    this.listen();
  }

  /** Shows cycles `begin` to `end`. */
  show(begin: number, end: number): void {
    const { first, last } = this.trace;
    const width = Math.min(last - first, Math.max(8, end - begin));
    this.begin = Math.min(Math.max(first, begin + (end - begin - width) / 2), last - width);
    this.end = this.begin + width;
    this.draw();
  }

  private toolbar(): HTMLElement {
    const button = (text: string, label: string, act: () => void): HTMLElement => h("button", { type: "button", "aria-label": label, title: label, click: act }, text);
    const box = (text: string, checked: boolean, act: (on: boolean) => void): HTMLElement =>
      h("label", {}, h("input", { type: "checkbox", checked, change: (e) => { act((e.target as HTMLInputElement).checked); this.draw(); } }), ` ${text}`);
    return h("div", { class: "bar" },
      button("+", "zoom in", () => this.zoom(0.5)), button("−", "zoom out", () => this.zoom(2)),
      button("←", "earlier", () => this.pan(-0.25)), button("→", "later", () => this.pan(0.25)),
      h("button", { type: "button", title: "whole run", click: () => this.show(this.trace.first, this.trace.last) }, "All"),
      this.arrows.length > 0 && box("semaphores", true, (on) => { this.withArrows = on; }),
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

  private key(): HTMLElement {
    const entry = (text: string, fill: string): HTMLElement => h("span", { class: "key" }, h("i", { style: `background:${fill}` }), text);
    const stalls = new Set<string>();
    for (const { stalls: { columns } } of this.rows)
      for (const name of columns.name)
        stalls.add(this.trace.names[name]);
    const { bucket } = this.trace;
    return h("p", { class: "note" }, bucket > 1 && `The timeline is long: within ${whole(bucket)} cycles, shorter slices are one, as long as their sum; report --cycles FIRST:LAST has all of a part. `, "Upper part of a lane: instructions, by mnemonic. Lower part: stalls: ",
      ...[...stalls].map((name) => entry(name.replace(/_/g, " "), stallColour(name))));
  }

  private listen(): void {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
        this.pan((event.deltaX || event.deltaY) / 1500);
      else
        this.zoom(Math.exp(event.deltaY / 400), this.cycleAt(event.offsetX));
    }, { passive: false });
    let from: { x: number; begin: number } | null = null;
    canvas.addEventListener("pointerdown", (event) => {
      from = { x: event.offsetX, begin: this.begin };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (from) {
        const begin = from.begin - (event.offsetX - from.x) * this.perPixel();
        this.show(begin, begin + this.end - this.begin);
      } else {
        this.mark(this.hit(event.offsetX, event.offsetY));
      }
    });
    canvas.addEventListener("pointerup", () => { from = null; });
    canvas.addEventListener("pointercancel", () => { from = null; });
    canvas.addEventListener("dblclick", (event) => this.zoom(0.25, this.cycleAt(event.offsetX)));
    canvas.addEventListener("keydown", (event) => {
      const act = ({
        ArrowLeft: () => this.pan(-0.1), ArrowRight: () => this.pan(0.1), "+": () => this.zoom(0.7), "=": () => this.zoom(0.7),
        ArrowUp: () => this.zoom(0.7), ArrowDown: () => this.zoom(1 / 0.7), "-": () => this.zoom(1 / 0.7),
        Home: () => this.show(this.trace.first, this.trace.last), n: () => this.step(1), p: () => this.step(-1),
      } as { [key: string]: () => void })[event.key];
      if (act && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        act();
      }
    });
    new ResizeObserver(() => this.draw()).observe(canvas);
    new IntersectionObserver((entries) => {
      this.visible = entries.some((entry) => entry.isIntersecting);
      this.draw();
    }, { rootMargin: "200px" }).observe(canvas);
    onTheme(() => this.draw());
    addEventListener("beforeprint", () => this.paint());
  }

  private perPixel(): number {
    return (this.end - this.begin) / Math.max(1, this.canvas.clientWidth - kLabelWidth);
  }

  private cycleAt(x: number): number {
    return this.begin + (x - kLabelWidth) * this.perPixel();
  }

  private zoom(factor: number, around = (this.begin + this.end) / 2): void {
    const width = Math.min(this.trace.last - this.trace.first, Math.max(8, (this.end - this.begin) * factor));
    const begin = around - ((around - this.begin) / (this.end - this.begin)) * width;
    this.show(begin, begin + width);
  }

  private pan(part: number): void {
    const shift = (this.end - this.begin) * part;
    this.show(this.begin + shift, this.end + shift);
  }

  private hit(x: number, y: number): Hit | null {
    const row = this.rows.find((r) => y >= r.top && y < r.top + r.height);
    if (!row || x < kLabelWidth)
      return null;
    const at = this.cycleAt(x), slack = this.perPixel();
    const lanes: [Lane, boolean][] = [[row.work, false], [row.stalls, true]];
    if (y > row.top + row.height * 0.6)
      lanes.reverse();
    for (const [part, stall] of lanes) {
      const index = above(part.last, at - slack);
      if (index < part.start.length && part.start[index] <= at + slack)
        return { row, lane: part, index, stall };
    }
    return null;
  }

  /** Goes to the next or the previous instruction of the marked engine. */
  private step(by: number): void {
    const from = this.marked && !this.marked.stall ? this.marked : null;
    const row = from?.row ?? this.rows.find((r) => r.name === "tensor" && r.work.start.length > 0) ?? this.rows.find((r) => r.work.start.length > 0);
    if (!row)
      return;
    const part = row.work;
    const index = Math.min(part.start.length - 1, Math.max(0, from ? from.index + by : above(part.end, this.begin)));
    this.mark({ row, lane: part, index, stall: false });
    const middle = (part.start[index] + part.end[index]) / 2, half = (this.end - this.begin) / 2;
    if (part.start[index] < this.begin || part.end[index] > this.end)
      this.show(middle - half, middle + half);
  }

  private mark(hit: Hit | null): void {
    if (hit?.lane === this.marked?.lane && hit?.index === this.marked?.index)
      return;
    this.marked = hit;
    if (hit) {
      const { columns, start, end } = hit.lane, i = hit.index;
      const name = hit.row.name === "critical path" ? "" : ` ${this.trace.names[columns.name[i]].replace(/_/g, " ")}`;
      const many = -columns.detail[i] - 1;
      const detail = many > 1 ? `, ${whole(many)} of them together` : hit.stall ? `, ${this.trace.causes[columns.detail[i]]}`
        : hit.row.name !== "critical path" && columns.detail[i] >= 0 ? `, word ${whole(columns.detail[i])}` : "";
      this.detail.textContent = `${hit.row.name}:${name} ${this.trace.layers[columns.layer[i]]}, cycles ${whole(start[i])} to ${whole(end[i])} ` +
        `(${whole(end[i] - start[i])})${detail}`;
    }
    this.draw();
  }

  private draw(): void {
    if (this.pending || !this.visible)
      return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      const before = performance.now();
      this.paint();
      performance.measure("timeline", { start: before, end: performance.now() });
    });
  }

  private paint(): void {
    const { canvas } = this, scale = devicePixelRatio || 1, width = canvas.clientWidth;
    const context = canvas.getContext("2d");
    if (!context || !width)
      return;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(this.height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(this.height * scale);
    }
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, this.height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const ink = colour("ink"), line = colour("line");
    this.paintAxis(context, width, ink, line);
    context.save();
    context.beginPath();
    context.rect(kLabelWidth, 0, width - kLabelWidth, this.height);
    context.clip();
    for (const row of this.rows) {
      const queue = row.name.endsWith(" queue"), critical = row.name === "critical path";
      const split = row.stalls.start.length > 0 && !queue;
      const workHeight = split ? row.height * 0.64 : row.height;
      this.paintLane(context, row.work, row.top, workHeight, width, this.byLayer || critical ? (i) => this.layerColours[row.work.columns.layer[i]]
                                                                                     : (i) => this.nameColours[row.work.columns.name[i]],
        critical ? this.trace.layers : this.trace.names, queue ? 0.55 : 1);
      this.paintLane(context, row.stalls, row.top + workHeight, row.height - workHeight, width, (i) => stallColour(this.trace.names[row.stalls.columns.name[i]]), null, 1);
    }
    if (this.withArrows)
      this.paintArrows(context, ink);
    this.paintMark(context, ink);
    this.paintCounters(context, width);
    context.restore();
    context.fillStyle = ink;
    context.textAlign = "left";
    for (const row of this.rows) {
      context.font = row.name.endsWith(" queue") ? "10px system-ui, sans-serif" : "12px system-ui, sans-serif";
      context.fillText(row.name, 4, row.top + row.height / 2, kLabelWidth - 8);
    }
    context.font = "11px system-ui, sans-serif";
    this.trace.counters.forEach((counter, i) => context.fillText(`${counter.name} %`, 4, this.counterTop(i) + kCounterHeight / 2, kLabelWidth - 8));
  }

  private paintAxis(context: CanvasRenderingContext2D, width: number, ink: string, line: string): void {
    const perPixel = this.perPixel();
    let step = 10 ** Math.ceil(Math.log10(Math.max(perPixel * 100, 1e-9)));
    for (const part of [5, 2])
      if (step / part >= perPixel * 100)
        step /= part;
    step = Math.max(1, step);
    context.strokeStyle = line;
    context.fillStyle = ink;
    context.textAlign = "center";
    context.beginPath();
    for (let at = Math.ceil(this.begin / step) * step; at <= this.end; at += step) {
      const x = kLabelWidth + (at - this.begin) / perPixel;
      context.moveTo(x, kAxisHeight - 4);
      context.lineTo(x, this.height);
      if (x < width - 20)
        context.fillText(whole(at), x, 9);
    }
    context.stroke();
  }

  /**
   * Draws what is in view. Where slices are narrower than a pixel, one stands for all that end in its pixel, as high as the part of
   * the pixel's cycles that they take, and a binary search finds the next: the time depends on the pixels, not on the slices.
   */
  private paintLane(context: CanvasRenderingContext2D, part: Lane, top: number, height: number, width: number, fill: (index: number) => string,
                    labels: string[] | null, alpha: number): void {
    const perPixel = this.perPixel(), { start, end, last, sum, columns } = part;
    let now = "";
    context.globalAlpha = alpha;
    context.textAlign = "left";
    const base = Math.round(top + height), pending = { begin: 0, end: 0, tall: 0, fill: "" };
    const flush = (): void => {
      if (pending.end > pending.begin) {
        if (pending.fill !== now)
          context.fillStyle = now = pending.fill;
        context.fillRect(pending.begin, base - pending.tall, pending.end - pending.begin, pending.tall);
      }
      pending.end = pending.begin = 0;
    };
    let i = above(last, this.begin);
    while (i < start.length && start[i] < this.end) {
      const x = kLabelWidth + (start[i] - this.begin) / perPixel, right = kLabelWidth + (end[i] - this.begin) / perPixel;
      const next = fill(i);
      if (right - x < 1) {
        const beyond = Math.max(i + 1, above(last, this.begin + (Math.floor(right - kLabelWidth) + 1) * perPixel, i));
        // Whole pixels are drawn fastest, and neighbours that look the same at once.
        const tall = Math.ceil(height * Math.min(1, Math.max(kLeastShare, (sum[beyond] - sum[i]) / perPixel))), column = Math.floor(right);
        if (column !== pending.end || tall !== pending.tall || next !== pending.fill) {
          flush();
          pending.begin = column;
          pending.tall = tall;
          pending.fill = next;
        }
        pending.end = column + 1;
        i = beyond;
        continue;
      }
      flush();
      if (next !== now)
        context.fillStyle = now = next;
      context.fillRect(x, top, right - x - (right - x > 4 ? 1 : 0), height);
      if (labels && height > 12 && right - x > 40) {
        const from = Math.max(x, kLabelWidth), space = Math.min(right, width) - from - 6;
        if (space > 34) {
          context.fillStyle = textOn(next);
          context.fillText(labels[labels === this.trace.layers ? columns.layer[i] : columns.name[i]], from + 3, top + height / 2, space);
          now = "";
        }
      }
      ++i;
    }
    flush();
    context.globalAlpha = 1;
  }

  private paintArrows(context: CanvasRenderingContext2D, ink: string): void {
    // Zoomed out they would hide everything.
    const first = above(this.arrowStarts, this.begin - (this.end - this.begin)), beyond = above(this.arrowStarts, this.end);
    if (beyond - first > kMaxArrows)
      return;
    const perPixel = this.perPixel();
    context.strokeStyle = context.fillStyle = ink;
    context.globalAlpha = 0.75;
    for (const arrow of this.arrows.slice(first, beyond)) {
      if (arrow.end < this.begin)
        continue;
      const from = this.rows[arrow.from], to = this.rows[arrow.to];
      const x = kLabelWidth + (arrow.at - this.begin) / perPixel, right = kLabelWidth + (arrow.end - this.begin) / perPixel;
      const y = from.top + from.height / 2, bottom = to.top + to.height / 2, bend = Math.max(12, (right - x) / 3);
      context.beginPath();
      context.moveTo(x, y);
      context.bezierCurveTo(x + bend, y, right - bend, bottom, right, bottom);
      context.stroke();
      context.beginPath();
      context.moveTo(right, bottom);
      context.lineTo(right - 6, bottom - 3);
      context.lineTo(right - 6, bottom + 3);
      context.fill();
    }
    context.globalAlpha = 1;
  }

  private paintMark(context: CanvasRenderingContext2D, ink: string): void {
    if (!this.marked)
      return;
    const { row, lane: part, index } = this.marked, perPixel = this.perPixel();
    const x = kLabelWidth + (part.start[index] - this.begin) / perPixel;
    context.strokeStyle = ink;
    context.lineWidth = 2;
    context.strokeRect(x, row.top, Math.max(2, (part.end[index] - part.start[index]) / perPixel), row.height);
    context.lineWidth = 1;
  }

  private counterTop(index: number): number {
    return this.height - (this.trace.counters.length - index) * kCounterHeight;
  }

  private paintCounters(context: CanvasRenderingContext2D, width: number): void {
    const perPixel = this.perPixel();
    context.fillStyle = kPalette[0];
    this.trace.counters.forEach((counter, row) => {
      const bottom = this.counterTop(row) + kCounterHeight - 2;
      for (let i = 0; i < counter.at.length; ++i) {
        const until = counter.at[i + 1] ?? this.trace.last;
        if (until < this.begin || counter.at[i] > this.end)
          continue;
        const x = Math.max(kLabelWidth, kLabelWidth + (counter.at[i] - this.begin) / perPixel);
        const right = Math.min(width, kLabelWidth + (until - this.begin) / perPixel), tall = (counter.value[i] / 100) * (kCounterHeight - 6);
        context.fillRect(x, bottom - tall, Math.max(0.5, right - x), tall);
      }
    });
  }
}

/** Black or white, whichever reads better on a colour "#rrggbb". */
export function textOn(fill: string): string {
  const part = (at: number): number => parseInt(fill.slice(at, at + 2), 16);
  return part(1) * 0.299 + part(3) * 0.587 + part(5) * 0.114 > 140 ? "#000000" : "#ffffff";
}
