// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/** Colours: the palette of Okabe and Ito, which people with any colour vision tell apart, on light and dark. */

export const kPalette = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"];

/** Blues for instructions, which no stall of the timeline has. */
export const kBlues = ["#0072B2", "#56B4E9", "#4a6fa5", "#8fcbf0"];

/** What an engine does in a cycle, in the order in which bars are stacked. */
export const kStalls: [key: string, colour: string][] = [
  ["busy_cycles", "#0072B2"],
  ["operand_cycles", "#E69F00"],
  ["interlock_cycles", "#CC79A7"],
  ["bank_conflict_cycles", "#F0E442"],
  ["dram_bandwidth_cycles", "#D55E00"],
  ["dram_latency_cycles", "#882255"],
  ["buffer_full_cycles", "#009E73"],
  ["starved_cycles", "#56B4E9"],
  ["idle_cycles", "#9a9a9a"],
];

export function stallColour(label: string): string {
  return kStalls.find(([key]) => key === `${label.replace(/ /g, "_").toLowerCase()}_cycles`)?.[1] ?? "#9a9a9a";
}

export function isDark(): boolean {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

const colours = new Map<string, string>();

/** A colour of the style sheet: "ink", "muted", "line", "panel". */
export function colour(name: string): string {
  // Asking the style again would have it computed anew in every frame.
  let value = colours.get(name);
  if (value === undefined)
    colours.set(name, value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return value;
}

/** Black or white, whichever reads better on a colour "#rrggbb". */
export function textOn(fill: string): string {
  const part = (at: number): number => parseInt(fill.slice(at, at + 2), 16);
  return part(1) * 0.299 + part(3) * 0.587 + part(5) * 0.114 > 140 ? "#000000" : "#ffffff";
}

const listeners: (() => void)[] = [];

/** Calls `draw` whenever light and dark change places. */
export function onTheme(draw: () => void): void {
  listeners.push(draw);
}

function changed(): void {
  colours.clear();
  for (const draw of listeners)
    draw();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);

// Paper is light.
addEventListener("beforeprint", () => {
  const chosen = document.documentElement.dataset.theme ?? "";
  if (!isDark())
    return;
  document.documentElement.dataset.theme = "light";
  changed();
  addEventListener("afterprint", () => {
    if (chosen)
      document.documentElement.dataset.theme = chosen;
    else
      delete document.documentElement.dataset.theme;
    changed();
  }, { once: true });
});

export function switchTheme(): void {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  changed();
}
