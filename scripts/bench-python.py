#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a run of a compiled GEMM costs through Python, beside the same run in C++: medians, in milliseconds. Exit status 1 if Python adds 1 ms
or more.

  scripts/bench-python.py [--kernel KERNEL] [--machine MACHINE] [--runs N]

Needs the build and its Python package (scripts/setup.sh python).
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build/release/python"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="gemm:64x64x64:int8")
    parser.add_argument("--machine", default="gemmini_16x16_int8")
    parser.add_argument("--runs", type=int, default=200)
    arguments = parser.parse_args()
    import numpy
    import tilewright

    program = tilewright.compile(arguments.kernel, arguments.machine)
    random = numpy.random.default_rng(1)
    inputs = [random.integers(-128, 128, spec.shape, dtype=spec.dtype) for spec in program.inputs]
    seconds = []
    for _ in range(arguments.runs + 1):
        begin = time.perf_counter()
        result = program.run(inputs)
        outputs = result.outputs
        seconds.append(time.perf_counter() - begin)
    assert outputs
    python = 1e3 * statistics.median(seconds[1:])
    bench = ROOT / "build/release/bin/tilewright-bench"
    done = subprocess.run([bench, "session", arguments.kernel, arguments.machine, "--runs", str(arguments.runs)], check=True,
                          stdout=subprocess.PIPE, text=True)
    cpp = float(done.stdout)
    print(f"{arguments.kernel} on {arguments.machine}, median of {arguments.runs} runs: Python {python:.3f} ms, C++ {cpp:.3f} ms, "
          f"difference {python - cpp:.3f} ms")
    return python - cpp >= 1


if __name__ == "__main__":
    sys.exit(main())
