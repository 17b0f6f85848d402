# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models, programs and runs."""
from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _core
from ._errors import UserError
from ._machine import Machine
from ._report import Report

if TYPE_CHECKING:
    import numpy
    Array = numpy.ndarray[Any, Any]
    Inputs = Union[Sequence[Array], Mapping[str, Array], None]


@dataclass(frozen=True)
class TensorSpec:
    """An input or output: its name, its type as NumPy calls it (or bfloat16), and its extents, outermost first."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class Model:
    """A network that can be compiled. Files are read when they are compiled."""

    def __init__(self, core: _core.Model, name: str, data: bytes | None = None) -> None:
        self._core = core
        self.name = name
        """The file, the inline kernel, or the name that messages use."""
        self._data = data

    @classmethod
    def load(cls, file_or_kernel: str | os.PathLike[str]) -> Model:
        """An ONNX file (.onnx), MLIR text (.mlir), or an inline kernel.

        Raises UserError: there is no such file, or it has another suffix.
        """
        name = os.fspath(file_or_kernel)
        return cls(_core.Model.load(name), name)

    @classmethod
    def onnx(cls, file: str | os.PathLike[str]) -> Model:
        """An ONNX file."""
        return cls.load(file)

    @classmethod
    def inline(cls, kernel: str) -> Model:
        """A single kernel: `gemm:MxNxK:TYPE` or `conv:NxHxWxC:KHxKWxOC:sSTRIDE:pPAD:TYPE`, with TYPE int8, bf16 or fp32."""
        return cls.load(kernel)

    @classmethod
    def from_onnx_bytes(cls, data: bytes, name: str = "model.onnx") -> Model:
        """A serialised ONNX ModelProto without external data, as `onnx_model.SerializeToString()` makes it."""
        return cls(_core.Model.from_onnx(data, name), name, data)

    def __repr__(self) -> str:
        return f"<Model {self.name}>"


class Program:
    """A network compiled for one machine. See compile() and load()."""

    def __init__(self, core: _core.Program, model: str, machine: Machine | None) -> None:
        self._core = core
        self.model = model
        self.machine = machine
        self.inputs: tuple[TensorSpec, ...] = tuple(TensorSpec(*spec) for spec in core.inputs())
        """The inputs in their order."""
        self.outputs: tuple[TensorSpec, ...] = tuple(TensorSpec(*spec) for spec in core.outputs())
        """The outputs in their order."""

    @classmethod
    def load(cls, file: str | os.PathLike[str], machine: Machine | None = None) -> Program:
        """A program image (.twp) or assembler text (.tasm), for `machine` or the machine that the file names.

        Raises UserError: the program was made for another architecture.
        """
        return cls(_core.Program.load(os.fspath(file), machine._core if machine else None), os.fspath(file), machine)

    @property
    def plan(self) -> str:
        """The complete plan file: every choice of the schedule (docs/schedule-file.md). compile(schedule=FILE) takes it back."""
        return self._core.text("plan")

    @property
    def assembly(self) -> str:
        """The instructions as assembler text (docs/isa.md)."""
        return self._core.text("isa")

    @property
    def rules(self) -> list[dict[str, Any]]:
        """What rewriting rules did, in order: dicts of rule, class, nodes, and estimated cycles before and after (docs/rules.md)."""
        return [json.loads(line) for line in self._core.text("rules").splitlines()]

    @property
    def image(self) -> bytes:
        """The bytes of a .twp file."""
        return self._core.image()

    @property
    def notes(self) -> list[str]:
        """What the compiler wants the user to know."""
        return self._core.notes().splitlines()

    def save(self, file: str | os.PathLike[str]) -> None:
        """Writes the program image (.twp)."""
        pathlib.Path(file).write_bytes(self.image)

    def run(self, inputs: Inputs = None, *, model: str = "systemc", seed: int = 1, check: bool = False, trace: bool = False,
            max_cycles: int = 0) -> Result:
        """Simulates the program once.

        Args:
            inputs: an array for each input, in order or by name. The shape must be the input's, but for leading extents of 1; the
                type must be the input's, but that float32 is rounded for float16 and bfloat16. None: random arrays.
            model: "systemc" (values and cycles), "functional" (values only), or "rtl" (the SystemVerilog machine; needs Verilator).
            seed: of random inputs.
            check: unwritten words and unordered accesses are faults.
            trace: keep what result.timeline and result.perfetto need.
            max_cycles: a run that takes more is a fault; 0: no limit.

        Raises UserError: an input does not fit. Fault: the program misbehaved.
        """
        options = [f"model={model}", f"seed={seed}", f"check={int(check)}", f"trace={int(trace)}"]
        if max_cycles:
            options.append(f"max_cycles={max_cycles}")
        return Result(self._core.run(self._arrays(inputs), options))

    def _arrays(self, inputs: Inputs) -> list[tuple[str, str, Any]] | None:
        if inputs is None:
            return None
        import numpy
        given: list[Any]
        if isinstance(inputs, Mapping):
            unknown = [name for name in inputs if name not in {spec.name for spec in self.inputs}]
            missing = [spec.name for spec in self.inputs if spec.name not in inputs]
            if unknown or missing:
                problem = f"there is no input '{unknown[0]}'" if unknown else f"input '{missing[0]}' is missing"
                raise UserError(f"{problem}; the inputs are {', '.join(spec.name for spec in self.inputs)}")
            given = [inputs[spec.name] for spec in self.inputs]
        else:
            given = list(inputs)
            if len(given) != len(self.inputs):
                raise UserError(f"{len(given)} inputs given but the network takes {len(self.inputs)}")
        arrays = []
        for spec, value in zip(self.inputs, given):
            array = numpy.asarray(value, order="C")
            if str(array.dtype) not in _DTYPES:
                raise UserError(f"input '{spec.name}' has dtype {array.dtype} but must be one of {', '.join(_DTYPES)}")
            arrays.append((spec.name, str(array.dtype), array))
        return arrays

    def __repr__(self) -> str:
        return f"<Program of {self.model}>"


_DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")


class Result:
    """One run: its outputs and its report."""

    def __init__(self, core: _core.Result) -> None:
        self._core = core

    @cached_property
    def outputs(self) -> dict[str, Array]:
        """Read-only arrays by name, without a copy: they share the result's memory and keep it. bfloat16, which NumPy does not have,
        is converted to float32."""
        arrays = {}
        for name, dtype, array in self._core.outputs():
            if dtype == "bfloat16":
                array = (array.astype("uint32") << 16).view("float32")
            arrays[name] = array
        return arrays

    @cached_property
    def report(self) -> Report:
        """Cycles, stalls and their causes, layers, DRAM traffic."""
        return Report(self._core.report())

    @cached_property
    def timeline(self) -> dict[str, Any]:
        """Chrome trace events of all engines, as chrome://tracing and Perfetto read them. The run must have kept a trace."""
        return dict(json.loads(self._core.timeline()))

    @cached_property
    def perfetto(self) -> bytes:
        """The same timeline in Perfetto's protobuf format: the bytes of a .pftrace file, with 1 ns for a cycle."""
        return self._core.perfetto()

    def __repr__(self) -> str:
        return f"<Result: {self.report.get('total_cycles', 'no')} cycles>"


