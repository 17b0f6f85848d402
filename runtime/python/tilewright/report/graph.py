# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the layers of a network stand in its picture: levels of longest paths, folded into strips side by side; long edges have places of
their own between the layers that they pass."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Set, Tuple

from ..sweep.errors import UserError

# Pixels.
WIDTH, HEIGHT = 136, 38
GAP_X, GAP_Y = 16, 20
WIRE = 12
MARGIN = 14
GUTTER = 24
PAGE = 1120
STRIP_LEVELS = 8
SWEEPS = 12

Edge = Tuple[int, int]


def graph_of(document: Mapping[str, Any], file: str) -> Dict[str, Any]:
    """The graph of a run: its layers or groups, and the kernels of other targets. Documents that do not say what layers read have a chain
    in the order of the program. Raises UserError: a layer reads what there is not, or what comes behind it."""
    rows = document.get("layers") or []
    target = {str(entry.get("node")): str(entry.get("target")) for entry in _list(document, "offload") if isinstance(entry, dict)}
    first = str(next(iter(_list(document, "targets")), "accelerator"))
    nodes: List[Dict[str, Any]] = []
    reads: List[List[Any]] = []
    node_of: Dict[Any, int] = {}
    knows = any(isinstance(row.get("reads"), list) for row in rows)
    for index, row in enumerate(rows):
        numbers = [part.get("number") for part in _list(row, "members") or [row] if isinstance(part, dict)]
        if knows and numbers == [None]:
            continue  # what belongs to no layer
        node_of.update({number: len(nodes) for number in numbers if isinstance(number, int)})
        on = next((target[str(name)] for name in _list(row, "nodes") if target.get(str(name), "folded") != "folded"), first)
        nodes.append({"name": row["name"], "layer": index, "target": on})
        reads.append(_numbers(row, f"{file}: layers[{index}]"))
    fallback = document.get("fallback")
    for index, call in enumerate(_list(fallback, "calls") if isinstance(fallback, dict) and knows else []):
        where = f"{file}: fallback.calls[{index}]"
        if not isinstance(call, dict) or not isinstance(call.get("name"), str) or not isinstance(call.get("number"), int):
            raise UserError(f"{where}: found no name or number")
        node_of[call["number"]] = len(nodes)
        nodes.append({"name": call["name"], "layer": None, "target": str(call.get("target"))})
        reads.append(_numbers(call, where))
    edges = [(i, i + 1) for i in range(len(nodes) - 1)]
    if knows:
        for sink, numbers in enumerate(reads):
            for number in numbers:
                if number not in node_of:
                    raise UserError(f"{file}: layer {nodes[sink]['name']!r} reads {number}; allowed: numbers of layers and kernels")
        edges = sorted({(node_of[number], sink) for sink, numbers in enumerate(reads) for number in numbers})
    return {"chain": not knows, **layout(nodes, edges, file)}


def _list(entry: Mapping[str, Any], key: str) -> List[Any]:
    value = entry.get(key)
    return value if isinstance(value, list) else []


def _numbers(entry: Mapping[str, Any], where: str) -> List[int]:
    numbers = entry.get("reads")
    if numbers is None:
        return []
    if not isinstance(numbers, list) or any(not isinstance(number, int) for number in numbers):
        raise UserError(f"{where}: reads: found no list of numbers")
    return numbers


def layout(nodes: Sequence[Mapping[str, Any]], edges: Sequence[Edge], file: str) -> Dict[str, Any]:
    """The nodes with their left upper corners, and the edges as SVG paths from the lower side of one to the upper side of the other."""
    level = _levels(len(nodes), edges, file)
    places = _Places(level, edges)
    places.arrange()
    return places.drawn(nodes, edges)


