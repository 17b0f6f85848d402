#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles whose sums fit the accumulator, but whose results do not fit the scratchpad: they leave a few channels at a time."""

import json
import unittest

import numpy as np

from cli_test import CliTest

POSITIONS, INPUTS, CHANNELS = 70, 150, 200
SCHEDULE = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    %k = transform.tilewright.match_node "product"
    transform.tilewright.tile %k {sizes = [208, 32, 1, 1]}
    transform.yield
  }
}
"""
CONV = """  %w_{name} = graph.constant dense<0.01> : tensor<{outputs}x{inputs}x1x1xf32>
  {result} = graph.conv {x}, %w_{name} {{dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw",
    pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>}}
    : (tensor<1x{inputs}x28x28xf32>, tensor<{outputs}x{inputs}x1x1xf32>) -> tensor<1x{outputs}x28x28xf32> loc("{name}")
"""


def hexed(array):
    return f'dense<"0x{array.tobytes().hex()}">'


class DrainTest(CliTest):
    def test_results_leave_in_parts(self):
        random = np.random.default_rng(1)
        w = random.integers(-128, 128, (INPUTS, CHANNELS)).astype(np.int8)
        scales = 2.0 ** random.integers(-6, 3, CHANNELS)  # per channel: exact, and told apart
        x = random.integers(-128, 128, (POSITIONS, INPUTS)).astype(np.int8)
        r = random.integers(-99, 100, (POSITIONS, CHANNELS)).astype(np.float32)
        np.save(self.path / "x.npy", x)
        np.save(self.path / "r.npy", r)
        self.write("schedule.mlir", SCHEDULE)
        sums, floats = f"tensor<{POSITIONS}x{CHANNELS}xi32>", f"tensor<{POSITIONS}x{CHANNELS}xf32>"
        self.write("net.mlir", f"""func.func @main(%x: tensor<{POSITIONS}x{INPUTS}xi8>, %r: {floats}) -> {floats} {{
  %w = graph.constant {hexed(w)} : tensor<{INPUTS}x{CHANNELS}xi8>
  %m = graph.matmul_integer %x, %w {{a_zero_point = 3 : i32, b_zero_points = array<i32: 0>}}
    : (tensor<{POSITIONS}x{INPUTS}xi8>, tensor<{INPUTS}x{CHANNELS}xi8>) -> {sums} loc("product")
  %d = graph.dequantize %m {{axis = 1 : i64, scales = array<f32: {", ".join(f"{s:.8e}" for s in scales)}>,
    zero_points = array<i32: {", ".join(["0"] * CHANNELS)}>}} : ({sums}) -> {floats} loc("scaled")
  %y = graph.add %d, %r : ({floats}, {floats}) -> {floats} loc("sum")
  return %y : {floats}
}}
""")
        options = ["net.mlir", "--hw", "vdla_16x16", "--schedule", "schedule.mlir"]
        tiles, _ = self.tilewright("compile", *options, "--emit", "tiles")
        # 208 x 32 results of 4 bytes take 26 KiB, two slots of them and of what is added more than there is: 32 KiB.
        self.assertRegex(tiles, r"32 positions, 208 channels .* \d+ channels leave at a time")
        self.tilewright("run", *options, "--input", "x.npy", "--input", "r.npy", "--check", "--output-dir", "out")
        expected = ((x.astype(np.int64) - 3) @ w.astype(np.int64)).astype(np.float32) * scales.astype(np.float32) + r
        np.testing.assert_array_equal(np.load(self.path / "out/output0.npy"), expected)

    def cycles(self, schedule):
        self.tilewright("run", "net.mlir", "--hw", "gemmini_16x16_fp32", "--schedule", schedule, "--json", "report.json")
        return json.loads((self.path / "report.json").read_text())["total_cycles"]

    def test_sums_that_wait_for_parts_take_time(self):
        """With one place for sums the array waits until all parts of a tile have left, and these until DRAM has moved them."""
        tensor = "tensor<1x512x28x28xf32>"
        self.write("net.mlir", f"""func.func @main(%x: {tensor}) -> {tensor} {{
{CONV.format(name="first", result="%1", x="%x", inputs=512, outputs=512)}
{CONV.format(name="narrow", result="%2", x="%1", inputs=512, outputs=128)}
{CONV.format(name="wide", result="%3", x="%2", inputs=128, outputs=512)}
  %4 = graph.add %3, %1 : ({tensor}, {tensor}) -> {tensor} loc("sum")
{CONV.format(name="last", result="%5", x="%4", inputs=512, outputs=512)}
  return %5 : {tensor}
}}
""")
        waiting = self.write("waiting.mlir", """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    %k = transform.tilewright.match_node "wide"
    transform.tilewright.tile %k {sizes = [256, 28, 2, 1], ic = 64, order = "channels_outer"}
    transform.tilewright.buffers %k {depth = 2, panel = "none", one_sum = true}
    transform.yield
  }
}
""")
        tiles, _ = self.tilewright("compile", "net.mlir", "--hw", "gemmini_16x16_fp32", "--schedule", waiting, "--emit", "tiles")
        self.assertRegex(tiles, r"# wide: .* one sum, .*channels leave at a time")
        self.assertLess(self.cycles("modulo"), self.cycles(waiting))


if __name__ == "__main__":
    unittest.main()
