# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One point: a task goes in, an outcome comes out. Tasks are plain values, so that they cross processes and hosts.

`process` runs the command line for each point, which isolates crashes; `python` compiles and simulates in the worker, by package
tilewright. Both give the report of `tilewright run`."""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .errors import UserError
from .expressions import Scalar
from .machines import parameters, technologies
from .store import CRASHED, FAILED, OK, TIMEOUT, Outcome
from .study import Point, Study, is_inline

EVALUATORS = ("process", "python")
# Keys that a compiled program does not depend on: it runs, if perhaps not well, whatever they are.
TIMING_BLOCKS = ("dram.", "timing.")
_MESSAGE_CHARACTERS = 2000


class Task(NamedTuple):
    """A point for a worker. `kind`: "run", or "bound" for the lower bound alone."""

    kind: str
    digest: str
    binary: str
    build: str
    model: str
    model_digest: str
    machine: str
    sets: Tuple[str, ...]
    schedule: str
    batch: int
    options: Tuple[str, ...]
    timeout_seconds: float
    fixed_program: bool
    evaluator: str


# ------------------------------------------------------------------------------------------------------------ digests

def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@functools.lru_cache(maxsize=None)
def _file_digest(path: str, size: int, modified: int) -> str:
    return _sha256(pathlib.Path(path).read_bytes())


def file_digest(path: str) -> str:
    try:
        status = os.stat(path)
        return _file_digest(os.path.abspath(path), status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def model_digest(model: str) -> str:
    """Of the bytes of a model, or of the text of an inline kernel."""
    return _sha256(model.encode()) if is_inline(model) else file_digest(model)


def find_binary(named: Optional[str] = None) -> str:
    """The binary: the one named, or TILEWRIGHT, or beside this package, or on PATH."""
    wanted = named or os.environ.get("TILEWRIGHT")
    if wanted:
        found = shutil.which(wanted)
        if not found:
            raise UserError(f"{wanted}: no such program; --binary or TILEWRIGHT names `tilewright`")
        return os.path.abspath(found)
    here = pathlib.Path(os.path.abspath(__file__))
    for parent in here.parents:
        for candidate in (parent / "bin/tilewright", parent / "build/release/bin/tilewright"):
            if candidate.is_file() and os.access(candidate, os.X_OK):
                return str(candidate)
    found = shutil.which("tilewright")
    if not found:
        raise UserError("no `tilewright` on PATH; --binary or TILEWRIGHT names it")
    return found


@functools.lru_cache(maxsize=None)
def _version(binary: str, digest: str) -> str:
    try:
        return subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{binary}: does not run: {error}") from None


def build_of(binary: str) -> Dict[str, str]:
    """Version and digest of the binary."""
    digest = file_digest(binary)
    return {"version": _version(binary, digest), "digest": digest}


def inputs_of(study: Study, point: Point, build: Mapping[str, str]) -> Dict[str, Any]:
    """Everything a point's row depends on. Models and machines count by their contents."""
    values: Dict[str, Scalar] = dict(point.overrides)
    machine = parameters(point.machine, study.binary, values)
    schedule = file_digest(point.schedule) if point.schedule.endswith(".mlir") else point.schedule
    return {
        "model": model_digest(point.model), "technologies": [file_digest(str(file)) for file in technologies(study.binary)],
        "machine": _sha256(json.dumps([[key, str(machine[key])] for key in sorted(machine) if key != "description"]).encode()),
        "overrides": point.sets, "schedule": schedule, "batch": point.batch, "options": study.command_options(point.batch),
        "batch_in_program": study.batch_in_program,
        "fixed_program": study.fixed_program, "build": build["digest"], "version": build["version"],
    }


def digest_of(inputs: Mapping[str, Any]) -> str:
    return _sha256(json.dumps(inputs, sort_keys=True).encode())


def task_of(study: Study, point: Point, inputs: Mapping[str, Any], evaluator: str, kind: str = "run") -> Task:
    def absolute(name: str) -> str:
        return os.path.abspath(name) if name.endswith((".yaml", ".yml")) or "/" in name else name

    # The model is named as the study names it: reports repeat the name.
    return Task(kind, digest_of(inputs), study.binary, str(inputs["build"]), point.model, str(inputs["model"]), absolute(point.machine),
                tuple(point.sets), "serial" if kind == "bound" else point.schedule, point.batch, tuple(study.command_options(point.batch)),
                study.timeout_seconds, study.fixed_program, evaluator)


# ------------------------------------------------------------------------------------------------------------ running

class Child:
    """The process that runs now, so that a worker whose parent is gone can end it."""

    running: Optional["subprocess.Popen[bytes]"] = None


def _run(command: Sequence[str], timeout: float) -> Tuple[Optional[int], bytes, str]:
    """Exit status (none: it took too long), standard output and the end of standard error."""
    environment = {**os.environ, "SYSTEMC_DISABLE_COPYRIGHT_MESSAGE": "1"}
    environment.pop("TILEWRIGHT_CACHE", None)  # a search begins with nothing, so that rows do not depend on earlier ones
    with subprocess.Popen(list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment) as process:
        Child.running = process
        try:
            out, err = process.communicate(timeout=timeout)
            status: Optional[int] = process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            status = None
        finally:
            Child.running = None
    return status, out, err.decode(errors="replace").strip()[-_MESSAGE_CHARACTERS:]


