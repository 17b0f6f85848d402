#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of one row: the weights stream past it where they come sooner so."""

import json
import unittest

import numpy as np

from cli_test import CliTest, hexed, tensor

INPUTS, OUTPUTS = 650, 490
TILES = -(-INPUTS // 16) * -(-OUTPUTS // 16)  # of weights, 16 x 16 each
GEMMINI = ["--hw", "gemmini_16x16_int8"]
FAST = ["--hw", "gemmini_16x16_fp32", "--set", "dram.device=ideal", "--set", "dram.bytes_per_cycle=128", "--set",
        "dma.outstanding_bursts=64"]  # with fewer in flight the engine, not the bus, is what limits loads


class SwappedTest(CliTest):
    def preloads(self, *options):
        """Tiles that the array held, as the list scheduler has them."""
        self.tilewright("run", "net.mlir", *options, "--schedule", self.plan_file({}, schedule="pipelined"), "--json", "report.json")
        engines = json.loads((self.path / "report.json").read_text())["engines"]
        return next(engine["instructions"] for engine in engines if engine["name"] == "preload")

    def bytes_network(self, scales=1):
        random = np.random.default_rng(1)
        x = random.integers(-128, 128, (1, INPUTS)).astype(np.int8)
        w = random.integers(-128, 128, (INPUTS, OUTPUTS)).astype(np.int8)
        bias = random.integers(-9999, 9999, OUTPUTS).astype(np.int32)
        factors = np.exp2(random.integers(-14, -10, scales)).astype(np.float32)
        np.save(self.path / "x.npy", x)
        of = tensor((1, OUTPUTS), "i8")
        self.write("net.mlir", f"""func.func @main(%x: {tensor(x.shape, "i8")}) -> {of} {{
  %w = graph.constant {hexed(w)} : {tensor(w.shape, "i8")}
  %b = graph.constant {hexed(bias)} : {tensor(bias.shape, "i32")}
  %s = graph.matmul_integer %x, %w {{a_zero_point = -7 : i32, b_zero_points = array<i32: 3>}}
    : ({tensor(x.shape, "i8")}, {tensor(w.shape, "i8")}) -> {tensor((1, OUTPUTS), "i32")} loc("product")
  %y = graph.requantize %s, %b {{multipliers = array<f32: {", ".join(map(str, factors))}>, axis = 1 : i64, zero_point = 5 : i32}}
    : ({tensor((1, OUTPUTS), "i32")}, {tensor(bias.shape, "i32")}) -> {of}
  return %y : {of}
}}
""")
        sums = (x.astype(np.int64) + 7) @ (w.astype(np.int64) - 3) + bias
        return np.clip(np.rint(sums.astype(np.float32) * factors) + 5, -128, 127).astype(np.int8)

    def test_bytes(self):
        self.agree(self.bytes_network())
        self.assertEqual(self.kernels(*GEMMINI), {"product"})
        self.assertLess(self.preloads(*GEMMINI), TILES)

    def test_bias_and_scale_of_each_result(self):
        self.agree(self.bytes_network(OUTPUTS))
        self.assertEqual(self.kernels(*GEMMINI), {"product"})

    def agree(self, expected):
        for hw in ["gemmini_16x16_int8", "vdla_16x16", "edge_32x32_int8"]:
            for schedule in ["serial", "double_buffer", "pipelined"]:
                options = ["--hw", hw, "--schedule", schedule]
                np.testing.assert_array_equal(self.output(*options), expected, str(options))

    def test_slow_memory(self):
        self.bytes_network()  # the weights take longer than their tiles
        self.assertEqual(self.preloads(*GEMMINI, "--set", "dram.device=ideal", "--set", "dram.bytes_per_cycle=4"), TILES)

    def test_floats(self):
        random = np.random.default_rng(1)
        x = random.integers(-4, 5, (1, INPUTS)).astype(np.float32)
        w = random.integers(-4, 5, (INPUTS, OUTPUTS)).astype(np.float32)
        bias = random.integers(-9, 9, (1, OUTPUTS)).astype(np.float32)
        of = tensor((1, OUTPUTS), "f32")
        self.write("net.mlir", f"""func.func @main(%x: {tensor(x.shape, "f32")}) -> {of} {{
  %w = graph.constant {hexed(w)} : {tensor(w.shape, "f32")}
  %b = graph.constant {hexed(bias)} : {of}
  %s = graph.matmul %x, %w : ({tensor(x.shape, "f32")}, {tensor(w.shape, "f32")}) -> {of} loc("product")
  %a = graph.add %b, %s : ({of}, {of}) -> {of}
  %y = graph.relu %a : {of}
  return %y : {of}
}}
""")
        for first in [1, np.inf]:  # zero times infinity is no number
            x[0, 0] = first
            np.save(self.path / "x.npy", x)
            with np.errstate(invalid="ignore"):
                expected = np.maximum(x @ w + bias, 0)
            np.testing.assert_array_equal(self.output(*FAST), expected)
        self.assertEqual(self.kernels(*FAST), {"product"})
        self.assertLess(self.preloads(*FAST), TILES)


if __name__ == "__main__":
    unittest.main()
