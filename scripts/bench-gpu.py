#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""GPU code beside PyTorch's, on a machine with an H100: scripts/bench-gpu.py [--compile DIR | --run DIR] [--write]

Without options: compiles what is measured into build/gpu-bench, and runs it. --compile does the first alone and leaves the weights out,
--run the second, on a machine that need not have the compiler: it takes build/release/bin/tilewright-gpu, or what $TILEWRIGHT_GPU names.
Where PyTorch can be imported its figures stand beside ours, measured in turns: cuBLAS for products, torch.compile in a CUDA graph for
networks (--max-autotune: in that mode too, which takes minutes to compile). --write: into docs/gpu-performance.md.

All weights and inputs are random; values are what tests/gpu checks. Times are medians on the device of graphs with several copies.
"""
import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/gpu-performance.md"
ROUNDS = 3
# source: squares, and the products of BERT-base and ResNet-50 with one input and with 32
PRODUCTS = [(8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024), (512, 512, 512), (256, 256, 256),
            (4096, 3072, 768), (4096, 768, 3072), (4096, 768, 768), (4096, 2304, 768), (128, 3072, 768), (128, 768, 3072),
            (128, 768, 768), (49, 512, 2048), (6272, 1024, 256), (25088, 512, 128), (100352, 256, 64)]
NETWORKS = [("resnet50", 1), ("resnet50", 32), ("mobilenetv2", 1), ("mobilenetv2", 32), ("bert_block", 1), ("bert_block", 32)]


def fail(text):
    sys.exit(f"bench-gpu: {text}")


def product_name(shape):
    return "gemm-" + "x".join(map(str, shape))


def compile_all(folder, keeps_weights):
    tilewright = os.environ.get("TILEWRIGHT", str(ROOT / "build/release/bin/tilewright"))
    folder.mkdir(parents=True, exist_ok=True)

    def compile_one(model, name, *options):
        subprocess.run([tilewright, "compile", str(model), "--target", "gpu", "-o", str(folder / name), *options], check=True)
        if not keeps_weights:
            (folder / name / "weights.bin").unlink()

    for shape in PRODUCTS:
        compile_one("gemm:" + "x".join(map(str, shape)) + ":bf16", product_name(shape))
    for name, batch in NETWORKS:
        models = folder / "models"
        subprocess.run([sys.executable, str(ROOT / "scripts/networks.py"), str(models), name, "--type", "bfloat16", "--batch", str(batch)],
                       check=True, stdout=subprocess.DEVNULL)
        compile_one(models / f"{name}.onnx", f"{name}-{batch}")
        (models / f"{name}.onnx").unlink()


def ours(folder, name, copies):
    """Seconds, and what it says about spilled registers."""
    runner = os.environ.get("TILEWRIGHT_GPU", str(ROOT / "build/release/bin/tilewright-gpu"))
    result = subprocess.run([runner, str(folder / name), "--random", "1", "--copies", str(copies), "--repeat", "20", "--cache", str(folder / "cache")],
                            capture_output=True, text=True)
    if result.returncode:
        fail(result.stderr.strip())
    spills = [line for line in result.stdout.splitlines() if line.startswith("spills")]
    return float(re.search(r": ([0-9.]+) us, median", result.stdout).group(1)) * 1e-6, spills, result.stdout.splitlines()[-1].split(":")[0]


class Torch:
    """PyTorch's side."""

    def __init__(self):
        import torch
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
    except ImportError:
        torch, version = None, "no PyTorch here"
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

    rows = []
    for shape in [] if arguments.networks else PRODUCTS:
        flops = 2.0 * math.prod(shape)
        copies = 4 if flops > 1e11 else 20
        row = ["x".join(map(str, shape))] + beside(product_name(shape), torch.product(shape) if torch else None, copies, 0, lambda s: flops / s / 1e12)
        rows.append(row)
        print(" | ".join(row), flush=True)
    if rows:
        lines += ["## Products in bfloat16", "", "TFLOP/s, and ours by cuBLAS's: more is better.", ""] + table(rows, ["rows x columns x depth", "ours", "cuBLAS", "ratio"])
        if ratios:
            lines += ["", f"Least {min(ratios):.3f}, geometric mean {math.exp(statistics.mean(map(math.log, ratios))):.3f}."]
    rows = []
    for name, batch in [] if arguments.products else NETWORKS:
        for mode in [None] + (["max-autotune-no-cudagraphs"] if arguments.max_autotune else []):
            ratios.clear()
            row = [name, str(batch), mode or "default"] + beside(f"{name}-{batch}", torch.network(name, batch, mode) if torch else None, 10, 1, lambda s: s * 1e6)
            row[-1] = f"{1 / ratios[0]:.3f}" if ratios else "-"
            rows.append(row)
            print(" | ".join(row), flush=True)
    if rows:
        lines += ["", "## Networks in bfloat16", "", "Microseconds, and ours by torch.compile's in a CUDA graph: less is better.", ""]
        lines += table(rows, ["network", "batch", "torch.compile", "ours", "theirs", "ratio"])
    lines += ["", "Spilled registers: " + ("none." if not spills else "; ".join(sorted(set(spills))))]
    head = ["# GPU code beside PyTorch's", "",
            f"`scripts/bench-gpu.py` writes this page. {device or 'GPU'}, {version}; medians of {ROUNDS} rounds, in turns.", ""]
    text = "\n".join(head + lines) + "\n"
    print(text)
    if arguments.write:
        PAGE.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compile", metavar="DIR", type=pathlib.Path)
    parser.add_argument("--run", metavar="DIR", type=pathlib.Path)
    parser.add_argument("--products", action="store_true", help="only products")
    parser.add_argument("--networks", action="store_true", help="only networks")
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
