# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The timeline of `tilewright run --trace` as columns: a tenth of its size, and ready to be drawn."""
from __future__ import annotations

import pathlib
from typing import Any, Dict, List, Mapping, Tuple

from ..sweep.errors import UserError

_Slice = Tuple[int, int, int, int, int]


class _Names:
    """Texts by number."""

    def __init__(self) -> None:
        self.numbers: Dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def _columns(slices: List[_Slice]) -> Dict[str, List[int]]:
    """Slices in the order of their starts. `gap`: cycles from the end of the slice before, negative where they overlap."""
    slices.sort()
    ends = [0] + [start + duration for start, duration, *_ in slices]
    return {"gap": [part[0] - end for part, end in zip(slices, ends)], "duration": [part[1] for part in slices],
            "name": [part[2] for part in slices], "layer": [part[3] for part in slices], "detail": [part[4] for part in slices]}


def _track_names(events: List[Any]) -> Dict[int, str]:
    return {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M" and event["name"] == "thread_name"}


def compact(document: Mapping[str, Any], file: str) -> Dict[str, Any]:
    """The entry of a page. Slices with a cause are stalls and lie over the instructions. Raises UserError."""
    events = document["traceEvents"]
    other = document.get("otherData")
    total = other.get("total_cycles") if isinstance(other, dict) else None
    if not isinstance(events, list) or not isinstance(total, int):
        raise UserError(f"{file}: found no total_cycles; allowed: a timeline of `tilewright run --trace`")
    index = 0
    try:
        machine = next((e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"), "machine")
        tracks = _track_names(events)
        names, layers, causes = _Names(), _Names(), _Names()
        work: Dict[int, List[_Slice]] = {track: [] for track in tracks}
        stalls: Dict[int, List[_Slice]] = {track: [] for track in tracks}
        counters: Dict[str, List[Tuple[int, float]]] = {}
        begun: Dict[int, Tuple[int, int, str]] = {}
        arrows: List[Tuple[int, int, int, int, int]] = []
        for index, event in enumerate(events):
            form = event["ph"]
            if form == "X":
                arguments = event["args"]
                if tracks[event["tid"]] == "critical path":
                    work[event["tid"]].append((event["ts"], event["dur"], names("critical"), layers(event["name"]), 0))
                elif arguments.get("cause"):
                    stalls[event["tid"]].append(
                        (event["ts"], event["dur"], names(event["name"]), layers(arguments["layer"]), causes(arguments["cause"])))
                else:
                    work[event["tid"]].append(
                        (event["ts"], event["dur"], names(event["name"]), layers(arguments["layer"]), arguments.get("word", -1)))
            elif form == "C":
                counters.setdefault(event["name"], []).append((event["ts"], next(iter(event["args"].values()))))
            elif form == "s":
                begun[event["id"]] = (event["tid"], event["ts"], event["name"])
            elif form == "f":
                track, at, name = begun.pop(event["id"])
                arrows.append((at, track, event["ts"], event["tid"], names(name)))
    except (KeyError, TypeError, StopIteration) as error:
        raise UserError(f"{file}: traceEvents[{index}]: found an event without {error}; "
                        "allowed: a timeline of `tilewright run --trace`") from None
    order = [t for t in sorted(tracks) if work[t] or stalls[t] or not tracks[t].endswith(" queue")]
    place = {track: number for number, track in enumerate(order)}
    arrows.sort()
    return {
        "file": pathlib.PurePath(file).name, "machine": machine.split(" (")[0], "total_cycles": total,
        "names": list(names.numbers), "layers": list(layers.numbers), "causes": list(causes.numbers),
        "tracks": [{"name": tracks[t], "work": _columns(work[t]), "stalls": _columns(stalls[t])} for t in order],
        "arrows": _arrow_columns(arrows, place),
        "counters": [{"name": name, "at": [at for at, _ in points], "value": [v for _, v in points]} for name, points in counters.items()
                     if name.startswith("dram")],
    }


def _arrow_columns(arrows: List[Tuple[int, int, int, int, int]], place: Mapping[int, int]) -> Dict[str, List[int]]:
    gaps, before = [], 0
    for at, *_ in arrows:
        gaps.append(at - before)
        before = at
    return {"gap": gaps, "from": [place[a[1]] for a in arrows], "duration": [a[2] - a[0] for a in arrows],
            "to": [place[a[3]] for a in arrows], "name": [a[4] for a in arrows]}
