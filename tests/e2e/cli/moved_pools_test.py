#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A maximum over windows of a convolution's result is found among its sums; a pool of a concatenation is one of each part."""

import json
import re
import unittest

import numpy as np

from cli_test import CliTest, hexed, layers_of, tensor

FACTOR, ZERO = 2.0 ** -9, -5
INT8 = ["gemmini_16x16_int8", "vdla_16x16", "edge_32x32_int8"]
GEMMINI = ["--hw", "gemmini_16x16_int8", "--schedule", "pipelined"]


def conv_of(x, w, stride, pad):
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    taps = np.lib.stride_tricks.sliding_window_view(padded, w.shape[:2], (1, 2))[:, ::stride, ::stride]
    return np.einsum("nhwcyx,yxco->nhwo", taps, w)


def pool_of(y, pad=0):
    least = np.iinfo(y.dtype).min if y.dtype.kind == "i" else -np.inf
    y = np.pad(y, ((0, 0), (pad, pad), (pad, pad), (0, 0)), constant_values=least)
    return np.lib.stride_tricks.sliding_window_view(y, (3, 3), (1, 2))[:, ::2, ::2].max((-2, -1))


class MovedPoolsTest(CliTest):
    def image(self, shape, low=-128, high=128, element=np.int8):
        self.random = np.random.default_rng(1)
        self.x = self.random.integers(low, high, shape).astype(element)
        np.save(self.path / "x.npy", self.x)

    def conv(self, name, kernel, stride, pad, channels=40, source="x", x=None):
        """The text of a convolution with a bias that gives bytes, and these."""
        x = self.x if x is None else x
        inputs = x.shape[3]
        w = self.random.integers(-128, 128, (kernel, kernel, inputs, channels)).astype(np.int8)
        bias = self.random.integers(-9999, 9999, channels).astype(np.int32)
        sums = conv_of(x.astype(np.int64) - 3, w.astype(np.int64), stride, pad) + bias
        y = np.clip(np.rint(sums.astype(np.float32) * np.float32(FACTOR)) + ZERO, -128, 127).astype(np.int8)
        return f"""%w{name} = graph.constant {hexed(w)} : {tensor(w.shape, "i8")}
  %b{name} = graph.constant {hexed(bias)} : {tensor(bias.shape, "i32")}
  %s{name} = graph.conv_integer %{source}, %w{name} {{x_zero_point = 3 : i32, w_zero_points = array<i32: 0>,
    strides = array<i64: {stride}, {stride}>, pads = array<i64: {pad}, {pad}, {pad}, {pad}>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"}} : ({tensor(x.shape, "i8")}, {tensor(w.shape, "i8")}) -> {tensor(y.shape, "i32")} loc("{name}")
  %{name} = graph.requantize %s{name}, %b{name} {{multipliers = array<f32: {FACTOR}>, axis = 3 : i64, zero_point = {ZERO} : i32}}
    : ({tensor(y.shape, "i32")}, {tensor(bias.shape, "i32")}) -> {tensor(y.shape, "i8")}""", y

    def pool(self, value, shape, element="i8", pad=0):
        out = (shape[0], (shape[1] + 2 * pad - 3) // 2 + 1, (shape[2] + 2 * pad - 3) // 2 + 1, shape[3])
        return f"""%y = graph.max_pool %{value} {{kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>,
    pads = array<i64: {pad}, {pad}, {pad}, {pad}>, dilations = array<i64: 1, 1>, layout = "nhwc"}}
    : ({tensor(shape, element)}) -> {tensor(out, element)} loc("pool")""", tensor(out, element)

    def network(self, ops, results, types):
        element = "f32" if self.x.dtype == np.float32 else "i8"
        self.write("net.mlir", "func.func @main(%x: " + tensor(self.x.shape, element) + ") -> (" + ", ".join(types) + ") {\n  " +
                   "\n  ".join(ops) + "\n  return " + ", ".join(results) + " : " + ", ".join(types) + "\n}\n")

    def one_conv(self, shape, kernel, stride, pad, around=0):
        """A pool of a convolution, padded by `around`."""
        self.image(shape)
        ops, y = self.conv("conv", kernel, stride, pad)
        pool, of = self.pool("conv", y.shape, pad=around)
        self.network([ops, pool], ["%y"], [of])
        return pool_of(y, around)

    def test_sums_in_the_accumulator(self):
        for layer in [((2, 19, 23, 16), 1, 1, 0), ((1, 43, 37, 3), 3, 2, 1), ((2, 18, 23, 16), 1, 1, 0, 1), ((1, 43, 40, 3), 3, 2, 1, 1)]:
            expected = self.one_conv(*layer)
            for hw in INT8:
                for schedule in ["serial", "double_buffer", "pipelined"]:
                    options = ["--hw", hw, "--schedule", schedule]
                    self.assertEqual(self.kernels(*options), {"conv"}, (layer, options))
                    np.testing.assert_array_equal(self.output(*options), expected, str((layer, options)))

    def test_sums_in_the_padding_are_no_useful_work(self):
        self.one_conv((1, 43, 40, 3), 3, 2, 1, 1)
        layers = {}
        for accumulator in [65536, 1024]:  # joined, and apart as there is no room for a window of a block of channels, twice
            self.tilewright("run", "net.mlir", *GEMMINI, "--set", f"accumulator.capacity_bytes={accumulator}", "--json", "report.json")
            layers[accumulator] = layers_of(json.loads((self.path / "report.json").read_text()))
        self.assertEqual([[layer["name"] for layer in layers[a]] for a in layers], [["conv"], ["conv", "pool"]])
        self.assertEqual(*[layers[a][0]["macs"] for a in layers])

    def test_tiles_that_are_asked_for(self):
        for around in [0, 1]:
            expected = self.one_conv((1, 43, 37, 3), 3, 2, 1, around)  # 10 x 9 windows, or 11 x 10
            for tile in ["16, 4, 3, 1", "48, 9, 2, 1", "32, 5, 10, 1"]:
                schedule = self.plan_file({"conv": f"tile = [{tile}]"})
                np.testing.assert_array_equal(self.output("--hw", "gemmini_16x16_int8", "--schedule", schedule), expected, (around, tile))

    def conv_and_next(self, images=1, around=0, height=43):
        """10 x 9 windows over sums of 48 channels, and a kernel that reads them. Returns its result."""
        self.image((images, height, 39, 3))
        first, y = self.conv("conv", 3, 2, 0, 48)
        pool, _ = self.pool("conv", y.shape, pad=around)
        second, z = self.conv("next", 1, 1, 0, source="y", x=pool_of(y, around))
        self.network([first, pool, second], ["%next"], [tensor(z.shape, "i8")])
        return z

    def array_work(self, *options):
        """Cycles in which the array makes sums of the convolution."""
        self.tilewright("run", "net.mlir", *options, "--check", "--json", "report.json")
        layers = layers_of(json.loads((self.path / "report.json").read_text()))
        engines = next(layer["engines"] for layer in layers if layer["name"] == "conv")
        return next(engine["busy_cycles"] for engine in engines if engine["name"] == "tensor")

    def asked(self, knobs, node="conv"):
        return self.plan_file({node: knobs})

    def test_rows_of_windows_find_the_sums_that_they_share(self):
        # Strips of a tile's columns and channels: one, two beside one another, more than there are slots, and uneven ones.
        for images, tile in [(1, "48, 9, 1, 1"), (1, "16, 9, 1, 1"), (1, "16, 4, 1, 1"), (2, "48, 5, 1, 1")]:
            expected, busy = self.conv_and_next(images), {}
            for keeps in ["false", "true"]:
                path = self.asked(f'tile = [{tile}], loop_order = "positions_outer", depth = 2, single_accumulator = false, '
                                  f"sum_line_buffer = {keeps}, max_line_buffer = false")
                options = ["--hw", "gemmini_16x16_int8", "--schedule", path]
                np.testing.assert_array_equal(self.output(*options), expected, str((images, tile, keeps)))
                busy[keeps] = self.array_work(*options)
                self.comes_back(*options)
            # Ten rows of windows see 21 rows of sums, and three each. No tap lies in padding.
            self.assertEqual(busy["true"] * 10 * 3, busy["false"] * 21, (images, tile))

    def test_sums_that_stay_from_band_to_band(self):
        for hw in ["gemmini_16x16_int8", "vdla_16x16"]:
            expected, busy = self.conv_and_next(), {}
            for keeps in ["false", "true"]:
                path = self.asked(f"sum_line_buffer = {keeps}, max_line_buffer = false, on_chip = true, row_tile = 1")
                options = ["--hw", hw, "--schedule", path]
                np.testing.assert_array_equal(self.output(*options), expected, str((hw, keeps)))
                busy[keeps] = self.array_work(*options)
            self.assertLess(busy["true"], busy["false"], hw)

    def comes_back(self, *options):
        """The plan file that is written for the last one makes the same program."""
        self.tilewright("compile", "net.mlir", *options, "--emit", "tiles", "-o", "asked.mlir")
        self.tilewright("compile", "net.mlir", *options, "--emit", "plan", "-o", "chosen.mlir")
        self.tilewright("compile", "net.mlir", *options[:-1], "chosen.mlir", "--emit", "tiles", "-o", "again.mlir")
        self.assertEqual((self.path / "asked.mlir").read_text(), (self.path / "again.mlir").read_text())

    def test_maxima_of_shared_sums_are_carried_down(self):
        """Strips of one tile and of several, tiles of one row of windows and of many, the last of them smaller, with padding and without."""
        for images, tile, order, around in [(1, "48, 9, 1, 1", "positions_outer", 0), (1, "16, 9, 3, 1", "positions_outer", 0),
                                            (1, "16, 4, 4, 1", "channels_outer", 0), (2, "48, 5, 2, 1", "positions_outer", 0),
                                            (2, "32, 4, 5, 2", "channels_outer", 0), (1, "48, 10, 1, 1", "positions_outer", 1),
                                            (2, "16, 6, 4, 1", "channels_outer", 1)]:
            expected, busy = self.conv_and_next(images, around, 43 + 2 * around), {} # 10 or 11 rows of windows, of 21 or 22 of sums
            for carries in ["false", "true"]:
                path = self.asked(f'tile = [{tile}], loop_order = "{order}", sum_line_buffer = false, max_line_buffer = {carries}')
                options = ["--hw", "gemmini_16x16_int8", "--schedule", path]
                np.testing.assert_array_equal(self.output(*options), expected, str((images, tile, around, carries)))
                busy[carries] = self.array_work(*options)
                self.comes_back(*options)
            if not around: # no tap lies in padding
                tiles = -(-10 // int(tile.split(", ")[2]))
                self.assertEqual(busy["true"] * (20 + tiles), busy["false"] * 21, (images, tile))
            self.assertLess(busy["true"], busy["false"], (images, tile, around))

    def test_maxima_that_are_carried_from_band_to_band(self):
        for hw in ["gemmini_16x16_int8", "vdla_16x16", "edge_32x32_int8"]:
            for bands, around in [(1, 0), (3, 0), (4, 1)]:
                expected, busy = self.conv_and_next(around=around, height=43 + 2 * around), {}
                for carries in ["false", "true"]:
                    path = self.asked(f"sum_line_buffer = false, max_line_buffer = {carries}, on_chip = true, row_tile = {bands}")
                    options = ["--hw", hw, "--schedule", path]
                    np.testing.assert_array_equal(self.output(*options), expected, str((hw, bands, around, carries)))
                    busy[carries] = self.array_work(*options)
                    self.comes_back(*options)
                self.assertLess(busy["true"], busy["false"], (hw, bands, around))

    def test_maxima_of_columns_are_carried_down(self):
        for around in [0, 1]:
            expected = self.few_channels((1, 43, 44, 3), 8, around=around) # 10 or 11 rows of 22 columns
            path = self.asked("tile = [16, 22, 2, 1], pixel_packing = true, max_line_buffer = true")
            np.testing.assert_array_equal(self.output("--hw", "gemmini_16x16_int8", "--schedule", path), expected, str(around))

    def test_who_carries_no_maxima(self):
        """A tile that has none above it; a kernel that has no neighbours, or another base; windows that end in padding."""
        hw = ["compile", "net.mlir", "--hw", "gemmini_16x16_int8", "--schedule"]
        carries = "max_line_buffer = true"
        self.conv_and_next()
        self.fails(*hw, self.asked("tile = [16, 9, 10, 1], " + carries), message="no tile that is asked for fits")
        self.fails(*hw, self.asked(carries, node="next"), message="max_line_buffer is true but kernel 'next' is no product")
        self.fails(*hw, self.plan_file({"conv": carries}, schedule="double_buffer"),
                   message="max_line_buffer is true but kernel 'conv' is no product")
        self.one_conv((1, 43, 37, 3), 3, 2, 1)
        self.fails(*hw, self.asked(carries), message="max_line_buffer is true but kernel 'conv' is no product")

    def test_windows_that_reach_into_padding_keep_no_sums(self):
        self.conv_and_next(around=1)
        self.fails("compile", "net.mlir", "--hw", "gemmini_16x16_int8", "--schedule", self.asked("sum_line_buffer = true"),
                   message="sum_line_buffer is true but kernel 'conv' is no product")

    def test_bands_for_the_next_kernel(self):
        for around, bands in [(0, 1), (0, 4), (1, 1), (1, 4)]:
            self.image((1, 43, 37, 3))
            first, y = self.conv("conv", 3, 2, 1, 48)
            pool, _ = self.pool("conv", y.shape, pad=around)
            second, z = self.conv("next", 1, 1, 0, source="y", x=pool_of(y, around))
            self.network([first, pool, second], ["%next"], [tensor(z.shape, "i8")])
            schedule = self.plan_file({"conv": f"on_chip = true, row_tile = {bands}"})
            np.testing.assert_array_equal(self.output("--hw", "gemmini_16x16_int8", "--schedule", schedule), z, str((around, bands)))

    def test_floats(self):
        self.image((1, 19, 23, 16), -4, 5, np.float32)
        w = self.random.integers(-4, 5, (1, 1, 16, 40)).astype(np.float32)
        bias = self.random.integers(-9, 9, (1, 1, 1, 40)).astype(np.float32)
        values = conv_of(self.x, w, 1, 0) + bias
        of = tensor(values.shape, "f32")
        for around in [0, 1]:
            pool, type_ = self.pool("r", values.shape, "f32", around)
            self.network([f"%w = graph.constant {hexed(w)} : {tensor(w.shape, 'f32')}",
                          f"%b = graph.constant {hexed(bias)} : {tensor(bias.shape, 'f32')}",
                          "%s = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,"
                          f" group = 1 : i64, layout = \"nhwc\"}} : ({tensor(self.x.shape, 'f32')}, {tensor(w.shape, 'f32')}) -> {of} loc(\"conv\")",
                          f"%a = graph.add %s, %b : ({of}, {tensor(bias.shape, 'f32')}) -> {of}", f"%r = graph.relu %a : {of}", pool],
                         ["%y"], [type_])
            options = ["--hw", "gemmini_16x16_fp32", "--schedule", "pipelined"]
            self.assertEqual(self.kernels(*options), {"conv"})
            np.testing.assert_array_equal(self.output(*options), pool_of(np.maximum(values, 0), around))

    def test_parts_of_a_concatenation(self):
        # The array takes longest for a second convolution of 3 x 3: its pool is a kernel. The first must fill whole vectors.
        for channels, kernel, kernels in [(48, 1, {"left", "right"}), (48, 3, {"left", "right", "pool"}),
                                          (40, 1, {"left", "right", "pool"})]:
            self.image((1, 19, 23, 16))
            left, a = self.conv("left", 1, 1, 0, channels)
            right, b = self.conv("right", kernel, 1, kernel // 2, channels)
            c, part = np.concatenate([a, b], 3), tensor(a.shape, "i8")
            pool, of = self.pool("c", c.shape)
            concat = f"%c = graph.concat %left, %right {{axis = 3 : i64}} : ({part}, {part}) -> {tensor(c.shape, 'i8')}"
            self.network([left, right, concat, pool], ["%y"], [of])
            self.assertEqual(self.kernels(*GEMMINI), kernels, (channels, kernel))
            np.testing.assert_array_equal(self.output(*GEMMINI), pool_of(c), str((channels, kernel)))

    def few_channels(self, shape, channels, kernel=3, stride=2, pad=1, around=0):
        """A pool of a convolution to few channels, padded by `around`, and a kernel that reads it. Returns its result."""
        self.image(shape)
        first, y = self.conv("conv", kernel, stride, pad, channels)
        pool, _ = self.pool("conv", y.shape, pad=around)
        second, z = self.conv("next", 1, 1, 0, source="y", x=pool_of(y, around))
        self.network([first, pool, second], ["%next"], [tensor(z.shape, "i8")])
        return z

    def test_columns_of_windows_share_vectors(self):
        """Two and three pixels in a vector; rows of 20 and 22 sums, and of 19 and 21, which become 20 and 24."""
        for layer in [((1, 43, 39, 3), 8), ((2, 38, 38, 3), 8), ((1, 30, 41, 4), 4), ((1, 19, 22, 4), 8, 3, 1, 1),
                      ((1, 43, 44, 3), 8, 3, 2, 1, 1)]:
            expected = self.few_channels(*layer)
            packed = ["--hw", "gemmini_16x16_int8", "--schedule", self.asked("pixel_packing = true")]
            tiles, _ = self.tilewright("compile", "net.mlir", *packed, "--emit", "tiles")
            self.assertTrue(re.search(r"# conv: .*pixel packing of \d+ outputs", tiles), layer)
            for options in [packed, GEMMINI, [*GEMMINI, "--across", "none"], [*GEMMINI, "--across", "prefetch"]]:
                self.assertEqual(self.kernels(*options), {"conv", "pool", "next"}, (layer, options))
                np.testing.assert_array_equal(self.output(*options), expected, str((layer, options)))

    def test_schedules_without_pixels_side_by_side_have_no_columns(self):
        expected = self.few_channels((1, 43, 39, 3), 8)
        for schedule in ["serial", "double_buffer"]:
            options = ["--hw", "gemmini_16x16_int8", "--schedule", schedule]
            self.assertEqual(self.kernels(*options), {"conv", "next"}, schedule)
            np.testing.assert_array_equal(self.output(*options), expected, schedule)

    def test_columns_of_what_the_array_takes_longer_for(self):
        """A kernel of their own, which is done sooner than one for windows."""
        expected = self.few_channels((1, 40, 44, 3), 8, 7, 2, 3, 1)
        self.assertEqual(self.kernels(*GEMMINI), {"conv", "pool", "pool_1", "next"})
        np.testing.assert_array_equal(self.output(*GEMMINI), expected)

    def test_tiles_and_bands_of_columns(self):
        for around in [0, 1]:
            expected = self.few_channels((1, 43, 44, 3), 8, around=around) # 10 or 11 rows of 22 columns
            for kernels in [{"conv": "tile = [16, 4, 3, 1]"}, {"conv": "tile = [16, 22, 2, 1], pixel_packing = true"},
                            {"conv": "on_chip = true, row_tile = 1"}, {"conv": "on_chip = true, row_tile = 3"},
                            {"conv": "pixel_packing = false"}]:
                options = ["--hw", "gemmini_16x16_int8", "--schedule", self.plan_file(kernels)]
                np.testing.assert_array_equal(self.output(*options), expected, str((around, kernels)))

    def test_the_choice_of_columns_comes_back(self):
        self.few_channels((1, 43, 39, 3), 8)
        self.choice_comes_back("pixel_packing = true", "net.mlir", "--hw", "gemmini_16x16_int8")

    def test_columns_have_the_array_make_two_sums_at_once(self):
        """Fewer passes than one by one; sums under whole windows are always made one by one."""
        self.few_channels((1, 43, 39, 3), 8)
        busy = {}
        for packed in ["true", "false"]:
            path = self.plan_file({"conv": f"pixel_packing = {packed}"}, f"{packed}.mlir")
            busy[packed] = self.array_work("--hw", "gemmini_16x16_int8", "--schedule", path)
        self.assertLess(busy["true"], busy["false"])

    def test_sums_that_no_window_sees_have_their_time(self):
        """The kernel after the next has its sums where those in the padding were: not before the passes that made them have ended."""
        random = np.random.default_rng(1)
        shapes = [(3, 3, 3, 27), (27,), (3, 3, 1, 27), (27,), (1, 1, 27, 38), (38,), (38, 12)]
        constants = "\n".join(f"  %c{i} = graph.constant {hexed(random.normal(size=shape).astype(np.float32) / 4)} : {tensor(shape, 'f32')}"
                              for i, shape in enumerate(shapes))
        self.write("net.mlir", f"""func.func @main(%x: tensor<1x37x37x3xf32>) -> (tensor<1x12xf32>, tensor<1x10x10x38xf32>) {{
{constants}
  %0 = graph.conv %x, %c0, %c1 {{strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"}} : (tensor<1x37x37x3xf32>, tensor<3x3x3x27xf32>, tensor<27xf32>) -> tensor<1x37x37x27xf32>
  %1 = graph.relu %0 : tensor<1x37x37x27xf32>
  %2 = graph.max_pool %1 {{kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>,
    dilations = array<i64: 1, 1>, layout = "nhwc"}} : (tensor<1x37x37x27xf32>) -> tensor<1x19x19x27xf32>
  %3 = graph.conv %2, %c2, %c3 {{strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 27 : i64,
    layout = "nhwc"}} : (tensor<1x19x19x27xf32>, tensor<3x3x1x27xf32>, tensor<27xf32>) -> tensor<1x10x10x27xf32>
  %4 = graph.conv %3, %c4, %c5 {{strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"}} : (tensor<1x10x10x27xf32>, tensor<1x1x27x38xf32>, tensor<38xf32>) -> tensor<1x10x10x38xf32>
  %5 = graph.tanh %4 : tensor<1x10x10x38xf32>
  %6 = graph.average_pool %5 {{kernel = array<i64: 10, 10>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    count_include_pad = false, layout = "nhwc"}} : (tensor<1x10x10x38xf32>) -> tensor<1x1x1x38xf32>
  %7 = graph.reshape %6 : (tensor<1x1x1x38xf32>) -> tensor<1x38xf32>
  %8 = graph.matmul %7, %c6 : (tensor<1x38xf32>, tensor<38x12xf32>) -> tensor<1x12xf32>
  return %8, %4 : tensor<1x12xf32>, tensor<1x10x10x38xf32>
}}
""")
        schedule = self.plan_file({
            "conv": "tile = [32, 5, 2, 1], depth = 3, on_chip = true, row_tile = 1",
            "conv_1": "tile = [32, 10, 1, 1], depth = 2, on_chip = true",
            "conv_2": "tile = [48, 10, 2, 1], tile_k = 16, depth = 2, banks = [4, 6], serpentine = true, on_chip = true",
            "tanh": "tile = [16, 10, 10, 1], depth = 2, banks = [0, 4], on_chip = true",
            "average_pool": "tile = [16, 1, 1, 1], depth = 2, after_previous = true, on_chip = true",
            "matmul": "depth = 3, after_previous = true, serpentine = true",
        }, schedule="pipelined", priority="alap", bus="alternating", weight_loader="first", weight_prefetch="slots", result_places="own")
        np.save(self.path / "x.npy", random.normal(size=(1, 37, 37, 3)).astype(np.float32))
        values = {}
        for way in [schedule, "serial"]:
            self.tilewright("run", "net.mlir", "--hw", "gemmini_16x16_fp32", "--set", "scratchpads.unified.capacity_bytes=65536", "--set",
                            "accumulator.capacity_bytes=16384", "--math", "finite", "--input", "x.npy", "--schedule", way, "--check",
                            "--output-dir", "out")
            values[way] = [np.load(path) for path in sorted((self.path / "out").glob("*.npy"))]
        for found, expected in zip(values[schedule], values["serial"]):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)  # taps are added in another order

    def test_kernels_of_their_own(self):
        shape = (1, 19, 23, 16)
        self.one_conv(shape, 1, 1, 0)  # no room for a window of a block of channels, twice
        self.assertEqual(self.kernels(*GEMMINI, "--set", "accumulator.capacity_bytes=1024"), {"conv", "pool"})
        self.one_conv(shape, 3, 1, 1)  # the array takes longer than the vector engine
        self.assertEqual(self.kernels(*GEMMINI), {"conv", "pool"})
        self.image(shape)
        ops, y = self.conv("conv", 1, 1, 0)
        pool, of = self.pool("conv", y.shape)  # the convolution's result is one of the network's
        self.network([ops, pool], ["%y", "%conv"], [of, tensor(y.shape, "i8")])
        self.assertEqual(self.kernels(*GEMMINI), {"conv", "pool"})


if __name__ == "__main__":
    unittest.main()
