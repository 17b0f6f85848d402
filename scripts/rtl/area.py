#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes the RTL of machines through Yosys.

  scripts/rtl/area.py check [MACHINE...]   no latch, no combinational loop, one driver for every net: else exit status 1
  scripts/rtl/area.py area [MACHINE...]    the tables of docs/rtl-area.md
  scripts/rtl/area.py units                hw-configs/technology/parts/rtl_units.yaml, from three machines

Yosys elaborates to words; gates.py maps those to gates (Yosys' own mapping and optimisation of wide arithmetic take
hours). Memories are counted in bits. Yosys' time for a process grows with the square of its assignments: every call of
a large function of tw_fp_pkg becomes one cell, and the functions are measured by themselves, once for all machines; the
window is measured with one lane and with two, and counted as the straight line through both. All else is run with the
parameters tw_top gives it. Yosys reads one package's parameter in another only as a number: tw_pkg is rewritten that
way.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

import gates

ROOT = pathlib.Path(__file__).resolve().parents[2]
RTL = ROOT / "simulator/rtl"
ARITHMETIC = (RTL / "tw_fp_pkg.sv").read_text()
# Functions that are cells where they are called, by number: a power of it, an operation that nothing else uses.
LEAVES = {3: "fp_add", 5: "fp_mul", 7: "fp_fma", 9: "fp_div", 11: "fp_sqrt", 13: "i32_to_fp", 15: "to_integer",
          17: "i32_div"}
CALLERS = {19: "alu", 21: "window_max", 23: "window_plus", 25: "window_times"}
FUNCTIONS = LEAVES | CALLERS
WINDOW = "tw_vector_window"
Size = collections.namedtuple("Size", "gates flops ram rom")
# A module: its size without its instances, and how many instances it has of which module.
Module = collections.namedtuple("Module", "size instances")


def module_of(netlist):
    """A Module for one of Yosys' modules."""
    cells = netlist["cells"].values()
    written = {cell["parameters"]["MEMID"] for cell in cells if cell["type"].startswith("$memwr")}
    flops = {bit for cell in cells if cell["type"] == "$dff" for bit in cell["connections"]["Q"]}
    bits = [0, 0]
    for name, memory in netlist.get("memories", {}).items():
        bits["\\" + name not in written and name not in written] += memory["size"] * memory["width"]
    instances = collections.Counter(cell["type"] for cell in cells if "tw_" in cell["type"])
    for cell in cells:
        if cell["type"] == "$pow":
            number = sum(2**i for i, bit in enumerate(cell["connections"]["A"]) if bit == "1")
            instances[f"tw_fp_pkg::{FUNCTIONS[number]}"] += 1
    return Module(Size(gates.count(netlist), len(flops), *bits), instances)


def plain(name):
    """tw_queue for tw_queue and for $paramod$...\\tw_queue\\Width=..."""
    return re.search(r"tw_[\w:]+", name)[0]


def values_of(package):
    return dict(re.findall(r"parameter [^;]*?(\w+) = ([\w']+);", package))


def inputs_of(function):
    """Declarations and names of a function's inputs."""
    text = re.search(rf"function automatic [^;]*? {function}\((.*?)\);", ARITHMETIC, re.S)[1]
    return re.sub(r"\s+", " ", text), re.findall(r"(\w+)(?:,|$)", text)


def arithmetic(cells):
    """tw_fp_pkg with the functions `cells` as cells."""
    text = ARITHMETIC
    for number, name in FUNCTIONS.items():
        if name in cells:
            body = f"    {name} = 8'd{number} ** {{{', '.join(inputs_of(name)[1])}}};\n"
            text, count = re.subn(rf"(function automatic [^;]*? {name}\([^;]*;\n).*?(  endfunction)",
                                  lambda m: m[1] + body + m[2], text, flags=re.S)
            assert count == 1
    return text


def wrapper(function):
    """A module that does nothing but call a function."""
    declarations, names = inputs_of(function)
    return (f"module {function} ({declarations}, output logic [31:0] result);\n"
            f"  assign result = tw_fp_pkg::{function}({', '.join(names)});\nendmodule\n")


