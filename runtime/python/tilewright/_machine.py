# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Machines: what a program is compiled for and simulated on."""
from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from typing import Union

from . import _core
from . import _errors as _errors  # sets the exceptions of _core

Value = Union[bool, int, Fraction, str]


def _spell(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _overrides(settings: Mapping[str, object] | None, named: Mapping[str, object]) -> list[str]:
    merged = dict(settings or {})
    merged.update((key.replace("__", "."), value) for key, value in named.items())
    return [f"{key}={_spell(value)}" for key, value in merged.items()]


def _parse(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return Fraction(text)
    except ValueError:
        return text


def machines() -> list[str]:
    """Names of the shipped machines, sorted."""
    return _core.machine_names().split()


class Machine:
    """One accelerator: array, memories, engines and DRAM. Machines do not change; with_() makes another one."""

    def __init__(self, core: _core.Machine, source: str, overrides: Mapping[str, object]) -> None:
        self._core = core
        self.source = source
        """The file or shipped name that the machine was loaded from."""
        self.overrides: dict[str, object] = dict(overrides)
        """What was changed of the file, by key."""

    @classmethod
    def load(cls, name_or_file: str | os.PathLike[str], settings: Mapping[str, object] | None = None, /, **named: object) -> Machine:
        """Reads a shipped machine by its name (see machines()), or a YAML file.

        Settings override keys of the file, as `--set` of the command line does. A key holds dots, so it stands in a mapping, or as a
        keyword with two underscores for a dot: `{"array.rows": 32}` or `array__rows=32`.

        Raises UserError: the file or a setting is wrong; the message names every problem with its line.
        """
        source = os.fspath(name_or_file)
        texts = _overrides(settings, named)
        return cls(_core.Machine.load(source, texts), source, dict(text.split("=", 1) for text in texts))

    def with_(self, settings: Mapping[str, object] | None = None, /, **named: object) -> Machine:
        """The same machine with other settings (see load()); a setting replaces an earlier one of the same key."""
        texts = _overrides(settings, named)
        overrides = {**self.overrides, **dict(text.split("=", 1) for text in texts)}
        return Machine(self._core.with_overrides(texts), self.source, overrides)

    @property
    def name(self) -> str:
        """The name that the machine file gives."""
        return str(self.parameters["name"])

    @property
    def parameters(self) -> dict[str, Value]:
        """Every parameter by its key, with the units of hw-configs/README.md: bytes, cycles, MHz, counts. Ratios are Fractions."""
        pairs = (line.split("=", 1) for line in self._core.parameters().splitlines())
        return {key: value if key in ("name", "dram.device") else _parse(value) for key, value in pairs}

    @property
    def notes(self) -> list[str]:
        """What is legal but unwise about the machine."""
        return self._core.notes().splitlines()

    def __getitem__(self, key: str) -> Value:
        """A parameter by its key, `machine["array.rows"]`."""
        return self.parameters[key]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Machine) and self.parameters == other.parameters

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        changes = "".join(f", {key}={value}" for key, value in self.overrides.items())
        return f"<Machine {self.source}{changes}>"
