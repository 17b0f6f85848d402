#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The networks of TILEWRIGHT_MODELS on the machines of their element type, under one schedule: cycles against the lower bound, and the layer
that is farthest from its own. It shows what the networks of the tables do not have. Of the rows on 16x16 machines whose bound is above 100,000
cycles also the geometric mean of cycles / bound, and the five farthest. Exit status 1 if one fails.

  scripts/bench-models.py [--schedule NAME] [--machines TEXT] [--generated] [-o FILE.md] [NETWORK...]

Inputs have the shapes of the first test data set; integers without dims are the constants that it holds. Runs are kept in build/measurements. TILEWRIGHT names a tilewright that is built already.
"""

import argparse
import os
import pathlib

import measure

# Of what scripts/networks.py writes, with --generated.
GENERATED = {"int8": (["gemmini_16x16_int8"], ["resnet50", "mobilenetv2", "bert_block"]),
             "fp32": (["gemmini_16x16_bf16", "gemmini_16x16_fp32"], ["resnet50", "mobilenetv2", "shufflenetv2", "yolo", "ssd", "bert_block"])}
LEAST_BOUND = 100_000
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


def summary(rows):
    """The geometric mean of cycles / bound over the rows (network, machine, cycles, bound, farthest layer) of 16x16 machines and bounds above
    LEAST_BOUND, and the five farthest; "" if there are none."""
    ratios = sorted(((cycles / bound, network, machine, layer) for network, machine, cycles, bound, layer in rows
                     if "16x16" in machine and bound > LEAST_BOUND), reverse=True)
    if not ratios:
        return ""
    mean = measure.geometric_mean([row[0] for row in ratios])
    text = f"\n**16x16 machines, bounds above {LEAST_BOUND:,} cycles**: geometric mean of cycles / bound {mean:.3f} over {len(ratios)} rows. Farthest:\n\n"
    return text + measure.markdown(["network", "machine", "cycles / bound", "farthest layer"],
                                   [[network, machine, f"{ratio:.2f}", layer] for ratio, network, machine, layer in ratios[:5]], 2)


def main():
    parser = measure.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    parser.add_argument("--schedule", default="pipelined")
    parser.add_argument("--machines", metavar="TEXT", default="", help="only machines whose names contain it")
    parser.add_argument("--generated", action="store_true", help="also networks of scripts/networks.py, on machines of 16x16")
    parser.add_argument("-o", metavar="FILE.md", type=pathlib.Path)
    arguments = parser.parse_args()
    if not os.environ.get("TILEWRIGHT_MODELS"):
        measure.fail("TILEWRIGHT_MODELS is not set; it must name the folder of the networks")
    models = pathlib.Path(os.environ["TILEWRIGHT_MODELS"]).resolve()
    there = sorted(path.parent.name for path in models.glob("*/model.onnx"))
    for name in arguments.networks:
        if name not in there:
            measure.fail(f"'{name}' is not in {models}, which has {', '.join(there)}")
    rows = [(name, machine, [str(models / name / "model.onnx"), *measure.shape_options(models / name)])
            for name in arguments.networks or there for machine in measure.machines_for(name)]
    if arguments.generated:
        for form, (machines, names) in GENERATED.items():
            rows += [(f"{name} {form}", machine, [measure.network(name, form)]) for name in names for machine in machines]
    rows = [row for row in rows if arguments.machines in row[1]]
    if not rows:
        measure.fail(f"no machine of these networks has '{arguments.machines}' in its name")
    reports = measure.run_all([[model[0], "--hw", machine, "--schedule", arguments.schedule, *model[1:]] for name, machine, model in rows])
    lines, ran = [], []
    for (name, machine, _), report in zip(rows, reports):
        if report is None:
            continue
        cycles, bound = report["total_cycles"], report["lower_bound_cycles"]
        name_there, moved, alone = farthest(report)
        layer = f"{name_there}: {moved:,} of {alone:,}"
        ran.append((name, machine, cycles, bound, layer))
        lines.append([name, machine, f"{cycles:,}", f"{bound:,}", f"{bound / cycles:.3f}", report["bound_by"],
                      f"{report['layer_serial_cycles'] / cycles:.2f}",
                      layer])
    table = measure.markdown(["network", "machine", "cycles", "bound", "bound / cycles", "bound by", "layer by layer", "farthest"], lines, 2) + summary(ran)
    print(table, end="")
    if arguments.o:
        options = "" if arguments.schedule == "pipelined" else f" --schedule {arguments.schedule}"
        options += f" --machines {arguments.machines}" if arguments.machines else ""
        options += " --generated" if arguments.generated else ""
        arguments.o.write_text(TEXT.format(options=options) + table)
    if None in reports:
        measure.fail("some networks failed")


if __name__ == "__main__":
    main()
