# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a machine file says, without its sources: the values that expressions read and that a point's digest covers. The binary
alone judges a machine; here nothing is checked."""

from __future__ import annotations

import functools
import importlib
import os
import pathlib
from typing import Any, Dict, List, Mapping, Optional

from .errors import UserError
from .expressions import Scalar

Parameters = Dict[str, Scalar]

# Keys that a file may leave out (hw-configs/README.md), for expressions and for sensitivity.
_DEFAULTS: Parameters = {
    "vector.stages": 12, "accumulator.banks": 4, "dma.load_engines": 2, "dma.store_engines": 1, "dma.bursts_per_cycle": 1,
    "control.queue_depth_instructions": 8, "control.loop_buffer_words": 256, "control.prefetch_words": 32,
    "control.semaphores": 64, "control.semaphore_max_count": 63, "dram.controller": "windowed", "dram.path_latency_cycles": 0,
    "dram.window_requests": 32, "dram.age_cap_ticks": 2048, "dram.grant_bursts": 32, "dram.write_buffer_bursts": 32,
    "dram.interleave_bank_groups": True,
}
_BANKS = {"unified": 16, "activation": 16, "weight": 8}


def yaml_module() -> Any:
    try:
        return importlib.import_module("yaml")
    except ImportError:
        raise UserError("studies and machine files are YAML, which needs Python's yaml module: apt-get install python3-yaml") from None


def folders(binary: str) -> List[pathlib.Path]:
    """Where machines are looked up by name, in the order of the binary."""
    named = [pathlib.Path(part) for part in os.environ.get("TILEWRIGHT_HW", "").split(":") if part]
    prefix = pathlib.Path(binary).resolve().parent.parent
    return named + [prefix / "share/tilewright/hw-configs", prefix.parent.parent / "hw-configs"]


def technologies(binary: str) -> List[pathlib.Path]:
    """The files that energy and area are estimated by."""
    return [file for folder in folders(binary) for file in sorted((folder / "technology").rglob("*.yaml"))]


def find(name: str, binary: str) -> pathlib.Path:
    """The file of a machine that is named by file or by name."""
    if name.endswith((".yaml", ".yml")) or "/" in name:
        if os.path.isfile(name):
            return pathlib.Path(name)
        raise UserError(f"{name}: no such machine file")
    known: List[str] = []
    for folder in folders(binary):
        if (folder / f"{name}.yaml").is_file():
            return folder / f"{name}.yaml"
        known += [file.stem for file in sorted(folder.glob("*.yaml")) if file.stem not in known]
    raise UserError(f"{name}: no such machine; there are: {', '.join(known) or 'none'}")


def _flatten(block: Any, prefix: str, into: Parameters) -> None:
    if not isinstance(block, Mapping):
        return
    for key, value in block.items():
        path = f"{prefix}{key}"
        if key in ("source", "assumed"):
            continue
        if isinstance(value, Mapping) and "value" in value:
            value = value["value"]
        if isinstance(value, Mapping):
            _flatten(value, path + ".", into)
        elif isinstance(value, (int, float, str, bool)):
            into[path] = value


def _read(file: pathlib.Path, prefix: str) -> Parameters:
    try:
        return dict(_read_at(file, prefix, file.stat().st_mtime_ns))
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}") from None


@functools.lru_cache(maxsize=256)
def _read_at(file: pathlib.Path, prefix: str, modified: int) -> Parameters:
    into: Parameters = {}
    yaml = yaml_module()
    try:
        _flatten(yaml.safe_load(file.read_text(encoding="utf-8")), prefix, into)
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{file}: {error}") from None
    return into


def parameters(machine: str, binary: str, overrides: Optional[Mapping[str, Scalar]] = None) -> Parameters:
    """What the files of `machine` and of its DRAM device say, with `overrides` on top: keys as --set names them."""
    file = find(machine, binary)
    own = {**_read(file, ""), **(overrides or {})}
    device = str(own.get("dram.device", ""))
    described: Parameters = {}
    if device.endswith(".yaml"):
        candidates = [file.parent / device, pathlib.Path(device)]
    else:
        candidates = [folder / "dram" / f"{device}.yaml" for folder in [file.parent, *folders(binary)]]
    for candidate in candidates:
        if candidate.is_file():
            described = _read(candidate, "dram.")
            break
    described = {key: value for key, value in described.items() if key not in ("dram.name", "dram.description")}
    return {**described, **own}


def with_defaults(stated: Parameters) -> Parameters:
    """`stated` and the documented defaults of keys it leaves out."""
    full = {**_DEFAULTS, **stated}
    for scratchpad, banks in _BANKS.items():
        if f"scratchpads.{scratchpad}.capacity_bytes" in full:
            full.setdefault(f"scratchpads.{scratchpad}.banks", banks)
    rows, cols = full.get("array.rows"), full.get("array.cols")
    if isinstance(rows, int):
        full.setdefault("array.preload_rows_per_cycle", 4 if rows >= 64 else 1)
    if cols is not None:
        full.setdefault("vector.lanes", cols)
    return full
