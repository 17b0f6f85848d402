# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What to build next: how cycles, time and energy of a model answer to each parameter of a machine, by compiling and simulating at
the next smaller and the next larger value. `python3 -m tilewright.sensitivity MODEL --hw MACHINE`; docs/sweep.md."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Tuple

from .sweep import machines
from .sweep.errors import UserError
from .sweep.evaluate import EVALUATORS, build_of, digest_of, find_binary, inputs_of, task_of
from .sweep.export import aligned
from .sweep.pool import LocalPool, Pool
from .sweep.reading import study_from_mapping
from .sweep.results import by_path
from .sweep.store import OK, Outcome, Store
from .sweep.study import Point, Space, Study, is_machine_key, override_text

PROGRAM = "tilewright sensitivity"
# What people size: everything else only with --parameters.
SIZED = ("clock_mhz", "array.rows", "array.cols", "array.preload_rows_per_cycle", "vector.lanes", "vector.stages",
         "scratchpads.unified.capacity_bytes", "scratchpads.unified.banks", "scratchpads.activation.capacity_bytes",
         "scratchpads.activation.banks", "scratchpads.weight.capacity_bytes", "scratchpads.weight.banks",
         "accumulator.capacity_bytes", "accumulator.banks", "dma.load_engines", "dma.store_engines", "dma.outstanding_bursts",
         "dma.bursts_per_cycle", "control.queue_depth_instructions", "control.loop_buffer_words", "control.prefetch_words",
         "control.semaphores", "dram.bytes_per_cycle", "dram.latency_cycles", "dram.path_latency_cycles", "dram.clock_mhz",
         "dram.channels", "dram.ranks", "dram.window_requests", "dram.grant_bursts", "dram.write_buffer_bursts")
# Keys that change together, because the compiler or the machine wants them equal.
TOGETHER = {"array.cols": ("vector.lanes",)}
# Added to the latency of the device: what counts is the sum, and the elasticity is that of the sum.
ADDED_LATENCY = "dram.path_latency_cycles"
# A smaller one is what schedules differ by, not what a machine gains.
MIN_GAIN = 0.005
METRICS = ("cycles", "milliseconds", "joules")


@dataclass(frozen=True)
class Try:
    """One value of a parameter, and what came of it."""

    value: Fraction
    sets: Tuple[Tuple[str, str], ...]
    outcome: Optional[Outcome] = None

    @property
    def ok(self) -> bool:
        return self.outcome is not None and self.outcome.status == OK


@dataclass
class Elasticity:
    """A parameter's line. `elasticity`: d log metric / d log parameter by metric; none where it cannot be stated, and `why` then says
    why. `low`, `high`: what was simulated on either side."""

    parameter: str
    value: str
    together: Tuple[str, ...] = ()
    low: Optional[Try] = None
    high: Optional[Try] = None
    elasticity: Dict[str, Optional[float]] = field(default_factory=dict)
    why: str = ""


def metrics(report: Any) -> Dict[str, Optional[float]]:
    joules = by_path(report, "energy.total_joules")
    return {"cycles": report["total_cycles"], "milliseconds": report["total_milliseconds"],
            "joules": joules if isinstance(joules, (int, float)) else None}