def yosys(build, package, top, functions, check, limit):
    """Checks modules, or returns them as Yosys' JSON: `top` and what is below it (but the window), or `functions`.

    Raises RuntimeError with what is wrong.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        values = values_of(package)
        texts = {
            "tw_machine_pkg": package,
            "tw_pkg": re.sub(r"tw_machine_pkg::(\w+)", lambda m: values[m[1]], (RTL / "tw_pkg.sv").read_text()),
            "tw_fp_pkg": arithmetic(set(FUNCTIONS.values()) - set(functions)),
            "functions": "".join(wrapper(function) for function in functions),
        }
        for file, text in texts.items():
            (folder / f"{file}.sv").write_text(text)
        files = [build / "isa/tw_isa_pkg.sv", folder / "tw_machine_pkg.sv", folder / "tw_pkg.sv",
                 build / "simulator/rtl/tw_tables_pkg.sv", folder / "tw_fp_pkg.sv"]
        script = ["read_verilog -sv " + " ".join(map(str, files))]
        if top == "tw_top":
            modules = [f for f in sorted(RTL.glob("tw_*.sv")) if f.stem != WINDOW and not f.stem.endswith("_pkg")]
            script += [f"read_verilog -sv -lib {RTL / WINDOW}.sv"]
        else:
            modules = [RTL / f"{top}.sv"] if top else [folder / "functions.sv"]
        script += ["read_verilog -sv " + " ".join(map(str, modules))]
        script += ["hierarchy -check" + (f" -top {top}" if top else ""), "proc"]
        if check:
            script += ["opt_expr", "opt_clean", "check -assert",
                       "select -assert-none t:$dlatch t:$adlatch t:$dlatchsr t:$sr"]
        else:
            script += ["opt_clean", f"write_json {folder}/netlist.json"]
        try:
            command = ["yosys", "-q", "-p", "; ".join(script)]
            result = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"takes more than {limit} s") from None
        if result.returncode:
            raise RuntimeError((result.stdout + result.stderr).strip().split("\n")[-1])
        return {} if check else json.loads((folder / "netlist.json").read_text())["modules"]


def at_lanes(one, two, lanes):
    """The straight line through a Module of one lane and of two."""
    size = Size(*(a + (b - a) * (lanes - 1) for a, b in zip(one.size, two.size)))
    instances = {n: one.instances[n] + (m - one.instances[n]) * (lanes - 1) for n, m in two.instances.items()}
    return Module(size, instances)


def areas(design):
    """Of one machine: {module: [instances, Size of all of them]}."""
    total = collections.defaultdict(lambda: [0, Size(0, 0, 0, 0)])

    def visit(name, times):
        entry = total[plain(name)]
        entry[0] += times
        entry[1] = Size(*(a + times * b for a, b in zip(entry[1], design[name].size)))
        for child, number in design[name].instances.items():
            visit(child, times * number)

    visit("tw_top", 1)
    return total


def units(totals, functions, window):
    """The file of gates per unit, from {type: areas of a machine of that type}; `window`: the Module of one more lane."""
    integer = totals["int8"]

    def size(module, measure, total=integer):
        return getattr(total[module][1], measure) if module in total else 0

    def number(module, total=integer):
        return total[module][0]

    def function(name):
        return functions[f"tw_fp_pkg::{name}"].size.gates

    lanes = number("tw_mac_column")  # as many as columns
    stages = number("tw_vector_stage")
    result = {}
    for kind, total in totals.items():
        pes = number("tw_mac_column", total) * 16
        # Products and sums of floats are functions: of each PE a product, and of each tree one sum less than products.
        float_gates = 0 if kind == "int8" else function("fp_mul") + function("fp_add") * 15 / 16
        result[f"pe_{kind}_gates"] = size("tw_mac_column", "gates", total) / pes + float_gates
        result[f"pe_{kind}_flip_flops"] = (size("tw_mac_column", "flops", total) + (
            0 if kind == "int8" else size("tw_pipe", "flops", total) - size("tw_pipe", "flops"))) / pes
    result["accumulator_column_int_gates"] = size("tw_acc_column", "gates") / number("tw_acc_column")
    result["accumulator_column_float_gates"] = (
        size("tw_acc_column", "gates", totals["fp32"]) / number("tw_acc_column", totals["fp32"]) + function("fp_add"))
    lane = ["tw_vector", "tw_vector_delay", "tw_vector_tree", "tw_vector_level"]
    one_window = window.size.gates + sum(n * function(m[11:]) for m, n in window.instances.items() if m[:10] == "tw_fp_pkg:")
    shared = sum(map(function, ["fp_div", "fp_sqrt", "i32_div", "i32_to_fp"])) + 2 * function("fp_fma")
    result["vector_lane_gates"] = sum(size(m, "gates") for m in lane) / lanes + one_window + shared
    result["vector_lane_flip_flops"] = sum(size(m, "flops") for m in lane) / lanes + window.size.flops
    result["vector_lane_memory_bits"] = sum(size(m, "ram") for m in lane) / lanes + window.size.ram
    result["vector_lane_rom_bits"] = functions["tw_fp_pkg::alu"].size.rom
    result["vector_stage_gates"] = (size("tw_vector_stage", "gates") / stages / lanes
                                    + sum(map(function, ["alu", "fp_fma", "i32_to_fp", "to_integer"])))
    result["vector_stage_flip_flops"] = size("tw_vector_stage", "flops") / stages / lanes
    walkers = number("tw_box_walker")  # two of each load engine, one of each store engine
    for engine, each in (("load", 2), ("store", 1)):
        for key, measure in (("gates", "gates"), ("flip_flops", "flops"), ("memory_bits", "ram")):
            result[f"{engine}_engine_{key}"] = (
                size(f"tw_{engine}", measure) / number(f"tw_{engine}")
                + each * sum(size(m, measure) for m in ("tw_box_step", "tw_box_walker")) / walkers)
    banks = number("tw_bank")
    for key, measure in (("gates", "gates"), ("flip_flops", "flops")):
        result[f"bank_{key}"] = (size("tw_bank", measure) + size("tw_memory", measure)) / banks
        result[f"write_buffer_burst_{key}"] = size("tw_write_buffer", measure) / 32
    rest = [m for m in integer if not m.startswith(("tw_vector", "tw_fp_pkg", "tw_mac", "tw_acc", "tw_load", "tw_store", "tw_box",
                                                    "tw_bank", "tw_memory", "tw_write_buffer"))] + ["tw_bank_owner"]
    for key, measure in (("gates", "gates"), ("flip_flops", "flops")):
        result[f"control_{key}"] = sum(size(m, measure) for m in rest)
    print("""# Two-input gates and flip-flops of the parts of a machine, from its RTL. Made by scripts/rtl/area.py units.
