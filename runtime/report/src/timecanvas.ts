// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/** What canvases over the cycles of a run have in common: the part in view, moving and zooming, an axis, and rectangles as pixels. */
import { h, whole } from "./dom";
import { onTheme } from "./theme";

export const kLabelWidth = 130, kAxisHeight = 22;

/** "#rrggbb" as a pixel of an ImageData; `alpha`: 0 to 1. */
export function pixelOf(fill: string, alpha = 1): number {
  const value = parseInt(fill.slice(1), 16);
  const little = ((value & 0xff) << 16) | (value & 0xff00) | (value >> 16);
  return ((Math.round(alpha * 255) << 24) | little) >>> 0;
}

/**
 * The canvas as numbers, one for each of its own pixels. A frame may hold tens of thousands of rectangles, most of them a pixel wide:
 * writing those here takes a tenth of the time that drawing commands would.
 */
export class Pixels {
  private image: ImageData | undefined;
  private data = new Uint32Array(0);
  width = 0;
  height = 0;

  /** Transparent, and of this size. */
  clear(context: CanvasRenderingContext2D, width: number, height: number): void {
    if (!this.image || this.width !== width || this.height !== height) {
      this.image = context.createImageData(width, height);
      this.data = new Uint32Array(this.image.data.buffer);
      this.width = width;
      this.height = height;
    } else {
      this.data.fill(0);
    }
  }

  /** Whole pixels [left, right) x [top, bottom), cut to the canvas. */
  fill(left: number, top: number, right: number, bottom: number, pixel: number): void {
    const { data, width } = this;
    left = Math.max(0, left);
    right = Math.min(width, right);
    top = Math.max(0, top);
    bottom = Math.min(this.height, bottom);
    if (right - left > 12) {
      for (let at = top * width; at < bottom * width; at += width)
        data.fill(pixel, at + left, at + right);
      return;
    }
    for (let y = top, row = top * width; y < bottom; ++y, row += width)
      for (let at = row + left; at < row + right; ++at)
        data[at] = pixel;
  }

  show(context: CanvasRenderingContext2D): void {
    if (this.image)
      context.putImageData(this.image, 0, 0);
  }
}

/** Shows cycles `begin` to `end` of `first` to `last`. */
export abstract class TimeCanvas {
  readonly canvas = h("canvas", { tabindex: 0, role: "application" });
  protected readonly pixels = new Pixels();
  protected begin: number;
  protected end: number;
  /** Called after the part in view has changed. */
  onView: ((begin: number, end: number) => void) | null = null;
  private pending = false;
  private visible = false;
  private cssWidth = 0;

  /** `measured`: drawing times are noted under that name. */
  constructor(private readonly first: number, private readonly last: number, private readonly measured: string) {
    this.begin = first;
    this.end = last;
    this.listen();
  }

  /** Draws everything, `width` CSS pixels wide; `scale`: own pixels for each. */
  protected abstract paint(context: CanvasRenderingContext2D, width: number, scale: number): void;
  /** The pointer is there. */
  protected abstract point(x: number, y: number): void;
  /** Keys beyond those that move and zoom; true: it was one. */
  protected key(_key: string): boolean {
    return false;
  }

  setHeight(height: number): void {
    this.canvas.style.height = `${height}px`;
    this.height = height;
  }
  protected height = 0;

  /** Shows cycles `begin` to `end`. */
  show(begin: number, end: number): void {
    const { first, last } = this;
    const width = Math.min(last - first, Math.max(8, end - begin));
    const from = Math.min(Math.max(first, begin + (end - begin - width) / 2), last - width);
    if (from === this.begin && from + width === this.end)
      return;
    this.begin = from;
    this.end = from + width;
    this.draw();
    this.onView?.(this.begin, this.end);
  }

  showAll(): void {
    this.show(this.first, this.last);
  }

