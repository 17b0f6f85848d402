# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line of sweeps. Exit status: 0 ok, 1 user error, 130 stopped by Ctrl-C."""

from __future__ import annotations

import argparse
import os
import pathlib
import shlex
import signal
import subprocess
import sys
from typing import Any, Dict, List, NoReturn, Optional, Sequence, Tuple

from . import export, plots
from .driver import Summary, Sweep, check_keys
from .errors import UserError
from .evaluate import EVALUATORS, find_binary
from .front import hypervolume
from .pool import DaskPool, LocalPool, Pool
from .reading import SAMPLERS, load, merged, parse_file, study_from, study_from_mapping, values_of_flag
from .results import front_rows, objective_value
from .samplers import make_sampler
from .store import OK, Row, Store
from .study import NAMED, Objective, Space, Study, objectives_of

PROGRAM = "tilewright sweep"
COMMANDS = ("show", "export", "front", "plot")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {self.prog} --help")


def _run_parser() -> _Parser:
    parser = _Parser(prog=PROGRAM, description="run models on many machines; rows go to one SQLite file, and a stopped sweep goes on there",
                     epilog=f"{PROGRAM} show|export|front|plot FILE read a file of results. docs/sweep.md describes studies.")
    parser.add_argument("study", nargs="?", metavar="STUDY", help="a study, YAML; flags add to it and take precedence")
    add = parser.add_argument
    add("--model", action="append", metavar="MODEL", help="a model file or an inline kernel; repeatable")
    add("--hw", action="append", metavar="MACHINE", help="a machine file or the name of a shipped one; repeatable")
    add("--set", action="append", default=[], metavar="KEY=VALUES", dest="sets",
        help="values of a key of the machine: 8,16,32 or 8..64*2 or 8..64+8; repeatable")
    add("--derive", action="append", default=[], metavar="KEY=EXPRESSION", help="a key computed from others: vector.lanes=cols; repeatable")
    add("--where", action="append", default=[], metavar="EXPRESSION", help="a constraint: rows<=cols; repeatable")
    add("--schedule", action="append", help="serial, double_buffer, pipelined, search or a plan file; repeatable")
    add("--batch", action="append", type=int, metavar="N", help="inferences one after the other; repeatable")
    add("--option", action="append", default=[], metavar="NAME=VALUE", help="an option of tilewright run: across, priority, math, "
        "rules, disable_rule, search_budget, seed, shape, max_cycles, technology or cost_model; repeatable")
    add("--minimise", action="append", default=[], metavar="NAME", help=f"an objective: {', '.join(NAMED)}, a field of the report, or "
        "=EXPRESSION; repeatable")
    add("--maximise", action="append", default=[], metavar="NAME", help="the same, larger is better")
    add("--sampler", choices=SAMPLERS, help="default: grid")
    add("--points", type=int, metavar="N", help="how many points random, tpe and nsga2 run")
    add("--seed", type=int, help="of the sampler; default 1")
    add("--population", type=int, metavar="N", help="of nsga2; default an eighth of the points, at most 50")
    add("--prune", action="store_true", help="skip points whose bound another row dominates (grid, random)")
    add("--fixed-program", action="store_true", help="do not compile again where only DRAM, latencies or clock differ")
    add("--timeout", type=int, metavar="SECONDS", help="for a point; default 600")
    add("--store", metavar="FILE", help="file of results; default: the study's name with .sqlite")
    add("--jobs", type=int, metavar="N", help="worker processes; default: one for each processor")
    add("--cluster", metavar="tcp://HOST:PORT", help="run on a Dask cluster instead")
    add("--evaluator", choices=EVALUATORS, default="process", help="process: a run of the command line for each point, default; python: "
        "compile and simulate in the workers, without a start for each point")
    add("--retry", action="store_true", help="run failed, crashed and timed-out points again")
    add("--dry-run", action="store_true", help="check the study, print how many points it has, and run none")
    add("--binary", metavar="FILE", help="the tilewright to run; default: TILEWRIGHT, beside this package, or on PATH")
    add("--quiet", action="store_true", help="no progress")
    return parser


def _pair(flag: str, text: str) -> Tuple[str, str]:
    key, equals, rest = text.partition("=")
    if not equals or not key.strip() or not rest.strip():
        raise UserError(f"{flag}: found {text!r}; allowed: NAME=VALUE")
    return key.strip(), rest.strip()


def _flags(arguments: argparse.Namespace) -> Dict[str, Any]:
    """What the flags say, as parts of a study."""
    out: Dict[str, Any] = {}
    for key, values in (("models", arguments.model), ("machines", arguments.hw), ("schedules", arguments.schedule), ("batch", arguments.batch)):
        if values:
            out[key] = values
    if arguments.sets:
        out["parameters"] = {key: values_of_flag(text) for key, text in (_pair("--set", entry) for entry in arguments.sets)}
    if arguments.derive:
        out["derived"] = dict(_pair("--derive", entry) for entry in arguments.derive)
    if arguments.where:
        out["constraints"] = list(arguments.where)
    if arguments.option:
        options: Dict[str, Any] = {}
        for key, text in (_pair("--option", entry) for entry in arguments.option):
            options.setdefault(key, []).append(text)
        out["options"] = options
    objectives = [{"minimise": name} for name in arguments.minimise] + [{"maximise": name} for name in arguments.maximise]
    if objectives:
        out["objectives"] = objectives
    for key, value in (("timeout_seconds", arguments.timeout), ("prune", arguments.prune or None),
                       ("fixed_program", arguments.fixed_program or None)):
        if value is not None:
            out[key] = value
    return out