def candidates(value: Fraction, up: bool) -> List[Fraction]:
    """Values to try on one side, the nearest to double or half first; then the next integers."""
    first = value * 2 if up else value / 2
    out = [first]
    if value.denominator == 1:
        if first.denominator != 1:
            out = [Fraction(value.numerator // 2)]
        next_one = value + 1 if up else value - 1
        out += [part for part in (value * 3 / 2 if up else value * 3 / 4, next_one) if part.denominator == 1]
    return [part for index, part in enumerate(out) if part > 0 and part != value and part not in out[:index]]


def slope(pairs: Sequence[Tuple[Fraction, Optional[float]]]) -> Optional[float]:
    """d log metric / d log value between the first and the last of the pairs."""
    known = [(float(v), m) for v, m in pairs if m is not None and m > 0]
    if len(known) < 2:
        return None
    (v0, m0), (v1, m1) = known[0], known[-1]
    return math.log(m1 / m0) / math.log(v1 / v0)


class Analysis:
    """Runs the tries of one model on one machine."""

    def __init__(self, study: Study, pool: Pool, evaluator: str, store: Optional[Store], say: Callable[[str], None]) -> None:
        self.study, self.pool, self.evaluator, self.store, self.say = study, pool, evaluator, store, say
        self.space = Space(study)
        self.machine = str(study.axis("machine").values[0])
        self._build = build_of(study.binary)
        base = self.space.point(self.space.coordinates([0] * len(study.axes)))
        assert base is not None
        self.base = base
        stated = machines.parameters(self.machine, study.binary, dict(base.overrides))
        self.parameters = machines.with_defaults(stated)
        self._device_latency = 0  # cycles of a read that finds another row open, from the first report

    def point(self, sets: Sequence[Tuple[str, str]]) -> Point:
        values = dict(self.base.overrides)
        values.update(sets)
        return Point(self.base.coordinates, self.base.model, self.base.machine, self.base.schedule, self.base.batch,
                     tuple(sorted(values.items())))

    def outcomes(self, points: Sequence[Point]) -> List[Outcome]:
        """Of all points, in their order; from the store where it has them."""
        found: Dict[str, Outcome] = {}
        waiting: Dict[str, Point] = {}
        order = []
        todo: List[Any] = []
        for point in points:
            inputs = inputs_of(self.study, point, self._build)
            digest = digest_of(inputs)
            order.append(digest)
            if digest in found or digest in waiting:
                continue
            if self.store:
                description = {"model": point.model, "machine": point.machine, "schedule": point.schedule, "batch": point.batch,
                               "overrides": dict(point.overrides), "inputs": inputs}
                state, row = self.store.claim(digest, description)
                if row and row.status != "pruned":
                    found[digest] = Outcome(row.status, row.message, row.report)
                    continue
            waiting[digest] = point
            todo.append(task_of(self.study, point, inputs, self.evaluator))
        total, under_way = len(todo), 0
        while todo or under_way:
            while todo and under_way < self.pool.capacity:
                self.pool.submit(todo.pop(0))
                under_way += 1
            for task, outcome in self.pool.wait(1.0):
                under_way -= 1
                found[task.digest] = outcome
                if self.store:
                    self.store.finish(task.digest, outcome)
                self.say(f"{total - len(todo) - under_way} of {total} machines")
            if self.store:
                self.store.renew()
        return [found[digest] for digest in order]

    def run(self, names: Sequence[str]) -> Tuple[Outcome, List[Elasticity]]:
        """The machine itself, and a line for each parameter."""
        base = self.outcomes([self.base_point()])[0]
        if base.status != OK or base.report is None:
            raise UserError(f"{self.base.model} on {self.machine}: {base.message}")
        self._device_latency = by_path(base.report, "machine.dram.row_conflict_latency_cycles") or 0
        outstanding = by_path(base.report, "machine.outstanding_bursts")
        if outstanding is not None:
            self.parameters.setdefault("dma.outstanding_bursts", outstanding)
        lines: List[Elasticity] = []
        sides: List[Tuple[Elasticity, bool, List[Try]]] = []
        for name in names:
            line, value = self._line(name)
            lines.append(line)
            if value is None:
                continue
            for up in (False, True):
                tries = [Try(part, self._sets(name, part)) for part in candidates(value, up) if part >= self._offset(name)]
                sides.append((line, up, tries))
        # All first candidates together, then the next ones of those sides that failed.
        reasons: Dict[Tuple[str, bool], str] = {}
        while sides:
            sides = [side for side in sides if side[2]]
            results = self.outcomes([self.point(tries[0].sets) for _, _, tries in sides])
            left = []
            for (line, up, tries), outcome in zip(sides, results):
                done = Try(tries[0].value, tries[0].sets, outcome)
                if outcome.status == OK:
                    setattr(line, "high" if up else "low", done)
                else:
                    reasons.setdefault((line.parameter, up), f"{_text(done.value)}: {_reason(outcome.message)}")
                    left.append((line, up, tries[1:]))
            sides = left
        for line in lines:
            self._conclude(line, base, reasons)
        return base, rank(lines)

    def base_point(self) -> Point:
        return self.point(())

    def _line(self, name: str) -> Tuple[Elasticity, Optional[Fraction]]:
        value = self.parameters.get(name)
        line = Elasticity(name, "-" if value is None else override_text(value))
        if value is None:
            line.why = "the machine does not state it"
            return line, None
        try:
            ratio = Fraction(str(value))
        except (ValueError, ZeroDivisionError):
            line.why = "no number"
            return line, None
        if isinstance(value, bool):
            line.why = "no number"
            return line, None
        ratio += self._offset(name)
        if self._offset(name):
            line.value = f"{ratio} in all"
        if ratio == 0:
            line.why = "is 0: a ratio to it has no logarithm"
            return line, None
        line.together = tuple(other for other in TOGETHER.get(name, ()) if self.parameters.get(other) == value)
        return line, ratio

    def _offset(self, name: str) -> Fraction:
        """What is added to a key before it counts."""
        return Fraction(self._device_latency) if name == ADDED_LATENCY else Fraction(0)

    def _sets(self, name: str, value: Fraction) -> Tuple[Tuple[str, str], ...]:
        value -= self._offset(name)
        text = str(value.numerator) if value.denominator == 1 else f"{value.numerator}/{value.denominator}"
        together = [other for other in TOGETHER.get(name, ()) if self.parameters.get(other) == self.parameters.get(name)]
        return tuple((key, text) for key in [name, *together])

    def _conclude(self, line: Elasticity, base: Outcome, reasons: Dict[Tuple[str, bool], str]) -> None:
        if line.why:
            return
        value = Fraction(line.value.split()[0])
        own = metrics(base.report)
        sides = [t for t in (line.low, line.high) if t is not None]
        if not sides:
            line.why = "no legal neighbour: " + "; ".join(
                reasons[(line.parameter, up)] for up in (False, True) if (line.parameter, up) in reasons)
            return
        for metric in METRICS:
            pairs = [(t.value, metrics(t.outcome.report)[metric]) for t in sides if t.outcome]
            if len(sides) == 1:
                pairs = sorted([*pairs, (value, own[metric])])
            line.elasticity[metric] = slope(pairs)
        if len(sides) == 1:
            missing = line.low is not None
            text = reasons.get((line.parameter, missing))
            line.why = f"one-sided: no legal {'larger' if missing else 'smaller'} value" + (f" ({text})" if text else "")


def rank(lines: Sequence[Elasticity]) -> List[Elasticity]:
    """The strongest answer of the time first; those without one last, by name."""
    def key(line: Elasticity) -> Tuple[bool, float, str]:
        found = line.elasticity.get("milliseconds")
        return found is None, -abs(found or 0.0), line.parameter

    return sorted(lines, key=key)


def _text(value: Fraction) -> str:
    return f"{value.numerator:,}" if value.denominator == 1 else f"{value.numerator}/{value.denominator}"


def _reason(message: str) -> str:
    """The last part of a message that says what is wrong, without the place."""
    first = message.splitlines()[0] if message else ""
    return first.rsplit(": ", 1)[-1][:160]


def _change(part: Optional[Try], base: Outcome) -> str:
    if part is None or part.outcome is None or base.report is None:
        return "-"
    own, other = metrics(base.report)["milliseconds"], metrics(part.outcome.report)["milliseconds"]
    return f"{_text(part.value)}: {100 * (other / own - 1):+.2f} %" if own and other else "-"


def table(base: Outcome, lines: Sequence[Elasticity]) -> str:
    assert base.report is not None
    energy = metrics(base.report)["joules"] is not None
    head = ["parameter", "value", "time", "cycles", *(["energy"] if energy else []), "smaller", "larger", "note"]
    rows = [head]
    for line in lines:
        number = [f"{e:+.3f}" if e is not None else "-" for e in
                  (line.elasticity.get(m) for m in ("milliseconds", "cycles", *(["joules"] if energy else [])))]
        notes = ([f"with {', '.join(line.together)}"] if line.together else []) + ([line.why] if line.why else [])
        value = f"{int(line.value):,}" if line.value.isdigit() else line.value
        rows.append([line.parameter, value, *number, _change(line.low, base), _change(line.high, base), "; ".join(notes)])
    return aligned(rows, left={0, len(head) - 1})


def document(study: Study, base: Outcome, lines: Sequence[Elasticity]) -> Dict[str, Any]:
    def side(part: Optional[Try]) -> Optional[Dict[str, Any]]:
        if part is None or part.outcome is None:
            return None
        return {"value": _text(part.value).replace(",", ""), "overrides": dict(part.sets), **metrics(part.outcome.report)}

    return {
        "model": study.axis("model").values[0], "machine": by_path(base.report, "machine.name"),
        "overrides": by_path(base.report, "machine.overrides"), "schedule": study.axis("schedule").values[0],
        "base": metrics(base.report),
        "elasticity": "d log metric / d log parameter, between the simulated neighbours",
        "parameters": [{"parameter": line.parameter, "value": line.value, "together": list(line.together),
                        "elasticity": {m: line.elasticity.get(m) for m in METRICS}, "smaller": side(line.low), "larger": side(line.high),
                        "why": line.why} for line in lines],
    }


def next_to_build(base: Outcome, lines: Sequence[Elasticity]) -> str:
    """The step that shortens the time most."""
    assert base.report is not None
    own = metrics(base.report)["milliseconds"] or 0.0
    best: Optional[Tuple[float, Elasticity, Try]] = None
    for line in lines:
        for part in (line.low, line.high):
            if part and part.outcome:
                gain = 1 - (metrics(part.outcome.report)["milliseconds"] or own) / own
                if gain > MIN_GAIN and (best is None or gain > best[0]):
                    best = (gain, line, part)
    if best is None:
        return f"no single step saves {100 * MIN_GAIN:g} % of the time\n"
    gain, line, part = best
    return f"what helps most: {line.parameter} {line.value} -> {_text(part.value)}, {100 * gain:.1f} % less time\n"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {PROGRAM} --help")


def _parser() -> _Parser:
    parser = _Parser(prog=PROGRAM, description="how cycles, time and energy of a model answer to each parameter of a machine: the model is "
                     "compiled and simulated at half and double of each, or at the next legal values")
    add = parser.add_argument
    add("model", metavar="MODEL")
    add("--hw", required=True, metavar="MACHINE")
    add("--set", action="append", default=[], metavar="KEY=VALUE", dest="sets", help="the machine to start from; repeatable")
    add("--schedule", default="pipelined")
    add("--option", action="append", default=[], metavar="NAME=VALUE", help="an option of tilewright run; repeatable")
    add("--parameters", metavar="KEY,KEY", help="these alone; all: every number of the machine and its DRAM")
    add("--json", metavar="FILE", help="write the table for programs; - is standard output, instead of the table")
    add("--store", metavar="FILE", help="a file of results, as of tilewright sweep: a stopped analysis goes on there")
    add("--timeout", type=int, default=600, metavar="SECONDS")
    add("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    add("--evaluator", choices=EVALUATORS, default="process")
    add("--binary", metavar="FILE")
    add("--quiet", action="store_true")
    return parser


def _names(arguments: argparse.Namespace, parameters: machines.Parameters) -> List[str]:
    numbers = [key for key, value in parameters.items() if is_machine_key(key) and not isinstance(value, bool)]
    if arguments.parameters is None:
        return [key for key in SIZED if key in parameters or key == "dma.outstanding_bursts"]
    if arguments.parameters == "all":
        return sorted({*[key for key in numbers if not isinstance(parameters[key], str) or "/" in str(parameters[key])],
                       "dma.outstanding_bursts"})
    names = [part.strip() for part in arguments.parameters.split(",")]
    for name in names:
        if name not in parameters and name != "dma.outstanding_bursts" and not name.startswith("timing."):
            raise UserError(f"--parameters: found {name!r}; allowed: all, or of this machine {', '.join(sorted(numbers))}")
    return names


def _run(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    binary = find_binary(arguments.binary)
    parts: Dict[str, Any] = {"models": [arguments.model], "machines": [arguments.hw], "schedules": [arguments.schedule],
                             "timeout_seconds": arguments.timeout}
    for flag, texts, key in (("--set", arguments.sets, "parameters"), ("--option", arguments.option, "options")):
        if texts:
            pairs = [text.partition("=") for text in texts]
            for (name, equals, value), text in zip(pairs, texts):
                if not equals or not name or not value:
                    raise UserError(f"{flag}: found {text!r}; allowed: NAME=VALUE")
            parts[key] = {name: [value] for name, _, value in pairs}
    if arguments.jobs < 1:
        raise UserError(f"--jobs: found {arguments.jobs}; allowed: an integer from 1")
    study = study_from_mapping(parts, binary, "sensitivity")

    def say(text: str) -> None:
        if not arguments.quiet and sys.stderr.isatty():
            print(f"\r{text}", end="", file=sys.stderr, flush=True)

    store = Store(arguments.store) if arguments.store else None
    try:
        with LocalPool(arguments.jobs) as pool:
            analysis = Analysis(study, pool, arguments.evaluator, store, say)
            base, lines = analysis.run(_names(arguments, analysis.parameters))
    finally:
        if store:
            store.release()
            store.close()
    if not arguments.quiet and sys.stderr.isatty():
        print(file=sys.stderr)
    text = json.dumps(document(study, base, lines), indent=1) + "\n"
    if arguments.json and arguments.json != "-":
        try:
            with open(arguments.json, "w", encoding="utf-8") as out:
                out.write(text)
        except OSError as error:
            raise UserError(f"{arguments.json}: cannot be written: {error.strerror}") from None
    if arguments.json == "-":
        sys.stdout.write(text)
    else:
        assert base.report is not None
        print(f"{arguments.model} on {by_path(base.report, 'machine.name')}: {base.report['total_cycles']:,} cycles, "
              f"{base.report['total_milliseconds']:.4g} ms; d log metric / d log parameter")
        sys.stdout.write(table(base, lines) + next_to_build(base, lines))
    return 0


def main(argv: Optional[Sequence[str]] = None) -> int:
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except UserError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\n{PROGRAM}: stopped" + ("; with --store the same command goes on" if "--store" in sys.argv else ""), file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
