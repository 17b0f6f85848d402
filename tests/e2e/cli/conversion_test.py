#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An image that a network converts for its first convolution: on chip, once its taps lie side by side."""

import json
import unittest

import numpy as np

from cli_test import CliTest, layers_of

SCALE, ZERO, FACTOR = 0.05, 7, 2.0 ** -9
HEIGHT, WIDTH, OUTPUTS = 19, 29, 20

QUANTIZED = """
func.func @main(%image: tensor<{n}x3x{h}x{w}xf32>) -> ({results}) {{
  %q = graph.quantize %image {{scales = array<f32: {scale}>, zero_points = array<i32: {zero}>, axis = 1 : i64}}
    : (tensor<{n}x3x{h}x{w}xf32>) -> tensor<{n}x3x{h}x{w}xi8> loc("quantize")
  %w = graph.constant dense<{weights}> : tensor<{o}x3x{kh}x{kw}xi8>
  %0 = graph.conv_integer %q, %w {{x_zero_point = {zero} : i32, w_zero_points = array<i32: 0>, strides = array<i64: {step}, 2>,
    pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw"}}
    : (tensor<{n}x3x{h}x{w}xi8>, tensor<{o}x3x{kh}x{kw}xi8>) -> tensor<{n}x{o}x{y}x{x}xi32> loc("stem")
  %1 = graph.transpose %0 {{perm = array<i64: 0, 2, 3, 1>}} : (tensor<{n}x{o}x{y}x{x}xi32>) -> tensor<{n}x{y}x{x}x{o}xi32>
  return {values} : {results}
}}
"""

FLOATS = """
func.func @main(%image: tensor<1x3x{h}x{w}xf32>) -> (tensor<1x{y}x{x}x{o}xf32>) {{
  %w = graph.constant dense<{weights}> : tensor<{o}x3x{k}x{k}xf32>
  %0 = graph.conv %image, %w {{strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nchw"}} : (tensor<1x3x{h}x{w}xf32>, tensor<{o}x3x{k}x{k}xf32>) -> tensor<1x{o}x{y}x{x}xf32> loc("stem")
  %1 = graph.transpose %0 {{perm = array<i64: 0, 2, 3, 1>}} : (tensor<1x{o}x{y}x{x}xf32>) -> tensor<1x{y}x{x}x{o}xf32>
  return %1 : tensor<1x{y}x{x}x{o}xf32>
}}
"""

POOLED = """
func.func @main(%image: tensor<{n}x3x{h}x{w}xf32>) -> (tensor<{n}x{p}x{q}x{o}xi8>) {{
  %q = graph.quantize %image {{scales = array<f32: {scale}>, zero_points = array<i32: {zero}>, axis = 1 : i64}}
    : (tensor<{n}x3x{h}x{w}xf32>) -> tensor<{n}x3x{h}x{w}xi8> loc("quantize")
  %w = graph.constant dense<{weights}> : tensor<{o}x3x3x3xi8>
  %0 = graph.conv_integer %q, %w {{x_zero_point = {zero} : i32, w_zero_points = array<i32: 0>, strides = array<i64: 2, 2>,
    pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw"}}
    : (tensor<{n}x3x{h}x{w}xi8>, tensor<{o}x3x3x3xi8>) -> tensor<{n}x{o}x{y}x{x}xi32> loc("stem")
  %1 = graph.transpose %0 {{perm = array<i64: 0, 2, 3, 1>}} : (tensor<{n}x{o}x{y}x{x}xi32>) -> tensor<{n}x{y}x{x}x{o}xi32>
  %2 = graph.requantize %1 {{multipliers = array<f32: {factor}>, axis = 3 : i64, zero_point = 0 : i32}}
    : (tensor<{n}x{y}x{x}x{o}xi32>) -> tensor<{n}x{y}x{x}x{o}xi8>
  %3 = graph.max_pool %2 {{kernel = array<i64: 3, 3>, strides = array<i64: {step}, {step}>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, layout = "nhwc"}} : (tensor<{n}x{y}x{x}x{o}xi8>) -> tensor<{n}x{p}x{q}x{o}xi8> loc("pool")
  %v = graph.constant dense<{next}> : tensor<1x1x{o}x{o}xi8>
  %4 = graph.conv_integer %3, %v {{x_zero_point = 0 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>,
    pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"}}
    : (tensor<{n}x{p}x{q}x{o}xi8>, tensor<1x1x{o}x{o}xi8>) -> tensor<{n}x{p}x{q}x{o}xi32> loc("next")
  %5 = graph.requantize %4 {{multipliers = array<f32: {factor}>, axis = 3 : i64, zero_point = 0 : i32}}
    : (tensor<{n}x{p}x{q}x{o}xi32>) -> tensor<{n}x{p}x{q}x{o}xi8>
  return %5 : tensor<{n}x{p}x{q}x{o}xi8>
}}
"""


