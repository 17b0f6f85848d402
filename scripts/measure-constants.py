#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each constant of the cost model is worth: simulated cycles of networks with the constant halved and doubled, or with
--set NAME=VALUE, relative to those with the values of compiler/cost/Constants.def. Prints geometric means and the worst row.

With --dram it says what DRAM devices of one channel give of their peak instead: a long stream of reads, and one of reads and
writes in turns of 4 KiB. Any tilewright does.

Else it needs one whose constants can be changed, named in TILEWRIGHT:
  cmake -S . -B build/constants -G Ninja -DCMAKE_BUILD_TYPE=Release -DTILEWRIGHT_VARIABLE_CONSTANTS=ON
  ninja -C build/constants tilewright
"""

import argparse
import concurrent.futures
import json
import re
import subprocess

import measure

DEFINITIONS = measure.ROOT / "compiler/cost/Constants.def"
# One channel each, of 64-byte bursts: a trace has an access a cycle at most.
DEVICES = ["ddr4_2400", "ddr5_4800"]
ACCESSES, TURN = 20000, 64


def constants():
    """{name: value}"""
    text = DEFINITIONS.read_text()
    return {name: float(value) for name, value in re.findall(r"^COST_CONSTANT\((\w+), ([\d.]+),", text, re.M)}


def cycles(row, changed):
    file, machine = row
    environment = {**measure.ENVIRONMENT, "TILEWRIGHT_CONSTANTS": changed}
    result = subprocess.run([measure.BINARY, "run", file, "--hw", machine, "--json", "-"], cwd=measure.ROOT, text=True,
                            stdout=subprocess.PIPE, env=environment)
    if result.returncode:
        measure.fail(f"{machine} {file} with {changed or 'no change'}")
    return json.loads(result.stdout)["total_cycles"]


def dram_shares():
    """A Markdown table: percent of the data bus."""
    def trace(is_mixed):
        def line(i):
            turn = i // TURN if is_mixed else 0
            block = turn // 2 * TURN + i % TURN if is_mixed else i
            return f"0 {'RW'[turn % 2]} {block * 64 + (turn % 2 << 28):x}"
        return "\n".join(map(line, range(ACCESSES)))

    def share(device, text):
        result = subprocess.run([measure.BINARY, "dram", "-", "--device", device, "--json", "-"], cwd=measure.ROOT, text=True,
                                input=text, check=True, stdout=subprocess.PIPE)
        return f"{json.loads(result.stdout)['data_bus_percent']:.1f} %"

    traces = [trace(False), trace(True)]
    return measure.markdown(["device", "stream", "mixed"], [[device, *(share(device, text) for text in traces)] for device in DEVICES])


def main():
    parser = measure.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="MACHINE/NETWORK", help="of scripts/networks.txt; all of them by default")
    parser.add_argument("--model", action="append", default=[], metavar="MACHINE=FILE", help="further rows")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="constants to measure")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="one change of several constants instead")
    parser.add_argument("--dram", action="store_true", help="shares of the peak of DRAM devices")
    arguments = parser.parse_args()
    measure.need_binary()
    if arguments.dram:
        print(dram_shares(), end="")
        return
    known = constants()
    for name in arguments.only + [change.split("=")[0] for change in arguments.set]:
        if name not in known:
            measure.fail(f"'{name}' is none of {', '.join(known)}")
    rows = [tuple(reversed(model.split("=", 1))) for model in arguments.model]
    rows += [(measure.network(name, form), machine) for machine, form, name in measure.table()
             if f"{machine}/{name}" in arguments.rows or not (arguments.rows or arguments.model)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        def all_cycles(changed):
            return list(pool.map(lambda row: cycles(row, changed), rows))

        base = all_cycles("")

        def change(changed):
            """Geometric mean and the worst row, in percent."""
            ratios = [now / before for now, before in zip(all_cycles(changed), base)]
            return f"{100 * (measure.geometric_mean(ratios) - 1):+.2f} %", f"{100 * (max(ratios) - 1):+.2f} %"

        if arguments.set:
            mean, worst = change(" ".join(arguments.set))
            print(f"geometric mean {mean}, worst row {worst} of {len(rows)}")
            return
        lines = []
        for name in arguments.only or known:
            if known[name] == 0:
                continue
            half, half_worst = change(f"{name}={known[name] / 2}")
            twice, twice_worst = change(f"{name}={known[name] * 2}")
            lines.append([f"`{name}`", half, half_worst, twice, twice_worst])
            print(*lines[-1], flush=True)
        print(measure.markdown(["name", "half", "worst row", "twice", "worst row"], lines))


if __name__ == "__main__":
    main()
