#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Line and toggle coverage of the RTL by the random programs, as a Markdown table.

  scripts/rtl/coverage.py [--programs N] [--illegal N] [--toggle-programs N] [--seed S] [MACHINE...]

Builds models that count (Verilator's --coverage-line, and others with --coverage-toggle, which are a hundred times slower and run fewer
programs), runs `tilewright-random` on every machine and adds up the counts of all machines and instances. A line is covered if every block
that begins on it was entered. Lines nobody reached are printed with their text and with the reason that scripts/rtl/coverage-reasons.txt
gives; one without a reason makes the exit status 1.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RTL = ROOT / "simulator/rtl"


def read(files):
    """Counts of all points: {(kind, file, line, what): count}, summed over instances, machines and processes."""
    counts = {}
    for file in files:
        for line in file.read_text(errors="replace").split("\n"):
            match = re.match(r"C '(.*)' (\d+)$", line)
            if not match:
                continue
            fields = dict(part.split("\x02", 1) for part in match[1].split("\x01") if "\x02" in part)
            page = fields.get("page", "")
            kind = "toggle" if page.startswith("v_toggle") else "line"
            name = pathlib.Path(fields["f"]).name
            # A toggle point is a bit of a net of a module, whatever the instance.
            what = fields.get("o", "") if kind == "toggle" else fields.get("n", "") + fields.get("o", "")
            key = (kind, name, int(fields["l"]), what)
            counts[key] = counts.get(key, 0) + int(match[2])
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("machines", nargs="*", default=["tiny_8x8", "gemmini_16x16_fp32"])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--illegal", type=int, default=300)
    parser.add_argument("--toggle-programs", type=int, default=30, help="legal programs, and as many faulty ones")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--work", default="/tmp/tilewright-coverage")
    parser.add_argument("--read-only", action="store_true", help="only print what an earlier run counted")
    arguments = parser.parse_args()
    folder = pathlib.Path(arguments.work)
    if not arguments.read_only:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for kind, programs, illegal in (("line", arguments.programs, arguments.illegal),
                                        ("toggle", arguments.toggle_programs, arguments.toggle_programs)):
            for machine in arguments.machines:
                print(f"{kind}s, {machine}: {programs} programs, {illegal} faulty ones, seed {arguments.seed}", file=sys.stderr, flush=True)
                subprocess.run([f"{arguments.build}/bin/tilewright-random", "--machine", machine, "--programs", str(programs), "--illegal",
                                str(illegal), "--seed", str(arguments.seed), "--no-stepped"], check=True, stdout=subprocess.DEVNULL,
                               env=dict(os.environ, TILEWRIGHT_RTL_COVERAGE=str(folder), TILEWRIGHT_VERILATOR_FLAGS=f"--coverage-{kind}",
                                        SYSTEMC_DISABLE_COPYRIGHT_MESSAGE="1"))
    counts = read(sorted(folder.glob("*.dat")))
    reasons = []
    for line in (ROOT / "scripts/rtl/coverage-reasons.txt").read_text().split("\n"):
        if line.strip() and not line.startswith("#"):
            name, pattern, reason = (part.strip() for part in line.split(" | "))
            reasons.append((name, pattern, reason))
    print("| module | lines | covered | % | toggles | covered | % |\n|---|---:|---:|---:|---:|---:|---:|")
    missing, totals = [], [0, 0, 0, 0]
    for source in sorted(RTL.glob("tw_*.sv")):
        lines, toggles = {}, {}
        for (kind, name, number, what), count in counts.items():
            if name == source.name:
                points = lines if kind == "line" else toggles
                key = number if kind == "line" else (number, what)
                points[key] = min(points.get(key, count), count) if kind == "line" else points.get(key, 0) + count
        if not lines and not toggles:
            continue
        covered, toggled = sum(c > 0 for c in lines.values()), sum(c > 0 for c in toggles.values())
        row = [len(lines), covered, len(toggles), toggled]
        totals = [a + b for a, b in zip(totals, row)]
        percent = lambda a, b: f"{100 * a / b:.1f}" if b else "-"
        print(f"| `{source.stem}` | {row[0]} | {row[1]} | {percent(row[1], row[0])} | {row[2]} | {row[3]} | {percent(row[3], row[2])} |")
        text = source.read_text().split("\n")
        missing += [(source.name, number, text[number - 1].strip()) for number, count in sorted(lines.items()) if not count]
    print(f"| **all** | **{totals[0]}** | **{totals[1]}** | **{percent(totals[1], totals[0])}** | **{totals[2]}** | **{totals[3]}** | "
          f"**{percent(totals[3], totals[2])}** |")
    unexplained = 0
    if missing:
        print("\n| line never entered | text | reason |\n|---|---|---|")
    for name, number, text in missing:
        reason = next((r for file, pattern, r in reasons if file in (name, "*") and re.search(pattern, text)), None)
        unexplained += reason is None
        shown = text.replace("|", "\\|")
        print(f"| {name}:{number} | `{shown}` | {reason or '**none**'} |")
    if unexplained:
        print(f"\n{unexplained} lines without a reason")
    sys.exit(unexplained > 0)


if __name__ == "__main__":
    main()
