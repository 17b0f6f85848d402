# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tilewright: compile neural networks for a simulated tensor accelerator, run them, and see where the cycles go.

    import tilewright as tw

    machine = tw.Machine.load("gemmini_16x16_int8")
    program = tw.compile(tw.Model.inline("gemm:64x64x64:int8"), machine)
    result = program.run()
    print(result.report.total_cycles)

Any thread may call any function. Simulations of one process run one after the other; use processes to run several at once. What a user
can mend is a UserError, whose text says where, what was found and what is allowed.
"""
from ._commands import compare, profile, quantize, verify
from ._core import version as _version
from ._errors import Error, Fault, InternalError, UserError
from ._machine import Machine, machines
from ._program import Model, Program, Result, TensorSpec, compile
from ._report import EngineReport, LayerReport, Report

__version__ = _version()
__all__ = [
    "EngineReport", "Error", "Fault", "InternalError", "LayerReport", "Machine", "Model", "Program", "Report", "Result", "TensorSpec",
    "UserError", "compare", "compile", "machines", "profile", "quantize", "verify",
]