def requantized(sums):
    return np.clip(np.rint(sums.astype(np.float32) * np.float32(FACTOR)), -128, 127).astype(np.int8)


def convolved(image, weights, step=2):
    """What QUANTIZED computes of the image, for windows at a stride of 2, `step` down the rows, and a padding of 1."""
    q = np.clip(np.rint(image / np.float32(SCALE)) + ZERO, -128, 127).astype(np.int64) - ZERO
    q = np.pad(q, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(q, weights.shape[2:], axis=(2, 3))[:, :, ::step, ::2]
    return np.einsum("ncyxhw,ochw->nyxo", windows, weights.astype(np.int64))


class ConversionBase(CliTest):
    def write_network(self, images=1, size=3, returns_image=False, outputs=OUTPUTS, height=None, step=2):
        rng = np.random.default_rng(1)
        self.image = rng.uniform(-7, 7, (images, 3, HEIGHT, WIDTH)).astype(np.float32)
        self.weights = rng.integers(-128, 128, (outputs, 3, height or size, size)).astype(np.int8)
        expected = convolved(self.image, self.weights, step)
        result = f"tensor<{'x'.join(map(str, expected.shape))}xi32>"
        results, values = ([f"tensor<{images}x3x{HEIGHT}x{WIDTH}xi8>"], ["%q"]) if returns_image else ([], [])
        self.write("net.mlir", QUANTIZED.format(
            n=images, h=HEIGHT, w=WIDTH, o=outputs, kh=height or size, kw=size, step=step, scale=SCALE, zero=ZERO, weights=self.weights.tolist(), y=expected.shape[1],
            x=expected.shape[2], results=", ".join([*results, result]), values=", ".join([*values, "%1"])))
        np.save(self.path / "image.npy", self.image)
        return expected

    def run_network(self, machine, *options):
        """The sums, and the report."""
        self.tilewright("run", "net.mlir", "--hw", machine, "--check", "--input", "image.npy", "--output-dir", "out", "--json", "report.json",
                        *options)
        sums, = [value for value in map(np.load, (self.path / "out").glob("*.npy")) if value.dtype == np.int32]
        return sums, json.loads((self.path / "report.json").read_text())


class ConversionTest(ConversionBase):
    def test_values_with_every_schedule(self):
        expected = self.write_network()
        for machine in ("gemmini_16x16_int8", "edge_32x32_int8", "onnxim_128x128"):
            for schedule in ("serial", "double_buffer", "pipelined"):
                with self.subTest(machine=machine, schedule=schedule):
                    np.testing.assert_array_equal(self.run_network(machine, "--schedule", schedule)[0], expected)

    def test_tiles_of_every_shape(self):
        """One column has no second half, the last tiles are smaller, and vectors reach from one image into the next."""
        expected = self.write_network(images=3)
        for schedule, depth in (("double_buffer", 2), ("pipelined", 1), ("pipelined", 2), ("pipelined", 4)):
            for sizes in ("1, 4, 1", "4, 3, 1", "15, 10, 3", "7, 10, 2"):
                with self.subTest(schedule=schedule, depth=depth, sizes=sizes):
                    tiles = self.plan_file({"stem": f"tile = [0, {sizes}], depth = {depth}"}, schedule=schedule)
                    np.testing.assert_array_equal(self.run_network("gemmini_16x16_int8", "--schedule", tiles)[0], expected)

    def test_the_converted_image_never_is_in_dram(self):
        self.write_network()
        report = self.run_network("gemmini_16x16_int8", "--schedule", "pipelined")[1]
        self.assertEqual([layer["name"] for layer in layers_of(report)], ["stem"])
        sums = 4 * OUTPUTS * (HEIGHT // 2 + 1) * (WIDTH // 2 + 1)
        self.assertLess(layers_of(report)[0]["dram_write_bytes"], sums + self.image.size)

    def test_an_image_that_is_wanted_itself_is_converted_once(self):
        expected = self.write_network(returns_image=True)
        self.assertEqual(len(self.kernels("--hw", "gemmini_16x16_int8")), 2)
        np.testing.assert_array_equal(self.run_network("gemmini_16x16_int8", "--schedule", "pipelined")[0], expected)

    def write_pooled(self, images=1, step=2):
        """A pool of the stem's sums, 9 x 14 windows of them or 17 x 27, and a kernel that reads it. Returns its result."""
        rng = np.random.default_rng(1)
        self.image = rng.uniform(-7, 7, (images, 3, 2 * HEIGHT, 2 * WIDTH)).astype(np.float32)
        weights = rng.integers(-128, 128, (OUTPUTS, 3, 3, 3)).astype(np.int8)
        after = rng.integers(-128, 128, (1, 1, OUTPUTS, OUTPUTS)).astype(np.int8)
        results = requantized(convolved(self.image, weights))
        pooled = np.lib.stride_tricks.sliding_window_view(results, (3, 3), (1, 2))[:, ::step, ::step].max((-2, -1))
        self.write("net.mlir", POOLED.format(
            n=images, step=step, h=2 * HEIGHT, w=2 * WIDTH, o=OUTPUTS, y=results.shape[1], x=results.shape[2], p=pooled.shape[1],
            q=pooled.shape[2], scale=SCALE, zero=ZERO, factor=FACTOR, weights=weights.tolist(), next=after.tolist()))
        np.save(self.path / "image.npy", self.image)
        return requantized(np.einsum("nyxi,io->nyxo", pooled.astype(np.int64), after[0, 0].astype(np.int64)))

    def run_pooled(self, machine, knobs):
        """The result, and the bytes that the stem loads, if its tiles are asked for so."""
        path = self.plan_file({"stem": knobs})
        self.tilewright("run", "net.mlir", "--hw", machine, "--check", "--input", "image.npy", "--output-dir", "out", "--json", "report.json",
                        "--schedule", path)
        value, = map(np.load, (self.path / "out").glob("*.npy"))
        layers = layers_of(json.loads((self.path / "report.json").read_text()))
        return value, next(layer["dram_read_bytes"] for layer in layers if layer["name"] == "stem")

    def test_rows_that_are_copied_from_the_tile_above(self):
        # One strip of columns, uneven ones, and strips of the columns' and the channels' tiles.
        for images, step, tile in [(1, 2, "32, 14"), (1, 1, "32, 10"), (1, 2, "16, 3"), (2, 1, "32, 7")]:
            expected, loaded = self.write_pooled(images, step), {}
            for below in (1, 9):
                value, loaded[below] = self.run_pooled(
                    "gemmini_16x16_int8", f'tile = [{tile}, 1, 1], loop_order = "positions_outer", depth = 2, single_accumulator = false, '
                    f"sum_line_buffer = true, line_buffer = {below}")
                np.testing.assert_array_equal(value, expected, str((images, step, tile, below)))
            # Of the five rows that a row of windows reads, or the three, one is not new.
            self.assertLess(loaded[9], 0.9 * loaded[1], (images, step, tile))

    def test_rows_that_are_copied_from_the_band_above(self):
        for step in (1, 2):
            expected, loaded = self.write_pooled(step=step), {}
            for machine, below in [("gemmini_16x16_int8", 1), ("gemmini_16x16_int8", 9), ("vdla_16x16", 9)]:
                value, loaded[machine, below] = self.run_pooled(
                    machine, f"sum_line_buffer = true, line_buffer = {below}, on_chip = true, row_tile = 1")
                np.testing.assert_array_equal(value, expected, str((machine, below, step)))
            self.assertLess(loaded["gemmini_16x16_int8", 9], 0.9 * loaded["gemmini_16x16_int8", 1])

    def test_rows_that_are_copied_with_vectors_of_32(self):
        expected = self.write_pooled()
        value, _ = self.run_pooled("edge_32x32_int8", "tile = [32, 7, 1, 1], sum_line_buffer = true, line_buffer = 9")
        np.testing.assert_array_equal(value, expected)

    def test_a_small_scratchpad_holds_rows_of_a_pooled_image(self):
        expected = self.write_pooled()
        self.assertEqual(self.kernels("--hw", "vdla_16x16", "--schedule", "pipelined"), {"stem", "next"})
        for schedule in ("serial", "double_buffer", "pipelined"):
            self.tilewright("run", "net.mlir", "--hw", "vdla_16x16", "--check", "--input", "image.npy", "--output-dir", "out", "--schedule",
                            schedule)
            value, = map(np.load, (self.path / "out").glob("*.npy"))
            np.testing.assert_array_equal(value, expected, schedule)

    def test_rows_are_copied_only_where_sums_stay(self):
        self.write_pooled()
        path = self.plan_file({"stem": "sum_line_buffer = false, line_buffer = 9"})
        self.fails("run", "net.mlir", "--hw", "gemmini_16x16_int8", "--schedule", path, message="line_buffer is 9 but kernel 'stem' has no tiles")

    def write_floats(self, size, outputs):
        weights = np.random.default_rng(1).uniform(-1, 1, (outputs, 3, size, size)).astype(np.float32)
        self.write("net.mlir", FLOATS.format(h=HEIGHT, w=WIDTH, k=size, o=outputs, weights=weights.tolist(), y=(HEIGHT + 2 - size) // 2 + 1,
                                             x=(WIDTH + 2 - size) // 2 + 1))

    def run_floats(self, image, machine):
        np.save(self.path / "image.npy", image)
        self.tilewright("run", "net.mlir", "--hw", *machine, "--schedule", "pipelined", "--check", "--input", "image.npy", "--output-dir", "out",
                        "--json", "report.json")
        self.assertEqual([layer["name"] for layer in layers_of(json.loads((self.path / "report.json").read_text()))], ["stem"])
        values, = [np.load(path) for path in (self.path / "out").glob("*.npy")]
        return values

    def test_windows_of_one_column_at_every_second(self):
        """Pixels between them are not read, but the taps are packed from where they lie."""
        self.write("net.mlir", """func.func @main(%image: tensor<1x8x5x5xf32>) -> (tensor<1x1x4x3xf32>) {
  %w = graph.constant dense<0.5> : tensor<1x8x2x1xf32>
  %0 = graph.conv %image, %w {strides = array<i64: 1, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nchw"} : (tensor<1x8x5x5xf32>, tensor<1x8x2x1xf32>) -> tensor<1x1x4x3xf32> loc("stem")
  return %0 : tensor<1x1x4x3xf32>
}
""")
        image = np.random.default_rng(1).integers(-8, 9, (1, 8, 5, 5)).astype(np.float32)  # sums are exact
        columns = image.sum(1, keepdims=True)[..., ::2]
        values = self.run_floats(image, ["gemmini_16x16_bf16"])
        np.testing.assert_array_equal(values, (columns[:, :, :-1] + columns[:, :, 1:]) / 2)

    def test_infinity_reaches_its_windows_alone(self):
        """bf16: what lies behind the last tap of a vector is multiplied as well."""
        for size, outputs, machine in [(3, OUTPUTS, ["gemmini_16x16_bf16"]), (7, 2 * OUTPUTS, ["edge_32x32_bf16"])]:
            with self.subTest(size=size):
                self.write_floats(size, outputs)
                image = np.ones((1, 3, HEIGHT, WIDTH), np.float32)
                finite = self.run_floats(image, machine)
                image[0, 1, 14, 13] = np.inf
                values = self.run_floats(image, machine)
                # Windows begin at even coordinates, less the padding.
                begins = [[2 * i - 1 for i in range(n)] for n in values.shape[1:3]]
                rows, columns = ([b <= at < b + size for b in axis] for axis, at in zip(begins, (14, 13)))
                reached = np.zeros(values.shape, bool)
                reached[0, np.outer(rows, columns)] = True
                self.assertFalse(np.isfinite(values[reached]).any())
                np.testing.assert_array_equal(values[~reached], finite[~reached])


# Machines whose DRAM has little time beside a converted image, and outputs that give the array enough to do: vectors of 32 hold a run of
# the taps of three channels, those of 16 do not.
SLOW_DRAM = [["edge_32x32_int8", "--set", "dram.channels=1"], ["gemmini_16x16_int8", "--set", "dram.device=ideal", "--set", "dram.bytes_per_cycle=2"]]


class PackingTest(ConversionBase):
    """Windows that share most of their pixels: the vector engine lays the taps side by side as it converts them."""

    def write_wide(self, images=1):
        return self.write_network(images, size=7, outputs=2 * OUTPUTS)

    def test_values_with_every_schedule(self):
        expected = self.write_wide()
        for machine in SLOW_DRAM:
            for schedule in ("serial", "double_buffer", "pipelined"):
                with self.subTest(machine=machine, schedule=schedule):
                    sums, report = self.run_network(machine[0], *machine[1:], "--schedule", schedule)
                    np.testing.assert_array_equal(sums, expected)
                    self.assertEqual([layer["name"] for layer in layers_of(report)], ["stem"])

    def test_tiles_of_every_shape(self):
        """One column, tiles that padding is in on every side, and several images."""
        expected = self.write_wide(images=2)
        for machine in SLOW_DRAM:
            for depth, sizes in ((1, "13, 8, 2"), (2, "1, 4, 1"), (2, "4, 3, 1"), (4, "7, 8, 2")):
                with self.subTest(machine=machine, depth=depth, sizes=sizes):
                    tiles = self.plan_file({"stem": f"tile = [0, {sizes}], depth = {depth}"})
                    np.testing.assert_array_equal(self.run_network(machine[0], *machine[1:], "--schedule", tiles)[0], expected)

    def test_rows_that_are_copied_from_the_tile_above(self):
        expected = self.write_wide(images=2)
        for machine in SLOW_DRAM:
            for sizes in ("13, 2, 1", "5, 1, 1", "7, 3, 1"):
                loaded = {}
                for below in (1, 8):
                    tiles = self.plan_file({"stem": f'tile = [0, {sizes}], loop_order = "positions_outer", depth = 2, line_buffer = {below}'})
                    sums, report = self.run_network(machine[0], *machine[1:], "--schedule", tiles)
                    np.testing.assert_array_equal(sums, expected, str((machine, sizes, below)))
                    loaded[below] = report["dram_read_bytes"]
                # Five of the seven rows of a window belong to the one above it as well.
                self.assertLess(loaded[8], 0.9 * loaded[1], (machine, sizes))

    def test_a_shared_row_that_fills_no_vector_is_not_copied(self):
        """A copy writes whole vectors, and would reach into the rows below."""
        expected = self.write_network(size=7, height=5, step=4, outputs=5 * OUTPUTS)
        machine = SLOW_DRAM[0]
        self.assertEqual(len(self.kernels("--hw", *machine)), 1)
        tiles = self.plan_file({"stem": "tile = [0, 13, 1, 1]"})
        np.testing.assert_array_equal(self.run_network(machine[0], *machine[1:], "--schedule", tiles)[0], expected)
        path = self.plan_file({"stem": "tile = [0, 13, 1, 1], depth = 2, line_buffer = 8"})
        self.fails("run", "net.mlir", "--hw", *machine, "--schedule", path, message="line_buffer is 8 but kernel 'stem' has no tiles")

    def test_a_fast_dram_brings_packed_taps(self):
        expected = self.write_wide()
        self.assertEqual(len(self.kernels("--hw", "gemmini_16x16_int8")), 2)
        np.testing.assert_array_equal(self.run_network("gemmini_16x16_int8", "--schedule", "pipelined")[0], expected)

    def test_an_array_with_little_to_do_gets_packed_taps(self):
        self.write_network(size=7, outputs=4)
        self.assertEqual(len(self.kernels("--hw", *SLOW_DRAM[0])), 2)


if __name__ == "__main__":
    unittest.main()
