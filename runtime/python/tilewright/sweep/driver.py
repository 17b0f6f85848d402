# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a study: points from a sampler, through a pool, into a store."""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence, Tuple

from .errors import StudyError, UserError, sentence
from .evaluate import build_of, digest_of, inputs_of, task_of
from .front import dominates
from .pool import Pool
from .progress import Progress
from .results import bound_vector, has_bound, missing, value, vector
from .samplers import make_sampler
from .store import CRASHED, FAILED, OK, PRUNED, TIMEOUT, Outcome, Row, Store
from .study import Point, Space, Study, is_machine_key, override_text

# Statuses that --retry runs again.
RETRIED = (FAILED, CRASHED, TIMEOUT)
# Values of an axis that are checked before a sweep; the others fail one by one.
CHECKED_VALUES = 64
_BUSY_SECONDS = 0.5


@dataclass
class Summary:
    """What a sweep came to. `counts`: rows by status; `ran`: rows that ran here."""

    counts: Dict[str, int] = field(default_factory=dict)
    ran: int = 0
    notes: List[str] = field(default_factory=list)


@dataclass
class _Entry:
    number: int
    point: Point
    digest: str
    inputs: Dict[str, Any]


class Sweep:
    """One run of a study. Call run() once."""

    def __init__(self, study: Study, store: Store, pool: Pool, evaluator: str = "process", retry: bool = False,
                 quiet: bool = False) -> None:
        self.study, self.store, self.pool, self.evaluator = study, store, pool, evaluator
        self.retry = RETRIED if retry else ()
        self.space = Space(study)
        self.sampler = make_sampler(study, self.space)
        self.progress = Progress(self.sampler.total, quiet)
        self.summary = Summary()
        self._build = build_of(study.binary)
        self._under_way: Dict[Tuple[str, str], _Entry] = {}
        self._busy: Deque[Tuple[float, _Entry]] = deque()
        self._values: Dict[str, Tuple[float, ...]] = {}  # of rows with a report, for pruning
        self._bounds: Dict[Tuple[object, ...], Row] = {}
        self._group: Dict[str, Tuple[str, int]] = {}
        self._count = 0
        self._prunes = study.prune
        self._objectives = json.dumps(study.document()["objectives"])
        if study.prune:
            without = [o.name for o in study.objectives if not has_bound(o)]
            if without:
                self._prunes = False
                self.summary.notes.append(f"nothing is pruned: no bound for objective {', '.join(without)}")

    def run(self, stop: Callable[[], bool] = lambda: False) -> Summary:
        """Until the sampler has no more points, or `stop`. What was claimed and not finished is given up on the way out."""
        self.store.add_study(self.study)
        renewed = time.monotonic()
        try:
            while not stop():
                self._submit()
                if not self._under_way and not self._busy and self.sampler.done:
                    break
                if self._under_way:
                    for task, outcome in self.pool.wait(0.25):
                        self._came(self._under_way.pop((task.kind, task.digest)), task.kind, outcome)
                elif self._busy:
                    time.sleep(_BUSY_SECONDS / 2)
                if time.monotonic() - renewed > self.store.lease_seconds / 4:
                    self.store.renew()
                    renewed = time.monotonic()
                self.progress.show()
        finally:
            self.store.release()
        self.progress.show(last=True)
        return self.summary

    # ------------------------------------------------------------------------------------------------- points to tasks

    def _submit(self) -> None:
        now = time.monotonic()
        for _ in range(len(self._busy)):
            since, entry = self._busy.popleft()
            if now - since < _BUSY_SECONDS or len(self._under_way) >= self.pool.capacity:
                self._busy.append((since, entry))
            else:
                self._begin(entry)
        while len(self._under_way) < self.pool.capacity:
            point = self.sampler.ask()
            if point is None:
                return
            inputs = inputs_of(self.study, point, self._build)
            entry = _Entry(self._count, point, digest_of(inputs), inputs)
            self._count += 1
            self._begin(entry)

    def _begin(self, entry: _Entry) -> None:
        point = entry.point
        description = {"model": point.model, "machine": point.machine, "schedule": point.schedule, "batch": point.batch,
                       "overrides": dict(point.overrides), "inputs": entry.inputs}
        again: Sequence[str] = self.retry
        state, row = self.store.claim(entry.digest, description, again)
        if row and row.status == PRUNED and (not self._prunes or row.objectives != self._objectives):
            # Pruned for other objectives: this study wants to know.
            state, row = self.store.claim(entry.digest, description, (*again, PRUNED))
        self.store.add_member(self.study.digest, entry.digest, entry.number, dict(point.coordinates))
        if state == "busy":
            self._busy.append((time.monotonic(), entry))
        elif row:
            self._finished(entry, row, ran_here=False)
        elif self._prunes and point.schedule != "serial":
            self._bound_or_run(entry)
        else:
            self._run(entry, "run")

    def _run(self, entry: _Entry, kind: str) -> None:
        task = task_of(self.study, entry.point, entry.inputs, self.evaluator, kind)
        self._under_way[(kind, entry.digest)] = entry
        self.pool.submit(task)

    # --------------------------------------------------------------------------------------------------------- pruning

    @staticmethod
    def _machine(entry: _Entry) -> Tuple[object, ...]:
        # The bound does not depend on the schedule.
        return entry.inputs["model"], entry.inputs["machine"], entry.point.batch

    def _bound_or_run(self, entry: _Entry) -> None:
        known = self._bounds.get(self._machine(entry))
        if known is None:
            self._run(entry, "bound")
        elif not self._prune(entry, known):
            self._run(entry, "run")

    def _as_row(self, entry: _Entry, outcome: Outcome) -> Row:
        point = entry.point
        return Row(entry.digest, outcome.status, outcome.message, point.model, point.machine, point.schedule, point.batch,
                   dict(point.overrides), entry.inputs, outcome.program, outcome.report, coordinates=dict(point.coordinates),
                   number=entry.number)

    def _prune(self, entry: _Entry, bound: Row) -> bool:
        """Whether a row dominates the best this point may reach; then the point is a row that says so."""
        row = self._as_row(entry, Outcome(OK, report=bound.report))
        best = bound_vector(self.study.objectives, row, self.space)
        if best is None:
            return False
        group = (str(entry.inputs["model"]), entry.point.batch)
        for digest, values in self._values.items():
            if self._group[digest] == group and dominates(values, best):
                assert bound.report is not None
                cycles = int(bound.report["lower_bound_cycles"])
                self._settle(entry, Outcome(PRUNED, f"needs {cycles} cycles at least; row {digest[:12]} dominates that",
                                            lower_bound_cycles=cycles, dominated_by=digest, objectives=self._objectives))
                return True
        return False

    # ------------------------------------------------------------------------------------------------ outcomes to rows

    def _came(self, entry: _Entry, kind: str, outcome: Outcome) -> None:
        if kind == "run":
            self._settle(entry, outcome)
        elif outcome.status == OK:
            row = self._bounds[self._machine(entry)] = self._as_row(entry, outcome)
            if not self._prune(entry, row):
                self._run(entry, "run")
        else:
            self._run(entry, "run")  # whose row says why

    def _settle(self, entry: _Entry, outcome: Outcome) -> None:
        ours = self.store.finish(entry.digest, outcome)
        row = self.store.row(entry.digest)
        if row is None or not row.final:
            # The lease ran out and another sweep has the point now.
            self._busy.append((time.monotonic(), entry))
            return
        self._finished(entry, row, ran_here=ours)

    def _finished(self, entry: _Entry, row: Row, ran_here: bool) -> None:
        self.summary.ran += ran_here
        self.summary.counts[row.status] = self.summary.counts.get(row.status, 0) + 1
        self.progress.row(row.status, ran_here)
        values: Optional[Tuple[float, ...]] = None
        if row.status == OK:
            named = replace(row, coordinates=dict(entry.point.coordinates))
            for objective in self.study.objectives:
                if objective.expression is None and value(named, objective.field) is None:
                    raise missing(objective, named)
            values = vector(self.study.objectives, named, self.space)
            self._values[entry.digest] = values
            self._group[entry.digest] = (str(entry.inputs["model"]), entry.point.batch)
        self.sampler.tell(entry.point, values)


