#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Transposes of at least 256 KiB: cycles, those of a plain copy of the same bytes, the ratio, and the lower bound. Exit status 1 if one fails.

  scripts/bench-transposes.py [--schedule NAME] [--seed S] [--random N]

Shapes and permutations are a list, then N of each machine that the seed draws. Runs are kept in build/measurements. TILEWRIGHT names a
tilewright that is built already.
"""

import argparse
import math
import random

import measure

MACHINES = [("gemmini_16x16_int8", "i8"), ("gemmini_16x16_bf16", "bf16"), ("gemmini_16x16_fp32", "f32"), ("edge_32x32_int8", "i8"),
            ("edge_32x32_bf16", "bf16"), ("cloud_128x128", "bf16"), ("cloud_128x128", "f32"), ("onnxim_128x128", "i8"), ("vdla_16x16", "i8")]
SIZES = {"i8": 1, "bf16": 2, "f32": 4}
CASES = [((512, 512), (1, 0)), ((1, 112, 112, 112), (0, 3, 1, 2)), ((1, 112, 112, 112), (0, 2, 3, 1)), ((8, 197, 768), (0, 2, 1)),
         ((1, 224, 224, 3), (0, 3, 1, 2)), ((64, 64, 128), (2, 1, 0))]
LEAST = 256 << 10  # bytes


def model(shape, permutation, element):
    """The file of a network of one transpose."""
    def dims(extents):
        return "x".join(map(str, extents))
    source, result = f"tensor<{dims(shape)}x{element}>", f"tensor<{dims([shape[p] for p in permutation])}x{element}>"
    path = measure.BUILD / "transposes" / f"{dims(shape)}_{''.join(map(str, permutation))}_{element}.mlir"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'func.func @main(%x: {source} {{graph.name = "x"}}) -> ({result} {{graph.name = "y"}}) {{\n'
                    f"  %y = graph.transpose %x {{perm = array<i64: {', '.join(map(str, permutation))}>}} : ({source}) -> {result}\n"
                    f"  return %y : {result}\n}}\n")
    return str(path.relative_to(measure.ROOT))


def drawn(draw, size):
    """A shape of 256 KiB to 1 MiB, and a permutation that moves the last dimension."""
    while True:
        rank = draw.randint(2, 5)
        shape = tuple(draw.randint(3, 1024 if rank == 2 else 256 if rank == 3 else 64) for _ in range(rank))
        permutation = draw.sample(range(rank), rank)
        if LEAST <= math.prod(shape) * size <= 4 * LEAST and permutation[-1] != rank - 1:
            return shape, tuple(permutation)


def main():
    parser = measure.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedule", default="pipelined")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--random", type=int, default=4)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    rows = []
    for machine, element in MACHINES:
        cases = CASES + [drawn(draw, SIZES[element]) for _ in range(arguments.random)]
        rows += [(machine, element, *case) for case in cases if math.prod(case[0]) * SIZES[element] >= LEAST]

    def command(machine, element, shape, permutation):
        return [model(shape, permutation, element), "--hw", machine, "--schedule", arguments.schedule]

    reports = measure.run_all([command(*row) for row in rows])
    # Both halves of the bytes change places: runs are long. It has as many elements, but for up to three.
    copies = measure.run_all([command(machine, element, (2, 2, math.prod(shape) // 4), (1, 0, 2)) for machine, element, shape, _ in rows])
    if None in reports + copies:
        measure.fail("some transposes failed")
    print("| machine | type | shape | permutation | cycles | copy | ratio | bound |\n|---|---|---|---|---:|---:|---:|---:|")
    ratios = []
    for (machine, element, shape, permutation), report, copy in zip(rows, reports, copies):
        ratios.append(report["total_cycles"] / copy["total_cycles"])
        print(f"| {machine} | {element} | {'x'.join(map(str, shape))} | {' '.join(map(str, permutation))} | {report['total_cycles']:,} "
              f"| {copy['total_cycles']:,} | {ratios[-1]:.2f} | {report['lower_bound_cycles']:,} |")
    print(f"\ngeometric mean {measure.geometric_mean(ratios):.3f}, largest {max(ratios):.2f}, above 1.2: "
          f"{sum(ratio > 1.2 for ratio in ratios)} of {len(ratios)}")


if __name__ == "__main__":
    main()
