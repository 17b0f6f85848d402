# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exceptions, by whose mistake it was."""
from __future__ import annotations

import re

from . import _core

# "file:12:3: ..." or "file.onnx: ...".
_PLACE = re.compile(r"^(?P<place>[^\s:][^:\n]*\.(?:onnx|yaml|mlir|tasm|twp|npy|pb)(?::\d+(?::\d+)?)?): ")


class Error(Exception):
    """A call that failed.

    Attributes:
        message: what was found and what is allowed; several problems take a line each.
        place: the file, with line and column where known, that the message begins with; None if it names no file.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        found = _PLACE.match(message)
        self.place: str | None = found["place"] if found else None


class UserError(Error):
    """A bad model, machine, tensor or option."""


class Fault(Error):
    """The simulated program misbehaved."""


class InternalError(Error):
    """A mistake of Tilewright."""


def error_of(status: int, message: str) -> Error:
    """The exception for an exit status of the command line or a status of the library."""
    return {1: UserError, 2: Fault}.get(status, InternalError)(message)


def _raise(status: int, message: str) -> None:
    raise error_of(status, message)


_core.set_raise(_raise)