def _failure(status: Optional[int], message: str, seconds: float, timeout: float) -> Outcome:
    if status is None:
        return Outcome(TIMEOUT, f"no result after {timeout:g} s", wall_seconds=seconds)
    if status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else str(-status)
        return Outcome(CRASHED, f"ended by {name}" + (f": {message}" if message else ""), wall_seconds=seconds)
    lines = [line for line in message.splitlines() if not line.startswith("tilewright: note: ")]
    message = "\n".join(lines).replace("tilewright: ", "") or f"exit status {status}"
    return Outcome(CRASHED if status >= 3 else FAILED, message, wall_seconds=seconds)


def _architecture(sets: Sequence[str]) -> List[str]:
    return [s for s in sets if not s.startswith(TIMING_BLOCKS) and not s.startswith("clock_mhz=")]


def _sets(sets: Sequence[str]) -> List[str]:
    return [part for s in sets for part in ("--set", s)]


def _fixed_program(task: Task, folder: pathlib.Path, timeout: float) -> Tuple[str, Optional[Outcome]]:
    """The program compiled for the machine without what concerns time alone; kept in `folder` for the points that share it."""
    begin = time.monotonic()
    sets = _architecture(task.sets)
    key = _sha256(json.dumps([task.build, task.model_digest, task.machine, sets, task.schedule, task.options]).encode())
    program = folder / f"{key}.twp"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"{key}.{os.getpid()}.partial"
        options = [o for pair in zip(task.options[::2], task.options[1::2]) if pair[0] not in ("--max-cycles", "--technology") for o in pair]
        status, _, message = _run([task.binary, "compile", task.model, "--hw", task.machine, *_sets(sets), "--schedule", task.schedule,
                                   *options, "-o", str(partial)], timeout)
        if status != 0:
            return "", _failure(status, message, time.monotonic() - begin, task.timeout_seconds)
        partial.replace(program)
    return str(program), None


def run_process(task: Task) -> Outcome:
    """Runs the command line. What it prints of a model it runs is the row."""
    begin = time.monotonic()
    options, model, program = list(task.options), task.model, "compiled"
    if task.fixed_program and task.kind == "run":
        folder = pathlib.Path(tempfile.gettempdir()) / f"tilewright-programs-{os.getuid()}"
        model, failure = _fixed_program(task, folder, task.timeout_seconds)
        if failure:
            return failure
        architecture = _architecture(task.sets)
        program = f"fixed: compiled for {task.machine}" + (f" ({', '.join(architecture)})" if architecture else "")
        kept = ("--seed", "--max-cycles", "--technology")
        command = [task.binary, "run", model, "--hw", task.machine, *_sets(task.sets),
                   *[o for pair in zip(options[::2], options[1::2]) if pair[0] in kept for o in pair], "--json", "-"]
    else:
        command = [task.binary, "run", model, "--hw", task.machine, *_sets(task.sets), "--schedule", task.schedule, *options,
                   *(["--search-jobs", "1"] if task.schedule == "search" else []), "--json", "-"]
    status, out, message = _run(command, max(0.01, task.timeout_seconds - (time.monotonic() - begin)))
    seconds = time.monotonic() - begin
    if status != 0:
        return _failure(status, message, seconds, task.timeout_seconds)
    try:
        report = json.loads(out)
    except ValueError:
        return Outcome(CRASHED, "the report is not JSON", wall_seconds=seconds)
    return Outcome(OK, "", report, program, seconds)


# What tilewright.compile() and Program.run() take.
_PYTHON_OPTIONS = {"--across", "--priority", "--math", "--rules", "--search-budget", "--seed", "--shape", "--max-cycles"}


def run_python(task: Task) -> Outcome:
    """Compiles and simulates in this process, which saves its start."""
    if task.fixed_program or not set(task.options[::2]) <= _PYTHON_OPTIONS:
        return run_process(task)
    api: Any = importlib.import_module("tilewright")
    begin = time.monotonic()
    options: Dict[str, Any] = {}
    max_cycles, seed = 0, 1
    for name, text in zip(task.options[::2], task.options[1::2]):
        if name == "--shape":
            tensor, _, extents = text.partition("=")
            options.setdefault("shapes", {})[tensor] = [int(part) for part in extents.split(",")]
        elif name == "--max-cycles":
            max_cycles = int(text)
        else:
            options[name[2:].replace("-", "_")] = int(text) if name in ("--search-budget", "--seed") else text
            seed = int(text) if name == "--seed" else seed
    try:
        machine = api.Machine.load(task.machine, dict(s.split("=", 1) for s in task.sets))
        program = api.compile(api.Model.load(task.model), machine, schedule=task.schedule, **options)
        report = program.run(seed=seed, max_cycles=max_cycles).report.to_dict()
    except api.Error as error:
        status = CRASHED if isinstance(error, api.InternalError) else FAILED
        return Outcome(status, str(error)[-_MESSAGE_CHARACTERS:], wall_seconds=time.monotonic() - begin)
    except ValueError as error:
        return Outcome(FAILED, str(error)[-_MESSAGE_CHARACTERS:], wall_seconds=time.monotonic() - begin)
    return Outcome(OK, "", report, "compiled", time.monotonic() - begin)


def evaluate(task: Task) -> Outcome:
    """The outcome of a task; a mistake of this program is a row as well."""
    try:
        if model_digest(task.model) != task.model_digest:
            return Outcome(FAILED, f"{task.model}: another model than where the sweep was started")
        if file_digest(task.binary) != task.build:
            return Outcome(FAILED, f"{task.binary}: another build than where the sweep was started")
        return run_python(task) if task.evaluator == "python" else run_process(task)
    except UserError as error:
        return Outcome(FAILED, str(error))
    except Exception as error:  # noqa: BLE001: the sweep goes on
        return Outcome(CRASHED, f"{type(error).__name__}: {error}"[:_MESSAGE_CHARACTERS])
