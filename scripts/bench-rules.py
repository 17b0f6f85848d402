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
import concurrent.futures
import json
import os
import pathlib
import subprocess
import tempfile

import measure

SETS = ["none", "bit-exact", "real", "all"]
QUANTITIES = {"MACs": ["macs"], "DRAM bytes": ["dram_read_bytes", "dram_write_bytes"], "cycles": ["total_cycles"]}
# Rules, and who applies them, that --explain-rules does not count.
NOT_COUNTED = ["constant-folding", "cse"]
TEXT = """# Rewriting rules, measured

Made by `TILEWRIGHT_MODELS=FOLDER scripts/bench-rules.py -o FILE`: the networks with rules of no class, of the first, of the first two and of all
([rules.md](rules.md)); `--math fast` allows all. Simulated cycles and bytes, the same on every host; MACs of the accelerator's programs. A column that
differs from `none` has the change beside it. Networks without a program for the accelerator, or that took longer than {limit} s with one of the sets, are
listed below. Rules that passes apply, and `batch-norm-to-scale`, are part of `none`; their rewrites are counted too.

"""


def fired(command, limit):
    """How often each rule changed the graph of a model; None if it has no graph after `limit` seconds."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "rules.jsonl"
        try:
            result = subprocess.run([measure.BINARY, "compile", *command, "--emit", "graph", "-o", os.devnull, "--explain-rules", log], cwd=measure.ROOT,
                                    capture_output=True, text=True, env=measure.ENVIRONMENT, timeout=limit)
        except subprocess.TimeoutExpired:
            return None
        if result.returncode:
            return None
        return collections.Counter(json.loads(line)["rule"] for line in log.read_text().splitlines())


class Network:
    """A network with each set of rules: how often rules fired, and reports; `why` says what is missing."""

    def __init__(self, folder, kinds, limit):
        self.machine = "gemmini_16x16_int8" if "int8" in folder.name else "gemmini_16x16_fp32"
        command = [str(folder / "model.onnx"), "--hw", self.machine, "--math", "fast", *measure.shape_options(folder)]
        self.counts, self.reports, self.why, self.is_worse = fired(command, limit), {}, "", False
        if self.counts is None:
            self.why = "no graph"
            return
        programs = {}
        for at, rule_set in enumerate(SETS):
            # Sets whose rules do not fire here have the same program.
            allowed = tuple(rule for rule, kind in kinds.items() if self.counts[rule] and kind in SETS[:at + 1] + ["approximate"] * (at == 3))
            if allowed not in programs:
                programs[allowed], why = measure.attempt([*command, "--rules", rule_set], limit)
                if not programs[allowed] or not programs[allowed].get("total_cycles"):
                    self.why = why or "no program for the accelerator"
                    self.is_worse = at > 0 and "stopped" not in self.why
                    break
            self.reports[rule_set] = programs[allowed]
        measure.note([folder.name, self.machine, self.why or " ".join(f"{self.reports[each]['total_cycles']:,}" for each in SETS)])


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
    # Whether rules of a set change the program hangs on those that --rules decides about.
    kinds = {rule: kind for rule, kind, _, applied in rules if applied == "rules"}
    counted = [rule for rule, _, _, applied in rules if applied not in NOT_COUNTED and rule not in NOT_COUNTED]
    totals, lines, missing, is_worse = collections.Counter(), [], [], False
    names = arguments.networks or there
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        networks = list(pool.map(lambda name: Network(models / name, kinds, arguments.limit), names))
    for name, network in zip(names, networks):
        used = [rule for rule in counted if network.counts and network.counts[rule]]
        totals.update({rule: network.counts[rule] for rule in used})
        fired_text = ", ".join(f"`{rule}` {network.counts[rule]}" for rule in used)
        if network.why:
            missing.append(f"{name} ({network.why}; rules: {fired_text or 'none'})")
            is_worse |= network.is_worse
            continue
        base, columns = network.reports["none"], [name, network.machine]
        for i, (quantity, keys) in enumerate(QUANTITIES.items()):
            values = [change(sum(network.reports[rule_set][key] for key in keys), sum(base[key] for key in keys)) for rule_set in SETS]
            lines.append([*columns, quantity, *values, "" if i else fired_text])
            columns = ["", ""]
    text = measure.markdown(["network", "machine", "", *SETS, "rules that fired"], lines, 3)
    never = [rule for rule in counted if not totals[rule]]
    text += "\n## How often rules fired\n\n" + measure.markdown(["rule", "rewrites"], [[f"`{rule}`", totals[rule]] for rule in counted if totals[rule]], 1)
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