def _study(arguments: argparse.Namespace, binary: str) -> Study:
    flags = _flags(arguments)
    sampler = {key: value for key, value in (("name", arguments.sampler), ("points", arguments.points), ("seed", arguments.seed),
                                             ("population", arguments.population)) if value is not None}
    if arguments.study is None:
        if not arguments.model or not arguments.hw:
            raise UserError(f"no study: name a file, or --model and --hw; see {PROGRAM} --help")
        if sampler:
            flags["sampler"] = {"name": "grid", **sampler}
            if flags["sampler"] == {"name": "grid"}:
                flags["sampler"] = "grid"
        return study_from_mapping(flags, binary, pathlib.Path(arguments.store).stem if arguments.store else "sweep")
    if not flags and not sampler:
        return load(arguments.study, binary)
    path = pathlib.Path(arguments.study)
    root = parse_file(arguments.study)
    if sampler:
        node = root.items("a study (docs/sweep.md)").get("sampler")
        stated = {} if node is None else {"name": node.value} if isinstance(node.value, str) else node.plain()
        if sampler.get("name", stated.get("name")) != stated.get("name"):
            stated = {key: value for key, value in stated.items() if key in ("points", "seed")}
        flags["sampler"] = {**stated, **sampler}
        if flags["sampler"].get("name") == "grid":
            flags["sampler"] = "grid"
    return study_from(merged(root, flags), path.stem, path.resolve().parent, binary)


def _pool(arguments: argparse.Namespace) -> Pool:
    if arguments.cluster:
        return DaskPool(arguments.cluster)
    jobs = arguments.jobs if arguments.jobs is not None else os.cpu_count() or 1
    if jobs < 1:
        raise UserError(f"--jobs: found {jobs}; allowed: an integer from 1")
    return LocalPool(jobs)


