#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the SystemC model and the RTL side by side (`tilewright verify`) on the networks of scripts/networks.txt, ResNet-18's
convolutions and the matrix products that other systems publish, under schedule pipelined. Prints a Markdown table as it goes.
Exit status 1 if any differs. The RTL of a machine that is missing is built first, which takes minutes for arrays of 32x32.
TILEWRIGHT names a tilewright that is built already.
"""

import re
import subprocess
import sys
import time

import measure

KERNELS = ([("vdla_16x16", layer, measure.conv(layer)) for layer in measure.RESNET18] +
           [(machine, f"gemm {n}", f"gemm:{n}x{n}x{n}:int8")
            for machine in ("onnxim_16x16_16b", "onnxim_16x16_4b") for n in (512, 1024)])


def main():
    parser = measure.Parser(description=__doc__, formatter_class=measure.argparse.RawDescriptionHelpFormatter)
    known = {machine for machine, _, _ in measure.table()} | {machine for machine, _, _ in KERNELS}
    parser.add_argument("machines", metavar="MACHINE", nargs="*", help="these only; default: those with 16x16 arrays")
    chosen = parser.parse_args().machines or sorted(machine for machine in known if "16x16" in machine)
    for machine in chosen:
        if machine not in known:
            measure.fail(f"machine '{machine}' is neither in scripts/networks.txt nor one of those for matrix products")
    measure.need_binary()
    jobs = [job for job in KERNELS if job[0] in chosen]
    jobs += [(machine, name, measure.network(name, form)) for machine, form, name in measure.table() if machine in chosen]
    print("| machine | program | cycles | instructions | s | RTL and SystemC |\n|---|---|---:|---:|---:|---|", flush=True)
    status = 0
    for machine, name, model in jobs:
        start = time.monotonic()
        result = subprocess.run([measure.BINARY, "verify", model, "--hw", machine, "--schedule", "pipelined"], cwd=measure.ROOT,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=measure.ENVIRONMENT)
        found = re.search(r"^0 +([\d,]+) +([\d,]+)", result.stdout, re.M)
        cycles, instructions = found.groups() if found else ("", "")
        agrees = result.returncode == 0
        print(f"| {machine} | {name} | {cycles} | {instructions} | {time.monotonic() - start:.0f} | "
              f"{'equal' if agrees else 'DIFFER'} |", flush=True)
        if not agrees:
            print(result.stdout, file=sys.stderr)
            status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
