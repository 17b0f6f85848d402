#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes the RTL of a machine through Yosys and prints the cells of its modules as a Markdown table.

  scripts/rtl/area.py check [MACHINE...]   no latch, no combinational loop, one driver for every net: exit status 1 otherwise
  scripts/rtl/area.py area [MACHINE...]    the same, then gates, flip-flops and memory bits per module

Gates are Yosys' generic ones (AND, OR, XOR, NOT, MUX) after technology mapping without optimisation across modules: numbers to
compare machines with, not square millimetres. Memories are counted in bits and not mapped. Modules whose lanes (or rows) are all
alike are measured by themselves with two small numbers of lanes and counted as the straight line through both; all others are
measured in place, with the parameters tw_top gives them. Yosys reads one package's parameter in another only as a number: tw_pkg is
rewritten that way.
"""
import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RTL = ROOT / "simulator/rtl"
# Modules that are `n` times the same beside a constant part: the machine parameter, and the two sizes to measure.
ALIKE = {"tw_vector_stage": ("Lanes", 1, 2), "tw_vector_level": ("Lanes", 2, 4), "tw_vector_window": ("Lanes", 1, 2),
         "tw_vector": ("Lanes", 1, 2), "tw_mac_column": ("Rows", 2, 4)}
GATES = ("$_AND_", "$_OR_", "$_XOR_", "$_NOT_", "$_MUX_", "$_NAND_", "$_NOR_", "$_XNOR_", "$_ANDNOT_", "$_ORNOT_")
FLOPS = ("$_DFF", "$_SDFF", "$_ALDFF")


def values_of(package):
    return dict(re.findall(r"parameter [^;]*?(\w+) = ([\w']+);", package))


def yosys(build, package, top, boxes, gates, limit):
    """Synthesises `top`, the modules of `boxes` as black boxes. Returns (text of stat, None) or (None, what is wrong)."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        values = values_of(package)
        (folder / "tw_machine_pkg.sv").write_text(package)
        (folder / "tw_pkg.sv").write_text(re.sub(r"tw_machine_pkg::(\w+)", lambda m: values[m[1]], (RTL / "tw_pkg.sv").read_text()))
        packages = [build / "isa/tw_isa_pkg.sv", folder / "tw_machine_pkg.sv", folder / "tw_pkg.sv",
                    build / "simulator/rtl/tw_tables_pkg.sv", RTL / "tw_fp_pkg.sv"]
        modules = [f for f in sorted(RTL.glob("tw_*.sv")) if not f.stem.endswith("_pkg")]

        def read(option, files):
            return [f"read_verilog -sv {option} {' '.join(map(str, files))}"] if files else []

        script = read("", packages) + read("-lib", [f for f in modules if f.stem in boxes])
        script += read("", [f for f in modules if f.stem not in boxes])
        script += [f"hierarchy -check -top {top}", "proc", "opt_expr", "opt_clean", "check -assert",
                   "select -assert-none t:$dlatch t:$adlatch t:$dlatchsr t:$sr"]
        if gates:
            script += ["opt -fast", "memory_collect", "techmap", "opt -fast"]
        script += [f"tee -q -o {folder}/stat.txt stat"]
        try:
            result = subprocess.run(["yosys", "-q", "-p", "; ".join(script)], capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return None, f"takes more than {limit} s"
        if result.returncode:
            return None, (result.stdout + result.stderr).strip().split("\n")[-1]
        return (folder / "stat.txt").read_text(), None


def plain(name):
    """tw_queue for tw_queue and for \\$paramod$...\\tw_queue\\Width=..."""
    return re.search(r"tw_\w+", name)[0]


def parse(text):
    """Of every module in the output of stat: (gates, flip-flops, memory bits, {module: instances})."""
    found = {}
    for name, body in re.findall(r"=== (\S+) ===\n(.*?)(?=\n===|\Z)", text, re.S):
        if "tw_" not in name:
            continue
        gates = flops = 0
        instances = {}
        bits = int((re.search(r"Number of memory bits:\s+(\d+)", body) or [0, 0])[1])
        for cell, count in re.findall(r"^\s+(\S+)\s+(\d+)$", body, re.M):
            if cell in GATES:
                gates += int(count)
            elif cell.startswith(FLOPS):
                flops += int(count)
            elif "tw_" in cell:
                instances[cell] = int(count)
        found[name] = (gates, flops, bits, instances)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["check", "area"])
    parser.add_argument("machines", nargs="*", default=["tiny_8x8"])
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--limit", type=int, default=3600, help="seconds for one run of yosys")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    build = pathlib.Path(arguments.build).resolve()
    gates = arguments.what == "area"
    totals = {}
    failed = False
    for machine in arguments.machines:
        package = subprocess.run([str(build / "bin/tilewright"), "hw", "rtl", machine], capture_output=True, text=True, check=True).stdout
        values = values_of(package)
        sizes = [(None, None)] + [(m, size) for m, (_, small, large) in ALIKE.items() for size in ((small, large) if gates else (small,))]

        def measure(job):
            module, size = job
            if module is None:
                return yosys(build, package, "tw_top", set(ALIKE), gates, arguments.limit)
            resized = re.sub(rf"(parameter int unsigned {ALIKE[module][0]} = )\d+", rf"\g<1>{size}", package)
            return yosys(build, resized, module, set(ALIKE) - {module}, gates, arguments.limit)

        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            results = dict(zip(sizes, pool.map(measure, sizes)))
        for (module, size), (text, wrong) in results.items():
            if wrong:
                failed = True
            print(f"{machine}: {module or 'tw_top and all else'}{f' ({ALIKE[module][0]} = {size})' if module else ''}: {wrong or 'ok'}",
                  file=sys.stderr, flush=True)
        if failed or not gates:
            continue
        design = parse(results[None, None][0])
        for module, (name, small, large) in ALIKE.items():
            low, high = (parse(results[module, size][0])[module] for size in (small, large))
            scale = (int(values[name]) - small) / (large - small)
            design[module] = tuple(round(a + (b - a) * scale) for a, b in zip(low[:3], high[:3])) + (high[3],)
        counts = {}

        def visit(name, times):
            counts[name] = counts.get(name, 0) + times
            for child, number in design[name][3].items():
                visit(child if child in design else plain(child), times * number)

        visit(next(n for n in design if plain(n) == "tw_top"), 1)
        for name, times in counts.items():
            row = totals.setdefault(plain(name), {}).setdefault(machine, [0, 0, 0, 0])
            for i, value in enumerate((1, *design[name][:3])):
                row[i] += times * value
    if gates and not failed:
        print("| module |" + "".join(f" {m}: instances | gates | flip-flops | memory bits |" for m in arguments.machines))
        print("|---|" + "---:|" * (4 * len(arguments.machines)))
        for module in sorted(totals):
            cells = [totals[module].get(m, [0, 0, 0, 0]) for m in arguments.machines]
            print(f"| `{module}` |" + "".join("".join(f" {v:,} |" for v in cell) for cell in cells))
        sums = [[sum(totals[m].get(machine, [0] * 4)[i] for m in totals) for i in range(4)] for machine in arguments.machines]
        print("| **all** |" + "".join("".join(f" **{v:,}** |" for v in row) for row in sums))
    sys.exit(failed)


if __name__ == "__main__":
    main()
