#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stands for `tilewright` in tests of sweeps: a machine of a few keys, cycles by a formula, and points that fail, crash or hang on
demand (accumulator.banks 3, 5 and 7). FAKE_SECONDS: how long a run takes; FAKE_LOG: a file that gets a line for each run."""
import json
import os
import signal
import sys
import time

KEYS = {"array.rows": 16, "array.cols": 16, "vector.lanes": 16, "clock_mhz": 1000, "accumulator.banks": 4,
        "scratchpads.unified.capacity_bytes": 262144, "dram.latency_cycles": 20, "dram.bytes_per_cycle": 16,
        "accumulator.capacity_bytes": 65536}


def fail(text, status=1):
    sys.exit(print(f"tilewright: {text}", file=sys.stderr) or status)


def main(words):
    if words == ["--version"]:
        print("fake 1.0")
        return
    machine, sets, schedule = dict(KEYS), [], "pipelined"
    for flag, value in zip(words, words[1:]):
        if flag == "--set":
            key, _, text = value.partition("=")
            sets.append(value)
            if key not in KEYS:
                fail(f"--set {value}: unknown key '{key}'; the nearest one is 'array.rows'")
            if not text.isdigit() or int(text) < 1:
                fail(f"--set {value}: {key} is {text} but must be an integer from 1 to 1000000000")
            machine[key] = int(text)
        schedule = value if flag == "--schedule" else schedule
    if words[0] == "hw":
        return
    if words[0] == "compile":
        with open(words[words.index("-o") + 1], "w") as out:
            out.write(" ".join(sets))
        return
    if log := os.environ.get("FAKE_LOG"):
        with open(log, "a") as out:
            out.write(" ".join(sets) + "\n")
    time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
    banks = machine["accumulator.banks"]
    if banks == 3:
        fail("three banks do not fit")
    if banks == 5:
        os.kill(os.getpid(), signal.SIGSEGV)
    if banks == 7:
        time.sleep(600)
    macs, size = 10_000_000, machine["array.rows"] * machine["array.cols"]
    cycles = -(-macs // size) + 50_000_000 // machine["scratchpads.unified.capacity_bytes"] + 10 * machine["dram.latency_cycles"]
    bound = cycles - 5
    cycles *= 2 if schedule == "serial" else 1
    print(json.dumps({
        "model": words[1], "machine": {"name": "fake", "overrides": ", ".join(sets), "clock_mhz": machine["clock_mhz"],
                                       "peak_macs_per_cycle": float(size), "dram": {"ideal": True}},
        "schedule": schedule, "macs": macs, "total_cycles": cycles, "total_milliseconds": cycles / (machine["clock_mhz"] * 1e3),
        "utilisation": macs / size / cycles, "lower_bound_cycles": bound,
        "energy": {"total_joules": macs * 1e-12 + size * cycles * 1e-13}, "area": {"total_mm2": size * 0.01},
        "engines": [{"name": "tensor", "busy_cycles": bound}],
        "layers": [{"name": f"layer.{i}", "cycles": cycles // 100, "padding": "x" * 80} for i in range(100)],
        "compile_wall_seconds": time.time() % 1}))


main(sys.argv[1:])
