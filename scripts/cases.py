#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The small inputs from outside that once broke: a table of what is right today. Exit status 1 if one is not.

  scripts/cases.py [TOPIC[/CASE]...]

The cases lie in the folder TILEWRIGHT_CASES, else in `cases` beside the folder TILEWRIGHT_MODELS; without either the script says so and ends
with status 0. The folder's own run.py judges each case. TILEWRIGHT names the binary (default: build/release/bin/tilewright).
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
# What must be right; the other topics of the folder wait for code that does not exist yet.
TOPICS = ["numerics/", "operators/", "reductions/", "robustness/", "reports/", "messages/", "machines/", "cpu-target/", "schedules/", "compile-time/",
          "layout-and-transposes/", "bounds/"]
# Of those, what is not right yet, with the reason.
OPEN = {"layout-and-transposes/transpose_128x128x256_cloud": "blocks of 512 KiB on a machine with several engines",
        "layout-and-transposes/wide_image": "the result goes to DRAM and back to be turned to NCHW; no engine turns it where it is made"}


def folder():
    if os.environ.get("TILEWRIGHT_CASES"):
        return pathlib.Path(os.environ["TILEWRIGHT_CASES"])
    if os.environ.get("TILEWRIGHT_MODELS"):
        return pathlib.Path(os.environ["TILEWRIGHT_MODELS"]).resolve().parent / "cases"
    return None


def endless_files(binary):
    """A link to an endless device is refused at once, whatever its suffix says; the problem or None."""
    commands = {"onnx": ["run", "{f}", "--hw", "tiny_8x8"], "mlir": ["run", "{f}", "--hw", "tiny_8x8"], "twp": ["run", "{f}", "--hw", "tiny_8x8"],
                "tasm": ["run", "{f}", "--hw", "tiny_8x8"], "yaml": ["hw", "validate", "{f}"],
                "npy": ["run", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "--input", "a={f}"]}
    with tempfile.TemporaryDirectory() as scratch:
        for suffix, command in commands.items():
            link = pathlib.Path(scratch) / f"endless.{suffix}"
            link.symlink_to("/dev/zero")
            try:
                run = subprocess.run([binary] + [word.replace("{f}", str(link)) for word in command], capture_output=True, text=True, timeout=20)
            except subprocess.TimeoutExpired:
                return f".{suffix} is not done after 20 s"
            if run.returncode != 1:
                return f".{suffix} ends with status {run.returncode}"
            if f"endless.{suffix}" not in run.stderr:
                return f".{suffix}: the message does not name the file: {run.stderr.strip()[-200:]}"
    return None


def ratio_is_documented(binary):
    """hw-configs/README.md gives the values that dram.bytes_per_cycle may have; the problem or None."""
    row = re.search(r"^.*`?bytes_per_cycle`?.*$", (SOURCE / "hw-configs/README.md").read_text(), re.MULTILINE)
    return None if row and "64/3" in row[0] else "hw-configs/README.md does not say that 64/3 is allowed"


def modulo_is_never_slower(binary):
    """The folder's limit, 3,861 cycles, is double_buffer's with the controller that was the default then: both run here; the problem or None."""
    cycles = {}
    for controller in "windowed", "in_order":
        for schedule in "pipelined", "double_buffer":
            run = subprocess.run([binary, "run", str(folder() / "schedules/modulo_behind_double_buffer.onnx"), "--hw", "gemmini_16x16_fp32",
                                  "--set", f"dram.controller={controller}", "--schedule", schedule], capture_output=True, text=True, timeout=60)
            found = re.search(r"^([\d,]+) cycles = ", run.stdout, re.MULTILINE)
            if not found:
                return f"{schedule} ends with status {run.returncode}: {run.stderr.strip()[-200:]}"
            cycles[schedule] = int(found[1].replace(",", ""))
        if cycles["pipelined"] > cycles["double_buffer"]:
            return f"{controller}: pipelined takes {cycles['pipelined']} cycles, double_buffer {cycles['double_buffer']}"
    return None


# Cases that the folder describes in words, or measures on a machine that has changed. robustness/install is the test Install.
OWN_CASES = {"robustness/endless_file": endless_files, "machines/bytes_per_cycle_doc": ratio_is_documented,
             "schedules/modulo_behind_double_buffer": modulo_is_never_slower}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="TOPIC[/CASE]", help="what the ids of cases contain; default: " + " ".join(TOPICS))
    arguments = parser.parse_args()
    cases = folder()
    if not cases or not (cases / "run.py").is_file():
        print("cases: skipped, no folder of cases (TILEWRIGHT_CASES, or `cases` beside the folder TILEWRIGHT_MODELS)")
        return 0
    binary = str(pathlib.Path(os.environ.get("TILEWRIGHT", SOURCE / "build/release/bin/tilewright")).resolve())
    wanted = arguments.cases or TOPICS
    right = count = 0
    runner = subprocess.Popen([sys.executable, "-u", str(cases / "run.py"), binary, "--repo", str(SOURCE), *wanted], stdout=subprocess.PIPE, text=True)
    for line in runner.stdout:
        if line.startswith("open ") and line.split()[1] in OPEN:
            print(f"known {line.split()[1]} - {OPEN[line.split()[1]]}", flush=True)
        elif re.match(r"right |open  ", line) and line.split()[1] not in OWN_CASES:
            count += 1
            right += line.startswith("right ")
            print(line, end="", flush=True)
    if runner.wait() != 0:
        print(f"cases: {cases / 'run.py'} ended with status {runner.returncode}", file=sys.stderr)
        return 1
    for name, check in OWN_CASES.items():
        if any(text in name for text in wanted):
            problem = check(binary)
            count += 1
            right += problem is None
            print(f"open  {name} - {problem}" if problem else f"right {name}")
    if count == 0:
        print("cases: no id contains " + " or ".join(wanted), file=sys.stderr)
        return 1
    print(f"{right} of {count} right")
    return 0 if right == count else 1


if __name__ == "__main__":
    sys.exit(main())
