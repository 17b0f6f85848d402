# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A study: which models run on which machines, and what is wanted of them. docs/sweep.md describes the file."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from . import machines
from .errors import StudyError, sentence
from .expressions import ALLOWED, Expression, ExpressionError, Scalar

# Axes that are no keys of the machine.
AXES = ("model", "machine", "schedule", "batch")
# Objectives with a name: what they read of a row, and whether more is better.
NAMED: Dict[str, Tuple[str, bool]] = {
    "latency": ("total_milliseconds", False), "cycles": ("total_cycles", False), "energy": ("energy.total_joules", False),
    "area": ("area.total_mm2", False), "edp": ("energy_delay_joule_seconds", False), "utilisation": ("utilisation", True),
    "throughput": ("inferences_per_second", True),
}
_INLINE = re.compile(r"(gemm|conv):")


def is_machine_key(name: str) -> bool:
    """Keys of machines have a block in front of them, but for two; other names are variables of the study."""
    return "." in name or name in ("clock_mhz", "technology")


def is_inline(model: str) -> bool:
    return bool(_INLINE.match(model))


def override_text(value: Scalar) -> str:
    """`value` as --set takes it: floats as exact ratios."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        ratio = Fraction(repr(value))
        return str(ratio.numerator) if ratio.denominator == 1 else f"{ratio.numerator}/{ratio.denominator}"
    return str(value)


def _has_batch(shape: str) -> bool:
    return "N" in shape.partition("=")[2].split(",")


def _with_batch(shape: str, batch: int) -> str:
    name, equals, dims = shape.partition("=")
    return name + equals + ",".join(str(batch) if dim == "N" else dim for dim in dims.split(","))


@dataclass(frozen=True)
class Axis:
    """One dimension of a study. Numeric axes are ordered for samplers."""

    name: str
    values: Tuple[Scalar, ...]
    place: str = ""

    @property
    def ordered(self) -> bool:
        return len(self.values) > 1 and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in self.values)


@dataclass(frozen=True)
class Objective:
    """What a study wants less or more of: a field of the row, or an expression over its parameters."""

    name: str
    field: str
    larger_is_better: bool
    expression: Optional[Expression] = None

    @property
    def text(self) -> str:
        return f"{'maximise' if self.larger_is_better else 'minimise'} {self.name}"

    def signed(self, value: float) -> float:
        """`value` so that less is better."""
        return -value if self.larger_is_better else value


@dataclass(frozen=True)
class Sampler:
    name: str = "grid"
    points: Optional[int] = None
    seed: int = 1
    population: Optional[int] = None
    batch: int = 8


@dataclass(frozen=True)
class Point:
    """One row to be: a model on a machine with overrides."""

    coordinates: Tuple[Tuple[str, Scalar], ...]
    model: str
    machine: str
    schedule: str
    batch: int
    overrides: Tuple[Tuple[str, str], ...]

    @property
    def sets(self) -> List[str]:
        return [f"{key}={value}" for key, value in self.overrides]

    @property
    def text(self) -> str:
        return " ".join([self.model, "--hw", self.machine, *[f"--set {s}" for s in self.sets], "--schedule", self.schedule])


@dataclass(frozen=True)
class Study:
    name: str
    axes: Tuple[Axis, ...]
    derived: Tuple[Tuple[str, Expression, str], ...] = ()
    constraints: Tuple[Tuple[Expression, str], ...] = ()
    objectives: Tuple[Objective, ...] = ()
    sampler: Sampler = Sampler()
    options: Tuple[Tuple[str, str], ...] = ()
    timeout_seconds: float = 600
    prune: bool = False
    fixed_program: bool = False
    binary: str = field(default="tilewright", compare=False)

    def axis(self, name: str) -> Axis:
        return next(axis for axis in self.axes if axis.name == name)

    @property
    def size(self) -> int:
        """Points of the grid, constraints aside."""
        return math.prod(len(axis.values) for axis in self.axes)

    def document(self) -> Dict[str, Any]:
        """The study as JSON: what its rows depend on, and its objectives."""
        return {
            "name": self.name,
            "axes": [[axis.name, list(axis.values)] for axis in self.axes],
            "derived": [[key, expression.text] for key, expression, _ in self.derived],
            "constraints": [expression.text for expression, _ in self.constraints],
            "objectives": [{"name": o.name, "field": o.field, "larger_is_better": o.larger_is_better,
                            "expression": o.expression.text if o.expression else None} for o in self.objectives],
            "sampler": vars(self.sampler), "options": [list(option) for option in self.options],
            "prune": self.prune, "fixed_program": self.fixed_program,
        }

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.document(), sort_keys=True).encode()).hexdigest()

    @property
    def batch_in_program(self) -> bool:
        """Whether a shape has an N in it: then one program takes the whole batch. Otherwise inferences run one after the other."""
        return any(name == "shape" and _has_batch(value) for name, value in self.options)

    def command_options(self, batch: int) -> List[str]:
        """Options of `tilewright run` for a batch of that many."""
        return [part for name, value in self.options
                for part in (f"--{name.replace('_', '-')}", _with_batch(value, batch) if name == "shape" else value)]


def objectives_of(document: Mapping[str, Any]) -> List[Objective]:
    """The objectives of a study's document()."""
    return [Objective(o["name"], o["field"], o["larger_is_better"], Expression(o["expression"]) if o["expression"] else None)
            for o in document["objectives"]]


