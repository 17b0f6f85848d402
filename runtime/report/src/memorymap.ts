// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/** What lies in the on-chip memories when: rows of each memory over the cycles of the run, in the colours of the layers that wrote them. */
import { Memory, Run } from "./data";
import { bytes, h, percent, whole } from "./dom";
import { note, section } from "./sections";
import { Column, table } from "./table";
import { colour, kPalette, textOn } from "./theme";
import { kAxisHeight, kLabelWidth, pixelOf, TimeCanvas } from "./timecanvas";
import { Timeline } from "./timeline";

const kNone = "#9a9a9a", kGap = 14, kLeastHeight = 72;

interface Part { memory: Memory; rows: number; top: number; height: number }

interface Hit { part: Part; row: number; span: Memory["spans"][0] }

class MemoryCanvas extends TimeCanvas {
  readonly detail = h("p", { class: "detail", "aria-live": "polite" });
  private readonly parts: Part[];
  private marked: Hit | null = null;
  private walk = -1;

  constructor(memories: Memory[], cycles: number, private readonly names: string[]) {
    super(0, cycles, "memory");
    let top = kAxisHeight;
    const largest = Math.max(...memories.map((memory) => memory.bytes));
    this.parts = memories.map((memory) => {
      const rows = Math.max(1, Math.ceil(memory.bytes / memory.row_bytes));
      // One pixel for each row at least, so that none is hidden.
      const height = Math.max(rows, kLeastHeight, Math.round(256 * memory.bytes / largest));
      const part = { memory, rows, top, height };
      top += height + kGap;
      return part;
    });
    this.setHeight(top);
    this.canvas.setAttribute("aria-label", `What lies in ${memories.map((memory) => memory.name).join(", ")} over ${whole(cycles)} cycles. ` +
      "Arrow left and right move, plus and minus zoom, Home shows all, N and P go through what lies there.");
  }

  private fill(layer: number): string {
    return layer < 0 ? kNone : kPalette[layer % kPalette.length];
  }

  /** Goes to the next or the previous span in the order of their begins. */
  protected key(key: string): boolean {
    const by = key === "n" ? 1 : key === "p" ? -1 : 0;
    const all = this.parts.flatMap((part) => part.memory.spans.map((span) => ({ part, row: span[0], span })));
    if (!by || !all.length)
      return by !== 0;
    this.walk = Math.min(all.length - 1, Math.max(0, this.walk + by));
    const { span } = all[this.walk], half = (this.end - this.begin) / 2, middle = (span[2] + span[3]) / 2;
    this.mark(all[this.walk]);
    if (span[2] < this.begin || span[3] > this.end)
      this.show(middle - half, middle + half);
    return true;
  }

  protected point(x: number, y: number): void {
    const part = this.parts.find(({ top, height }) => y >= top && y < top + height);
    if (!part || x < kLabelWidth)
      return;
    const row = Math.floor((y - part.top) / part.height * part.rows), at = this.cycleAt(x), slack = this.perPixel();
    const span = part.memory.spans.find(([first, rows, begin, end]) => row >= first && row < first + rows && at >= begin - slack && at < end + slack);
    this.mark(span ? { part, row, span } : null);
  }

  private mark(hit: Hit | null): void {
    if (hit?.span === this.marked?.span)
      return;
    this.marked = hit;
    if (hit) {
      const { memory } = hit.part, [first, rows, begin, end, layer] = hit.span, from = first * memory.row_bytes, to = Math.min(memory.bytes, (first + rows) * memory.row_bytes);
      const bank = (address: number): number => Math.floor(address / (memory.bytes / memory.banks));
      const banks = bank(from) === bank(to - 1) ? `bank ${bank(from)}` : `banks ${bank(from)} to ${bank(to - 1)}`;
      this.detail.textContent = `${memory.name}, bytes ${whole(from)} to ${whole(to)} (${banks}): ${this.names[layer] ?? "no layer"}, cycles ${whole(begin)} to ${whole(end)}`;
    }
    this.draw();
  }

