#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Circular line buffers: tiles below one another share the rows that both their windows read, so that DRAM gives each once."""

import json
import unittest

import numpy as np

from cli_test import CliTest, hexed, layers_of

CHANNELS, ROWS, COLUMNS = 48, 29, 23
WINDOW = "pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = \"nhwc\""


def windows(x, stride):
    """All taps of 3x3 windows over a padded image: [outputs, outputs, 3, 3, channels]."""
    padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (0, 1)).transpose(0, 1, 3, 4, 2)[::stride, ::stride]


class LineBufferTest(CliTest):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(1)
        image = f"tensor<1x{ROWS}x{COLUMNS}x{CHANNELS}xi8>"
        self.x = random.integers(-128, 128, (1, ROWS, COLUMNS, CHANNELS)).astype(np.int8)
        self.full = random.integers(-128, 128, (3, 3, CHANNELS, 16)).astype(np.int8)
        self.depthwise = random.integers(-128, 128, (3, 3, 1, CHANNELS)).astype(np.int8)
        np.save(self.path / "x.npy", self.x)
        deep, flat = f"tensor<1x15x12x{CHANNELS}xi32>", f"tensor<1x{ROWS}x{COLUMNS}x16xi32>"
        self.write("net.mlir", f"""func.func @main(%x: {image}) -> ({deep}, {flat}) {{
  %d = graph.constant {hexed(self.depthwise)} : tensor<3x3x1x{CHANNELS}xi8>
  %f = graph.constant {hexed(self.full)} : tensor<3x3x{CHANNELS}x16xi8>
  %0 = graph.conv_integer %x, %d {{x_zero_point = 3 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 2, 2>,
    group = {CHANNELS} : i64, {WINDOW}}} : ({image}, tensor<3x3x1x{CHANNELS}xi8>) -> {deep} loc("window")
  %1 = graph.conv_integer %x, %f {{x_zero_point = 3 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>,
    group = 1 : i64, {WINDOW}}} : ({image}, tensor<3x3x{CHANNELS}x16xi8>) -> {flat} loc("contraction")
  return %0, %1 : {deep}, {flat}
}}
""")

    def schedule(self, node, x, y, tiles, schedule="pipelined"):
        return self.plan_file({node: f"tile = [0, {x}, {y}, 1], depth = 2, line_buffer = {tiles}"}, schedule=schedule)

    def read(self, *kernel):
        """Runs the network and checks its values; bytes that DRAM gives to that kernel."""
        self.tilewright("run", "net.mlir", "--hw", "gemmini_16x16_int8", "--schedule", self.schedule(*kernel), "--input", "x.npy",
                        "--check", "--output-dir", "out", "--json", "report.json")
        x = self.x[0].astype(np.int64) - 3
        expected = np.einsum("hwyxc,yxc->hwc", windows(x, 2), self.depthwise[:, :, 0].astype(np.int64))
        np.testing.assert_array_equal(np.load(self.path / "out/output0.npy")[0], expected)
        expected = np.einsum("hwyxc,yxco->hwo", windows(x, 1), self.full.astype(np.int64))
        np.testing.assert_array_equal(np.load(self.path / "out/output1.npy")[0], expected)
        layers = layers_of(json.loads((self.path / "report.json").read_text()))
        return next(layer["dram_read_bytes"] for layer in layers if layer["name"] == kernel[0])

    def test_windows_of_the_vector_engine(self):
        alone = self.read("window", 12, 1, 1)
        # 15 rows of results in runs of 4 read 29 rows and 3 of them twice; alone each result reads 3 rows.
        self.assertLess(self.read("window", 12, 1, 4), alone * 0.8)
        # All in one run read what there is.
        self.assertLess(self.read("window", 12, 1, 15), self.x.nbytes * 1.1)

    def test_windows_of_the_array_in_columns_of_tiles(self):
        self.assertLess(self.read("contraction", 9, 2, 5), self.read("contraction", 9, 2, 1) * 0.75)

    def test_what_is_refused(self):
        def refused(message, *kernel, **options):
            self.fails("compile", "net.mlir", "--hw", "gemmini_16x16_int8", "--schedule", self.schedule(*kernel, **options),
                       message=message)
        refused("line_buffer is 4 but kernel 'window' has schedule double_buffer", "window", 12, 1, 4, schedule="double_buffer")
        refused("'line_buffer' is 0 but must be a positive number", "window", 12, 1, 0)
        self.write("net.mlir", """func.func @main(%x: tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32> {
  %0 = graph.relu %x : tensor<1x8x8x16xf32> loc("relu")
  return %0 : tensor<1x8x8x16xf32>
}
""")
        refused("line_buffer is 4 but kernel 'relu' has no tiles whose windows share rows of an input in DRAM", "relu", 8, 1, 4)


if __name__ == "__main__":
    unittest.main()
