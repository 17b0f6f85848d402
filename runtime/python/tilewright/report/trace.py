# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The timeline of `tilewright run --trace` as columns: a small part of its size, and ready to be drawn."""
from __future__ import annotations

import json
import pathlib
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, Optional, TextIO, Tuple

from ..sweep.errors import UserError

ALLOWED = "a timeline of `tilewright run --trace`"
CRITICAL = "critical path"
PLANNED = " planned"
# Longer files have more slices than a page should hold: then slices shorter than a bucket become one in each bucket.
WHOLE_BYTES = 60_000_000
BUCKETS = 8192

# Start, duration, numbers of name and layer, and a number: of the word or of the cause, or where a planned one started; -1: none; -n - 1: n
# slices are one.
_Slice = Tuple[int, int, int, int, int]


class _Names:
    """Texts by number."""

    def __init__(self) -> None:
        self.numbers: Dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


class _Lane:
    """Slices of a track that do not overlap. Those shorter than a bucket become one: as long as their sum, named as the longest."""

    def __init__(self, bucket: int) -> None:
        self.bucket = bucket
        self.slices: List[_Slice] = []
        self.number = -1
        self.short: List[_Slice] = []

    def add(self, part: _Slice) -> None:
        if part[1] >= self.bucket:
            self.slices.append(part)
            return
        if part[0] // self.bucket != self.number:
            self.flush()
            self.number = part[0] // self.bucket
        self.short.append(part)

    def flush(self) -> None:
        if len(self.short) > 1:
            start, _, name, layer, _ = max(self.short, key=lambda part: part[1])
            start = min(part[0] for part in self.short)
            self.slices.append((start, sum(part[1] for part in self.short), name, layer, -len(self.short) - 1))
        else:
            self.slices += self.short
        self.short = []

    def columns(self) -> Dict[str, List[int]]:
        """In the order of starts. `gap`: cycles from the end of the slice before, negative where they overlap."""
        self.flush()
        self.slices.sort()
        ends = [0] + [start + duration for start, duration, *_ in self.slices]
        gaps = [part[0] - end for part, end in zip(self.slices, ends)]
        duration, name, layer, detail = ([part[i] for part in self.slices] for i in (1, 2, 3, 4))
        return {"gap": gaps, "duration": duration, "name": name, "layer": layer, "detail": detail}


@dataclass
class _Track:
    name: str
    work: _Lane
    stalls: _Lane

    @property
    def shown(self) -> bool:
        return bool(self.work.slices or self.work.short or self.stalls.slices or not self.name.endswith(" queue"))


