# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values of rows by name: parameters, fields of the report by dotted path, and a few that are computed from these."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .errors import UserError
from .expressions import ExpressionError, Scalar, number
from .front import front
from .store import MEASURED, OK, Row
from .study import AXES, Objective, Space

COMPUTED = ("inferences_per_second", "batch_milliseconds", "energy_delay_joule_seconds")


def by_path(document: Any, path: str) -> Any:
    """The value at a dotted path, None if there is none. Entries of lists go by their `name`, or by number."""
    if not path:
        return document
    if isinstance(document, Mapping):
        # Names may have dots in them: the longest one first.
        parts = path.split(".")
        for count in range(len(parts), 0, -1):
            key = ".".join(parts[:count])
            if key in document:
                return by_path(document[key], ".".join(parts[count:]))
    if isinstance(document, list):
        parts = path.split(".")
        for count in range(len(parts), 0, -1):
            key = ".".join(parts[:count])
            for index, entry in enumerate(document):
                if (isinstance(entry, Mapping) and entry.get("name") == key) or key == str(index):
                    return by_path(entry, ".".join(parts[count:]))
    return None


def scalars(document: Mapping[str, Any], prefix: str = "") -> Dict[str, Scalar]:
    """All fields that are no lists, by dotted path."""
    out: Dict[str, Scalar] = {}
    for key, value in document.items():
        if isinstance(value, Mapping):
            out.update(scalars(value, f"{prefix}{key}."))
        elif isinstance(value, (int, float, str, bool)):
            out[prefix + key] = value
    return out


def computed(row: Row) -> Dict[str, float]:
    """What a report does not say itself. A batch runs back to back, each inference on a drained machine, as `run --batch` does: N
    inferences take N times as long as one. Where the study's shape has an N in it, one program takes all N at once."""
    out: Dict[str, float] = {}
    report = row.report or {}
    milliseconds = report.get("total_milliseconds")
    if isinstance(milliseconds, (int, float)) and milliseconds > 0:
        together = bool(row.inputs.get("batch_in_program"))
        out["batch_milliseconds"] = milliseconds if together else milliseconds * row.batch
        out["inferences_per_second"] = 1e3 * row.batch / out["batch_milliseconds"]
        joules = by_path(report, "energy.total_joules")
        if isinstance(joules, (int, float)):
            out["energy_delay_joule_seconds"] = joules * milliseconds / 1e3
    return out


def value(row: Row, name: str) -> Optional[Scalar]:
    """The value of `name` in a row, None if it has none."""
    if name in row.coordinates:
        return row.coordinates[name]  # type: ignore[no-any-return]
    if name in row.overrides:
        return number(row.overrides[name])
    if name in AXES:
        return getattr(row, name)  # type: ignore[no-any-return]
    if name in COMPUTED:
        return computed(row).get(name)
    found = by_path(row.report, name) if row.report is not None else None
    return found if isinstance(found, (int, float, str, bool)) else None


def numeric_fields(row: Row) -> List[str]:
    """Fields an objective may name, lists aside."""
    fields = {**scalars(row.report or {}), **computed(row)}
    return sorted(k for k, v in fields.items() if isinstance(v, (int, float)) and not isinstance(v, bool) and k not in MEASURED)


def missing(objective: Objective, row: Row) -> UserError:
    return UserError(f"objective {objective.name!r}: the report has no number {objective.field!r}; found: "
                     f"{', '.join(numeric_fields(row))}, and fields of lists by name, such as engines.tensor.busy_cycles")


def objective_value(objective: Objective, row: Row, space: Optional[Space] = None) -> float:
    """The value of an objective in a row with a report. Raises UserError if the row has none."""
    if objective.expression:
        values: Dict[str, Scalar] = {"model": row.model, "machine": row.machine, "schedule": row.schedule, "batch": row.batch,
                                     **row.overrides, **row.coordinates}
        if space is None:
            resolve = lambda name: _only_given(values, name)  # noqa: E731
        else:
            resolve = space.resolver(values)
        try:
            found: Optional[Scalar] = objective.expression.evaluate(resolve)
        except ExpressionError as error:
            raise UserError(f"objective {objective.name!r}: {error}") from None
    else:
        found = value(row, objective.field)
    if not isinstance(found, (int, float)) or isinstance(found, bool):
        raise missing(objective, row)
    return float(found)


def _only_given(values: Mapping[str, Scalar], name: str) -> Scalar:
    if name in values:
        return values[name]
    ends = [key for key in values if key.endswith("." + name)]
    if len(ends) != 1:
        raise ExpressionError(f"the file has no value of {name!r}")
    return values[ends[0]]


def vector(objectives: Sequence[Objective], row: Row, space: Optional[Space] = None) -> Tuple[float, ...]:
    """The row's objectives, less is better."""
    return tuple(o.signed(objective_value(o, row, space)) for o in objectives)


def bound_vector(objectives: Sequence[Objective], row: Row, space: Space) -> Optional[Tuple[float, ...]]:
    """The best that a point may reach, from the report of its bound run; none if an objective has no bound."""
    report = row.report or {}
    bound, clock = report.get("lower_bound_cycles"), by_path(report, "machine.clock_mhz")
    if not isinstance(bound, int) or bound <= 0 or not isinstance(clock, (int, float)):
        return None
    milliseconds = bound / (clock * 1e3)
    together = bool(row.inputs.get("batch_in_program"))
    peak = by_path(report, "machine.peak_macs_per_cycle")
    best = {
        "total_cycles": float(bound), "total_milliseconds": milliseconds,
        "batch_milliseconds": milliseconds * (1 if together else row.batch),
        "inferences_per_second": 1e3 * (row.batch if together else 1) / milliseconds,
    }
    if isinstance(peak, (int, float)) and peak > 0 and isinstance(report.get("macs"), int):
        best["utilisation"] = min(1.0, report["macs"] / (peak * bound))
    out = []
    for objective in objectives:
        if objective.expression:
            out.append(objective.signed(objective_value(objective, row, space)))
        elif objective.field in best and has_bound(objective):
            out.append(objective.signed(best[objective.field]))
        else:
            return None
    return tuple(out)


def has_bound(objective: Objective) -> bool:
    """Whether a compile alone bounds the objective from its good side."""
    return objective.expression is not None or \
        (objective.field in ("total_cycles", "total_milliseconds", "batch_milliseconds") and not objective.larger_is_better) or \
        (objective.field in ("inferences_per_second", "utilisation") and objective.larger_is_better)


def front_rows(rows: Sequence[Row], objectives: Sequence[Objective], space: Optional[Space] = None) -> List[Row]:
    """The rows with a report that no other row of the same model and batch dominates."""
    groups: Dict[Tuple[str, int], List[Row]] = {}
    for row in rows:
        if row.status == OK:
            groups.setdefault((str(row.inputs["model"]), row.batch), []).append(row)
    best = []
    for group in groups.values():
        best += [group[i] for i in front([vector(objectives, row, space) for row in group])]
    return sorted(best, key=lambda row: row.number)


def comparable(report: Mapping[str, Any]) -> Dict[str, Any]:
    """A report without what differs from run to run on one machine."""
    return {key: part for key, part in report.items() if key not in MEASURED}
