#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An image that a network converts for its first convolution: on chip, once its taps lie side by side."""

import json
import unittest

import numpy as np

from cli_test import CliTest

SCALE, ZERO = 0.05, 7
HEIGHT, WIDTH, OUTPUTS = 19, 29, 20

QUANTIZED = """
func.func @main(%image: tensor<{n}x3x{h}x{w}xf32>) -> ({results}) {{
  %q = graph.quantize %image {{scales = array<f32: {scale}>, zero_points = array<i32: {zero}>, axis = 1 : i64}}
    : (tensor<{n}x3x{h}x{w}xf32>) -> tensor<{n}x3x{h}x{w}xi8> loc("quantize")
  %w = graph.constant dense<{weights}> : tensor<{o}x3x{k}x{k}xi8>
  %0 = graph.conv_integer %q, %w {{x_zero_point = {zero} : i32, w_zero_points = array<i32: 0>, strides = array<i64: 2, 2>,
    pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw"}}
    : (tensor<{n}x3x{h}x{w}xi8>, tensor<{o}x3x{k}x{k}xi8>) -> tensor<{n}x{o}x{y}x{x}xi32> loc("stem")
  %1 = graph.transpose %0 {{perm = array<i64: 0, 2, 3, 1>}} : (tensor<{n}x{o}x{y}x{x}xi32>) -> tensor<{n}x{y}x{x}x{o}xi32>
  return {values} : {results}
}}
"""

FLOATS = f"""
func.func @main(%image: tensor<1x3x{HEIGHT}x{WIDTH}xf32>) -> (tensor<1x{{y}}x{{x}}x{OUTPUTS}xf32>) {{{{
  %w = graph.constant dense<{{weights}}> : tensor<{OUTPUTS}x3x3x3xf32>
  %0 = graph.conv %image, %w {{{{strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nchw"}}}} : (tensor<1x3x{HEIGHT}x{WIDTH}xf32>, tensor<{OUTPUTS}x3x3x3xf32>) -> tensor<1x{OUTPUTS}x{{y}}x{{x}}xf32> loc("stem")
  %1 = graph.transpose %0 {{{{perm = array<i64: 0, 2, 3, 1>}}}} : (tensor<1x{OUTPUTS}x{{y}}x{{x}}xf32>) -> tensor<1x{{y}}x{{x}}x{OUTPUTS}xf32>
  return %1 : tensor<1x{{y}}x{{x}}x{OUTPUTS}xf32>
}}}}
"""


def convolved(image, weights):
    """What QUANTIZED computes of the image, for windows at a stride of 2 and a padding of 1."""
    q = np.clip(np.rint(image / np.float32(SCALE)) + ZERO, -128, 127).astype(np.int64) - ZERO
    q = np.pad(q, ((0, 0), (0, 0), (1, 1), (1, 1)))
    size = weights.shape[2]
    windows = np.lib.stride_tricks.sliding_window_view(q, (size, size), axis=(2, 3))[:, :, ::2, ::2]
    return np.einsum("ncyxhw,ochw->nyxo", windows, weights.astype(np.int64))