def _run(argv: Sequence[str]) -> int:
    arguments = _run_parser().parse_args(argv)
    binary = find_binary(arguments.binary)
    study = _study(arguments, binary)

    def problems(words: Sequence[str]) -> str:
        return subprocess.run([binary, "hw", "describe", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL).stderr

    check_keys(study, problems)
    if arguments.dry_run:
        print(f"{study.name}: {make_sampler(study, Space(study)).total} points of {study.size}, sampler {study.sampler.name}, "
              + ", ".join(o.text for o in study.objectives))
        return 0
    file = arguments.store or f"{study.name}.sqlite"
    stopped: List[int] = []

    def stop(number: int, _: object) -> None:
        # A second Ctrl-C does not wait for what is under way.
        if stopped:
            raise KeyboardInterrupt
        stopped.append(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with Store(file) as store, _pool(arguments) as pool:
            sweep = Sweep(study, store, pool, arguments.evaluator, arguments.retry, arguments.quiet)
            summary = sweep.run(lambda: bool(stopped))
            if stopped:
                sweep.progress.clear()
            return _end(study, store, file, summary, bool(stopped), argv)
    except KeyboardInterrupt:
        print(f"{PROGRAM}: stopped; {_resume(argv)}", file=sys.stderr)
        return 130
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _resume(argv: Sequence[str]) -> str:
    return f"the rows are kept, the same command goes on: {PROGRAM} {' '.join(map(shlex.quote, argv))}"


def _end(study: Study, store: Store, file: str, summary: Summary, stopped: bool, argv: Sequence[str]) -> int:
    for note in summary.notes:
        print(f"{PROGRAM}: note: {note}", file=sys.stderr)
    counts = ", ".join(f"{count} {status}" for status, count in sorted(summary.counts.items())) or "none"
    print(f"{study.name}: rows {counts}; {summary.ran} ran now; in {file}")
    if stopped:
        print(f"{PROGRAM}: stopped; {_resume(argv)}", file=sys.stderr)
        return 130
    rows = store.rows(study.digest, details=any("." in o.field for o in study.objectives))
    best = front_rows(rows, study.objectives)
    if best and len(study.objectives) == 1:
        objective = study.objectives[0]
        print(f"best {objective.text}: {export.number_text(objective_value(objective, best[0]))} at {_where(study, best[0])}")
    elif best:
        print(f"front of {', '.join(o.text for o in study.objectives)}: {len(best)} rows; {PROGRAM} front {file}")
    return 0


def _where(study: Study, row: Row) -> str:
    varied = [axis.name for axis in study.axes if len(axis.values) > 1]
    return ", ".join(f"{name} {row.coordinates[name]}" for name in varied) or row.model


# ------------------------------------------------------------------------------------------------------ reading commands

def _read_parser(command: str) -> _Parser:
    parser = _Parser(prog=f"{PROGRAM} {command}", description={
        "show": "the rows of a study as a table", "export": "the rows of a study for programs",
        "front": "the rows that no other row dominates", "plot": "points with their front, or a map over two parameters",
    }[command])
    add = parser.add_argument
    add("file", metavar="FILE", help="a file of results")
    add("--study", metavar="NAME", help="name or digest of a study in it; default: the newest")
    if command in ("front", "plot"):
        add("--minimise", action="append", default=[], metavar="NAME", help="an objective instead of the study's; repeatable")
        add("--maximise", action="append", default=[], metavar="NAME", help="the same, larger is better")
    if command == "show":
        add("--status", help="only rows with this status: ok, failed, crashed, timeout or pruned")
        add("--fields", metavar="NAME,NAME", help="these instead of the objectives: named objectives or fields of the report")
        add("--limit", type=int, metavar="N", help="at most so many rows")
    if command in ("export", "front"):
        add("--format", choices=export.FORMATS, help="default: csv" if command == "export" else "default: a table")
        add("-o", "--output", metavar="FILE", help="default: standard output")
        add("--lists", action="store_true", help="json: with the lists of reports, such as layers")
    if command == "front":
        add("--reference", metavar="A,B", help="print the hypervolume below this point, in the order of the objectives")
    if command == "plot":
        add("-o", "--output", metavar="FILE", required=True, help="a name that ends in .svg or .png")
        add("--x", metavar="NAME", help="objective or field; default: the first objective")
        add("--y", metavar="NAME", help="default: the second objective")
        add("--heat", metavar="KEY,KEY", help="a map over two parameters")
        add("--value", metavar="NAME", help="what the map shows; default: the first objective")
    return parser


def _objectives(arguments: argparse.Namespace, document: Dict[str, Any]) -> List[Objective]:
    named = [(name, False) for name in getattr(arguments, "minimise", [])] + [(name, True) for name in getattr(arguments, "maximise", [])]
    if not named:
        return objectives_of(document)
    return [Objective(name, NAMED[name][0] if name in NAMED else name, larger) for name, larger in named]


def _read(command: str, argv: Sequence[str]) -> int:
    arguments = _read_parser(command).parse_args(argv)
    with Store(arguments.file, create=False) as store:
        digest, name, document = store.study(arguments.study)
        objectives = _objectives(arguments, document)
        if getattr(arguments, "fields", None):
            objectives = [Objective(name, plots.field_of(name), False) for name in arguments.fields.split(",")]
        rows = store.rows(digest, details=getattr(arguments, "lists", False) or any("." in o.field for o in objectives))
        axes = [axis for axis, values in document["axes"] if len(values) > 1]
        if command == "show":
            kept = [row for row in rows if arguments.status in (None, row.status)]
            shown = kept[: arguments.limit]
            sys.stdout.write(export.table(shown, objectives, axes))
            counts = ", ".join(f"{count} {status}" for status, count in store.counts(digest).items())
            print(f"{name}: {counts or 'no rows'}" + (f"; {len(kept) - len(shown)} more" if len(shown) < len(kept) else ""))
        elif command == "export":
            sys.stdout.write(export.write(rows, arguments.format or "csv", arguments.output))
        elif command == "front":
            best = front_rows(rows, objectives)
            if arguments.format or arguments.output:
                sys.stdout.write(export.write(best, arguments.format or "csv", arguments.output))
            else:
                sys.stdout.write(export.table(best, objectives, axes))
            if arguments.reference:
                print(f"hypervolume {_hypervolume(best, objectives, arguments.reference):.6g}")
        else:
            _plot(arguments, rows, objectives)
    return 0


def _hypervolume(rows: Sequence[Row], objectives: Sequence[Objective], text: str) -> float:
    try:
        reference = [float(part) for part in text.split(",")]
    except ValueError:
        reference = []
    if len(reference) != len(objectives):
        raise UserError(f"--reference: found {text!r}; allowed: {len(objectives)} numbers with commas")
    return hypervolume([tuple(o.signed(objective_value(o, row)) for o in objectives) for row in rows],
                       [o.signed(part) for o, part in zip(objectives, reference)])


def _plot(arguments: argparse.Namespace, rows: Sequence[Row], objectives: Sequence[Objective]) -> None:
    if arguments.heat:
        keys = [key.strip() for key in arguments.heat.split(",")]
        if len(keys) != 2:
            raise UserError(f"--heat: found {arguments.heat!r}; allowed: two parameters with a comma")
        plots.heat(rows, (keys[0], keys[1]), arguments.value or objectives[0].name, arguments.output)
    else:
        plots.scatter([row for row in rows if row.status == OK], objectives, arguments.output, arguments.x, arguments.y)


def main(argv: Optional[Sequence[str]] = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _read(words[0], words[1:]) if words and words[0] in COMMANDS else _run(words)
    except UserError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of a pipe has seen enough; nothing is left to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
