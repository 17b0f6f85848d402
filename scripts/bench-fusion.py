#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""DRAM bytes of the fusion plans of networks, beside those of the unfused and the all-fused plan.

  scripts/bench-fusion.py [-o FILE.md] [NETWORK...]

With -o the table of the page, and its printed kernels, are written anew; the text before the marker stays. TILEWRIGHT names a tilewright that is
built already.
"""

import argparse
import pathlib
import subprocess

import measure

NETWORKS = ["resnet50", "mobilenetv2", "bert_block", "opt_concat_512"]
MACHINES = [("gemmini_16x16_int8", "int8"), ("gemmini_16x16_bf16", "fp32"), ("edge_32x32_bf16", "fp32"), ("cloud_128x128", "fp32")]
MARKER = "<!-- scripts/bench-fusion.py writes from here -->\n"
NAMES = ["dram_bytes_unfused", "dram_bytes_kernels", "dram_bytes_chosen", "dram_bytes_all_fused", "dram_bytes_least"]


def fusion(network, form, machine):
    """The text of --emit fusion."""
    result = subprocess.run([measure.BINARY, "compile", measure.network(network, form), "--hw", machine, "--emit", "fusion"], cwd=measure.ROOT,
                            stdout=subprocess.PIPE, text=True, env=measure.ENVIRONMENT)
    if result.returncode:
        measure.fail(f"{network} on {machine} does not compile")
    return result.stdout


def main():
    parser = measure.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"default: {', '.join(NETWORKS)}")
    parser.add_argument("-o", metavar="FILE.md", type=pathlib.Path)
    arguments = parser.parse_args()
    measure.need_binary()
    for name in arguments.networks:
        if name not in NETWORKS:
            measure.fail(f"'{name}' is none of {', '.join(NETWORKS)}")
    rows, printed = [], ""
    for name in arguments.networks or NETWORKS:
        for machine, form in MACHINES:
            text = fusion(name, form, machine)
            sums = dict(line.split() for line in text.splitlines() if line.startswith("dram_bytes"))
            kernels = text.split("\n\n")[1:]
            rows.append([name, machine, sum(len(kernel.splitlines()) > 1 for kernel in kernels),
                         sum("row tiles of" in kernel for kernel in kernels), *(f"{int(sums[key]) / 2**20:,.2f}" for key in NAMES)])
            measure.note(rows[-1])
            if machine == MACHINES[0][0]:
                printed += f"\n{name} on `{machine}`, the first kernels:\n```\n" + "\n\n".join(kernels[:4]) + "\n```\n"
    table = measure.markdown(["network", "machine", "kernels", "by row tiles", "unfused", "kernels as they are", "chosen", "all fused", "least"], rows, 2)
    if arguments.o:
        arguments.o.write_text(arguments.o.read_text().split(MARKER)[0] + MARKER + "DRAM MiB, estimated:\n\n" + table + printed)
    else:
        print(table + printed, end="")


if __name__ == "__main__":
    main()
