#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The peak of live bytes of networks in two orders of their kernels, beside its bound: as code for the CPU, and on an accelerator.

  scripts/bench-memory.py [-o FILE.md] [NETWORK...]

Networks are those of scripts/networks.py and those of the folder TILEWRIGHT_MODELS; without that variable the former alone. TILEWRIGHT names
a tilewright that is built already.
"""

import argparse
import os
import pathlib
import subprocess
import sys

import measure

OWN = ["resnet18", "resnet50", "mobilenetv2", "squeezenet", "shufflenetv2", "yolo", "ssd", "bert_block", "bert_block_decomposed"]
OTHERS = ["light_inception_v1", "light_vgg19", "squeezenet1.1_fp32", "resnet20_cifar10", "super_resolution_10", "mobilenetv2_1.0_int8_qdq",
          "npm_blazeface_front_128", "npm_ppocr_v2_cls", "ultraface_RFB320", "deeploy_TinyViT_Demo", "ort_gpt2_one_layer", "ort_tfbert_qa", "gtcrn_simple",
          "npm_speech_embedding", "mlperf_tiny_kws_dscnn_int8_qdq", "dtln_1"]
MACHINES = {"int8": "gemmini_16x16_int8", "float": "gemmini_16x16_bf16"}
TEXT = """# Peaks of live bytes

Made by `scripts/bench-memory.py -o docs/memory.md`; the numbers are the same on every host.

Tensors between kernels take memory from the first kernel that touches them to the last one. The order of kernels decides how many are there at
once. `--order model` keeps the order of the graph phase, `--order memory` takes the one with the least peak that is found. Code for the CPU
and for a GPU takes `memory` by itself; its arena follows the peak. An accelerator takes `model` unless DRAM has no room for it: the list scheduler
overlaps kernels in that order, and other orders of ShuffleNetV2 and YOLO took 1.5 % fewer to 2.5 % more cycles. Where kernels are for several
targets, runs of one target stay together and each run has an order of its own. A [plan file](schedule-file.md) says `order = "memory"`. Inputs, outputs and constants of the network are always there and do not count. A
concatenation whose parts nothing else reads is written in place, and a reshape is a view.

**How an order is found** ([OrderSearch.h](../compiler/memory/OrderSearch.h)). States are sets of finished kernels. A beam search finds an order,
forwards and backwards. Then thresholds are tried, from the bound on, by a depth-first search that remembers sets which lead nowhere (the space of
SERENITY: Ahn et al., MLSys 2020). A chain of kernels that ends with no more live bytes than it began with is taken at once (Liu, 1987). Once a
threshold is reached, the order is optimal. The search visits 32,768 states at most, and has no exact part above 4,096 kernels. The given order stays unless
another one has a smaller peak. [OrderVerifier.cpp](../compiler/memory/OrderVerifier.cpp) computes order and peak again with code of its own.

**bound**: no order has less. It is the largest kernel with all tensors that must be alive around it, or what the search has ruled out.
`tilewright run --json` has the peaks of every run as `peak_live_bytes`; `compile --emit fusion` prints them without a run.

KiB; **optimal**: the peak is the bound.

"""
NAMES = ["live_bytes_model_order", "live_bytes_memory_order", "live_bytes_lower_bound"]


def peaks(model, options):
    """Three numbers of `tilewright compile --emit fusion`, or None if it fails."""
    result = subprocess.run([measure.BINARY, "compile", str(model), "--emit", "fusion", *options], cwd=measure.ROOT, capture_output=True, text=True,
                            env=measure.ENVIRONMENT)
    if result.returncode:
        print(f"failed: {model} {' '.join(options)}: {result.stderr.strip()}", file=sys.stderr)
        return None
    lines = dict(line.split() for line in result.stdout.splitlines() if line.count(" ") == 1 and line.startswith("live_bytes"))
    return [int(lines[name]) for name in NAMES]


def main():
    parser = measure.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    parser.add_argument("-o", metavar="FILE.md", type=pathlib.Path)
    arguments = parser.parse_args()
    measure.need_binary()
    folder = pathlib.Path(os.environ["TILEWRIGHT_MODELS"]).resolve() if os.environ.get("TILEWRIGHT_MODELS") else None
    known = OWN + (OTHERS if folder else [])
    for name in arguments.networks:
        if name not in known:
            measure.fail(f"'{name}' is none of {', '.join(known)}")
    rows, failed = [], False
    for name in arguments.networks or known:
        model, options = (measure.network(name, "fp32"), []) if name in OWN else (folder / name / "model.onnx", measure.shape_options(folder / name))
        machine = MACHINES["int8" if "int8" in name else "float"]
        for target, more in (("CPU", ["--target", "cpu"]), (machine, ["--hw", machine, "--schedule", "serial"])):
            found = peaks(model, [*options, *more])
            if found is None:
                failed = True
                continue
            before, after, bound = found
            rows.append([name, target, *(f"{number / 1024:,.1f}" for number in found), f"{100 * (before - after) / max(before, 1):.1f} %",
                         "yes" if after == bound else f"{100 * (after - bound) / max(bound, 1):.1f} % above"])
            measure.note(rows[-1])
    text = TEXT + measure.markdown(["network", "target", "model", "memory", "bound", "less", "optimal"], rows, 2)
    if arguments.o:
        arguments.o.write_text(text)
    else:
        print(text, end="")
    if failed:
        measure.fail("some networks failed")


if __name__ == "__main__":
    main()
