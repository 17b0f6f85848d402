#!/usr/bin/env python3
"""Writes the binary and generated seeds of the fuzz targets: tests/fuzz/seeds.py TILEWRIGHT. Needs the Python package onnx.

The files are part of the sources; run it again where the image format or the graph dialect changes."""
import pathlib
import subprocess
import sys
import tempfile

import onnx
from onnx import parser

SEEDS = pathlib.Path(__file__).resolve().parent / "seeds"

MODELS = {
    "conv": """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,2,6,6] x) => (float[1,3,3,3] y)
        <float[3,2,3,3] w = {1,0,-1,2,0,-2,1,0,-1,1,2,1,0,0,0,-1,-2,-1,0,1,0,1,-4,1,0,1,0,0,0,0,0,1,0,0,0,0,
                             1,1,1,1,1,1,1,1,1,2,0,0,0,2,0,0,0,2}, float[3] b = {0.5,-1,2}> {
          c = Conv <pads = [1,1,1,1]> (x, w, b)
          r = Relu (c)
          y = MaxPool <kernel_shape = [2,2], strides = [2,2]> (r)
        }""",
    "quantised": """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,4] x) => (float[1,3] y)
        <int8[4,3] w = {1,2,3,-4,5,6,7,-8,9,10,-11,12}, float s = {0.05}, float t = {0.1}, int8 z = {3}, int8 n = {0}> {
          q = QuantizeLinear (x, s, z)
          d = DequantizeLinear (q, s, z)
          e = DequantizeLinear (w, t, n)
          m = MatMul (d, e)
          p = QuantizeLinear (m, t, z)
          y = DequantizeLinear (p, t, z)
        }""",
    "shapes": """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,3,4] x) => (float[a,b] y) <int64[1] n = {2}, int64[2] k = {0,-1}, float[1] f = {1.5}> {
          s = Shape (x)
          h = Gather <axis = 0> (s, n)
          c = Concat <axis = 0> (n, h)
          v = ConstantOfShape <value = float[1] {2}> (c)
          e = Expand (f, c)
          u = Add (v, e)
          r = Reshape (x, k)
          l = Slice (r, n, h)
          y = Softmax <axis = -1> (r)
        }""",
    "norm": """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2,4] x, float16[2,4] z) => (float[2,4] y, float16[4,2] t) <float[4] s = {1,2,3,4}, float[4] b = {0,0,1,0}> {
          n = LayerNormalization <axis = -1> (x, s, b)
          c = Cast <to = 10> (n)
          d = Cast <to = 1> (c)
          e = Erf (d)
          m = ReduceMean <axes = [1], keepdims = 1> (e)
          y = Sub (e, m)
          t = Transpose <perm = [1,0]> (z)
        }""",
}

KERNELS = {"gemm_int8": ("gemm:4x8x8:int8", "tiny_8x8"), "gemm_fp32": ("gemm:2x4x4:fp32", "gemmini_16x16_fp32")}


def main():
    tilewright = sys.argv[1]

    def run(*arguments):
        subprocess.run([tilewright, *arguments], check=True, stdout=subprocess.DEVNULL)

    with tempfile.TemporaryDirectory() as scratch:
        for name, text in MODELS.items():
            onnx.save(parser.parse_model(text), SEEDS / "onnx" / (name + ".onnx"))
        for name, (kernel, machine) in KERNELS.items():
            image = SEEDS / "image" / (name + ".twp")
            run("compile", kernel, "--hw", machine, "--schedule", "serial", "-o", str(image))
            run("disasm", str(image), "-o", str(SEEDS / "assembler" / (name + ".tasm")))
        for name in ("conv", "quantised", "norm"):
            for phase in ("import", "graph"):
                out = pathlib.Path(scratch) / "out.mlir"
                machine = "tiny_8x8" if name == "quantised" else "gemmini_16x16_fp32"
                run("compile", str(SEEDS / "onnx" / (name + ".onnx")), "--hw", machine, "--emit", phase, "-o", str(out))
                (SEEDS / "graph" / f"{name}_{phase}.mlir").write_text(out.read_text())


if __name__ == "__main__":
    main()
