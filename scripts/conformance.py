#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX's node tests on every target: one table. No test is selected by hand.

Targets: `host`, compiler/operators alone; `cpu`; `accel`, with the CPU for what it does not take; `gpu`, on the emulator of PTX; `opencl`,
on the first device, with the CPU for what only the host evaluates, where --targets names it. A test that `gpu` has no code for is counted, and no
failure. Sets: `installed`, those of Debian's libonnx-testdata (ONNX 1.12), and its folders simple, pytorch-operator and pytorch-converted; `newest`, onnx-*-node-tests.tar.xz in the folder conformance beside
TILEWRIGHT_MODELS, where that is. Inputs: `run`, all are given when the network runs; `exported`, those whose values decide shapes are constants.
tests/conformance/known-failures.txt lists what fails, with its reason: a failure that is not listed, and a listed test that passes, are errors
(exit status 1). A shard holds the tests at one place of a hash: the default is a quarter of the compiled runs; --long runs all."""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("TILEWRIGHT_BINARY_DIR", ROOT / "build/release"))
INSTALLED = pathlib.Path("/usr/share/libonnx-testdata/data")
KNOWN = ROOT / "tests/conformance/known-failures.txt"
TARGETS = ("host", "cpu", "accel", "gpu")
WHOLE_NETWORKS = ("gpu",)  # which may have no code for a test


def newest():
    """The folder of ONNX's newest node tests, unpacked once; None without them."""
    models = os.environ.get("TILEWRIGHT_MODELS")
    archives = sorted(pathlib.Path(models).parent.glob("conformance/onnx-*-node-tests.tar.xz")) if models else []
    if not archives:
        return None
    folder = BUILD / "conformance" / archives[-1].name.removesuffix(".tar.xz")
    if not folder.is_dir():
        unpacked = folder.with_suffix(f".{os.getpid()}")
        unpacked.mkdir(parents=True)
        with tarfile.open(archives[-1]) as archive:
            archive.extractall(unpacked)
        try:
            unpacked.rename(folder)
        except OSError:  # another run was first
            pass
    return folder / "node"


def known_failures():
    """(set, target or "*", test) -> reason."""
    known = {}
    for number, line in enumerate(KNOWN.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        names, _, reason = line.partition(": ")
        words = names.split()
        if len(words) != 3 or not reason:
            sys.exit(f"{KNOWN}:{number}: found {line!r}, expected 'SET TARGET TEST: REASON'")
        known[tuple(words)] = reason
    return known


def run(job):
    name, folder, target, inputs, shard, only = job
    command = [str(BUILD / "tests/conformance/node-conformance"), str(folder), "--target", target, "--inputs", inputs, "--shard", shard]
    for text in only:
        command += ["--only", text]
    begin = time.monotonic()
    process = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "SYSTEMC_DISABLE_COPYRIGHT_MESSAGE": "1"})
    lines = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
    if process.returncode or not lines or "tests" not in lines[-1]:
        last = process.stderr.strip().splitlines()[-1:] or ["no message"]
        sys.exit(f"node-conformance ended with status {process.returncode} behind {len(lines)} failures: {last[0]}")
    return job, lines[:-1], lines[-1], time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="all tests on all targets")
    parser.add_argument("--sets", default="installed,simple,pytorch-operator,pytorch-converted,newest")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--inputs", default="run,exported")
    parser.add_argument("--shards", type=int, default=4, help="of the compiled runs; default 4")
    parser.add_argument("--shard", type=int, default=0, help="which of them runs; default 0")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="tests whose names hold it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="print failures as lines of known-failures.txt")
    arguments = parser.parse_args()

    folders = {"newest": newest()}
    for folder in ("node", "simple", "pytorch-operator", "pytorch-converted"):
        folders["installed" if folder == "node" else folder] = INSTALLED / folder if (INSTALLED / folder).is_dir() else None
    known = known_failures()
    jobs = []
    for name in arguments.sets.split(","):
        if folders[name] is None:
            print(f"skipped: set {name}, whose tests are not on this host")
            continue
        for target in arguments.targets.split(","):
            for inputs in arguments.inputs.split(","):
                whole = arguments.long or target == "host" or arguments.only
                shard = "0/1" if whole else f"{arguments.shard}/{arguments.shards}"
                jobs.append((name, folders[name], target, inputs, shard, arguments.only))
    unexpected, reasons, rows = [], {}, []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for (name, _, target, inputs, shard, _), failures, counts, seconds in pool.map(run, jobs):
            failed = {failure["test"]: failure["problem"] for failure in failures}
            for test, problem in failed.items():
                why = known.get((name, target, test)) or known.get((name, "*", test))
                reasons.setdefault((name, test), (why, {}))[1][target] = problem
                if not why:
                    unexpected.append(f"{name} {target} {test}: {problem} (inputs: {inputs})")
            if shard == "0/1" and not arguments.only:
                for (known_set, known_target, test), why in known.items():
                    names_target = known_target == target or (known_target == "*" and target not in WHOLE_NETWORKS)
                    if known_set == name and names_target and test not in failed:
                        unexpected.append(f"{name} {target} {test} passes, but is listed: {why} (inputs: {inputs})")
            rows.append((name, target, inputs, shard, counts, seconds))
    print("| set | target | inputs | part | pass | of | on the target | no code | seconds |\n|---|---|---|---|---|---|---|---|---|")
    for name, target, inputs, shard, counts, seconds in rows:
        on = counts["on_target"] if target in ("accel", "opencl") else ""
        refused = counts["refused"] if target in WHOLE_NETWORKS else ""
        print(f"| {name} | {target} | {inputs} | {shard} | {counts['passed']} | {counts['tests']} | {on} | {refused} | {seconds:.0f} |")
    if arguments.list:
        for line in unexpected:
            print(line)
    else:
        by_reason = collections.defaultdict(set)
        for (name, test), (why, _) in reasons.items():
            if why:
                by_reason[why].add(test)
        for why, tests in sorted(by_reason.items()):
            print(f"- {why}: {', '.join(sorted(tests))}")
        for line in unexpected:
            print(f"unexpected: {line}")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