def check_keys(study: Study, problems: Callable[[Sequence[str]], str]) -> None:
    """Asks the binary once for each machine and value whether it knows the key and allows the value, so that a misspelt key is an
    error of the study, not of each point. `problems`: standard error of `tilewright hw describe` with these arguments."""
    space = Space(study)
    first = next(space.all_points(), None) if study.size <= 100_000 else space.point(space.coordinates([0] * len(study.axes)))
    if first is None:
        if study.size <= 100_000:
            raise UserError(f"{study.name}: the constraints exclude every point")
        return
    def ask(machine: str, sets: Mapping[str, str], key: str, place: str, section: str) -> None:
        text = problems([machine, *[part for k, v in sets.items() for part in ("--set", f"{k}={v}")]])
        for line in text.splitlines():
            line = line.replace("tilewright: ", "", 1)
            if line.startswith(f"--set {key}={sets[key]}: ") and ("unknown key" in line or "must be" in line):
                said = line.split(": ", 1)[1]
                found, _, allowed = said.partition(" but must be ")
                raise StudyError(place, f"{section}.{key}", sentence(found), allowed or "a key of the machine (hw-configs/README.md)")

    machine = str(study.axis("machine").values[0])
    base = dict(first.overrides)
    for axis in study.axes:
        if is_machine_key(axis.name):
            for found in axis.values[:CHECKED_VALUES]:
                ask(machine, {**base, axis.name: override_text(found)}, axis.name, axis.place, "parameters")
    for key, _, place in study.derived:
        if is_machine_key(key):
            ask(machine, base, key, place, "derived")