  zoom(factor: number, around = (this.begin + this.end) / 2): void {
    const width = Math.min(this.last - this.first, Math.max(8, (this.end - this.begin) * factor));
    const begin = around - ((around - this.begin) / (this.end - this.begin)) * width;
    this.show(begin, begin + width);
  }

  protected pan(part: number): void {
    const shift = (this.end - this.begin) * part;
    this.show(this.begin + shift, this.end + shift);
  }

  protected perPixel(): number {
    return (this.end - this.begin) / Math.max(1, this.cssWidth - kLabelWidth);
  }

  protected cycleAt(x: number): number {
    return this.begin + (x - kLabelWidth) * this.perPixel();
  }

  draw(): void {
    if (this.pending || !this.visible)
      return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      const before = performance.now();
      this.paintAll();
      performance.measure(this.measured, { start: before, end: performance.now() });
    });
  }

  private paintAll(): void {
    const { canvas } = this, scale = devicePixelRatio || 1;
    // Asking the element would lay the page out again.
    this.cssWidth ||= canvas.clientWidth;
    const width = this.cssWidth, context = canvas.getContext("2d", { willReadFrequently: true });
    if (!context || !width)
      return;
    const own = Math.round(width * scale), tall = Math.round(this.height * scale);
    if (canvas.width !== own || canvas.height !== tall) {
      canvas.width = own;
      canvas.height = tall;
    }
    this.pixels.clear(context, own, tall);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.textBaseline = "middle";
    this.paint(context, width, scale);
  }

  /** Lines of the axis, into the pixels, and where its numbers stand. */
  protected axis(line: string, width: number, scale: number): { x: number; text: string }[] {
    const perPixel = this.perPixel(), pixel = pixelOf(line), numbers: { x: number; text: string }[] = [];
    let step = 10 ** Math.ceil(Math.log10(Math.max(perPixel * 100, 1e-9)));
    for (const part of [5, 2])
      if (step / part >= perPixel * 100)
        step /= part;
    step = Math.max(1, step);
    for (let at = Math.ceil(this.begin / step) * step; at <= this.end; at += step) {
      const x = kLabelWidth + (at - this.begin) / perPixel, left = Math.round(x * scale);
      this.pixels.fill(left, Math.round((kAxisHeight - 4) * scale), left + 1, this.pixels.height, pixel);
      if (x < width - 20)
        numbers.push({ x, text: whole(at) });
    }
    return numbers;
  }

  protected paintNumbers(context: CanvasRenderingContext2D, numbers: { x: number; text: string }[], ink: string): void {
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = ink;
    context.textAlign = "center";
    for (const { x, text } of numbers)
      context.fillText(text, x, 9);
    context.textAlign = "left";
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
        this.point(event.offsetX, event.offsetY);
      }
    });
    canvas.addEventListener("pointerup", () => { from = null; });
    canvas.addEventListener("pointercancel", () => { from = null; });
    canvas.addEventListener("dblclick", (event) => this.zoom(0.25, this.cycleAt(event.offsetX)));
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey)
        return;
      const act = ({
        ArrowLeft: () => this.pan(-0.1), ArrowRight: () => this.pan(0.1), "+": () => this.zoom(0.7), "=": () => this.zoom(0.7),
        ArrowUp: () => this.zoom(0.7), ArrowDown: () => this.zoom(1 / 0.7), "-": () => this.zoom(1 / 0.7), Home: () => this.showAll(),
      } as { [key: string]: (() => void) | undefined })[event.key];
      if (act)
        act();
      if (act || this.key(event.key))
        event.preventDefault();
    });
    new ResizeObserver((entries) => {
      this.cssWidth = entries[entries.length - 1].contentRect.width;
      this.draw();
    }).observe(canvas);
    new IntersectionObserver((entries) => {
      this.visible = entries.some((entry) => entry.isIntersecting);
      this.draw();
    }, { rootMargin: "200px" }).observe(canvas);
    onTheme(() => this.draw());
    addEventListener("beforeprint", () => this.paintAll());
  }
}
