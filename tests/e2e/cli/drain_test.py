#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles whose sums fit the accumulator, but whose results do not fit the scratchpad: they leave a few channels at a time."""

import unittest

import numpy as np

from cli_test import CliTest, hexed, pointwise

POSITIONS, INPUTS, CHANNELS = 70, 150, 200


class DrainTest(CliTest):
    def test_results_leave_in_parts(self):
        random = np.random.default_rng(1)
        w = random.integers(-128, 128, (INPUTS, CHANNELS)).astype(np.int8)
        scales = 2.0 ** random.integers(-6, 3, CHANNELS)  # per channel: exact, and told apart
        x = random.integers(-128, 128, (POSITIONS, INPUTS)).astype(np.int8)
        r = random.integers(-99, 100, (POSITIONS, CHANNELS)).astype(np.float32)
        np.save(self.path / "x.npy", x)
        np.save(self.path / "r.npy", r)
        self.plan_file({"product": "tile = [208, 32, 1, 1]"})
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
        options = ["net.mlir", "--hw", "vdla_16x16", "--schedule", "plan.mlir"]
        tiles, _ = self.tilewright("compile", *options, "--emit", "tiles")
        # 208 x 32 results of 4 bytes take 26 KiB, two slots of them and of what is added more than there is: 32 KiB.
        self.assertRegex(tiles, r"32 positions, 208 channels .* drained by \d+ channels")
        self.tilewright("run", *options, "--input", "x.npy", "--input", "r.npy", "--check", "--output-dir", "out")
        expected = ((x.astype(np.int64) - 3) @ w.astype(np.int64)).astype(np.float32) * scales.astype(np.float32) + r
        np.testing.assert_array_equal(np.load(self.path / "out/output0.npy"), expected)

    def test_sums_that_wait_for_parts_take_time(self):
        """With one place for sums the array waits until all parts of a tile have left, and these until DRAM has moved them."""
        tensor = "tensor<1x512x28x28xf32>"
        self.write("net.mlir", f"""func.func @main(%x: {tensor}) -> {tensor} {{
{pointwise("%1", "%x", "first", 512, 512, 28)}
{pointwise("%2", "%1", "narrow", 512, 128, 28)}
{pointwise("%3", "%2", "wide", 128, 512, 28)}
  %4 = graph.add %3, %1 : ({tensor}, {tensor}) -> {tensor} loc("sum")
{pointwise("%5", "%4", "last", 512, 512, 28)}
  return %5 : {tensor}
}}
""")
        waiting = self.plan_file({"wide": 'tile = [256, 28, 2, 1], tile_k = 64, loop_order = "channels_outer", depth = 2, '
                                          'stationary = "none", single_accumulator = true'})
        tiles, _ = self.tilewright("compile", "net.mlir", "--hw", "gemmini_16x16_fp32", "--schedule", waiting, "--emit", "tiles")
        self.assertRegex(tiles, r"# wide: .* single accumulator, drained by \d+ channels")
        self.assertLess(self.cycles("gemmini_16x16_fp32", "pipelined"), self.cycles("gemmini_16x16_fp32", waiting))

    def test_results_that_leave_by_block_let_the_next_tile_begin(self):
        """A tile of six blocks fills the accumulator. Its sums leave one block after the other, and so come those of the next one."""
        random = np.random.default_rng(1)
        for hw, element, products in [("gemmini_16x16_fp32", np.float32, "graph.matmul"), ("gemmini_16x16_int8", np.int8, "graph.matmul_integer")]:
            x, w = random.integers(-8, 9, (160, 64)).astype(element), random.integers(-8, 9, (64, 288)).astype(element)
            np.save(self.path / "x.npy", x)
            a, b = f"tensor<160x64x{'f32' if element == np.float32 else 'i8'}>", f"tensor<64x288x{'f32' if element == np.float32 else 'i8'}>"
            out = f"tensor<160x288x{'f32' if element == np.float32 else 'i32'}>"
            zeros = "" if element == np.float32 else " {a_zero_point = 0 : i32, b_zero_points = array<i32: 0>}"
            self.write("net.mlir", f"""func.func @main(%x: {a}) -> {out} {{
  %w = graph.constant {hexed(w)} : {b}
  %y = {products} %x, %w{zeros} : ({a}, {b}) -> {out} loc("product")
  return %y : {out}
}}
""")
            cycles = {}
            for by_block in ["false", "true"]:
                path = self.plan_file({"product": 'tile = [96, 160, 1, 1], tile_k = 64, loop_order = "positions_outer", depth = 2, '
                                                  f"single_accumulator = true, drain_by_block = {by_block}"})
                np.testing.assert_array_equal(self.output("--hw", hw, "--schedule", path), x.astype(np.int32) @ w.astype(np.int32),
                                              str((hw, by_block)))
                cycles[by_block] = self.cycles(hw, path)
                self.tilewright("compile", "net.mlir", "--hw", hw, "--schedule", path, "--emit", "plan", "-o", "chosen.mlir")
                self.assertIn(f"drain_by_block = {by_block}", (self.path / "chosen.mlir").read_text())
            # Of three tiles two wait for all six blocks of 160 positions, or for the first: five fewer, but for the time that it takes to begin.
            self.assertLess(cycles["true"], cycles["false"] - 2 * 4 * 160, hw)


if __name__ == "__main__":
    unittest.main()