class ConversionTest(CliTest):
    def write_network(self, images=1, size=3, returns_image=False):
        rng = np.random.default_rng(1)
        self.image = rng.uniform(-7, 7, (images, 3, HEIGHT, WIDTH)).astype(np.float32)
        self.weights = rng.integers(-128, 128, (OUTPUTS, 3, size, size)).astype(np.int8)
        expected = convolved(self.image, self.weights)
        result = f"tensor<{'x'.join(map(str, expected.shape))}xi32>"
        results, values = ([f"tensor<{images}x3x{HEIGHT}x{WIDTH}xi8>"], ["%q"]) if returns_image else ([], [])
        self.write("net.mlir", QUANTIZED.format(
            n=images, h=HEIGHT, w=WIDTH, o=OUTPUTS, k=size, scale=SCALE, zero=ZERO, weights=self.weights.tolist(), y=expected.shape[1],
            x=expected.shape[2], results=", ".join([*results, result]), values=", ".join([*values, "%1"])))
        np.save(self.path / "image.npy", self.image)
        return expected

    def run_network(self, machine, *options):
        """The sums, and the report."""
        self.tilewright("run", "net.mlir", "--hw", machine, "--check", "--input", "image.npy", "--output-dir", "out", "--json", "report.json",
                        *options)
        sums, = [value for value in map(np.load, (self.path / "out").glob("*.npy")) if value.dtype == np.int32]
        return sums, json.loads((self.path / "report.json").read_text())

    def test_values_with_every_schedule(self):
        expected = self.write_network()
        for machine in ("gemmini_16x16_int8", "edge_32x32_int8", "onnxim_128x128"):
            for schedule in ("serial", "double_buffer", "modulo"):
                with self.subTest(machine=machine, schedule=schedule):
                    np.testing.assert_array_equal(self.run_network(machine, "--schedule", schedule)[0], expected)

    def test_tiles_of_every_shape(self):
        """One column has no second half, the last tiles are smaller, and vectors reach from one image into the next."""
        expected = self.write_network(images=3)
        for base, depth in (("double_buffer", 2), ("modulo", 1), ("modulo", 2), ("modulo", 4)):
            for sizes in ("1, 4, 1", "4, 3, 1", "15, 10, 3", "7, 10, 2"):
                with self.subTest(base=base, depth=depth, sizes=sizes):
                    tiles = self.schedule_file({"stem": [f"tile %k {{sizes = [0, {sizes}]}}", f"buffers %k {{depth = {depth}}}"]}, base=base)
                    np.testing.assert_array_equal(self.run_network("gemmini_16x16_int8", "--schedule", tiles)[0], expected)

    def test_the_converted_image_never_is_in_dram(self):
        self.write_network()
        report = self.run_network("gemmini_16x16_int8", "--schedule", "modulo")[1]
        self.assertEqual([layer["name"] for layer in report["layers"]], ["stem"])
        sums = 4 * OUTPUTS * (HEIGHT // 2 + 1) * (WIDTH // 2 + 1)
        self.assertLess(report["layers"][0]["dram_write_bytes"], sums + self.image.size)

    def test_an_image_that_is_wanted_itself_is_converted_once(self):
        expected = self.write_network(returns_image=True)
        self.assertEqual(len(self.kernels("--hw", "gemmini_16x16_int8")), 2)
        np.testing.assert_array_equal(self.run_network("gemmini_16x16_int8", "--schedule", "modulo")[0], expected)

    def test_windows_that_share_most_of_their_pixels_read_converted_ones(self):
        expected = self.write_network(size=7)
        self.assertEqual(len(self.kernels("--hw", "gemmini_16x16_int8")), 2)
        np.testing.assert_array_equal(self.run_network("gemmini_16x16_int8", "--schedule", "modulo")[0], expected)

    def test_infinity_reaches_its_windows_alone(self):
        """bf16: what lies behind the last tap of a vector is multiplied as well."""
        weights = np.random.default_rng(1).uniform(-1, 1, (OUTPUTS, 3, 3, 3)).astype(np.float32)
        self.write("net.mlir", FLOATS.format(weights=weights.tolist(), y=HEIGHT // 2 + 1, x=WIDTH // 2 + 1))
        image = np.ones((1, 3, HEIGHT, WIDTH), np.float32)
        finite = self.run_floats(image)
        image[0, 1, 14, 13] = np.inf
        values = self.run_floats(image)
        reached = np.zeros(values.shape, bool)
        reached[0, 7, 6:8] = True  # windows begin at even coordinates, less the padding
        self.assertFalse(np.isfinite(values[reached]).any())
        np.testing.assert_array_equal(values[~reached], finite[~reached])

    def run_floats(self, image):
        np.save(self.path / "image.npy", image)
        self.tilewright("run", "net.mlir", "--hw", "gemmini_16x16_bf16", "--schedule", "modulo", "--check", "--input", "image.npy",
                        "--output-dir", "out", "--json", "report.json")
        self.assertEqual([layer["name"] for layer in json.loads((self.path / "report.json").read_text())["layers"]], ["stem"])
        values, = [np.load(path) for path in (self.path / "out").glob("*.npy")]
        return values


if __name__ == "__main__":
    unittest.main()