  protected paint(context: CanvasRenderingContext2D, width: number, scale: number): void {
    const ink = colour("ink"), line = pixelOf(colour("line")), numbers = this.axis(colour("line"), width, scale), { pixels } = this;
    const perPixel = this.perPixel() / scale, left = kLabelWidth * scale;
    const labels: { text: string; x: number; y: number; space: number; fill: string }[] = [];
    for (const { memory, rows, top, height } of this.parts) {
      const y = (row: number): number => Math.round((top + row / rows * height) * scale);
      for (const [first, count, begin, end, layer] of memory.spans) {
        if (begin >= this.end)
          break; // they are in the order of their begins
        if (end <= this.begin)
          continue;
        const x = Math.round(left + (begin - this.begin) / perPixel), right = Math.round(left + (end - this.begin) / perPixel), fill = this.fill(layer);
        pixels.fill(x, y(first), Math.max(x + 1, right), y(first + count), pixelOf(fill));
        const from = Math.max(x, left), space = (Math.min(right, width * scale) - from) / scale - 6;
        if (space > 40 && (y(first + count) - y(first)) / scale > 13)
          labels.push({ text: this.names[layer] ?? "", x: from / scale + 3, y: (y(first) + y(first + count)) / 2 / scale, space, fill });
      }
      for (let bank = 0; bank <= memory.banks; ++bank) {
        const border = y(bank * rows / memory.banks);
        pixels.fill(left, border, pixels.width, border + 1, line);
      }
    }
    pixels.fill(0, 0, left, pixels.height, 0);
    pixels.show(context);
    this.paintNumbers(context, numbers, ink);
    context.font = "11px system-ui, sans-serif";
    for (const { text, x, y, space, fill } of labels) {
      context.fillStyle = textOn(fill);
      const part = Math.floor(space / 6);
      context.fillText(text.length > part ? `${text.slice(0, part - 1)}…` : text, x, y);
    }
    context.fillStyle = ink;
    context.font = "12px system-ui, sans-serif";
    for (const { memory, top, height } of this.parts) {
      context.fillText(memory.name, 4, top + height / 2 - 8, kLabelWidth - 8);
      context.fillText(`${bytes(memory.bytes)}, ${memory.banks} ${memory.banks === 1 ? "bank" : "banks"}`, 4, top + height / 2 + 8, kLabelWidth - 8);
    }
    if (this.marked) {
      const { part: { top, height, rows }, span: [first, count, begin, end] } = this.marked;
      context.strokeStyle = ink;
      context.lineWidth = 2;
      const x = Math.max(kLabelWidth, kLabelWidth + (begin - this.begin) / this.perPixel()), right = kLabelWidth + (end - this.begin) / this.perPixel();
      if (right > kLabelWidth)
        context.strokeRect(x, top + first / rows * height, Math.max(2, right - x), count / rows * height);
    }
  }
}

/** Names of layers by their numbers, members of groups too. */
function layerNames(run: Run): string[] {
  const names: string[] = [];
  for (const layer of run.layers ?? [])
    for (const part of layer.members?.length ? layer.members : [layer])
      if (typeof part.number === "number")
        names[part.number] = part.name;
  return names;
}

/** `timeline`: of the same run, if there is one; the two then show the same cycles. */
export function memoryMap(run: Run, timeline: Timeline | undefined): HTMLElement | null {
  const map = run.memory_map, cycles = run.total_cycles ?? 0;
  if (!map?.memories.length || !cycles)
    return null;
  const names = layerNames(run), canvas = new MemoryCanvas(map.memories, cycles, names);
  if (timeline) {
    // Either moves the other, which must not move it back.
    let following = false;
    const follow = (other: TimeCanvas) => (begin: number, end: number): void => {
      if (following)
        return;
      following = true;
      other.show(begin, end);
      following = false;
    };
    timeline.onView = follow(canvas);
    canvas.onView = follow(timeline);
  }
  // Rows that live, summed over cycles: a part of the whole memory.
  const use = map.memories.map((memory) => {
    const steps = new Map<number, number>();
    let sum = 0;
    for (const [, rows, begin, end] of memory.spans) {
      sum += rows * (end - begin);
      steps.set(begin, (steps.get(begin) ?? 0) + rows);
      steps.set(end, (steps.get(end) ?? 0) - rows);
    }
    let now = 0, most = 0;
    for (const [, by] of [...steps].sort((a, b) => a[0] - b[0]))
      most = Math.max(most, now += by);
    const rows = Math.max(1, Math.ceil(memory.bytes / memory.row_bytes));
    return { memory, average: sum / rows / cycles, most: most / rows };
  });
  const columns: Column<typeof use[0]>[] = [
    { title: "memory", value: ({ memory }) => memory.name }, { title: "bytes", value: ({ memory }) => memory.bytes, text: ({ memory }) => whole(memory.bytes) },
    { title: "banks", value: ({ memory }) => memory.banks }, { title: "live on average", value: ({ average }) => average, text: ({ average }) => percent(average) },
    { title: "live at most", value: ({ most }) => most, text: ({ most }) => percent(most) },
  ];
  return section("Memory map",
    note(`A row of a memory is live from the write of an instruction to the last read before the next write, in the colour of the layer that wrote it.` +
      (map.step_cycles > 1 ? ` Times are in steps of ${whole(map.step_cycles)} cycles, and shorter pauses count as live.` : "") + (timeline ? " It moves with the timeline." : "")),
    h("div", { class: "timeline" }, canvas.canvas, canvas.detail), table({ caption: "Use of the on-chip memories", rows: use, columns }));
}
