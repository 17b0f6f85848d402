# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the command line does and a process of its own is right for: profile, verify, quantize, compare."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ._errors import InternalError, UserError, error_of
from ._machine import Machine
from ._program import Model


def command() -> str:
    """The `tilewright` program: the one that the environment variable TILEWRIGHT names, the one of this package's wheel, installation
    or build, or the one in PATH.

    Raises UserError: there is none.
    """
    package = pathlib.Path(__file__).absolute().parent
    beside = [folder / "bin/tilewright" for folder in (package, package.parents[1], *package.parents[3:4])]
    found = os.environ.get("TILEWRIGHT") or next((str(file) for file in beside if file.exists()), None) or shutil.which("tilewright")
    if not found:
        raise UserError("there is no program tilewright: put it in PATH, or name it in the environment variable TILEWRIGHT")
    return found


def run_command(arguments: Sequence[str]) -> str:
    """Standard output of `tilewright ARGUMENTS`. A failure is raised as the exception for its exit status."""
    done = subprocess.run([command(), *arguments], capture_output=True, text=True)
    if done.returncode == 0:
        return done.stdout
    if done.returncode < 0:
        raise InternalError(f"tilewright {arguments[0]} was ended by signal {-done.returncode}")
    lines = [line.removeprefix("tilewright: ").removeprefix("fault: ").removeprefix("internal error: ")
             for line in done.stderr.splitlines() if not line.startswith("tilewright: note: ")]
    raise error_of(done.returncode, "\n".join(lines))


@contextlib.contextmanager
def _file(model: Model | str | os.PathLike[str]) -> Iterator[str]:
    """The model as the command line takes it."""
    if not isinstance(model, Model):
        yield os.fspath(model)
    elif model._data is None:
        yield model.name
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            path.write_bytes(model._data)
            yield str(path)


def _options(machine: Machine | str | None, options: Mapping[str, Any]) -> list[str]:
    arguments: list[str] = []
    if isinstance(machine, Machine):
        arguments += ["--hw", machine.source]
        for key, value in machine.overrides.items():
            arguments += ["--set", f"{key}={value}"]
    elif machine:
        arguments += ["--hw", machine]
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(flag)
        elif isinstance(value, (list, tuple)):
            arguments += [text for one in value for text in (flag, str(one))]
        elif value is not None and value is not False:
            arguments += [flag, str(value)]
    return arguments


def profile(model: Model | str, machine: Machine | str, **options: Any) -> dict[str, Any]:
    """The document of `tilewright profile --json`: every cycle in which the tensor engine was not busy, with its cause, and what would
    help. Options are those of the command line, with underscores: `schedule="search"`."""
    with _file(model) as file:
        return dict(json.loads(run_command(["profile", file, *_options(machine, options), "--json", "-"])))


def verify(model: Model | str, machine: Machine | str, **options: Any) -> str:
    """Runs the SystemC model and the RTL side by side, which must agree in every cycle. Returns what `tilewright verify` prints. Needs
    Verilator."""
    with _file(model) as file:
        return run_command(["verify", file, *_options(machine, options)])


def compare(model: Model | str, machine: Machine | str | None = None, **options: Any) -> dict[str, Any]:
    """The document of `tilewright compare --json`: the network on the accelerator, the CPU and other targets, values and times
    (docs/compare.md)."""
    with _file(model) as file:
        return dict(json.loads(run_command(["compare", file, *_options(machine, options), "--json", "-"])))


def quantize(model: Model | str, output: str | os.PathLike[str], calibration: str = "random:8", **options: Any) -> Model:
    """Quantises a float ONNX model to int8 and writes it to `output` (docs/quantize.md).

    Args:
        calibration: a file or folder of samples, or "random:COUNT".
    """
    with _file(model) as file:
        run_command(["quantize", file, "--calibration", calibration, "-o", os.fspath(output), *_options(None, options)])
    return Model.load(output)
