#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The mean of all positions of a convolution's result is part of the convolution's kernel: the result itself has no place in DRAM."""

import json
import unittest

import numpy as np

from cli_test import CliTest, hexed

IMAGES, ROWS, COLUMNS, INPUTS, CHANNELS = 2, 6, 9, 24, 40
SCALE, STEP = 2.0 ** -7, 2.0 ** -3
CONV = "strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = \"nhwc\""
POOL = "strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, count_include_pad = false, layout = \"nhwc\""


class GlobalPoolTest(CliTest):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(1)
        self.x = random.integers(-128, 128, (IMAGES, ROWS, COLUMNS, INPUTS)).astype(np.int8)
        self.w = random.integers(-128, 128, (3, 3, INPUTS, CHANNELS)).astype(np.int8)
        np.save(self.path / "x.npy", self.x)
        padded = np.pad(self.x.astype(np.int64) - 3, ((0, 0), (1, 1), (1, 1), (0, 0)))
        taps = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
        self.sums = np.einsum("nhwcyx,yxco->nhwo", taps, self.w.astype(np.int64)).astype(np.float32)

    def network(self, *ops, results=("%y",), types):
        shape = f"{IMAGES}x{ROWS}x{COLUMNS}"
        body = "\n  ".join(ops)
        self.write("net.mlir", f"""func.func @main(%x: tensor<{shape}x{INPUTS}xi8>) -> ({", ".join(types)}) {{
  %w = graph.constant {hexed(self.w)} : tensor<3x3x{INPUTS}x{CHANNELS}xi8>
  %0 = graph.conv_integer %x, %w {{x_zero_point = 3 : i32, w_zero_points = array<i32: 0>, {CONV}}}
    : (tensor<{shape}x{INPUTS}xi8>, tensor<3x3x{INPUTS}x{CHANNELS}xi8>) -> tensor<{shape}x{CHANNELS}xi32> loc("conv")
  {body}
  return {", ".join(results)} : {", ".join(types)}
}}
""")

    def floats(self, kernel=(ROWS, COLUMNS), keeps=False):
        of = f"tensor<{IMAGES}x{ROWS}x{COLUMNS}x{CHANNELS}x"
        pooled = f"tensor<{IMAGES}x{ROWS - kernel[0] + 1}x{COLUMNS - kernel[1] + 1}x{CHANNELS}xf32>"
        self.network(
            f"%d = graph.dequantize %0 {{axis = 0 : i64, scales = array<f32: {SCALE}>, zero_points = array<i32: 0>}}"
            f" : ({of}i32>) -> {of}f32>",
            f"%r = graph.relu %d : {of}f32>",
            f"%y = graph.average_pool %r {{kernel = array<i64: {kernel[0]}, {kernel[1]}>, {POOL}}} : ({of}f32>) -> {pooled} loc(\"pool\")",
            results=["%y", "%r"][:1 + keeps], types=[pooled, f"{of}f32>"][:1 + keeps])

    def test_floats(self):
        self.floats()
        values = np.maximum(self.sums * np.float32(SCALE), 0)  # multiples of SCALE: their sums are exact
        expected = values.sum((1, 2), keepdims=True) / np.float32(ROWS * COLUMNS)
        for hw in ["gemmini_16x16_int8", "vdla_16x16", "edge_32x32_int8"]:
            for schedule in ["serial", "double_buffer", "pipelined"]:
                options = ["--hw", hw, "--schedule", schedule]
                self.assertEqual(self.kernels(*options), {"conv"}, options)
                np.testing.assert_array_equal(self.output(*options), expected, options)

    def test_what_two_operations_read(self):
        """relu(d) - min(d, 1): one instruction for each, both from the sums, and the mean behind them."""
        of, pooled = f"tensor<{IMAGES}x{ROWS}x{COLUMNS}x{CHANNELS}x", f"tensor<{IMAGES}x1x1x{CHANNELS}xf32>"
        self.network(
            f"%d = graph.dequantize %0 {{axis = 0 : i64, scales = array<f32: {SCALE}>, zero_points = array<i32: 0>}}"
            f" : ({of}i32>) -> {of}f32>",
            f"%r = graph.relu %d : {of}f32>",
            f"%m = graph.clip %d {{min = -1024.0 : f32, max = 1.0 : f32}} : {of}f32>",
            f"%s = graph.sub %r, %m : ({of}f32>, {of}f32>) -> {of}f32>",
            f"%y = graph.average_pool %s {{kernel = array<i64: {ROWS}, {COLUMNS}>, {POOL}}} : ({of}f32>) -> {pooled} loc(\"pool\")",
            types=[pooled])
        d = self.sums * np.float32(SCALE)  # multiples of SCALE: their sums are exact
        values = np.maximum(d, 0) - np.clip(d, -1024, 1)
        expected = values.sum((1, 2), keepdims=True) / np.float32(ROWS * COLUMNS)
        for schedule in ["serial", "double_buffer", "pipelined"]:
            options = ["--hw", "gemmini_16x16_int8", "--schedule", schedule]
            self.assertEqual(self.kernels(*options), {"conv"}, options)
            np.testing.assert_array_equal(self.output(*options), expected, options)

    def test_small_buffers_leave_large_ones_their_banks(self):
        """Two tiles of the image, one of results, and sums of their own, which are few: the array waits for no load of four banks."""
        self.floats()
        self.tilewright("run", "net.mlir", "--hw", "vdla_16x16", "--set", "scratchpads.activation.banks=4", "--schedule", "pipelined",
                        "--input", "x.npy", "--check", "--json", "report.json")
        engines = json.loads((self.path / "report.json").read_text())["engines"]
        tensor = next(engine for engine in engines if engine["name"] == "tensor")
        self.assertEqual(tensor["stalls"]["bank_conflict_cycles"], 0)

    def test_bytes_between(self):
        image, small = f"tensor<{IMAGES}x{ROWS}x{COLUMNS}x{CHANNELS}x", f"tensor<{IMAGES}x1x1x{CHANNELS}xi8>"
        self.network(
            f"%q = graph.requantize %0 {{multipliers = array<f32: {2.0 ** -10}>, axis = 3 : i64, zero_point = -5 : i32}}"
            f" : ({image}i32>) -> {image}i8>",
            f"%y = graph.qlinear_global_average_pool %q {{x_scale = 1.0 : f32, x_zero_point = -5 : i32, y_scale = {STEP} : f32,"
            f" y_zero_point = 7 : i32, layout = \"nhwc\"}} : ({image}i8>) -> {small} loc(\"pool\")", types=[small])
        bytes_ = np.clip(np.rint(self.sums * np.float32(2.0 ** -10)) - 5, -128, 127).astype(np.float32)
        scale = np.float32(1) / np.float32(np.float32(STEP) * np.float32(ROWS * COLUMNS))
        means = np.rint((bytes_ + 5).sum((1, 2), keepdims=True) * scale) + 7
        options = ["--hw", "gemmini_16x16_int8", "--schedule", "pipelined"]
        self.assertEqual(self.kernels(*options), {"conv"})
        np.testing.assert_array_equal(self.output(*options), np.clip(means, -128, 127).astype(np.int8))

    def test_kernels_of_their_own(self):
        options = ["--hw", "gemmini_16x16_int8", "--schedule", "pipelined"]
        self.floats(keeps=True)  # the convolution's result is one of the network's
        self.assertEqual(self.kernels(*options), {"conv", "pool"})
        self.floats(kernel=(ROWS, COLUMNS - 1))
        self.assertEqual(self.kernels(*options), {"conv", "pool"})
        self.floats()  # no room for all positions of a block of channels, twice
        self.assertEqual(self.kernels(*options, "--set", "accumulator.capacity_bytes=4096"), {"conv", "pool"})

    def test_windows_of_each_channel_stay_apart(self):
        """Behind a depthwise convolution, as in a block of squeeze and excitation: the vector engine makes both."""
        w = np.random.default_rng(2).integers(-3, 4, (3, 3, 1, INPUTS)).astype(np.float32)
        image, pooled = f"tensor<{IMAGES}x{ROWS}x{COLUMNS}x{INPUTS}xf32>", f"tensor<{IMAGES}x1x1x{INPUTS}xf32>"
        self.write("net.mlir", f"""func.func @main(%x: {image}) -> {pooled} {{
  %w = graph.constant {hexed(w)} : tensor<3x3x1x{INPUTS}xf32>
  %0 = graph.conv %x, %w {{{CONV.replace("group = 1", f"group = {INPUTS}")}}} : ({image}, tensor<3x3x1x{INPUTS}xf32>) -> {image} loc("conv")
  %r = graph.relu %0 : {image}
  %y = graph.average_pool %r {{kernel = array<i64: {ROWS}, {COLUMNS}>, {POOL}}} : ({image}) -> {pooled} loc("pool")
  return %y : {pooled}
}}
""")
        np.save(self.path / "x.npy", self.x.astype(np.float32))
        padded = np.pad(self.x.astype(np.int64), ((0, 0), (1, 1), (1, 1), (0, 0)))
        taps = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
        sums = np.maximum(np.einsum("nhwcyx,yxc->nhwc", taps, w[:, :, 0].astype(np.int64)), 0).astype(np.float32)
        expected = sums.sum((1, 2), keepdims=True) / np.float32(ROWS * COLUMNS)
        for schedule in ["serial", "double_buffer", "pipelined"]:
            options = ["--hw", "gemmini_16x16_fp32", "--schedule", schedule]
            self.assertEqual(self.kernels(*options), {"conv", "pool"}, options)
            np.testing.assert_array_equal(self.output(*options), expected, options)

    def test_a_part_of_the_positions_is_refused(self):
        self.floats()
        path = self.plan_file({"conv": "tile = [16, 9, 3, 1]"})
        self.fails("compile", "net.mlir", "--hw", "gemmini_16x16_int8", "--schedule", path,
                   message="size along y is 3 but kernel 'conv' sums over all positions and needs 6")


if __name__ == "__main__":
    unittest.main()
