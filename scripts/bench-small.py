#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random kernels of some hundred to some thousand cycles, where code, first loads and last stores are much of what there is: cycles of
other schedules, as parts of those of double_buffer.

  scripts/bench-small.py [--kernels N] [--seed S] [--budget PROGRAMS] [--schedules NAME,...]

TILEWRIGHT names a tilewright that is built already.
"""

import argparse
import json
import math
import os
import pathlib
import random
import subprocess

TILEWRIGHT = os.environ.get("TILEWRIGHT", pathlib.Path(__file__).resolve().parents[1] / "build/release/bin/tilewright")
MACHINES = [("onnxim_16x16_4b", "int8"), ("onnxim_16x16_16b", "int8"), ("vdla_16x16", "int8"), ("gemmini_16x16_fp32", "fp32"),
            ("edge_32x32_bf16", "bf16"), ("tiny_8x8", "int8"), ("cloud_128x128", "bf16")]


def kernel(draw, element):
    if draw.random() < 0.6:
        return f"gemm:{draw.randint(1, 150)}x{draw.randint(1, 120)}x{draw.randint(1, 200)}:{element}"
    size, channels, window = draw.randint(5, 24), draw.randint(1, 48), draw.choice([1, 3, 3, 5])
    return (f"conv:1x{size}x{size}x{channels}:{window}x{window}x{draw.randint(1, 64)}:s{draw.choice([1, 1, 2])}:p{window // 2}"
            f":{element}")


def cycles(name, machine, schedule, budget):
    command = [TILEWRIGHT, "run", name, "--hw", machine, "--schedule", schedule, "--search-budget", str(budget), "--json", "-"]
    environment = {**os.environ, "SYSTEMC_DISABLE_COPYRIGHT_MESSAGE": "1"}
    environment.pop("TILEWRIGHT_CACHE", None)
    return json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)["total_cycles"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=140)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--budget", type=int, default=16)
    parser.add_argument("--schedules", default="modulo,search")
    arguments = parser.parse_args()
    draw, schedules = random.Random(arguments.seed), arguments.schedules.split(",")
    parts = {schedule: [] for schedule in schedules}
    print(f"seed {arguments.seed}, cycles of double_buffer, then parts of them: {', '.join(schedules)}")
    for i in range(arguments.kernels):
        machine, element = MACHINES[i % len(MACHINES)]
        name = kernel(draw, element)
        base = cycles(name, machine, "double_buffer", arguments.budget)
        for schedule in schedules:
            parts[schedule].append(cycles(name, machine, schedule, arguments.budget) / base)
        print(machine, name, base, *(f"{parts[schedule][-1]:.3f}" for schedule in schedules), flush=True)
    for schedule, values in parts.items():
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"{schedule}: geometric mean {mean:.4f}, largest {max(values):.3f}, more than 1 in {sum(v > 1 for v in values)} of {len(values)}")


if __name__ == "__main__":
    main()
