// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/** Elements and numbers as text. */

type Child = Node | string | null | undefined | false;
type Properties = { [name: string]: string | number | boolean | undefined | ((event: Event) => void) };

/** An element with attributes, listeners (functions, by event name) and children. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, properties: Properties = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function")
      element.addEventListener(name, value);
    else if (value === true)
      element.setAttribute(name, "");
    else if (value !== false && value !== undefined)
      element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child): child is Node | string => child !== null && child !== undefined && child !== false));
  return element;
}

const kWhole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function whole(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : kWhole.format(value);
}

/** A number with four significant digits at least. */
export function number(value: number): string {
  if (Number.isInteger(value) || Math.abs(value) >= 1000)
    return kWhole.format(value);
  return Math.abs(value) < 1e-3 ? value.toExponential(3) : Number(value.toPrecision(4)).toString();
}

export function percent(part: number | null | undefined): string {
  return part === null || part === undefined ? "–" : `${(part * 100).toFixed(1)} %`;
}

const kPrefixes: [number, string][] = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"]];

/** With an SI prefix: 1.53e-6 J is "1.53 µJ". */
export function si(value: number, unit: string): string {
  const [factor, prefix] = kPrefixes.find(([factor]) => Math.abs(value) >= factor) ?? [1, ""];
  return `${Number((value / factor).toPrecision(3))} ${prefix}${unit}`;
}

export function bytes(value: number): string {
  if (value < 1024)
    return `${value} B`;
  return value < 1 << 20 ? `${(value / 1024).toFixed(1)} KiB` : `${(value / (1 << 20)).toFixed(2)} MiB`;
}

/** The last part of a path, or its folder where the file is just "model.onnx". */
export function modelName(model: string): string {
  const parts = model.split("/");
  const last = parts[parts.length - 1];
  return last === "model.onnx" && parts.length > 1 ? parts[parts.length - 2] : last;
}

/** "dram_latency_cycles" as "DRAM latency". */
export function words(key: string): string {
  return key.replace(/_cycles$/, "").replace(/_/g, " ").replace(/\bdram\b/, "DRAM").replace(/\bmacs\b/, "MACs");
}

export function download(file: string, text: string): void {
  const link = h("a", { href: `data:text/csv;charset=utf-8,${encodeURIComponent(text)}`, download: file });
  link.click();
}
