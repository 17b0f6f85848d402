# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results in one SQLite file: a row for each point, known by the digest of its inputs and of the build. Any number of sweeps may
write one file at once, and any of them may be killed: a point is claimed with a lease before it runs, an expired lease or that of
a process that is gone is taken over, and a finished row never changes. The file must lie on a local file system."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import sqlite3
import time
import uuid
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from .errors import UserError
from .study import Study

FORMAT = 1
LEASE_SECONDS = 60.0
# Rows that are final. A claimed row is under way.
OK, FAILED, CRASHED, TIMEOUT, PRUNED, CLAIMED = "ok", "failed", "crashed", "timeout", "pruned", "claimed"
FINAL = (OK, FAILED, CRASHED, TIMEOUT, PRUNED)
# Fields of reports that measure this run, not the machine: two runs of one point differ in them.
MEASURED = ("compile_wall_seconds", "simulate_wall_seconds", "cycles_per_wall_second", "peak_memory_bytes")

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE studies (digest TEXT PRIMARY KEY, name TEXT NOT NULL, document TEXT NOT NULL, created REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE points (
  digest TEXT PRIMARY KEY,          -- of inputs and build
  status TEXT NOT NULL,             -- ok, failed, crashed, timeout, pruned; claimed while it runs
  message TEXT NOT NULL DEFAULT '', -- why there is no report; of a pruned row, what dominates it
  model TEXT NOT NULL, machine TEXT NOT NULL, schedule TEXT NOT NULL, batch INTEGER NOT NULL,
  overrides TEXT NOT NULL,          -- JSON object: key of the machine -> value as --set takes it
  inputs TEXT NOT NULL,             -- JSON object: digests of model, machine, build; options
  program TEXT NOT NULL DEFAULT '', -- compiled, or the machine that a fixed program was compiled for
  report TEXT,                      -- JSON: the report of `tilewright run` without what `details` holds
  details BLOB,                     -- zlib of JSON: the long lists of the report
  lower_bound_cycles INTEGER,       -- of a pruned row
  dominated_by TEXT,                -- digest of the row that dominates a pruned row's bounds
  objectives TEXT,                  -- JSON: the objectives a row was pruned for
  wall_seconds REAL, attempts INTEGER NOT NULL DEFAULT 0,
  owner TEXT, lease_until REAL, finished REAL) WITHOUT ROWID;
CREATE TABLE members (study TEXT NOT NULL, point TEXT NOT NULL, number INTEGER NOT NULL, coordinates TEXT NOT NULL,
  PRIMARY KEY (study, point)) WITHOUT ROWID;
CREATE VIEW results AS SELECT digest, status, message, model, machine, schedule, batch, overrides,
  json_extract(report, '$.total_cycles') AS total_cycles, json_extract(report, '$.total_milliseconds') AS total_milliseconds,
  json_extract(report, '$.utilisation') AS utilisation, json_extract(report, '$.energy.total_joules') AS energy_joules,
  json_extract(report, '$.area.total_mm2') AS area_mm2,
  coalesce(lower_bound_cycles, json_extract(report, '$.lower_bound_cycles')) AS lower_bound_cycles FROM points;
"""


@dataclass(frozen=True)
class Outcome:
    """What came of a point."""

    status: str
    message: str = ""
    report: Optional[Mapping[str, Any]] = None
    program: str = ""
    wall_seconds: float = 0.0
    lower_bound_cycles: Optional[int] = None
    dominated_by: Optional[str] = None
    objectives: Optional[str] = None


@dataclass(frozen=True)
class Row:
    """A row of the file, with its coordinates in one study."""

    digest: str
    status: str
    message: str
    model: str
    machine: str
    schedule: str
    batch: int
    overrides: Mapping[str, str]
    inputs: Mapping[str, Any]
    program: str
    report: Optional[Mapping[str, Any]]
    lower_bound_cycles: Optional[int] = None
    dominated_by: Optional[str] = None
    objectives: Optional[str] = None
    wall_seconds: Optional[float] = None
    attempts: int = 0
    coordinates: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0

    @property
    def final(self) -> bool:
        return self.status in FINAL


def _process_start(pid: int) -> str:
    """When a process of this host began, "" if it is gone or nobody can say."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return ""


def new_owner() -> str:
    """A name for claims: host, process, its start, and a number of its own."""
    pid = os.getpid()
    return f"{socket.gethostname()}|{pid}|{_process_start(pid)}|{uuid.uuid4().hex}"


def _is_gone(owner: str) -> bool:
    """True if the owner ran on this host and does not run any more."""
    parts = owner.split("|")
    if len(parts) != 4 or parts[0] != socket.gethostname() or not parts[2] or not os.path.isdir("/proc/self"):
        return False
    return _process_start(int(parts[1])) != parts[2]


def _split(report: Mapping[str, Any]) -> Tuple[str, Optional[bytes]]:
    """A report as JSON, and its long lists apart."""
    short, long = {}, {}
    for key, value in report.items():
        if isinstance(value, list) and len(json.dumps(value)) > 6000:
            long[key] = value
        else:
            short[key] = value
    # The order of the keys is that of the report.
    details = zlib.compress(json.dumps({"keys": list(report), "lists": long}, separators=(",", ":")).encode()) if long else None
    return json.dumps(short, separators=(",", ":")), details


def _joined(report: Optional[str], details: Optional[bytes]) -> Optional[Dict[str, Any]]:
    if report is None:
        return None
    short: Dict[str, Any] = json.loads(report)
    if details is None:
        return short
    more = json.loads(zlib.decompress(details))
    return {key: more["lists"][key] if key in more["lists"] else short[key] for key in more["keys"]}


class Store:
    """An open file of results. Not for several threads."""

    def __init__(self, file: str, create: bool = True, lease_seconds: float = LEASE_SECONDS) -> None:
        self.file = file
        self.owner = new_owner()
        self.lease_seconds = lease_seconds
        if not create and not os.path.isfile(file):
            raise UserError(f"{file}: no such file")
        try:
            self._db = sqlite3.connect(file, timeout=60, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            with self._transaction():
                tables = {name for name, in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
                if not tables:
                    for statement in _SCHEMA.split(";\n"):
                        if statement.strip():
                            self._db.execute(statement)
                    self._db.execute("INSERT INTO meta VALUES ('format', ?)", (str(FORMAT),))
            version = None if tables and "meta" not in tables else \
                self._db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
        except sqlite3.DatabaseError as error:
            raise UserError(f"{file}: cannot be used as a file of results: {error}") from None
        if version is None:
            raise UserError(f"{file}: an SQLite file of something else; name another one")
        if version[0] != str(FORMAT):
            raise UserError(f"{file}: results of format {version[0]}; this program reads format {FORMAT}")

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # Immediate: a transaction that reads first and writes later fails at once where another one writes.
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # ------------------------------------------------------------------------------------------------------- writing

    def add_study(self, study: Study) -> None:
        """Notes the study; the newest of a file is shown where none is named."""
        with self._transaction():
            self._db.execute("INSERT INTO studies VALUES (?, ?, ?, ?) ON CONFLICT (digest) DO UPDATE SET created = excluded.created",
                             (study.digest, study.name, json.dumps(study.document()), time.time()))

    def claim(self, digest: str, point: Mapping[str, Any], retry: Sequence[str] = ()) -> Tuple[str, Optional[Row]]:
        """Asks for a point: ("mine", None) if the caller is to run it, ("known", row) if it is final, ("busy", None) if another
        sweep runs it. `point`: model, machine, schedule, batch, overrides and inputs. Rows with a status in `retry` run again."""
        now = time.time()
        with self._transaction():
            found = self._db.execute("SELECT status, owner, lease_until FROM points WHERE digest = ?", (digest,)).fetchone()
            if found is None:
                self._db.execute(
                    "INSERT INTO points (digest, status, model, machine, schedule, batch, overrides, inputs, attempts, owner, lease_until)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)",
                    (digest, CLAIMED, point["model"], point["machine"], point["schedule"], point["batch"],
                     json.dumps(point["overrides"]), json.dumps(point["inputs"]), self.owner, now + self.lease_seconds))
                return "mine", None
            status, owner, lease_until = found
            if status == CLAIMED and owner != self.owner and (lease_until < now or _is_gone(owner)) or status in retry:
                self._db.execute(
                    "UPDATE points SET status = ?, message = '', owner = ?, lease_until = ?, attempts = attempts + 1, report = NULL,"
                    " details = NULL, lower_bound_cycles = NULL, dominated_by = NULL, objectives = NULL, finished = NULL"
                    " WHERE digest = ?", (CLAIMED, self.owner, now + self.lease_seconds, digest))
                return "mine", None
        if status == CLAIMED:
            return "busy", None
        return "known", self.row(digest)

    def renew(self) -> None:
        """Prolongs the leases of this sweep."""
        with self._transaction():
            self._db.execute("UPDATE points SET lease_until = ? WHERE owner = ? AND status = ?",
                             (time.time() + self.lease_seconds, self.owner, CLAIMED))

    def finish(self, digest: str, outcome: Outcome) -> bool:
        """Writes the outcome of a claimed point; false if the claim was lost, and the row is another sweep's."""
        report, details = _split(outcome.report) if outcome.report is not None else (None, None)
        with self._transaction():
            changed = self._db.execute(
                "UPDATE points SET status = ?, message = ?, report = ?, details = ?, program = ?, wall_seconds = ?,"
                " lower_bound_cycles = ?, dominated_by = ?, objectives = ?, finished = ?, owner = NULL, lease_until = NULL"
                " WHERE digest = ? AND status = ? AND owner = ?",
                (outcome.status, outcome.message, report, details, outcome.program, outcome.wall_seconds, outcome.lower_bound_cycles,
                 outcome.dominated_by, outcome.objectives, time.time(), digest, CLAIMED, self.owner)).rowcount
        return changed == 1

    def release(self) -> int:
        """Gives up the claims of this sweep; how many."""
        with self._transaction():
            return self._db.execute("DELETE FROM points WHERE status = ? AND owner = ?", (CLAIMED, self.owner)).rowcount

    def add_member(self, study: str, digest: str, number: int, coordinates: Mapping[str, Any]) -> None:
        with self._transaction():
            self._db.execute("INSERT OR IGNORE INTO members VALUES (?, ?, ?, ?)", (study, digest, number, json.dumps(dict(coordinates))))

    # ------------------------------------------------------------------------------------------------------- reading

    _COLUMNS = ("p.digest, p.status, p.message, p.model, p.machine, p.schedule, p.batch, p.overrides, p.inputs, p.program, p.report,"
                " p.details, p.lower_bound_cycles, p.dominated_by, p.objectives, p.wall_seconds, p.attempts")

    def _row(self, values: Sequence[Any], details: bool = True) -> Row:
        coordinates = json.loads(values[17]) if len(values) > 17 else {}
        return Row(values[0], values[1], values[2], values[3], values[4], values[5], values[6], json.loads(values[7]),
                   json.loads(values[8]), values[9],
                   _joined(values[10], values[11]) if details else json.loads(values[10]) if values[10] else None,
                   values[12], values[13], values[14], values[15], values[16], coordinates, values[18] if len(values) > 18 else 0)

    def row(self, digest: str) -> Optional[Row]:
        found = self._db.execute(f"SELECT {self._COLUMNS} FROM points p WHERE digest = ?", (digest,)).fetchone()
        return self._row(found) if found else None

    def studies(self) -> List[Tuple[str, str, Dict[str, Any]]]:
        """Digest, name and document of the studies; the newest last."""
        return [(digest, name, json.loads(document)) for digest, name, document in
                self._db.execute("SELECT digest, name, document FROM studies ORDER BY created")]

    def study(self, name: Optional[str]) -> Tuple[str, str, Dict[str, Any]]:
        """The newest study of that name, or of all."""
        known = self.studies()
        for entry in reversed(known):
            if name is None or entry[1] == name or entry[0].startswith(name):
                return entry
        names = ", ".join(sorted({entry[1] for entry in known})) or "none"
        raise UserError(f"{self.file}: " + (f"no study {name!r}; there are: {names}" if known else "no study in it"))

    def rows(self, study: str, details: bool = False) -> List[Row]:
        """The rows of a study in the order of its points. Without `details`, long lists are left out of the reports."""
        return [self._row(values, details) for values in self._db.execute(
            f"SELECT {self._COLUMNS}, m.coordinates, m.number FROM members m JOIN points p ON p.digest = m.point"
            " WHERE m.study = ? ORDER BY m.number, p.digest", (study,))]

    def all_rows(self, details: bool = False) -> List[Row]:
        return [self._row(values, details) for values in
                self._db.execute(f"SELECT {self._COLUMNS} FROM points p ORDER BY p.digest")]

    def counts(self, study: str) -> Dict[str, int]:
        return dict(self._db.execute("SELECT p.status, count(*) FROM members m JOIN points p ON p.digest = m.point"
                                     " WHERE m.study = ? GROUP BY p.status ORDER BY p.status", (study,)))
