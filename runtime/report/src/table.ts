// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/** Tables that people sort and filter. */
import { Cell } from "./data";
import { download, h } from "./dom";

export interface Column<Row> {
  title: string;
  value: (row: Row) => Cell;
  /** The value as text; default: as it is. */
  text?: (row: Row) => string;
  help?: string;
}

export interface TableOptions<Row> {
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  /** Column that rows are sorted by first, and whether the largest stands first. */
  sort?: { column: number; down: boolean };
  onSelect?: (row: Row) => void;
  /** Class of a row. */
  mark?: (row: Row) => string;
}

const kMaxRows = 500;

function compare(a: Cell, b: Cell): number {
  if (a === b)
    return 0;
  if (a === null || b === null)
    return a === null ? 1 : -1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}

/** A condition such as "> 1000" or "conv" on a value. */
function matches(condition: string, value: Cell, text: string): boolean {
  const limit = /^\s*(<=|>=|<|>|=)\s*(-?[\d.]+(?:e[+-]?\d+)?)\s*$/i.exec(condition);
  if (!limit)
    return text.toLowerCase().includes(condition.trim().toLowerCase());
  if (typeof value !== "number")
    return false;
  const bound = Number(limit[2]);
  return { "<": value < bound, ">": value > bound, "<=": value <= bound, ">=": value >= bound, "=": value === bound }[limit[1]] ?? false;
}

export function table<Row>(options: TableOptions<Row>): HTMLElement {
  const { columns, rows } = options;
  let order = options.sort ?? null;
  const conditions = columns.map(() => "");
  const textOf = (column: Column<Row>, row: Row): string => column.text?.(row) ?? String(column.value(row) ?? "–");
  const numeric = columns.map((column) => rows.some((row) => typeof column.value(row) === "number"));
  const body = h("tbody");
  const status = h("p", { class: "note", role: "status" });
  const heads = columns.map((column, index) =>
    h("th", { scope: "col", class: numeric[index] ? "number" : "" },
      h("button", { type: "button", title: column.help ?? `sort by ${column.title}`, click: () => sortBy(index) }, column.title)));

  const visible = (): Row[] => {
    const kept = rows.filter((row) => columns.every((column, i) => !conditions[i] || matches(conditions[i], column.value(row), textOf(column, row))));
    if (order) {
      const { column, down } = order;
      // Missing values stand last either way.
      kept.sort((a, b) => {
        const x = columns[column].value(a), y = columns[column].value(b);
        return (down && x !== null && y !== null ? -1 : 1) * compare(x, y);
      });
    }
    return kept;
  };
  const draw = (): void => {
    const kept = visible();
    heads.forEach((head, i) => {
      if (order?.column === i)
        head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else
        head.removeAttribute("aria-sort");
    });
    body.replaceChildren(...kept.slice(0, kMaxRows).map((row) => h("tr", { class: options.mark?.(row) ?? "" },
      ...columns.map((column, i) => {
        const text = textOf(column, row);
        const cell = i === 0 && options.onSelect ? h("button", { type: "button", class: "link", click: () => options.onSelect?.(row) }, text) : text;
        return i === 0 ? h("th", { scope: "row", class: numeric[0] ? "number" : "" }, cell) : h("td", { class: numeric[i] ? "number" : "" }, cell);
      }))));
    status.textContent = `${kept.length} of ${rows.length} rows` + (kept.length > kMaxRows ? `, the first ${kMaxRows} shown` : "");
  };
  function sortBy(column: number): void {
    order = { column, down: order?.column === column ? !order.down : numeric[column] };
    draw();
  }
  const csv = (): void => {
    const quoted = (cell: Cell): string => `"${String(cell ?? "").replace(/"/g, '""')}"`;
    const lines = [columns.map((column) => quoted(column.title)), ...visible().map((row) => columns.map((column) => quoted(column.value(row))))];
    download("table.csv", lines.map((line) => line.join(",")).join("\n") + "\n");
  };
  const filters = h("tr", { class: "filters" }, ...columns.map((column, i) => h("td", {}, h("input", {
    type: "text", "aria-label": `filter ${column.title}`, placeholder: numeric[i] ? "> 0" : "text",
    input: (event) => { conditions[i] = (event.target as HTMLInputElement).value; draw(); },
  }))));
  draw();
  return h("div", { class: "table" },
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": options.caption },
      h("table", {}, h("caption", {}, options.caption), h("thead", {}, h("tr", {}, ...heads), filters), body)),
    h("div", { class: "bar" }, status, h("button", { type: "button", click: csv }, "Save as CSV")));
}
