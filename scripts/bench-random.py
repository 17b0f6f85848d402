#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random networks of tests/fuzz on small machines: cycles of `pipelined` as parts of those of `serial` and `double_buffer`. Exit
status 1 if `pipelined` takes more than 0.5 % longer than one of the two on any network, or if a network runs under one schedule only.

  scripts/bench-random.py [--networks N] [--seed S]

Runs are kept in build/measurements. TILEWRIGHT names a tilewright that is built already; tilewright-bench stands beside it.
"""

import argparse
import collections
import os
import pathlib
import subprocess
import sys
import tempfile

import measure

SIMPLE = ["serial", "double_buffer"]
MOST = 1.005


def main():
    parser = measure.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    measure.need_binary()
    folder = measure.BUILD / "random-networks"
    folder.mkdir(parents=True, exist_ok=True)
    made = subprocess.run([measure.BINARY.parent / "tilewright-bench", "random-networks", os.path.relpath(folder, measure.ROOT),
                           "--count", str(arguments.networks), "--seed", str(arguments.seed)],
                          cwd=measure.ROOT, check=True, stdout=subprocess.PIPE, text=True)
    networks = [line.split() for line in made.stdout.splitlines()]
    schedules = [*SIMPLE, "pipelined"]
    jobs = [[file, "--hw", machine, *(text for override in overrides for text in ("--set", override)), "--schedule", schedule]
            for file, machine, *overrides in networks for schedule in schedules]
    reports = measure.run_all(jobs, may_fail=True)
    ratios, worst, refused = collections.defaultdict(list), [], 0
    for i, (file, machine, *overrides) in enumerate(networks):
        own = reports[i * len(schedules):(i + 1) * len(schedules)]
        if not any(own):  # no tile of an operator fits the machine
            refused += 1
            continue
        kind = pathlib.Path(file).stem.rsplit("_", 1)[0]
        *simple, pipelined = [report and report["total_cycles"] for report in own]
        if not pipelined:
            worst.append((float("inf"), file, machine, overrides, "no program"))
        for name, cycles in zip(SIMPLE, simple):
            if cycles and pipelined:
                ratios[kind, name].append(pipelined / cycles)
                if pipelined > MOST * cycles:
                    worst.append((pipelined / cycles, file, machine, overrides, name))
    print(f"seeds {arguments.seed} to {arguments.seed + arguments.networks - 1}; {refused} networks need a larger machine")
    rows = [[kind, name, len(values), f"{measure.geometric_mean(values):.4f}", f"{min(values):.4f}", f"{max(values):.4f}",
             sum(value > MOST for value in values)] for (kind, name), values in sorted(ratios.items())]
    print(measure.markdown(["networks", "against", "count", "geometric mean", "least", "most", f"above {MOST}"], rows, left=2))
    for ratio, file, machine, overrides, name in sorted(worst, key=lambda row: -row[0]):
        print(f"{ratio:.4f} of {name}: {file} --hw {machine} " + " ".join(f"--set {text}" for text in overrides))
    return bool(worst)


if __name__ == "__main__":
    sys.exit(main())
