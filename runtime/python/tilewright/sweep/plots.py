# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pictures of a study, by matplotlib: points with their front, and a map over two parameters. Equal rows give equal SVG bytes."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .errors import UserError
from .expressions import Scalar
from .results import front_rows, objective_value, value
from .store import OK, Row
from .study import NAMED, Objective


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise UserError("plots need matplotlib: apt-get install python3-matplotlib") from None
    matplotlib.use("Agg")
    # SVG names its parts by a hash with a salt, and would note the date.
    matplotlib.rcParams.update({"svg.hashsalt": "tilewright", "svg.fonttype": "none", "font.size": 9, "axes.grid": True,
                                "grid.alpha": 0.3, "axes.axisbelow": True})
    from matplotlib import pyplot

    return pyplot


def _save(pyplot: Any, figure: Any, file: str) -> None:
    if not file.endswith((".svg", ".png")):
        raise UserError(f"-o: found {file!r}; allowed: a name that ends in .svg or .png")
    metadata: Dict[str, Optional[str]] = {"Date": None} if file.endswith(".svg") else {"Software": None}
    try:
        figure.savefig(file, metadata=metadata, dpi=150, bbox_inches="tight")
    except OSError as error:
        raise UserError(f"{file}: cannot be written: {error.strerror}") from None
    finally:
        pyplot.close(figure)


_UNITS = {"latency": "ms", "energy": "J", "area": "mm2", "edp": "J s", "throughput": "inferences/s"}


def _label(name: str) -> str:
    return f"{name}, {_UNITS[name]}" if name in _UNITS else name


def field_of(name: str) -> str:
    return NAMED[name][0] if name in NAMED else name


def _number(row: Row, name: str) -> float:
    found = value(row, field_of(name))
    if not isinstance(found, (int, float)) or isinstance(found, bool):
        raise UserError(f"{name!r}: found {found!r} in row {row.digest[:12]}; allowed: a field with a number")
    return float(found)


def scatter(rows: Sequence[Row], objectives: Sequence[Objective], file: str, x: Optional[str] = None, y: Optional[str] = None) -> None:
    """Two objectives against each other, and the front of these two."""
    kept = [row for row in rows if row.status == OK]
    if not kept:
        raise UserError("no row with a report to draw")
    by_name = {o.name: o for o in objectives}

    def chosen(name: Optional[str], place: int, flag: str) -> Objective:
        if name is None:
            if len(objectives) <= place:
                raise UserError(f"the study has {len(objectives)} objective{'s' if len(objectives) != 1 else ''}: name a field with {flag}")
            return objectives[place]
        return by_name.get(name) or Objective(name, field_of(name), NAMED.get(name, ("", False))[1])

    pair = (chosen(x, 0, "--x"), chosen(y, 1, "--y"))
    points = [tuple(objective_value(o, row) for o in pair) for row in kept]
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(6, 4))
    axes.scatter([p[0] for p in points], [p[1] for p in points], s=14, color="#7a869a", label=f"{len(points)} points")
    best = sorted({tuple(objective_value(o, row) for o in pair) for row in front_rows(kept, pair)})
    axes.plot([p[0] for p in best], [p[1] for p in best], marker="o", markersize=4, color="#c0392b", drawstyle="steps-post",
              label=f"front, {len(best)} points")
    for axis, objective, values in ((axes.set_xscale, pair[0], [p[0] for p in points]), (axes.set_yscale, pair[1], [p[1] for p in points])):
        if min(values) > 0 and max(values) / min(values) > 20:
            axis("log")
    axes.set_xlabel(f"{_label(pair[0].name)} ({'more' if pair[0].larger_is_better else 'less'} is better)")
    axes.set_ylabel(f"{_label(pair[1].name)} ({'more' if pair[1].larger_is_better else 'less'} is better)")
    axes.legend()
    _save(pyplot, figure, file)


def heat(rows: Sequence[Row], keys: Tuple[str, str], name: str, file: str) -> None:
    """The best value of a field over two parameters, the rest of the study chosen best for each cell."""
    larger = NAMED.get(name, ("", False))[1]
    cells: Dict[Tuple[Scalar, Scalar], float] = {}
    for row in rows:
        if row.status != OK:
            continue
        found = tuple(value(row, key) for key in keys)
        if None in found:
            raise UserError(f"--heat: found {','.join(keys)}; allowed: two of {', '.join(row.coordinates)}")
        cell: Tuple[Scalar, Scalar] = (found[0], found[1])  # type: ignore[assignment]
        number = _number(row, name)
        cells[cell] = number if cell not in cells else (max if larger else min)(cells[cell], number)
    if not cells:
        raise UserError("no row with a report to draw")

    def ordered(values: Any) -> List[Scalar]:
        return sorted(set(values), key=lambda v: (isinstance(v, str), v))

    across, up = ordered(c[0] for c in cells), ordered(c[1] for c in cells)
    matrix = [[cells.get((a, b), math.nan) for a in across] for b in up]
    pyplot = _pyplot()
    from matplotlib import colors as matplotlib_colors

    figure, axes = pyplot.subplots(figsize=(1.6 + 0.8 * len(across), 1.2 + 0.5 * len(up)))
    axes.grid(False)
    low, high = min(cells.values()), max(cells.values())
    norm = matplotlib_colors.LogNorm(low, high) if low > 0 and high / low > 20 else matplotlib_colors.Normalize(low, high)
    image = axes.imshow(matrix, origin="lower", aspect="auto", cmap="viridis" if larger else "viridis_r", norm=norm)
    axes.set_xticks(range(len(across)), [str(v) for v in across])
    axes.set_yticks(range(len(up)), [str(v) for v in up])
    for j, line in enumerate(matrix):
        for i, number in enumerate(line):
            if not math.isnan(number):
                shade = float(norm(number)) if high > low else 0.0
                axes.text(i, j, f"{number:.3g}", ha="center", va="center", fontsize=7,
                          color="black" if (shade > 0.6) == larger else "white")
    axes.set_xlabel(keys[0])
    axes.set_ylabel(keys[1])
    figure.colorbar(image, label=_label(name))
    _save(pyplot, figure, file)