def _levels(count: int, edges: Sequence[Edge], file: str) -> List[int]:
    followers: List[List[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for source, sink in edges:
        followers[source].append(sink)
        missing[sink] += 1
    level = [0] * count
    ready = [node for node in range(count) if not missing[node]]
    for node in ready:
        for sink in followers[node]:
            level[sink] = max(level[sink], level[node] + 1)
            missing[sink] -= 1
            if not missing[sink]:
                ready.append(sink)
    if len(ready) < count:
        raise UserError(f"{file}: layers read each other in a cycle; allowed: edges that lead forward")
    return level


class _Places:
    """Nodes, and behind them the wires: where a long edge passes a level. Edges from one node share wires."""

    def __init__(self, level: Sequence[int], edges: Sequence[Edge]) -> None:
        self.count = len(level)
        self.level = list(level)
        self.wires: Dict[Tuple[int, int], int] = {}
        self.links: Set[Edge] = set()
        for source, sink in edges:
            self.links.update(zip([source, *self._wires(source, sink, make=True)], [*self._wires(source, sink), sink]))
        self.rows: List[List[int]] = [[] for _ in range(max(self.level, default=-1) + 1)]
        for place, row in enumerate(self.level):
            self.rows[row].append(place)
        self.above: List[List[int]] = [[] for _ in self.level]
        self.below: List[List[int]] = [[] for _ in self.level]
        for upper, lower in sorted(self.links):
            self.below[upper].append(lower)
            self.above[lower].append(upper)
        self.x = [0.0] * len(self.level)

    def _wires(self, source: int, sink: int, make: bool = False) -> List[int]:
        found = []
        for row in range(self.level[source] + 1, self.level[sink]):
            if make and (source, row) not in self.wires:
                self.wires[source, row] = len(self.level)
                self.level.append(row)
            found.append(self.wires[source, row])
        return found

    def _width(self, place: int) -> float:
        return WIDTH if place < self.count else WIRE

    def arrange(self) -> None:
        """Sets x, the middles: orders each level by its neighbours, then moves everything as near to them as its level allows."""
        for row in self.rows:
            self._put(row, [0.0] * len(row))
        for sweep in range(SWEEPS):
            neighbours, rows = (self.above, self.rows) if sweep % 2 == 0 else (self.below, self.rows[::-1])
            for row in rows:
                wanted = {place: self._middle(neighbours[place], self.x[place]) for place in row}
                if sweep < SWEEPS - 4:
                    # Wires leave to the right of the layers that they pass.
                    row.sort(key=lambda place: (wanted[place], place >= self.count, place))
                self._put(row, [wanted[place] for place in row])

    def _middle(self, neighbours: Sequence[int], own: float) -> float:
        # Wires give way, so that chains of layers stay straight.
        near = [place for place in neighbours if place < self.count] or neighbours
        return sum(self.x[place] for place in near) / len(near) if near else own

    def _put(self, row: Sequence[int], wanted: Sequence[float]) -> None:
        """In this order, without overlaps, and least squares of the distances from what is wanted."""
        offsets = [0.0]
        for left, right in zip(row, row[1:]):
            offsets.append(offsets[-1] + (self._width(left) + self._width(right)) / 2 + GAP_X)
        blocks: List[List[float]] = []  # sum of weights and of weighted places, and count
        for place, want, offset in zip(row, wanted, offsets):
            weight = 1e4 if place < self.count else 1.0
            blocks.append([weight, weight * (want - offset), 1])
            while len(blocks) > 1 and blocks[-2][1] / blocks[-2][0] > blocks[-1][1] / blocks[-1][0]:
                last = blocks.pop()
                blocks[-1] = [a + b for a, b in zip(blocks[-1], last)]
        places = [block[1] / block[0] for block in blocks for _ in range(int(block[2]))]
        for place, base, offset in zip(row, places, offsets):
            self.x[place] = base + offset

    def _span(self, rows: Sequence[Sequence[int]]) -> Tuple[float, float]:
        return (min(self.x[place] - self._width(place) / 2 for row in rows for place in row),
                max(self.x[place] + self._width(place) / 2 for row in rows for place in row))

    def _strips(self) -> List[Tuple[int, int]]:
        """Levels [first, last) of each strip: as many strips as the page is wide."""
        for count in range(max(1, min(len(self.rows) // STRIP_LEVELS, PAGE // WIDTH)), 1, -1):
            strips = self._cut(count)
            spans = [self._span(self.rows[first:last]) for first, last in strips]
            if sum(end - begin + 2 * GUTTER for begin, end in spans) <= PAGE:
                return strips
        return [(0, len(self.rows))]

    def _cut(self, count: int) -> List[Tuple[int, int]]:
        """So many strips of about the same number of levels, cut where few edges cross."""
        levels = len(self.rows)
        crossing = [0] * (levels + 1)
        for upper, _ in self.links:
            crossing[self.level[upper] + 1] += 1
        cuts, slack = [0], max(0, levels // count // 4)
        for strip in range(1, count):
            at = round(strip * levels / count)
            cuts.append(min(range(max(cuts[-1] + 1, at - slack), min(levels, at + slack + 1)), key=lambda cut: (crossing[cut], abs(cut - at))))
        return list(zip(cuts, cuts[1:] + [levels]))

    def drawn(self, nodes: Sequence[Mapping[str, Any]], edges: Sequence[Edge]) -> Dict[str, Any]:
        strips = self._strips() if self.rows else []
        left, depth = float(MARGIN), 0
        strip_of: Dict[int, int] = {}
        gutters: List[float] = []
        tops: List[float] = [0.0] * len(self.level)
        turns = GUTTER if len(strips) > 1 else MARGIN
        for number, (first, last) in enumerate(strips):
            inside = [place for row in self.rows[first:last] for place in row]
            begin, end = self._span(self.rows[first:last])
            for place in inside:
                self.x[place] += left - begin
                tops[place] = turns + (self.level[place] - first) * (HEIGHT + GAP_Y)
                strip_of[place] = number
            left += end - begin + 2 * GUTTER
            gutters.append(left - 2 * GUTTER + GUTTER / 2)
            depth = max(depth, last - first)
        bottom = turns + depth * (HEIGHT + GAP_Y) - GAP_Y
        used: Dict[Tuple[int, int], int] = {}

        def step(upper: int, lower: int) -> str:
            x, right, y = self.x[upper], self.x[lower], tops[lower]
            if strip_of[upper] == strip_of[lower]:
                middle = y - GAP_Y / 2
                return f"V{y:.0f}" if abs(x - right) < 0.5 else f"C{x:.0f} {middle + 6:.0f} {right:.0f} {middle - 6:.0f} {right:.0f} {y:.0f}"
            # Down, between the strips, and to the top of the next one.
            strip = strip_of[upper]
            track = used.setdefault((strip, upper), sum(key[0] == strip for key in used)) % 4
            return f"V{bottom + 8 + 5 * track:.0f}H{gutters[strip] + 5 * track:.0f}V{turns - 12 - 4 * track:.0f}H{right:.0f}V{y:.0f}"

        paths = []
        for source, sink in edges:
            way = [source, *self._wires(source, sink), sink]
            path = f"M{self.x[source]:.0f} {tops[source] + HEIGHT:.0f}"
            for upper, lower in zip(way, way[1:]):
                path += step(upper, lower) + (f"V{tops[lower] + HEIGHT:.0f}" if lower >= self.count else "")
            paths.append({"from": source, "to": sink, "path": path})
        return {
            "width": round(left - 2 * GUTTER + MARGIN), "height": round(bottom + turns), "node_width": WIDTH, "node_height": HEIGHT,
            "nodes": [{**node, "x": round(self.x[i] - WIDTH / 2), "y": round(tops[i])} for i, node in enumerate(nodes)], "edges": paths,
        }
