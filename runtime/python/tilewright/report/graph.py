# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the layers of a network stand in its picture: levels of longest paths, ordered to cross few edges."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from ..sweep.errors import UserError

CHAIN_COLUMNS = 6
SWEEPS = 8


def layout(names: Sequence[str], edges: Optional[Sequence[Any]], file: str) -> Dict[str, Any]:
    """Column and row of every layer, and the edges as pairs of numbers. Without edges, the layers are a chain in the order of the
    program, folded into rows that run to and fro. Raises UserError: an edge names no layer, or leads back."""
    if edges is None:
        where = [(i % CHAIN_COLUMNS if (i // CHAIN_COLUMNS) % 2 == 0 else CHAIN_COLUMNS - 1 - i % CHAIN_COLUMNS, i // CHAIN_COLUMNS)
                 for i in range(len(names))]
        return {"chain": True, "places": where, "edges": [[i, i + 1] for i in range(len(names) - 1)]}
    number = {name: i for i, name in enumerate(names)}
    pairs: List[List[int]] = []
    for index, edge in enumerate(edges):
        ends = [edge.get("from"), edge.get("to")] if isinstance(edge, dict) else edge
        if not isinstance(ends, list) or len(ends) != 2 or any(not isinstance(end, str) or end not in number for end in ends):
            raise UserError(f"{file}: edges[{index}]: found {ends!r}; allowed: names of two layers")
        pairs.append([number[ends[0]], number[ends[1]]])
    return {"chain": False, "places": _places(_levels(len(names), pairs, file), pairs), "edges": pairs}


def _levels(count: int, pairs: Sequence[Sequence[int]], file: str) -> List[int]:
    levels = [0] * count
    for _ in range(count + 1):
        changed = False
        for source, sink in pairs:
            if levels[sink] <= levels[source]:
                levels[sink] = levels[source] + 1
                changed = True
        if not changed:
            return levels
    raise UserError(f"{file}: edges: found a cycle; allowed: edges that lead forward")


def _places(levels: Sequence[int], pairs: Sequence[Sequence[int]]) -> List[List[float]]:
    rows: Dict[int, List[int]] = {}
    for node, level in enumerate(levels):
        rows.setdefault(level, []).append(node)
    column = [0.0] * len(levels)

    def spread(row: Sequence[int]) -> None:
        for index, node in enumerate(row):
            column[node] = index - (len(row) - 1) / 2

    for row in rows.values():
        spread(row)
    neighbours: Dict[int, List[int]] = {}
    for source, sink in pairs:
        neighbours.setdefault(source, []).append(sink)
        neighbours.setdefault(sink, []).append(source)
    for sweep in range(SWEEPS):
        for level in sorted(rows, reverse=sweep % 2 == 1):
            row = rows[level]
            middle = {n: sum(column[m] for m in neighbours.get(n, [n])) / len(neighbours.get(n, [n])) for n in row}
            row.sort(key=lambda n: (middle[n], n))
            spread(row)
    left = min(column, default=0.0)
    return [[column[node] - left, level] for node, level in enumerate(levels)]
