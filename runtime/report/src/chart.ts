// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/** Charts of ECharts that follow the theme, the width of the page and the printer. */
import { BarChart, LineChart, ParallelChart, ScatterChart } from "echarts/charts";
import { DataZoomComponent, GridComponent, LegendComponent, ParallelComponent, TooltipComponent } from "echarts/components";
import * as echarts from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";

import { h } from "./dom";
import { colour, kPalette, onTheme } from "./theme";

echarts.use([BarChart, LineChart, ParallelChart, ScatterChart, DataZoomComponent, GridComponent, LegendComponent, ParallelComponent,
  TooltipComponent, CanvasRenderer]);

export type Option = Record<string, unknown>;

/** Styles of an axis with a name. */
export function axis(name: string, more: Option = {}): Option {
  return {
    name, nameLocation: "middle", nameGap: 34, nameTextStyle: { color: colour("ink") }, axisLabel: { color: colour("ink") },
    axisLine: { lineStyle: { color: colour("muted") } }, splitLine: { lineStyle: { color: colour("line") } }, ...more,
  };
}

export function legend(more: Option = {}): Option {
  return { type: "plain", top: 0, textStyle: { color: colour("ink") }, ...more };
}

/**
 * A chart `height` pixels high. `label` says what it shows to people who do not see it; `make` gives the options anew when the
 * theme changes.
 */
export function chart(height: number, label: string, make: () => Option, onClick?: (name: string, index: number) => void): HTMLElement {
  const box = h("div", { class: "chart", role: "img", "aria-label": label, style: `height:${height}px` });
  let instance: echarts.ECharts | undefined;
  const draw = (): void => {
    instance?.setOption({
      animation: false, color: kPalette, textStyle: { color: colour("ink"), fontFamily: "system-ui, sans-serif" },
      tooltip: {
        confine: true, backgroundColor: colour("panel"), borderColor: colour("line"), textStyle: { color: colour("ink") },
      }, ...make(),
    }, true);
  };
  const start = (): void => {
    if (instance || !box.clientWidth)
      return;
    instance = echarts.init(box, undefined, { renderer: "canvas" });
    if (onClick)
      instance.on("click", (event) => onClick(event.name, event.dataIndex));
    draw();
  };
  // Drawn when it comes near the screen, or when the page is printed.
  new IntersectionObserver((entries, observer) => {
    if (entries.some((entry) => entry.isIntersecting)) {
      observer.disconnect();
      start();
    }
  }, { rootMargin: "400px" }).observe(box);
  new ResizeObserver(() => instance?.resize()).observe(box);
  addEventListener("beforeprint", () => { start(); instance?.resize(); });
  onTheme(draw);
  return box;
}
