#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Line and toggle coverage of the RTL by the random programs: scripts/rtl/coverage.py >docs/rtl-coverage.md

Builds models that count (Verilator's --coverage-line, and others with --coverage-toggle), runs `tilewright-random` on
every machine and adds up the counts of all machines and instances. Lines nobody reached are printed with their text and
with the reason that scripts/rtl/coverage-reasons.txt gives; one without a reason makes the exit status 1.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# int8; fp32 with other numbers everywhere; bf16, with bursts larger than what the fetch holds.
MACHINES = ["tiny_8x8", "tests/rtl/random/odd_8x4_fp32.yaml", "tiny_8x8,array.type=bf16,control.prefetch_words=1"]
# Split and reordered, a block counts its branches after all of its assignments, by the last values of its variables.
FLAGS = {"line": ["--coverage-line", "-fno-split", "-fno-reorder", str(ROOT / "scripts/rtl/coverage.vlt")],
         "toggle": ["--coverage-toggle"]}
INTRODUCTION = """# Coverage of the RTL

Made by `scripts/rtl/coverage.py`: what the random programs of `tilewright-random`, legal and faulty ones, reach in
`simulator/rtl`, all machines and instances together:
{runs}
A line is covered if every block that it is a part of was entered, and an `if` also if its condition was false once. A
toggle is a bit of a net or register of a module that changed; vectors of more than 256 bits are not counted. Models
that count toggles are slow, so fewer programs run on them. Upper bits of addresses, sizes and counters need memories
and runs larger than theirs.
"""


def lines_of(text):
    """The numbers in "3-5,9"."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def read(files):
    """{(kind, file, line, what, lines of the block): count} of all points, instances, machines and processes summed."""
    counts = {}
    for file in files:
        for line in file.read_text(errors="replace").split("\n"):
            match = re.match(r"C '(.*)' (\d+)$", line)
            if not match:
                continue
            fields = dict(part.split("\x02", 1) for part in match[1].split("\x01") if "\x02" in part)
            kind = "toggle" if fields.get("page", "").startswith("v_toggle") else "line"
            # A toggle point is a bit of a net of a module, whatever the instance.
            what = fields.get("o", "") if kind == "toggle" else fields.get("n", "") + fields.get("o", "")
            key = (kind, pathlib.Path(fields["f"]).name, int(fields["l"]), what, fields.get("S", ""))
            counts[key] = counts.get(key, 0) + int(match[2])
    return counts


def run(kind, machine, programs, illegal, arguments):
    print(f"{kind}s, {machine}: {programs} programs, {illegal} faulty ones", file=sys.stderr, flush=True)
    name, *overrides = machine.split(",")
    flags = [flag for override in overrides for flag in ("--set", override)]
    environment = dict(os.environ, TILEWRIGHT_RTL=arguments.work, TILEWRIGHT_RTL_COVERAGE=arguments.work,
                       TILEWRIGHT_VERILATOR_FLAGS=" ".join(FLAGS[kind]), SYSTEMC_DISABLE_COPYRIGHT_MESSAGE="1")
    subprocess.run([f"{arguments.build}/bin/tilewright-random", "--machine", name, *flags, "--programs", str(programs),
                    "--illegal", str(illegal), "--seed", str(arguments.seed), "--no-stepped"],
                   check=True, stdout=subprocess.DEVNULL, env=environment, cwd=ROOT)


def count(arguments, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # What is counted stays as it is while the sources go on.
    shutil.copytree(ROOT / "simulator", folder / "simulator")
    runs = ""
    # A third machine would have hardly another net, and takes minutes to build.
    for kind, machines, programs, illegal in (
            ("line", arguments.machines, arguments.programs, arguments.illegal),
            ("toggle", arguments.machines[:2], arguments.toggle_programs, arguments.toggle_programs)):
        runs += (f"- {kind}s: {programs} legal and {illegal} faulty programs on each of "
                 f"{', '.join(f'`{machine}`' for machine in machines)}\n")
        for machine in machines if programs else []:
            run(kind, machine, programs, illegal, arguments)
    (folder / "runs").write_text(runs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("machines", nargs="*", default=MACHINES, help="name or file, overrides: MACHINE,KEY=VALUE,...")
    parser.add_argument("--programs", type=int, default=1500, help="legal programs for lines")
    parser.add_argument("--illegal", type=int, default=8000, help="faulty programs for lines")
    parser.add_argument("--toggle-programs", type=int, default=10, help="legal programs, and as many faulty ones")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--work", default="/tmp/tilewright-coverage", help="folder of the counts and their sources")
    parser.add_argument("--read-only", action="store_true", help="only print what an earlier run counted")
    arguments = parser.parse_args()
    arguments.work = os.path.abspath(arguments.work)
    arguments.build = os.path.abspath(arguments.build)
    folder = pathlib.Path(arguments.work)
    if not arguments.read_only:
        count(arguments, folder)
    counts = read(sorted(folder.glob("*.dat")))
    reasons = []
    for line in (ROOT / "scripts/rtl/coverage-reasons.txt").read_text().split("\n"):
        if line.strip() and not line.startswith("#"):
            reasons.append([part.strip() for part in line.split(" | ")])

    print(INTRODUCTION.format(runs=(folder / "runs").read_text()))
    print("| module | lines | covered | % | toggles | covered | % |\n|---|---:|---:|---:|---:|---:|---:|")
    percent = lambda part, all: f"{100 * part / all:.1f}" if all else "-"
    missing, totals = set(), [0, 0, 0, 0]
    for source in sorted((folder / "simulator/rtl").glob("tw_*.sv")):
        text = source.read_text().split("\n")
        lines, toggles = {}, {}
        for (kind, name, number, what, block), hits in counts.items():
            if name != source.name:
                continue
            if kind == "toggle":
                toggles[number, what] = hits
                continue
            for line in {number, *lines_of(block)}:
                lines[line] = min(lines.get(line, hits), hits)
            if not hits:
                branch = {"if": "true", "elsif": "true", "else": "false"}.get(what.lstrip("0123456789"), "entered")
                missing.add((source.name, number, branch, text[number - 1].strip()))
        row = [len(lines), sum(map(bool, lines.values())), len(toggles), sum(map(bool, toggles.values()))]
        totals = [a + b for a, b in zip(totals, row)]
        if lines or toggles:
            print(f"| `{source.stem}` | {row[0]} | {row[1]} | {percent(row[1], row[0])} | {row[2]} | {row[3]} | "
                  f"{percent(row[3], row[2])} |")
    print(f"| **all** | **{totals[0]}** | **{totals[1]}** | **{percent(totals[1], totals[0])}** | **{totals[2]}** | "
          f"**{totals[3]}** | **{percent(totals[3], totals[2])}** |")

    unexplained = 0
    if missing:
        print("\n| line | never | text | reason |\n|---|---|---|---|")
    for name, number, branch, text in sorted(missing):
        reason = next((reason for file, pattern, reason in reasons
                       if file == name and re.search(pattern, f"{branch}: {text}")), None)
        unexplained += reason is None
        shown = text.replace("|", "\\|")
        print(f"| {name}:{number} | {branch} | `{shown}` | {reason or '**none**'} |")
    if unexplained:
        print(f"\n{unexplained} lines without a reason")
    sys.exit(unexplained > 0)


if __name__ == "__main__":
    main()
