# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a run comes to."""
from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class EngineReport:
    """One engine of the accelerator, over the whole run."""

    name: str
    instructions: int
    busy_cycles: int
    idle_cycles: int
    stalls: dict[str, int]
    """Cycles of waiting by cause: operand, interlock, bank_conflict, dram_bandwidth, dram_latency, buffer_full, starved."""


@dataclass(frozen=True)
class LayerReport:
    """A layer, or a fusion group with its layers as members."""

    name: str
    cycles: int
    """From the first start to the last retirement; layers overlap."""
    critical_cycles: int
    """Cycles of the network's critical path in this layer: they add up to the network's."""
    macs: int
    utilisation: float
    bound_cycles: int
    bound_by: str
    dram_bytes: int
    tile: str | None
    members: tuple[LayerReport, ...]


def _layer(entry: Mapping[str, Any]) -> LayerReport:
    return LayerReport(entry["name"], entry["cycles"], entry["critical_cycles"], entry["macs"], entry["utilisation"],
                       entry["bound_cycles"], entry["bound_by"], entry["dram_bytes"], entry["tile"],
                       tuple(_layer(member) for member in entry["members"]))


class Report(Mapping[str, Any]):
    """The document of `tilewright run --json` (docs/profile.md explains every key): a mapping, with the main figures as attributes."""

    def __init__(self, text: str) -> None:
        self.json = text
        """The document as text."""
        self._document: dict[str, Any] = json.loads(text)

    def __getitem__(self, key: str) -> Any:
        return self._document[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    def to_dict(self) -> dict[str, Any]:
        """A copy of the document."""
        return dict(json.loads(self.json))

    @property
    def total_cycles(self) -> int:
        """Accelerator cycles of all programs.

        Raises KeyError: the functional model counts none.
        """
        return int(self._document["total_cycles"])

    @property
    def total_milliseconds(self) -> float:
        """total_cycles at the machine's clock."""
        return float(self._document["total_milliseconds"])

    @property
    def utilisation(self) -> float:
        """Useful MACs / (peak MACs per cycle x cycles), 0 to 1."""
        return float(self._document["utilisation"])

    @property
    def lower_bound_cycles(self) -> int | None:
        """Cycles that no schedule can beat (docs/bounds.md)."""
        bound = self._document["lower_bound_cycles"]
        return None if bound is None else int(bound)

    @property
    def dram_bytes(self) -> int:
        """Bytes of data between DRAM and chip, both ways, without program fetch."""
        return int(self._document["dram_read_bytes"]) + int(self._document["dram_write_bytes"])

    @property
    def engines(self) -> list[EngineReport]:
        """The engines of the machine."""
        return [EngineReport(entry["name"], entry["instructions"], entry["busy_cycles"], entry["idle_cycles"],
                             {key.removesuffix("_cycles"): cycles for key, cycles in entry["stalls"].items()})
                for entry in self._document["engines"]]

    @property
    def layers(self) -> list[LayerReport]:
        """Layers and fusion groups in the order of the program."""
        return [_layer(entry) for entry in self._document["layers"]]

    def to_pandas(self) -> pandas.DataFrame:
        """A frame with a row for each layer or fusion group, and a column for each scalar of the document. Needs pandas."""
        import pandas
        return pandas.DataFrame([{key: value for key, value in entry.items() if not isinstance(value, (dict, list))}
                                 for entry in self._document["layers"]])

    def __repr__(self) -> str:
        return f"<Report of {self._document['model']} on {self._document['machine']['name']}: {self._document.get('total_cycles', 'no')} cycles>"
