#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""GPU code beside PyTorch's, on a machine with an H100: scripts/bench-gpu.py [--compile DIR | --run DIR] [--write]

Without options: compiles what is measured into build/gpu-bench, and runs it. --compile does the first alone, leaves the weights out and adds
this script and the runner, so that DIR is all that the other machine needs: its run.sh does --run there, with a driver and Python.
--run takes the folder's tilewright-gpu, else build/release/bin/tilewright-gpu, or what $TILEWRIGHT_GPU names. --products, --sm-80, --attention
and --networks measure these parts alone. Where PyTorch can be imported its figures stand beside ours, measured in turns: cuBLAS for products,
scaled_dot_product_attention, and torch.compile in a CUDA graph for networks (--max-autotune: in that mode too, which takes minutes to compile).
--write: into docs/gpu-performance.md, or where that is not, into DIR.

All weights and inputs are random; values are what tests/gpu checks. Times are medians on the device of graphs with several copies.
"""
import argparse
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/gpu-performance.md"
ROUNDS = 3
BY_HAND = "## On another machine"  # this part of the page stays
PARTS = ["products", "sm_80", "attention", "networks"]
# source: squares, and the products of BERT-base and ResNet-50 with one input and with 32
PRODUCTS = [(8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024), (512, 512, 512), (256, 256, 256),
            (4096, 3072, 768), (4096, 768, 3072), (4096, 768, 768), (4096, 2304, 768), (128, 3072, 768), (128, 768, 3072),
            (128, 768, 768), (49, 512, 2048), (6272, 1024, 256), (25088, 512, 128), (100352, 256, 64)]
# Of code for sm_80, which any later device runs too.
SM_80_PRODUCTS = [(size, size, size) for size in (8192, 4096, 2048, 1024, 512, 256, 128)] + [(128, 768, 3072), (4096, 768, 3072)]
ATTENTION_LENGTHS = (128, 256, 512, 1024, 2048, 4096)
ATTENTION_TOKENS, HEADS, HEAD_SIZE = 4096, 16, 64
NETWORKS = [("resnet50", 1), ("resnet50", 32), ("mobilenetv2", 1), ("mobilenetv2", 32), ("bert_block", 1), ("bert_block", 32)]


def fail(text):
    sys.exit(f"bench-gpu: {text}")


def product_name(shape, architecture="sm_90a"):
    return "gemm-" + "x".join(map(str, shape)) + ("" if architecture == "sm_90a" else "-" + architecture)


def attention_text(length):
    """Softmax(Q K^T / sqrt(head size)) V of all heads of as many sequences as ATTENTION_TOKENS has."""
    batch = ATTENTION_TOKENS // length * HEADS
    heads, keys, scores = f"{batch}x{length}x{HEAD_SIZE}", f"{batch}x{HEAD_SIZE}x{length}", f"{batch}x{length}x{length}"
    casts = "".join(f"  %{name}32 = graph.cast %{name} : (tensor<{heads}xbf16>) -> tensor<{heads}xf32>\n" for name in "qkv")
    return (f"func.func @main(%q: tensor<{heads}xbf16>, %k: tensor<{heads}xbf16>, %v: tensor<{heads}xbf16>) -> tensor<{heads}xbf16> {{\n{casts}"
            f"  %t = graph.transpose %k32 {{perm = array<i64: 0, 2, 1>}} : (tensor<{heads}xf32>) -> tensor<{keys}xf32>\n"
            f"  %s = graph.matmul %q32, %t : (tensor<{heads}xf32>, tensor<{keys}xf32>) -> tensor<{scores}xf32>\n"
            f"  %f = graph.constant dense<{HEAD_SIZE**-0.5}> : tensor<1xf32>\n"
            f"  %m = graph.mul %s, %f : (tensor<{scores}xf32>, tensor<1xf32>) -> tensor<{scores}xf32>\n"
            f"  %p = graph.softmax %m {{axis = 2 : i64}} : tensor<{scores}xf32>\n"
            f"  %y = graph.matmul %p, %v32 : (tensor<{scores}xf32>, tensor<{heads}xf32>) -> tensor<{heads}xf32>\n"
            f"  %o = graph.cast %y : (tensor<{heads}xf32>) -> tensor<{heads}xbf16>\n  return %o : tensor<{heads}xbf16>\n}}\n")


def compile_all(folder, keeps_weights):
    tilewright = os.environ.get("TILEWRIGHT", str(ROOT / "build/release/bin/tilewright"))
    folder.mkdir(parents=True, exist_ok=True)

    def compile_one(model, name, *options):
        subprocess.run([tilewright, "compile", str(model), "--target", "gpu", "-o", str(folder / name), *options], check=True)
        if not keeps_weights:
            (folder / name / "weights.bin").unlink()

    for architecture, products in (("sm_90a", PRODUCTS), ("sm_80", SM_80_PRODUCTS)):
        for shape in products:
            compile_one("gemm:" + "x".join(map(str, shape)) + ":bf16", product_name(shape, architecture), "--gpu", architecture)
    for length in ATTENTION_LENGTHS:
        model = folder / f"attention-{length}.mlir"
        model.write_text(attention_text(length))
        compile_one(model, f"attention-{length}")
        model.unlink()
    models = folder / "models"
    for name, batch in NETWORKS:
        subprocess.run([sys.executable, str(ROOT / "scripts/networks.py"), str(models), name, "--type", "bfloat16", "--batch", str(batch)],
                       check=True, stdout=subprocess.DEVNULL)
        compile_one(models / f"{name}.onnx", f"{name}-{batch}")
        (models / f"{name}.onnx").unlink()
    models.rmdir()
    if keeps_weights:
        return
    shutil.copy(ROOT / "build/release/bin/tilewright-gpu", folder)
    shutil.copy(__file__, folder)
    script = folder / "run.sh"
    script.write_text('#!/bin/sh\n# Needs a driver for the GPU, and Python; with PyTorch its figures stand beside. run.sh --products etc. for a part.\n'
                      'cd "$(dirname "$0")" && exec python3 bench-gpu.py --run . --write "$@"\n')
    script.chmod(0o755)


def ours(folder, name, copies):
    """Seconds, and what it says about spilled registers."""
    here = folder.resolve() / "tilewright-gpu"
    runner = os.environ.get("TILEWRIGHT_GPU", str(here if here.exists() else ROOT / "build/release/bin/tilewright-gpu"))
    result = subprocess.run([runner, str(folder / name), "--random", "1", "--copies", str(copies), "--repeat", "20", "--cache", str(folder / "cache")],
                            capture_output=True, text=True)
    if result.returncode:
        fail(result.stderr.strip())
    spills = [line.removeprefix("spills: ") for line in result.stdout.splitlines() if line.startswith("spills")]
    return float(re.search(r": ([0-9.]+) us, median", result.stdout).group(1)) * 1e-6, spills, result.stdout.splitlines()[-1].split(":")[0]


class Torch:
    """PyTorch's side."""

    def __init__(self):
        try:
            import torch
        except ImportError:
            raise ImportError("no PyTorch here") from None
        if not torch.cuda.is_available():
            raise ImportError("PyTorch without a GPU here")
        self.torch = torch
        torch.manual_seed(1)
        torch.backends.cudnn.benchmark = True

    def graph(self, function, copies):
        """Captured, `copies` times."""
        torch = self.torch
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(3):
                function()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            for _ in range(copies):
                function()
        return graph

    def seconds(self, graph, copies, repeat=20):
        torch = self.torch
        times = []
        for i in range(repeat + 3):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e-3 / copies)
        return statistics.median(times[3:])

    def product(self, shape):
        torch = self.torch
        rows, columns, depth = shape
        a, b = torch.randn(rows, depth, device="cuda").bfloat16(), torch.randn(columns, depth, device="cuda").bfloat16()
        out = torch.empty(rows, columns, device="cuda", dtype=torch.bfloat16)
        return lambda: torch.mm(a, b.t(), out=out)

    def attention(self, length):
        torch = self.torch
        q, k, v = (torch.randn(ATTENTION_TOKENS // length, HEADS, length, HEAD_SIZE, device="cuda").bfloat16() for _ in range(3))
        return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)

    def network(self, name, batch, mode):
        torch = self.torch
        if name == "bert_block":
            class Block(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    n = torch.nn
                    self.q, self.k, self.v, self.o = (n.Linear(768, 768) for _ in range(4))
                    self.up, self.down, self.one, self.two = n.Linear(768, 3072), n.Linear(3072, 768), n.LayerNorm(768), n.LayerNorm(768)

                def forward(self, x):
                    heads = [f(x).view(batch, 128, 12, 64).transpose(1, 2) for f in (self.q, self.k, self.v)]
                    y = torch.nn.functional.scaled_dot_product_attention(*heads)
                    x = self.one(x + self.o(y.transpose(1, 2).reshape(batch, 128, 768)))
                    return self.two(x + self.down(torch.nn.functional.gelu(self.up(x))))
            model, image = Block(), torch.randn(batch, 128, 768)
        else:
            import torchvision
            model = {"resnet50": torchvision.models.resnet50, "mobilenetv2": torchvision.models.mobilenet_v2}[name]()
            image = torch.randn(batch, 3, 224, 224)
        model = model.eval().to("cuda", torch.bfloat16)
        image = image.to("cuda", torch.bfloat16)
        if name != "bert_block":
            model, image = model.to(memory_format=torch.channels_last), image.to(memory_format=torch.channels_last)
        torch._dynamo.reset()
        torch._inductor.config.freezing = True
        compiled = torch.compile(model, mode=mode)
        return lambda: compiled(image)


def table(rows, head):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(row) + " |" for row in rows]


def run_all(folder, arguments):
    try:
        torch = Torch()
        version = f"PyTorch {torch.torch.__version__}"
    except ImportError as missing:
        torch, version = None, str(missing)
    lines, ratios, spills, device = [], [], [], ""

    def beside(name, function, copies, unit, scale):
        """Ours and theirs in turns."""
        nonlocal spills, device
        graph = torch.graph(function, copies) if torch else None
        us, them = [], []
        for _ in range(ROUNDS):
            seconds, found, device = ours(folder, name, copies)
            us.append(seconds)
            spills += found
            if graph:
                them.append(torch.seconds(graph, copies))
        first = statistics.median(us)
        row = [f"{scale(first):.{unit}f}"]
        if not graph:
            return row + ["-", "-"]
        second = statistics.median(them)
        ratios.append(second / first)
        return row + [f"{scale(second):.{unit}f}", f"{second / first:.3f}"]

    parts = [part for part in PARTS if getattr(arguments, part)] or PARTS

    def throughputs(title, head, cases):
        """A table of TFLOP/s. Cases: what the row is called, the folder, PyTorch's function, operations."""
        rows = []
        ratios.clear()
        for label, name, function, flops in cases:
            row = [label] + beside(name, function() if torch else None, 4 if flops > 1e11 else 20, 0 if flops > 1e9 else 2, lambda s: flops / s / 1e12)
            rows.append(row)
            print(" | ".join(row), flush=True)
        lines.extend([f"## {title}", "", f"TFLOP/s, and ours by {head[2]}'s: more is better.", ""] + table(rows, head + ["ratio"]))
        if ratios:
            lines.extend(["", f"Least {min(ratios):.3f}, geometric mean {math.exp(statistics.mean(map(math.log, ratios))):.3f}."])
        lines.append("")

    def products(shapes, architecture="sm_90a"):
        return [("x".join(map(str, shape)), product_name(shape, architecture), lambda shape=shape: torch.product(shape), 2.0 * math.prod(shape))
                for shape in shapes]

    if "products" in parts:
        throughputs("Products in bfloat16", ["rows x columns x depth", "ours", "cuBLAS"], products(PRODUCTS))
    if "sm_80" in parts:
        throughputs("Products in bfloat16 by code for sm_80", ["rows x columns x depth", "ours", "cuBLAS"], products(SM_80_PRODUCTS, "sm_80"))
    if "attention" in parts:
        throughputs(f"Attention in bfloat16, {HEADS} heads of {HEAD_SIZE}, {ATTENTION_TOKENS} tokens in sequences of a length",
                    ["length", "ours", "PyTorch"],
                    [(str(length), f"attention-{length}", lambda length=length: torch.attention(length),
                      4.0 * ATTENTION_TOKENS * length * HEADS * HEAD_SIZE) for length in ATTENTION_LENGTHS])
    rows = []
    for name, batch in NETWORKS if "networks" in parts else []:
        for mode in [None] + (["max-autotune-no-cudagraphs"] if arguments.max_autotune else []):
            ratios.clear()
            row = [name, str(batch), mode or "default"] + beside(f"{name}-{batch}", torch.network(name, batch, mode) if torch else None, 10, 1, lambda s: s * 1e6)
            row[-1] = f"{1 / ratios[0]:.3f}" if ratios else "-"
            rows.append(row)
            print(" | ".join(row), flush=True)
    if rows:
        lines += ["## Networks in bfloat16", "", "Microseconds, and ours by torch.compile's in a CUDA graph: less is better.", ""]
        lines += table(rows, ["network", "batch", "torch.compile", "ours", "theirs", "ratio"]) + [""]
    lines += ["Spilled registers: " + ("none." if not spills else "; ".join(sorted(set(spills))))]
    head = ["# GPU code beside PyTorch's", "",
            f"`scripts/bench-gpu.py` writes this page. {device or 'GPU'}, {version}; medians of {ROUNDS} rounds, in turns.", ""]
    text = "\n".join(head + lines) + "\n"
    print(text)
    if arguments.write:
        if PAGE.exists():
            PAGE.write_text(text + "\n" + "".join(PAGE.read_text().partition(BY_HAND)[1:]))
        else:
            (folder / PAGE.name).write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compile", metavar="DIR", type=pathlib.Path)
    parser.add_argument("--run", metavar="DIR", type=pathlib.Path)
    for part in PARTS:
        parser.add_argument("--" + part.replace("_", "-"), action="store_true", help="only these parts")
    parser.add_argument("--max-autotune", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.compile and arguments.run:
        fail("--compile and --run are two steps: without either, both are done")
    if arguments.run and not (arguments.run / product_name(PRODUCTS[0]) / "program.json").exists():
        fail(f"'{arguments.run}' has no {product_name(PRODUCTS[0])}/program.json: --compile makes it")
    folder = arguments.compile or arguments.run or ROOT / "build/gpu-bench"
    if not arguments.run:
        compile_all(folder, keeps_weights=not arguments.compile)
    if not arguments.compile:
        run_all(folder, arguments)


if __name__ == "__main__":
    main()
