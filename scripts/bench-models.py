#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The networks of TILEWRIGHT_MODELS on the machines of their element type, under one schedule: cycles against the lower bound, and the layer
that is farthest from its own. It shows what the networks of the tables do not have. Exit status 1 if one fails.

  scripts/bench-models.py [--schedule NAME] [-o FILE.md] [NETWORK...]

Inputs have the shapes of the first test data set; integers without dims are the constants that it holds. Runs are kept in build/measurements. TILEWRIGHT names a tilewright that is built already.
"""

import argparse
import os
import pathlib

import measure

TEXT = """# Real networks

Made by `TILEWRIGHT_MODELS=FOLDER scripts/bench-models.py{options} -o FILE`; simulated cycles, the same on every host.

**layer by layer**: the sum of the layers' own bounds, each from DRAM to DRAM, over the cycles; above 1 only what overlaps across layers or keeps tensors
on chip can come. **farthest**: the layer whose cycles exceed its own bound the most; of layers that overlap, the cycles by which each moves the
program's last retirement on. Small networks on large machines are mostly fill and latency.

"""


def farthest(report):
    """Name, cycles by which it moved the end and bound alone of the layer whose bound these exceed most."""
    layers, reached = [], 0
    for row in report["layers"]:
        for layer in row["members"] or [row]:
            moved = max(layer["last_retirement_cycle"] - reached, 0)
            reached += moved
            layers.append((layer["name"], moved, layer["alone_bound_cycles"] or 0))
    return max(layers, key=lambda layer: layer[1] - layer[2])


def main():
    parser = measure.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    parser.add_argument("--schedule", default="pipelined")
    parser.add_argument("-o", metavar="FILE.md", type=pathlib.Path)
    arguments = parser.parse_args()
    if not os.environ.get("TILEWRIGHT_MODELS"):
        measure.fail("TILEWRIGHT_MODELS is not set; it must name the folder of the networks")
    models = pathlib.Path(os.environ["TILEWRIGHT_MODELS"]).resolve()
    there = sorted(path.parent.name for path in models.glob("*/model.onnx"))
    for name in arguments.networks:
        if name not in there:
            measure.fail(f"'{name}' is not in {models}, which has {', '.join(there)}")
    rows = [(name, machine) for name in arguments.networks or there for machine in measure.machines_for(name)]
    reports = measure.run_all([[str(models / name / "model.onnx"), "--hw", machine, "--schedule", arguments.schedule, *measure.shape_options(models / name)]
                               for name, machine in rows])
    lines = []
    for (name, machine), report in zip(rows, reports):
        if report is None:
            continue
        cycles, bound = report["total_cycles"], report["lower_bound_cycles"]
        name_there, moved, alone = farthest(report)
        lines.append([name, machine, f"{cycles:,}", f"{bound:,}", f"{bound / cycles:.3f}", report["bound_by"],
                      f"{report['layer_serial_cycles'] / cycles:.2f}",
                      f"{name_there}: {moved:,} of {alone:,}"])
    table = measure.markdown(["network", "machine", "cycles", "bound", "bound / cycles", "bound by", "layer by layer", "farthest"], lines, 2)
    print(table, end="")
    if arguments.o:
        options = "" if arguments.schedule == "pipelined" else f" --schedule {arguments.schedule}"
        arguments.o.write_text(TEXT.format(options=options) + table)
    if None in reports:
        measure.fail("some networks failed")


if __name__ == "__main__":
    main()
