#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Few input channels, the taps of a window side by side: rows that windows share are loaded once a tile."""

import json
import unittest

import numpy as np

from cli_test import CliTest, layers_of


class PackedTapsTest(CliTest):
    def result(self, model, hw, x, y, *options):
        """The values with tiles of x by y positions, and the bytes that DRAM gives."""
        schedule = self.plan_file({"*": f"tile = [0, {x}, {y}, 1]"})
        self.tilewright("run", model, "--hw", hw, "--check", "--schedule", schedule, *options, "--output-dir", "out",
                        "--json", "report.json")
        values, = [np.load(path) for path in (self.path / "out").glob("*.npy")]
        return values, layers_of(json.loads((self.path / "report.json").read_text()))[0]["dram_read_bytes"]

    def same_values_in_less(self, model, hw, x, y, *options):
        expected, alone = self.result(model, hw, x, 1, *options)
        values, together = self.result(model, hw, x, y, *options)
        np.testing.assert_array_equal(values, expected)
        self.assertLess(together, alone)

    def test_integers(self):
        self.same_values_in_less("conv:1x29x31x3:7x7x40:s2:p3:int8", "edge_32x32_int8", 8, 4)

    def test_the_last_tile_is_smaller(self):
        self.same_values_in_less("conv:2x33x31x3:3x3x20:s1:p1:int8", "gemmini_16x16_int8", 9, 5)

    def test_infinity_reaches_its_windows_alone(self):
        image = np.zeros((1, 29, 31, 3), np.float32)
        image[0, 14, 15, 1] = np.inf
        np.save(self.path / "image.npy", image)
        self.same_values_in_less("conv:1x29x31x3:7x7x40:s2:p3:fp32", "gemmini_16x16_fp32", 8, 4, "--input", self.path / "image.npy")

    def test_windows_that_see_padding_alone(self):
        """Sums in the padding of a pool: the loads that fill them read nothing, wherever the image lies in DRAM."""
        self.write("net.mlir", """func.func @main(%x: tensor<1x17x17x5xi8>) -> (tensor<1x15x7x12xi8>) {
  %w = graph.constant dense<3> : tensor<2x2x5x12xi8>
  %0 = graph.conv_integer %x, %w {x_zero_point = -45 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>,
    pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"}
    : (tensor<1x17x17x5xi8>, tensor<2x2x5x12xi8>) -> tensor<1x16x16x12xi32> loc("conv")
  %1 = graph.requantize %0 {multipliers = array<f32: 0.015625>, axis = 3 : i64, zero_point = -7 : i32}
    : (tensor<1x16x16x12xi32>) -> tensor<1x16x16x12xi8>
  %2 = graph.max_pool %1 {kernel = array<i64: 2, 7>, strides = array<i64: 1, 2>, pads = array<i64: 0, 3, 0, 1>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x16x16x12xi8>) -> tensor<1x15x7x12xi8> loc("pool")
  return %2 : tensor<1x15x7x12xi8>
}
""")
        x = np.random.default_rng(1).integers(-60, -20, (1, 17, 17, 5)).astype(np.int8)
        np.save(self.path / "x.npy", x)
        pixels = 3 * (x.astype(np.int64) + 45).sum(3)
        sums = pixels[:, :-1, :-1] + pixels[:, 1:, :-1] + pixels[:, :-1, 1:] + pixels[:, 1:, 1:]
        values = np.clip(np.rint(sums * 0.015625) - 7, -128, 127)
        padded = np.pad(values, ((0, 0), (0, 0), (3, 1)), constant_values=-128)
        pooled = np.lib.stride_tricks.sliding_window_view(padded, (2, 7), (1, 2))[:, :, ::2].max((3, 4))
        machine = ["--hw", "tiny_8x8", "--set", "array.rows=16", "--set", "accumulator.capacity_bytes=2048", "--set", "accumulator.banks=2"]
        for schedule in ["serial", "double_buffer", "pipelined"]:
            with self.subTest(schedule=schedule):
                np.testing.assert_array_equal(self.output(*machine, "--schedule", schedule), np.repeat(pooled[..., None], 12, 3))

    def test_no_burst_is_fetched_for_each_of_three_runs(self):
        """Three taps of 32 bytes begin 32 bytes apart: as one run each burst would come three times."""
        def read(rows):
            self.tilewright("run", f"conv:1x{rows}x55x32:3x3x64:s1:p1:int8", "--hw", "onnxim_128x128", "--check", "--json", "report.json")
            return json.loads((self.path / "report.json").read_text())["dram_read_bytes"]
        self.assertLess(read(20) - read(10), 2.2 * 10 * 55 * 32)
        self.tilewright("compare", "conv:1x10x55x32:3x3x64:s1:p1:int8", "--hw", "onnxim_128x128")


if __name__ == "__main__":
    unittest.main()