def compile(model: Model | str | os.PathLike[str], machine: Machine | str, *, schedule: str | os.PathLike[str] = "pipelined",
            across: str = "all", priority: Optional[str] = None, math: str = "exact", rules: str = "all",
            disable_rules: Sequence[str] = (), search_budget: int = 64, search_jobs: int = 1,
            seed: int = 1, cache: str | os.PathLike[str] | None = None, shapes: Mapping[str, Sequence[int]] | None = None,
            targets: Sequence[str] = ()) -> Program:
    """Compiles a network for a machine.

    Args:
        model: a Model, or what Model.load() takes.
        machine: a Machine, or the name of a shipped one.
        schedule: "serial", "double_buffer", "pipelined", "search", or a plan file.
        across: what pipelined and search do across the borders of layers: "none", "prefetch", "all".
        priority: which ready operation the list scheduler issues first: "program_order", "alap", "interleaved"; None: the compiler
            chooses.
        math: what may be changed of the network's numbers: "strict", "exact", "finite", "reassociate", "fast" (docs/targets.md).
        rules: classes of rewriting rules that are applied, as far as `math` allows: "none", "bit-exact", "real", "all" (docs/rules.md).
        disable_rules: names of rewriting rules that are not applied.
        search_budget: programs that schedule "search" simulates.
        search_jobs: processes that it simulates in; more than 1 needs a process without other threads.
        seed: of the weights of inline kernels, and of the search.
        cache: a folder that keeps what searches have measured.
        shapes: extents of inputs with dynamic extents, by name.
        targets: names of targets in order of preference; none: the accelerator before the CPU.

    Raises UserError: the model, the machine or an option is wrong, or the machine is too small.
    """
    if not isinstance(model, Model):
        model = Model.load(model)
    if not isinstance(machine, Machine):
        machine = Machine.load(machine)
    options = [f"schedule={os.fspath(schedule)}", f"across={across}", f"math={math}", f"rules={rules}", f"search_budget={search_budget}",
               f"search_jobs={search_jobs}", f"seed={seed}"]
    options += [f"disable_rule={rule}" for rule in disable_rules]
    if priority:
        options.append(f"priority={priority}")
    if cache:
        options.append(f"cache={os.fspath(cache)}")
    if targets:
        options.append(f"targets={','.join(targets)}")
    options += [f"shape.{name}={','.join(map(str, extents))}" for name, extents in (shapes or {}).items()]
    return Program(_core.compile(model._core, machine._core, options), model.name, machine)
