#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random kernels of some hundred to some thousand cycles, where code, first loads and last stores are much of what there is: cycles of
other schedules, as parts of those of double_buffer. Exit status 1 if a kernel fails.

  scripts/bench-small.py [--kernels N] [--seed S] [--budget PROGRAMS] [--schedules NAME,...]

Runs are kept in build/measurements. TILEWRIGHT names a tilewright that is built already.
"""

import argparse
import random

import measure

MACHINES = [("onnxim_16x16_4b", "int8"), ("onnxim_16x16_16b", "int8"), ("vdla_16x16", "int8"), ("gemmini_16x16_fp32", "fp32"),
            ("edge_32x32_bf16", "bf16"), ("tiny_8x8", "int8"), ("cloud_128x128", "bf16")]


def kernel(draw, element):
    if draw.random() < 0.6:
        return f"gemm:{draw.randint(1, 150)}x{draw.randint(1, 120)}x{draw.randint(1, 200)}:{element}"
    size, channels, window = draw.randint(5, 24), draw.randint(1, 48), draw.choice([1, 3, 3, 5])
    return (f"conv:1x{size}x{size}x{channels}:{window}x{window}x{draw.randint(1, 64)}:s{draw.choice([1, 1, 2])}:p{window // 2}"
            f":{element}")


def main():
    parser = measure.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=140)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--budget", type=int, default=16)
    parser.add_argument("--schedules", default="pipelined,search")
    arguments = parser.parse_args()
    draw, schedules = random.Random(arguments.seed), arguments.schedules.split(",")
    kernels = []
    for i in range(arguments.kernels):
        machine, element = MACHINES[i % len(MACHINES)]
        kernels.append((machine, kernel(draw, element)))
    columns = ["double_buffer", *schedules]
    reports = measure.run_all([[name, "--hw", machine, "--schedule", schedule, "--search-budget", str(arguments.budget)]
                               for machine, name in kernels for schedule in columns])
    if None in reports:
        measure.fail("some kernels failed")
    cycles = [report["total_cycles"] for report in reports]
    parts = {schedule: [] for schedule in schedules}
    print(f"seed {arguments.seed}, cycles of double_buffer, then parts of them: {', '.join(schedules)}")
    for i, (machine, name) in enumerate(kernels):
        base, *others = cycles[i * len(columns):(i + 1) * len(columns)]
        for schedule, other in zip(schedules, others):
            parts[schedule].append(other / base)
        print(machine, name, base, *(f"{other / base:.3f}" for other in others))
    if {"serial", "pipelined"} <= set(schedules):
        parts["pipelined, as a part of serial,"] = [a / b for a, b in zip(parts["pipelined"], parts["serial"])]
    for schedule, values in parts.items():
        print(f"{schedule}: geometric mean {measure.geometric_mean(values):.4f}, largest {max(values):.3f}, "
              f"more than 1 in {sum(v > 1 for v in values)} of {len(values)}")


if __name__ == "__main__":
    main()