class Space:
    """The points of a study: coordinates to points, constraints applied."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._machines: Dict[str, machines.Parameters] = {}

    def base(self, machine: str, device: Optional[str] = None) -> machines.Parameters:
        """Values of the machine that the study does not set; the device's come along."""
        key = f"{machine}\n{device}"
        if key not in self._machines:
            stated = machines.parameters(machine, self.study.binary, {"dram.device": device} if device else None)
            self._machines[key] = machines.with_defaults(stated)
        return self._machines[key]

    def coordinates(self, indices: Sequence[int]) -> Dict[str, Scalar]:
        return {axis.name: axis.values[i] for axis, i in zip(self.study.axes, indices)}

    def indices(self, number: int) -> List[int]:
        """The indices of the point with a number of the grid; the last axis is the fastest."""
        out = []
        for axis in reversed(self.study.axes):
            number, index = divmod(number, len(axis.values))
            out.append(index)
        return out[::-1]

    def resolver(self, values: Mapping[str, Scalar]) -> "Resolver":
        device = values.get("dram.device")
        return Resolver(values, self.base(str(values["machine"]), None if device is None else str(device)))

    def point(self, coordinates: Mapping[str, Scalar]) -> Optional[Point]:
        """The point at `coordinates`, or none if a constraint excludes it. Raises StudyError where an expression has no value."""
        values: Dict[str, Scalar] = dict(coordinates)
        for key, expression, place in self.study.derived:
            values[key] = self._evaluate(expression, values, place, f"derived.{key}")
        for expression, place in self.study.constraints:
            if not self._evaluate(expression, values, place, "constraints"):
                return None
        overrides = tuple(sorted((k, override_text(v)) for k, v in values.items() if is_machine_key(k)))
        return Point(tuple(coordinates.items()), str(values["model"]), str(values["machine"]), str(values["schedule"]),
                     int(values["batch"]), overrides)

    def _evaluate(self, expression: Expression, values: Mapping[str, Scalar], place: str, key: str) -> Scalar:
        try:
            return expression.evaluate(self.resolver(values))
        except ExpressionError as error:
            raise StudyError(place, key, sentence(str(error)), ALLOWED) from None

    def all_points(self) -> Iterator[Point]:
        """Every point of the grid that the constraints allow, in order, each machine once."""
        seen = set()
        for number in range(self.study.size):
            point = self.point(self.coordinates(self.indices(number)))
            if point:
                key = (point.model, point.machine, point.schedule, point.batch, point.overrides)
                if key not in seen:
                    seen.add(key)
                    yield point


class Resolver:
    """Names of expressions: coordinates and derived values first, then values of the machine; by full name, or by the last part
    where only one key ends so."""

    def __init__(self, values: Mapping[str, Scalar], base: Mapping[str, Scalar]) -> None:
        self._values, self._base = values, base

    def __call__(self, name: str) -> Scalar:
        for scope in (self._values, self._base):
            if name in scope:
                return scope[name]
        for scope in (self._values, self._base):
            ends = [key for key in scope if key.endswith("." + name)]
            if len(ends) == 1:
                return scope[ends[0]]
            if ends:
                raise ExpressionError(f"the name {name!r} may be " + " or ".join(ends))
        raise ExpressionError(f"unknown name {name!r}; names of this point: {', '.join(sorted(self._values))}, "
                              "and the keys of the machine")
