#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every network of TILEWRIGHT_MODELS on a device of OpenCL: kernels, milliseconds, and whether its outputs are the stored ones.
Exit status 1 if one disagrees or fails, but for those that have nodes which only the host evaluates.

  scripts/opencl-coverage.py [--models NAME,...] [--device N|NAME] [--limit SECONDS]

Inputs and outputs are those of test_data_set_0; inputs that are one integer are constants. TILEWRIGHT names a tilewright that is built already.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import numpy


def arguments_of(folder):
    data = folder / "test_data_set_0"
    words = []
    for what, option in ("inputs", "--input"), ("outputs", "--expect"):
        for entry in json.loads((data / f"{what}.json").read_text()):
            tensor = numpy.load(data / entry["file"], mmap_mode="r")
            is_choice = what == "inputs" and tensor.shape == () and tensor.dtype.kind == "i"
            words += ["--const" if is_choice else option, f"{entry['name']}={data / entry['file']}"]
    return words


def outcome_of(result):
    """What the run came to, in words, and whether that is a failure."""
    text = result.stdout + result.stderr
    if result.returncode == 0 and re.search(r"values? (equal|differ)", result.stdout):
        return "agrees", False
    if "and no code is made for it" in text or "no target takes it" in text or "code for OpenCL has no such operator" in text:
        return "host: " + result.stderr.strip().splitlines()[0][:110], False
    lines = [line for line in text.splitlines() if "not as expected" in line or "error" in line or "tilewright" in line]
    return ("disagrees: " if "not as expected" in text else "fails: ") + (lines or text.splitlines() or [""])[0][:160], True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="names, with commas; default: all")
    parser.add_argument("--device", help="as of tilewright run")
    parser.add_argument("--limit", type=float, default=600, help="seconds for each network")
    arguments = parser.parse_args()
    root = os.environ.get("TILEWRIGHT_MODELS")
    if not root:
        sys.exit("opencl-coverage.py: TILEWRIGHT_MODELS must name the folder of networks")
    tilewright = os.environ.get("TILEWRIGHT", "build/release/bin/tilewright")
    wanted = arguments.models.split(",") if arguments.models else None
    failed = False
    print(f"{'network':36} {'kernels':>7} {'ms':>10} {'wall s':>7}  result")
    for folder in sorted(pathlib.Path(root).iterdir()):
        if not (folder / "model.onnx").exists() or (wanted and folder.name not in wanted):
            continue
        command = [tilewright, "run", str(folder / "model.onnx"), "--target", "opencl", *arguments_of(folder)]
        command += ["--device", arguments.device] if arguments.device else []
        begin = time.monotonic()
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=arguments.limit)
            text, is_failure = outcome_of(result)
            found = re.search(r": (\d+) kernels?, ([\d.]+) ms", result.stdout)
        except subprocess.TimeoutExpired:
            text, is_failure, found = f"stopped after {arguments.limit:g} s", True, None
        kernels, milliseconds = found.groups() if found else ("-", "-")
        print(f"{folder.name:36} {kernels:>7} {milliseconds:>10} {time.monotonic() - begin:7.1f}  {text}", flush=True)
        failed |= is_failure
    return failed


if __name__ == "__main__":
    sys.exit(main())
