#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Networks on a device of OpenCL: kernels, nodes that the host evaluates between them, seconds in which the device's compiler built the kernels,
milliseconds of a run behind the first one, and whether the outputs are as expected. Exit status 1 if a network disagrees or fails.

  scripts/opencl-coverage.py [--models NAME,...] [--networks NAME,...] [--device N|NAME] [--limit SECONDS] [-o FILE]

Networks of TILEWRIGHT_MODELS (--models none: none of them) are compared with their stored outputs; inputs that are one integer are constants.
--networks makes networks of scripts/networks.py (all: every one), which are compared with this CPU's code on random inputs. -o replaces section
"Coverage" of a page by the table. TILEWRIGHT names a tilewright that is built already. What PoCL has built before takes no time again: give an
empty folder as POCL_CACHE_DIR to measure that.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent
TILEWRIGHT = os.environ.get("TILEWRIGHT", "build/release/bin/tilewright")
COLUMNS = "network", "kernels", "on the host", "build s", "run ms", "result"


def arguments_of(folder):
    data = folder / "test_data_set_0"
    words = []
    for what, option in ("inputs", "--input"), ("outputs", "--expect"):
        for entry in json.loads((data / f"{what}.json").read_text()):
            tensor = numpy.load(data / entry["file"], mmap_mode="r")
            is_choice = what == "inputs" and tensor.shape == () and tensor.dtype.kind == "i"
            words += ["--const" if is_choice else option, f"{entry['name']}={data / entry['file']}"]
    return words


def reason(result):
    """Why a command failed, in a line."""
    lines = (result.stderr + result.stdout).strip().splitlines()
    said = [line for line in lines if "not as expected" in line or "error" in line or line.startswith("tilewright:")]
    return (said or lines or [f"status {result.returncode}"])[0][:160]


class Runner:
    """Runs `tilewright` with a limit; every answer is a row of the table and whether that is a failure."""

    def __init__(self, device, limit):
        self.device = ["--device", device] if device else []
        self.limit = limit

    def call(self, name, *words):
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report.json"
            try:
                result = subprocess.run([TILEWRIGHT, *map(str, words), *self.device, "--json", report], capture_output=True, text=True,
                                        timeout=self.limit)
            except subprocess.TimeoutExpired:
                return None, ((name, "-", "-", "-", "-", f"stopped after {self.limit:g} s"), True)
            if "no OpenCL here" in result.stderr:
                sys.exit(result.stderr.strip())
            if not report.exists():
                return None, ((name, "-", "-", "-", "-", "fails: " + reason(result)), True)
            return json.loads(report.read_text()), result

    def row_of(self, name, *words):
        """A run; a second one has no kernels to build, so its time is the device's alone."""
        first, other = self.call(name, "run", *words)
        again, _ = self.call(name, "run", *words) if first else (None, None)
        if not first:
            return other
        use, last = first["opencl"], (again or first)["opencl"]
        built = use["build_wall_seconds"] + max(0, use["measured_seconds"] - last["measured_seconds"])  # PoCL builds at the first launch
        host = sum(entry["target"] == "cpu" for entry in first["offload"])
        outcome = "ran"
        if first["comparisons"]:
            worst = max(c["max_error_of_range"] if isinstance(c["max_error_of_range"], float) else float("inf") for c in first["comparisons"])
            outcome = ("agrees" if other.returncode == 0 else "disagrees") + (f", {worst:.1e}" if worst else ", equal")
        elif other.returncode:
            outcome = "fails: " + reason(other)
        return (name, str(use["kernels"]), str(host), f"{built:.1f}", f"{last['measured_seconds'] * 1e3:.1f}", outcome), other.returncode != 0

    def against_cpu(self, name, model):
        row, failed = self.row_of(name, model, "--target", "opencl")
        if failed:
            return row, failed
        compared, other = self.call(name, "compare", model, "--targets", "cpu,opencl", "--repeat", "1")
        if not compared:
            return other
        worst = max(float("inf") if entry["max_relative_error"] is None else entry["max_relative_error"] for entry in compared["agreement"])
        agrees = other.returncode == 0 and "the results agree" in other.stdout
        return (*row[:-1], ("agrees" if agrees else "disagrees") + (f", {worst:.1e}" if worst else ", equal") + " (CPU)"), not agrees


def rows(arguments):
    runner = Runner(arguments.device, arguments.limit)
    if arguments.models != "none":
        root = os.environ.get("TILEWRIGHT_MODELS")
        if not root:
            sys.exit("opencl-coverage.py: TILEWRIGHT_MODELS must name the folder of networks")
        wanted = arguments.models.split(",") if arguments.models else None
        for folder in sorted(pathlib.Path(root).iterdir()):
            if (folder / "model.onnx").exists() and (not wanted or folder.name in wanted):
                yield runner.row_of(folder.name, folder / "model.onnx", "--target", "opencl", *arguments_of(folder))
    if arguments.networks:
        with tempfile.TemporaryDirectory() as folder:
            names = [] if arguments.networks == "all" else arguments.networks.split(",")
            subprocess.run([ROOT / "scripts/networks.py", folder, *names], check=True)
            for model in sorted(pathlib.Path(folder).glob("*.onnx")):
                yield runner.against_cpu(model.stem, model)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="names, with commas; default: all")
    parser.add_argument("--networks", help="names of scripts/networks.py, with commas, or all; default: none")
    parser.add_argument("--device", help="as of tilewright run")
    parser.add_argument("--limit", type=float, default=600, help="seconds for each network")
    parser.add_argument("-o", dest="page", type=pathlib.Path, help="a page of Markdown with a section Coverage")
    arguments = parser.parse_args()
    print(f"{COLUMNS[0]:36} {COLUMNS[1]:>7} {COLUMNS[2]:>11} {COLUMNS[3]:>7} {COLUMNS[4]:>9}  {COLUMNS[5]}")
    table, failed = [], False
    for row, is_failure in rows(arguments):
        print(f"{row[0]:36} {row[1]:>7} {row[2]:>11} {row[3]:>7} {row[4]:>9}  {row[5]}", flush=True)
        table.append(row)
        failed |= is_failure
    if arguments.page:
        text = "\n".join("| " + " | ".join(line) + " |" for line in (COLUMNS, ("---",) * len(COLUMNS), *table))
        page, count = re.subn(r"(## Coverage\n(?:(?!\||## ).*\n)*)(?:\|.*\n)*", lambda found: found.group(1) + text + "\n", arguments.page.read_text(), count=1)
        if not count:
            sys.exit(f"opencl-coverage.py: {arguments.page} has no section Coverage")
        arguments.page.write_text(page)
    return failed


if __name__ == "__main__":
    sys.exit(main())
