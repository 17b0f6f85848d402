# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows as tables: text for people, CSV, JSON and Parquet for programs."""

from __future__ import annotations

import csv
import io
import json
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .errors import UserError
from .expressions import Scalar
from .results import computed, objective_value, scalars, value
from .store import Row
from .study import AXES, Objective

FORMATS = ("csv", "json", "parquet")
_FIRST = ("digest", "status", "message", "program")


def flat(row: Row) -> Dict[str, Scalar]:
    """A row as one level of names: coordinates, overrides as set.KEY, then the fields of the report that are no lists."""
    out: Dict[str, Scalar] = {"digest": row.digest, "status": row.status, "message": row.message, "program": row.program}
    out.update({axis: getattr(row, axis) for axis in AXES})
    out.update({key: part for key, part in row.coordinates.items() if key not in AXES})
    out.update({f"set.{key}": part for key, part in row.overrides.items()})
    if row.wall_seconds is not None:
        out["wall_seconds"] = row.wall_seconds
    if row.lower_bound_cycles is not None:
        out["bound.lower_bound_cycles"] = row.lower_bound_cycles
        out["bound.dominated_by"] = row.dominated_by or ""
    if row.report is not None:
        out.update({f"report.{key}": part for key, part in scalars(row.report).items()})
        out.update(computed(row))
    return out


def columns(rows: Sequence[Mapping[str, Scalar]]) -> List[str]:
    """Every name that a row has, in order of appearance."""
    names: Dict[str, None] = dict.fromkeys(_FIRST)
    for row in rows:
        names.update(dict.fromkeys(row))
    return list(names)


def to_csv(rows: Sequence[Row]) -> str:
    table = [flat(row) for row in rows]
    out = io.StringIO()
    writer = csv.DictWriter(out, columns(table), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return out.getvalue()


def to_json(rows: Sequence[Row]) -> str:
    """With complete reports, lists included if the rows were read with them."""
    return json.dumps([{**vars(row), "coordinates": dict(row.coordinates), "overrides": dict(row.overrides)} for row in rows],
                      indent=1) + "\n"


def write(rows: Sequence[Row], form: str, file: Optional[str]) -> str:
    """The text of a table, or writes it to `file` and gives ""."""
    if form == "parquet":
        if file is None:
            raise UserError("parquet is no text: name a file with -o")
        try:
            import pandas
        except ImportError:
            raise UserError("parquet needs pandas: apt-get install python3-pandas") from None
        try:
            pandas.DataFrame([flat(row) for row in rows]).to_parquet(file)
        except ImportError:
            raise UserError("parquet needs pyarrow or fastparquet beside pandas; csv and json need nothing") from None
        except OSError as error:
            raise UserError(f"{file}: cannot be written: {error.strerror or error}") from None
        return ""
    text = to_csv(rows) if form == "csv" else to_json(rows)
    if file is None:
        return text
    try:
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        raise UserError(f"{file}: cannot be written: {error.strerror}") from None
    return ""


def number_text(found: Any) -> str:
    if isinstance(found, bool) or found is None:
        return "-" if found is None else str(found).lower()
    if isinstance(found, int):
        return f"{found:,}"
    if isinstance(found, float):
        return f"{found:,.4g}" if abs(found) < 1e4 else f"{found:,.0f}"
    return str(found)


def _objective_text(row: Row, objective: Objective) -> str:
    if not objective.expression:
        return number_text(value(row, objective.field))
    try:
        found = objective_value(objective, row)
    except UserError:
        return "-"
    return number_text(int(found) if found.is_integer() else found)


def table(rows: Sequence[Row], objectives: Sequence[Objective], axes: Sequence[str]) -> str:
    """A table for people: what varies, the objectives, and the status where there is no report."""
    heads = [*axes, *[o.name for o in objectives], "status"]
    lines = [heads]
    for row in rows:
        status = row.status + (f": {row.message.splitlines()[0][:200]}" if row.message else "")
        lines.append([number_text(value(row, name)) for name in axes] + [_objective_text(row, o) for o in objectives] + [status])
    return aligned(lines, left={i for i, name in enumerate(heads) if name in ("model", "machine", "schedule", "status")})


def aligned(lines: Sequence[Sequence[str]], left: Any = ()) -> str:
    """Text in columns, those in `left` to the left, with a rule below the head."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    texts = ["  ".join(cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths))).rstrip()
             for line in lines]
    return "\n".join([texts[0], "-" * (sum(widths) + 2 * len(widths) - 2), *texts[1:]]) + "\n"