@dataclass
class _Reader:
    """Takes events one by one."""

    first: int
    last: int
    bucket: int
    machine: str = "machine"
    names: _Names = field(default_factory=_Names)
    layers: _Names = field(default_factory=_Names)
    causes: _Names = field(default_factory=_Names)
    tracks: Dict[int, _Track] = field(default_factory=dict)
    counters: Dict[str, List[Tuple[int, float]]] = field(default_factory=dict)
    begun: Dict[int, Tuple[int, int, str]] = field(default_factory=dict)
    arrows: List[Tuple[int, int, int, int, int]] = field(default_factory=list)

    def add(self, event: Mapping[str, Any]) -> None:
        form = event["ph"]
        if form == "X":
            self._slice(event)
        elif form == "C":
            if event["name"].startswith("dram") and self.first <= event["ts"] <= self.last:
                self.counters.setdefault(event["name"], []).append((event["ts"], next(iter(event["args"].values()))))
        elif form == "s":
            self.begun[event["id"]] = (event["tid"], event["ts"], event["name"])
        elif form == "f":
            track, at, name = self.begun.pop(event["id"])
            if self.bucket == 1 and event["ts"] >= self.first and at <= self.last:
                self.arrows.append((at, track, event["ts"], event["tid"], self.names(name)))
        elif form == "M" and event["name"] == "thread_name":
            # The critical path is short, and its steps are layers.
            bucket = 1 if event["args"]["name"] == CRITICAL else self.bucket
            self.tracks[event["tid"]] = _Track(event["args"]["name"], _Lane(bucket), _Lane(bucket))
        elif form == "M" and event["name"] == "process_name":
            self.machine = event["args"]["name"].split(" (")[0]

    def _slice(self, event: Mapping[str, Any]) -> None:
        start, duration, arguments = event["ts"], event["dur"], event["args"]
        if start > self.last or start + duration < self.first:
            return
        track = self.tracks[event["tid"]]
        if track.name == CRITICAL:
            steps = track.work.slices
            layer = self.layers(event["name"])
            if steps and steps[-1][3] == layer and steps[-1][0] + steps[-1][1] == start:
                steps[-1] = (steps[-1][0], steps[-1][1] + duration, *steps[-1][2:])
            else:
                steps.append((start, duration, self.names("critical"), layer, -1))
        elif arguments.get("cause"):
            track.stalls.add((start, duration, self.names(event["name"]), self.layers(arguments["layer"]), self.causes(arguments["cause"])))
        else:
            track.work.add((start, duration, self.names(event["name"]), self.layers(arguments["layer"]), arguments.get("word", arguments.get("simulated", -1))))

    def entry(self, file: str, total: int) -> Dict[str, Any]:
        planned = {track.name[:-len(PLANNED)]: track.work for track in self.tracks.values() if track.name.endswith(PLANNED)}
        order = [key for key in sorted(self.tracks) if self.tracks[key].shown and not self.tracks[key].name.endswith(PLANNED)]
        place = {key: number for number, key in enumerate(order)}
        self.arrows.sort()
        starts = [0] + [arrow[0] for arrow in self.arrows]
        return {
            "file": pathlib.PurePath(file).name, "machine": self.machine, "total_cycles": total, "first": self.first,
            "last": self.last, "bucket": self.bucket,
            "names": list(self.names.numbers), "layers": list(self.layers.numbers), "causes": list(self.causes.numbers),
            "tracks": [{"name": self.tracks[key].name, "work": self.tracks[key].work.columns(),
                        "stalls": self.tracks[key].stalls.columns(),
                        **({"planned": planned[self.tracks[key].name].columns()} if self.tracks[key].name in planned else {})}
                       for key in order],
            "arrows": {"gap": [a[0] - before for a, before in zip(self.arrows, starts)], "from": [place[a[1]] for a in self.arrows],
                       "duration": [a[2] - a[0] for a in self.arrows], "to": [place[a[3]] for a in self.arrows],
                       "name": [a[4] for a in self.arrows]},
            "counters": [{"name": name, "at": [at for at, _ in points], "value": [v for _, v in points]}
                         for name, points in self.counters.items()],
        }


def _events(stream: TextIO, file: str) -> Iterator[Tuple[int, Any]]:
    """Pairs of line and event. The file has one event in a line, as `--trace` writes it."""
    for number, line in enumerate(stream, 2):
        text = line.strip().rstrip(",")
        if text == "]}":
            return
        if text.startswith('{"ph":"C"') and '"name":"queue of ' in text:
            continue
        try:
            yield number, json.loads(text)
        except json.JSONDecodeError as error:
            raise UserError(f"{file}:{number}:{error.colno}: broken JSON: {error.msg}") from None
    raise UserError(f"{file}: broken JSON: the file ends before its list of events does")


def read_trace(file: str, window: Optional[Tuple[int, int]] = None) -> Dict[str, Any]:
    """The entry of a page; `window`: only these cycles. Slices with a cause are stalls and lie over the instructions. Raises UserError."""
    try:
        with open(file, encoding="utf-8") as stream:
            return _read(stream, file, window)
    except UnicodeDecodeError:
        raise UserError(f"{file}: found bytes that are not UTF-8; allowed: {ALLOWED}") from None


def _read(stream: TextIO, file: str, window: Optional[Tuple[int, int]]) -> Dict[str, Any]:
    try:
        head = json.loads(stream.readline().rstrip() + "]}")
    except json.JSONDecodeError as error:
        raise UserError(f"{file}:1:{error.colno}: broken JSON: {error.msg}; allowed: {ALLOWED}") from None
    other = head.get("otherData")
    total = other.get("total_cycles") if isinstance(other, dict) else None
    if not isinstance(total, int) or total < 1:
        raise UserError(f"{file}:1: found no total_cycles; allowed: {ALLOWED}")
    first, last = window or (0, total)
    first, last = max(0, first), min(total, last)
    if first >= last:
        raise UserError(f"{file}: found cycles {first} to {last}; allowed: a range within 0 to {total}")
    size = pathlib.Path(file).stat().st_size * (last - first) / total
    reader = _Reader(first, last, max(1, (last - first) // BUCKETS) if size > WHOLE_BYTES else 1)
    number = 1
    try:
        for number, event in _events(stream, file):
            reader.add(event)
    except (KeyError, TypeError, AttributeError, StopIteration) as error:
        raise UserError(f"{file}:{number}: found an event without {error}; allowed: {ALLOWED}") from None
    return reader.entry(file, total)