logic:
  source: scripts/rtl/area.py units (Yosys and scripts/rtl/gates.py on simulator/rtl; docs/rtl-area.md says how gates are counted)""")
    estimates = {
        "vector_lane_gates": "the RTL without dividers, square roots and function tables in every stage: one of each for a lane",
        "vector_lane_rom_bits": "the function tables once for a lane; the RTL has them in every stage",
        "vector_stage_gates": "one fused multiply-add, two converters and the other operations; the RTL has eleven fused multiply-adds",
    }
    for key, value in result.items():
        print(f"  {key}: " + (f"{{value: {value:.0f}, estimate: \"{estimates[key]}\"}}" if key in estimates else f"{value:.0f}"))


def table(title, machines, totals, value):
    """Modules by machines; only rows that are not 0 everywhere."""
    print(f"\n## {title}\n| module |" + "".join(f" {m} |" for m in machines))
    print("|---|" + "---:|" * len(machines))
    for module in sorted(set().union(*totals.values())):
        row = [value(totals[m][module]) if module in totals[m] else 0 for m in machines]
        if any(row):
            print(f"| `{module}` |" + "".join(f" {v:,} |" for v in row))
    print("| **all** |" + "".join(f" **{sum(map(value, totals[m].values())):,}** |" for m in machines))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["check", "area", "units"])
    parser.add_argument("machines", nargs="*", default=["tiny_8x8"])
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--limit", type=int, default=3600, help="seconds for one run of yosys")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    build = pathlib.Path(arguments.build).resolve()
    if arguments.what == "units":
        arguments.machines = [f"gemmini_16x16_{kind}" for kind in ("int8", "bf16", "fp32")]

    runs, lanes = {}, {}
    for machine in arguments.machines:
        command = [str(build / "bin/tilewright"), "hw", "rtl", machine]
        package = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        runs[machine] = package, "tw_top", ()
        lanes[machine] = int(values_of(package)["Lanes"])
    # The same for all machines: the functions have no parameter, the window none but its lanes.
    runs["functions"] = package, None, LEAVES.values()
    runs["functions that call them"] = package, None, CALLERS.values()
    assert set(re.findall(r"tw_machine_pkg::(\w+)", (RTL / f"{WINDOW}.sv").read_text())) == {"Lanes"}
    for number in (1, 2):
        runs[f"window of {number}"] = re.sub(r"( Lanes = )\d+", rf"\g<1>{number}", package), WINDOW, ()

    def run(what):
        try:
            netlist = yosys(build, *runs[what], arguments.what == "check", arguments.limit)
            print(f"{what}: ok", file=sys.stderr, flush=True)
        except RuntimeError as error:
            print(f"{what}: {error}", file=sys.stderr, flush=True)
            return None
        return {name: module_of(module) for name, module in netlist.items()}

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = dict(zip(runs, pool.map(run, runs)))
    if None in results.values():
        sys.exit(1)
    if arguments.what != "check":
        functions = results["functions"] | results["functions that call them"]
        functions = {f"tw_fp_pkg::{name}": module for name, module in functions.items()}
        one, two = (results[f"window of {number}"][WINDOW] for number in (1, 2))
        totals = {}
        for machine in arguments.machines:
            window = {WINDOW: at_lanes(one, two, lanes[machine])}
            totals[machine] = areas(results[machine] | functions | window)
    if arguments.what == "units":
        window = Module(Size(*(b - a for a, b in zip(one.size, two.size))), two.instances - one.instances)
        units({machine.split("_")[-1]: total for machine, total in totals.items()}, functions, window)
    if arguments.what == "area":
        table("Gates", arguments.machines, totals, lambda t: t[1].gates)
        table("Flip-flops", arguments.machines, totals, lambda t: t[1].flops)
        table("Memory bits", arguments.machines, totals, lambda t: t[1].ram)
        table("Constant table bits", arguments.machines, totals, lambda t: t[1].rom)
        table("Instances", arguments.machines, totals, lambda t: t[0])
    minutes = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 60
    print(f"{minutes:.1f} minutes of processor time", file=sys.stderr)


if __name__ == "__main__":
    main()
