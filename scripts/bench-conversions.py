#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cycles in conversions that a model does not contain, transposes between layouts and casts, by two builds of tilewright: of the networks of
TILEWRIGHT_MODELS, and of those of scripts/networks.py with channel shuffles and with heads of detectors.

  scripts/bench-conversions.py --before BINARY [--before-schedule NAME] [--limit SECONDS] [-o FILE.md] [NETWORK[@MACHINE]...]

A conversion is a layer without a node of the model. Its cycles are those from its first to its last instruction: layers that overlap count
each. BINARY is the other build, for example of commit 250a055, where the schedule is called modulo; TILEWRIGHT names this one. What takes
longer than the limit, or what a build refuses, stands in the table without numbers.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess

import measure

WRITTEN = ["shufflenetv2", "yolo", "ssd"]
TEXT = """# Cycles in conversions

Made by `scripts/bench-conversions.py --before BINARY -o FILE`, where BINARY is the build of commit {commit}. A conversion is a layer that no node
of the model stands for. Its cycles are those from its first to its last instruction, also where it runs beside other layers.
**kept** is what the network got faster by, over the cycles of conversions that are gone.

"""


def without_constants(options):
    """Options that a build without --const knows."""
    return [word for i, word in enumerate(options) if word != "--const" and (i == 0 or options[i - 1] != "--const")]


def conversions(report):
    """Cycles of a network and of its conversions."""
    return report["total_cycles"], sum(layer["cycles"] for layer in report["layers"] if not layer["nodes"])


def run_before(binary, arguments, limit):
    """The report of the other build, kept like those of this one, and ""; else None and why."""
    kept = measure.kept_file(arguments + [measure.digest(binary)])
    if not kept.exists():
        try:
            result = subprocess.run([binary, "run", *arguments, "--json", "-"], cwd=measure.ROOT, capture_output=True, text=True, env=measure.ENVIRONMENT,
                                    timeout=limit)
        except subprocess.TimeoutExpired:
            return None, f"more than {limit} s"
        if not result.stdout:
            return None, "refused" if result.returncode == 1 else f"status {result.returncode}"
        measure.keep(kept, arguments, json.loads(result.stdout))
    return json.loads(kept.read_text()), ""


def main():
    parser = measure.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="NETWORK[@MACHINE]")
    parser.add_argument("--before", metavar="BINARY", type=pathlib.Path, required=True)
    parser.add_argument("--before-schedule", metavar="NAME", default="modulo")
    parser.add_argument("--commit", default="250a055", help="what FILE calls the other build; default 250a055")
    parser.add_argument("--limit", metavar="SECONDS", type=int, default=600, help="of one run; default 600")
    parser.add_argument("-o", metavar="FILE.md", type=pathlib.Path)
    arguments = parser.parse_args()
    measure.need_binary()
    before = arguments.before.resolve()
    if not before.exists():
        measure.fail(f"--before {before} is not there")
    if not os.environ.get("TILEWRIGHT_MODELS"):
        measure.fail("TILEWRIGHT_MODELS is not set; it must name the folder of the networks")
    models = pathlib.Path(os.environ["TILEWRIGHT_MODELS"]).resolve()
    there = sorted(path.parent.name for path in models.glob("*/model.onnx")) + WRITTEN
    rows = []
    for row in arguments.rows or there:
        name, _, machine = row.partition("@")
        if name not in there:
            measure.fail(f"'{name}' is not one of {', '.join(there)}")
        rows += [(name, one) for one in ([machine] if machine else measure.machines_for(name))]

    def measured(row):
        name, machine = row
        written = name in WRITTEN
        model = measure.network(name, "fp32") if written else str(models / name / "model.onnx")
        options = [] if written else measure.shape_options(models / name)
        now, why = measure.attempt([model, "--hw", machine, "--schedule", "pipelined", *options], arguments.limit)
        earlier, why_before = run_before(before, [model, "--hw", machine, "--schedule", arguments.before_schedule, *without_constants(options)], arguments.limit)
        ours, theirs = now and conversions(now), earlier and conversions(earlier)
        columns = [name, machine]
        columns += [f"{theirs[0]:,}", f"{theirs[1]:,}"] if theirs else [why_before, ""]
        columns += [f"{ours[0]:,}", f"{ours[1]:,}"] if ours else [why, ""]
        fewer = theirs[1] - ours[1] if ours and theirs else 0
        columns += [f"{-fewer / theirs[1]:+.0%}", f"{(theirs[0] - ours[0]) / fewer:.2f}" if fewer > 0 else ""] if ours and theirs and theirs[1] else ["", ""]
        measure.note(columns)
        return columns

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        lines = list(pool.map(measured, rows))
    table = measure.markdown(["network", "machine", "cycles before", "conversions before", "cycles", "conversions", "change", "kept"], lines, 2)
    print(table, end="")
    if arguments.o:
        arguments.o.write_text(TEXT.format(commit=arguments.commit) + table)


if __name__ == "__main__":
    main()
