#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the rewriting rules do to the networks of TILEWRIGHT_MODELS: MACs, DRAM bytes and cycles without rules, with those that keep every bit,
with those that are exact in real arithmetic, and with all; which rules fire, and which never do. Exit status 1 if a network fails with
rules and not without.

  scripts/bench-rules.py [--limit SECONDS] [-o FILE.md] [NETWORK...]

int8 networks run on gemmini_16x16_int8, the others on gemmini_16x16_fp32, all with --math fast, so that only --rules differs. Runs are kept in
build/measurements. TILEWRIGHT names a tilewright that is built already.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import tempfile

import measure

SETS = ["none", "bit-exact", "real", "all"]
TEXT = """# Rewriting rules, measured

Made by `TILEWRIGHT_MODELS=FOLDER scripts/bench-rules.py -o FILE`: the networks with rules of no class, of the first, of the first two and of all
([rules.md](rules.md)); `--math fast` allows all. Simulated cycles and bytes, the same on every host; MACs of the accelerator's programs. A column that
differs from `none` has the change beside it. Networks without a program for the accelerator, or that took longer than {limit} s with one of the sets, are
listed below. Rules that always run, and `batch-norm-to-scale`, are part of `none`.

"""


def fired(command):
    """How often each rule changed the graph of a model, or why it has none."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "rules.jsonl"
        try:
            result = subprocess.run([measure.BINARY, "compile", *command, "--emit", "graph", "-o", os.devnull, "--explain-rules", log], cwd=measure.ROOT,
                                    capture_output=True, text=True, env=measure.ENVIRONMENT, timeout=600)
        except subprocess.TimeoutExpired:
            return None
        if result.returncode:
            return None
        return collections.Counter(json.loads(line)["rule"] for line in log.read_text().splitlines())


def change(value, base):
    return f"{value:,}" + (f" ({100 * (value / base - 1):+.1f} %)" if value != base and base else "")


def main():
    parser = measure.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    parser.add_argument("--limit", type=int, default=300, metavar="SECONDS")
    parser.add_argument("-o", metavar="FILE.md", type=pathlib.Path)
    arguments = parser.parse_args()
    if not os.environ.get("TILEWRIGHT_MODELS"):
        measure.fail("TILEWRIGHT_MODELS is not set; it must name the folder of the networks")
    measure.need_binary()
    models = pathlib.Path(os.environ["TILEWRIGHT_MODELS"]).resolve()
    there = sorted(path.parent.name for path in models.glob("*/model.onnx"))
    for name in arguments.networks:
        if name not in there:
            measure.fail(f"'{name}' is not in {models}, which has {', '.join(there)}")
    table = subprocess.run([measure.BINARY, "rules", "--markdown"], capture_output=True, text=True, check=True, env=measure.ENVIRONMENT).stdout
    rules = [[cell.strip(" `") for cell in line.split("|")[1:5]] for line in table.splitlines()[2:]]
    optional = [rule for rule, _, _, applied in rules if applied.startswith("rules")]
    totals, lines, missing, is_worse = collections.Counter(), [], [], False
    for name in arguments.networks or there:
        machine = "gemmini_16x16_int8" if "int8" in name else "gemmini_16x16_fp32"
        command = [str(models / name / "model.onnx"), "--hw", machine, "--math", "fast", *measure.shape_options(models / name)]
        counts = fired(command)
        used = sorted(rule for rule in counts or {} if rule in optional)
        totals.update({rule: counts[rule] for rule in used})
        reports, why, seen = {}, "", set()
        for rule_set in SETS if counts is not None else []:
            # Sets whose rules do not fire here have the same program.
            allowed = tuple(rule for rule, kind, _, _ in rules if rule in used and ["", "bit-exact", "real", "approximate"].index(kind) <= SETS.index(rule_set))
            if allowed in seen:
                reports[rule_set] = reports[SETS[SETS.index(rule_set) - 1]]
                continue
            seen.add(allowed)
            reports[rule_set], why = measure.attempt([*command, "--rules", rule_set], arguments.limit)
            if not reports[rule_set] or not reports[rule_set].get("total_cycles"):
                why = why or "no program for the accelerator"
                is_worse |= rule_set != "none" and "stopped" not in why
                break
        if len(reports) < len(SETS) or why:
            missing.append(f"{name} ({why or 'no graph'}; rules: {', '.join(f'{rule} {counts[rule]}' for rule in used) if counts else 'none'})")
            measure.note([name, why])
            continue
        base = reports["none"]
        row = [name, machine]
        for rule_set in SETS:
            report = reports[rule_set]
            for key in [["macs"], ["dram_read_bytes", "dram_write_bytes"], ["total_cycles"]]:
                row.append(change(sum(report[each] for each in key), sum(base[each] for each in key)))
        columns = [name, machine]
        for i, quantity in enumerate(["MACs", "DRAM bytes", "cycles"]):
            lines.append([*columns, quantity, *[row[2 + 3 * at + i] for at in range(len(SETS))],
                          ", ".join(f"`{rule}` {counts[rule]}" for rule in used) if i == 0 else ""])
            columns = ["", ""]
        measure.note(row)
    text = measure.markdown(["network", "machine", "", *SETS, "rules that fired"], lines, 3)
    never = [rule for rule in optional if not totals[rule]]
    text += "\n## How often rules fired\n\n" + measure.markdown(["rule", "rewrites"], [[f"`{rule}`", totals[rule]] for rule in optional if totals[rule]], 1)
    text += "\nNever on these networks: " + ", ".join(f"`{rule}`" for rule in never) + ".\n"
    if missing:
        text += "\n## Networks without cycles\n\n" + "".join(f"- {line}\n" for line in missing)
    print(text, end="")
    if arguments.o:
        arguments.o.write_text(TEXT.format(limit=arguments.limit) + text)
    if is_worse:
        measure.fail("some networks failed with rules alone")


if __name__ == "__main__":
    main()
