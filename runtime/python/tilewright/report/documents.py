# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What files a page can be made of, and what the page gets of each."""
from __future__ import annotations

import json
import pathlib
from typing import Any, Dict, Iterator, List, NoReturn, Optional, Sequence, Tuple

from ..sweep.errors import UserError
from ..sweep.front import front
from ..sweep.results import objective_value, value
from ..sweep.store import OK, Row, Store
from ..sweep.study import AXES, Objective, objectives_of
from .graph import graph_of
from .trace import read_trace

SCHEMAS = ("tilewright.run/1", "tilewright.profile/1", "tilewright.compare/1")
# What a page needs of a document; the schemas have all of it (docs/reports.md).
NEEDED = {"run": ("model", "machine"), "profile": ("model", "machine"), "compare": ("model", "rows")}
# What the table of a sweep has beside coordinates and objectives.
FIELDS = ("total_cycles", "total_milliseconds", "utilisation", "lower_bound_cycles", "energy.total_joules", "area.total_mm2",
          "dram_read_bytes", "dram_write_bytes")
ALLOWED = "documents of `run`, `profile` and `compare` --json, of `run --trace`, and a sweep's SQLite file"

Part = Tuple[str, Dict[str, Any]]


def read(file: str, window: Optional[Tuple[int, int]] = None) -> List[Part]:
    """The parts a file adds to a page: pairs of "documents", "traces" or "sweeps", and the entry. `window`: of a timeline, only these
    cycles. Raises UserError."""
    try:
        with open(file, "rb") as stream:
            # Timelines are read line by line: they may be larger than the memory.
            if b'"traceEvents"' in stream.read(4096).split(b"\n")[0]:
                return [("traces", read_trace(file, window))]
        content = pathlib.Path(file).read_bytes()
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror or error}") from None
    if content.startswith(b"SQLite format 3\0"):
        return [("sweeps", sweep) for sweep in _sweeps(file)]
    try:
        document = json.loads(content.decode("utf-8"), parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: found byte {error.start} that is not UTF-8; allowed: {ALLOWED}") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{file}:{error.lineno}:{error.colno}: broken JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file}: broken JSON: {error}") from None
    if not isinstance(document, dict):
        raise UserError(f"{file}: found no JSON object; allowed: {ALLOWED}")
    return [("documents", _document(document, file))]


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _document(document: Dict[str, Any], file: str) -> Dict[str, Any]:
    schema = document.get("schema")
    if schema not in SCHEMAS:
        found = "no \"schema\"" if schema is None else f"schema {schema!r}"
        raise UserError(f"{file}: found {found}; allowed: {', '.join(SCHEMAS)}")
    kind = str(schema).split(".")[1].split("/")[0]
    for key in NEEDED[kind]:
        if key not in document:
            raise UserError(f"{file}: {kind}: found no {key!r}; allowed: documents of `tilewright {kind} --json` (docs/reports.md)")
    _check_lists(document, file)
    # Values of outputs and wall times of a search are not shown.
    entry: Dict[str, Any] = {"file": pathlib.PurePath(file).name, "kind": kind, "document": document}
    if kind == "run" and document.get("layers"):
        entry["graph"] = graph_of(document, file)
    return entry


def _check_lists(document: Dict[str, Any], file: str) -> None:
    """Layers, engines and rows are lists of objects; of a run, with names."""
    for key in ("layers", "engines", "rows"):
        entries = document.get(key)
        if entries is None:
            continue
        if not isinstance(entries, list):
            raise UserError(f"{file}: {key}: found no list")
        for index, entry in enumerate(entries):
            if not isinstance(entry, dict):
                raise UserError(f"{file}: {key}[{index}]: found no object")
            if document["schema"] == "tilewright.run/1" and not isinstance(entry.get("name"), str):
                raise UserError(f"{file}: {key}[{index}]: found no name")


def _sweeps(file: str) -> Iterator[Dict[str, Any]]:
    with Store(file, create=False) as store:
        studies = store.studies()
        if not studies:
            raise UserError(f"{file}: found no study; allowed: a file of `tilewright sweep`")
        for digest, name, document in studies:
            yield _sweep(name, objectives_of(document), store.rows(digest), file)


def _objective(objective: Objective, row: Row) -> Any:
    """The value, or None where the row has none: it failed, or the expression needs what only the study knows."""
    try:
        return objective_value(objective, row) if row.status == OK else None
    except UserError:
        return None


def _sweep(name: str, objectives: Sequence[Objective], rows: Sequence[Row], file: str) -> Dict[str, Any]:
    """A study as a table: columns, one list of values for each row, and which rows are on the front of their model."""
    axes = list(dict.fromkeys(key for row in rows for key in row.coordinates))
    varied = [axis for axis in axes if len({str(row.coordinates.get(axis)) for row in rows}) > 1]
    shown = {objective.field for objective in objectives if not objective.expression}
    fields = [field for field in FIELDS if field not in shown and any(value(row, field) is not None for row in rows)]
    table: List[List[Any]] = []
    for row in rows:
        where = [row.coordinates.get(axis, getattr(row, axis) if axis in AXES else None) for axis in varied]
        table.append([row.number, row.status, *where, *(_objective(o, row) for o in objectives), *(value(row, f) for f in fields)])
    first = 2 + len(varied)
    best = set()
    groups: Dict[Tuple[str, int], List[int]] = {}
    for index, row in enumerate(rows):
        if row.status == OK and None not in table[index][first:first + len(objectives)]:
            groups.setdefault((str(row.inputs.get("model")), row.batch), []).append(index)
    for group in groups.values():
        best |= {group[i] for i in front([[o.signed(v) for o, v in zip(objectives, table[index][first:])] for index in group])}
    return {"file": pathlib.PurePath(file).name, "name": name, "axes": varied,
            "objectives": [{"name": o.name, "field": o.field, "larger_is_better": o.larger_is_better} for o in objectives], "fields": fields,
            "rows": table, "front": sorted(best), "messages": {row.number: row.message for row in rows if row.message}}
