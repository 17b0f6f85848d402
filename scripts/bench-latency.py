#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cycles of compute-bound layers under schedule search with the DRAM latency times 1, 2, 4 and 8 at the same bandwidth: they
may grow by no more than their lower bound does, plus 1 %. Writes docs/latency.md. Exit status 1 if a layer that must hold
this does not.

Runs are kept in build/measurements. TILEWRIGHT names a tilewright that is built already.
"""

import argparse
import math
import pathlib
import sys

import measure

FACTORS = [1, 2, 4, 8]
GEMM = {f"gemm {n}": f"gemm:{n}x{n}x{n}:int8" for n in (512, 1024)}
KERNELS = {**{layer: measure.conv(layer) for layer in measure.RESNET18}, **GEMM}
CASES = ([(machine, layer) for machine in ("vdla_16x16", "gemmini_16x16_int8", "edge_32x32_int8") for layer in measure.RESNET18] +
         [("onnxim_16x16_16b", "gemm 512"), ("onnxim_128x128", "gemm 512"), ("onnxim_128x128", "gemm 1024")])


class Machine:
    """A machine's latency, and the options that multiply it."""

    def __init__(self, report):
        machine, dram = report["machine"], report["machine"]["dram"]
        self.scratchpad = machine["scratchpad_bytes"]
        self.rate = dram["peak_bytes_per_cycle"]
        self.latency = dram["row_conflict_latency_cycles"]
        if dram["ideal"]:
            # The key does not count the transfer of the burst.
            self.latency -= math.ceil(dram["burst_bytes"] / self.rate)
        self.ideal = dram["ideal"]
        self.bursts = machine["outstanding_bursts"]
        needed = self.product(FACTORS[-1]) / dram["burst_bytes"]
        while self.bursts < needed + 1:
            self.bursts *= 2

    def product(self, factor):
        """Bytes under way at the peak rate."""
        return math.ceil(self.rate * self.latency * factor)

    def setting(self, factor):
        if self.ideal:
            return f"dram.latency_cycles={self.latency * factor}"
        return f"dram.path_latency_cycles={self.latency * (factor - 1)}"

    def options(self, factor):
        return ["--set", self.setting(factor), *measure.in_flight(self.bursts)]


def verdict(machine, reports):
    """(verdict, must hold) for the reports of the factors."""
    if None in reports:
        return "failed", True
    if reports[0]["bound_by"] != "array":
        return f"not asked: bound by {reports[0]['bound_by']}", False
    if 2 * (reports[0]["layers"][0]["tile_bytes"] + machine.product(FACTORS[-1])) > machine.scratchpad:
        return "not asked: too little scratchpad", False
    first = reports[0]
    for report in reports[1:]:
        grown = report["total_cycles"] - first["total_cycles"]
        if grown > report["lower_bound_cycles"] - first["lower_bound_cycles"] + 0.01 * first["total_cycles"]:
            return "NO", True
    return "yes", True


def document(command, budget, cases, machines, reports):
    text = f"""# DRAM latency, measured

Made by
`{command}`:
simulated cycles with schedule `search`, which simulates {budget} programs for each number. The latency is
multiplied by 1, 2, 4 and 8 at the same bandwidth. At every factor the limits of bursts under way are what 8 times the latency
asks for: `dma.outstanding_bursts` for reads and `dram.write_buffer_bursts` for writes, which hold their entry until the DRAM
has them.

"""
    rows = [[name, f"{m.rate:g}", m.latency, f"`{m.setting(1)}`", f"`{m.setting(FACTORS[-1])}`", m.bursts, m.scratchpad]
            for name, m in machines.items()]
    text += measure.markdown(["machine", "B/cycle", "latency, cycles", "at x1", "at x8", "bursts", "scratchpads, bytes"], rows)
    text += """
A device's latency is that of a read that finds another row open. **bytes**: scratchpad bytes of one slot of each buffer of the
tile chosen at x1, plus the bytes under way at x8 (peak rate x latency). **at most half**: whether they fill at most half of the
scratchpads. Then, if the layer is bound by the array, its cycles may grow at each factor by the growth of its lower bound
([bounds.md](bounds.md)) plus 1 % of its cycles at x1: **holds**. x2, x4, x8: growth of the cycles over x1, in brackets the
growth of the bound in percent of the same cycles.

"""
    table, asked, held = [], 0, 0
    for (name, layer), of_layer in zip(cases, reports):
        machine = machines[name]
        says, must = verdict(machine, of_layer)
        asked += must
        held += says == "yes"
        if None in of_layer:
            table.append([name, layer, *["-"] * (len(FACTORS) + 2), says])
            continue
        first = of_layer[0]
        tile = first["layers"][0]["tile_bytes"]
        half = 2 * (tile + machine.product(FACTORS[-1])) <= machine.scratchpad
        cells = [f"{first['total_cycles']:,}"]
        for report in of_layer[1:]:
            more = 100 * (report["total_cycles"] / first["total_cycles"] - 1)
            bound = 100 * (report["lower_bound_cycles"] - first["lower_bound_cycles"]) / first["total_cycles"]
            cells.append(f"{more:+.2f} % ({bound:+.2f})")
        table.append([name, layer, f"{tile:,} + {machine.product(FACTORS[-1]):,}", "yes" if half else "no", *cells, says])
    head = ["machine", "layer", "bytes", "at most half", *(f"x{factor}" for factor in FACTORS), "holds"]
    text += measure.markdown(head, table, 2)
    text += f"\n{held} of the {asked} layers that it is asked of hold it.\n"
    return text, held == asked


def main():
    parser = measure.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", metavar="MACHINE:LAYER,...", help="these instead; a layer is " + ", ".join(KERNELS))
    parser.add_argument("--budget", type=int, default=8,
                        help="programs that search simulates for each number (default %(default)s)")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=measure.ROOT / "docs", help="folder of latency.md")
    options = parser.parse_args()
    cases = CASES
    if options.cases is not None:
        cases = [tuple(case.split(":", 1)) for case in options.cases.split(",")]
        for case in cases:
            if len(case) != 2 or case[1] not in KERNELS:
                measure.fail(f"--cases names '{':'.join(case)}' but must be MACHINE:LAYER with a layer of {', '.join(KERNELS)}")
    if options.budget < 1:
        measure.fail(f"--budget is {options.budget} but must be at least 1")
    if not options.output.is_dir():
        measure.fail(f"-o is '{options.output}' but must be a folder")

    names = list(dict.fromkeys(name for name, _ in cases))
    probes = measure.run_all([["gemm:64x64x64:int8", "--hw", name] for name in names])
    if None in probes:
        measure.fail("a machine could not be used")
    machines = {name: Machine(report) for name, report in zip(names, probes)}
    jobs = [[KERNELS[layer], "--hw", name, *machines[name].options(factor), "--schedule", "search", "--search-budget",
             str(options.budget)] for name, layer in cases for factor in FACTORS]
    reports = measure.run_all(jobs)
    reports = [reports[i:i + len(FACTORS)] for i in range(0, len(reports), len(FACTORS))]
    arguments = [a for a in sys.argv[1:] if a not in ("-o", "--output", str(options.output))]
    text, good = document(" ".join(["scripts/bench-latency.py", *arguments]), options.budget, cases, machines, reports)
    (options.output / "latency.md").write_text(text)
    print(text, end="")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
