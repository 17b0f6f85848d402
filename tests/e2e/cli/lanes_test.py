#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Windows over few channels with several outputs in a vector: the same values as one by one, in fewer cycles."""

import json
import re
import unittest

import numpy as np

from cli_test import CliTest, hexed, layers_of

INT8, FP32 = "tiny_8x8", "gemmini_16x16_fp32"  # machines of 8 and 16 lanes


def taps(x, kernel, strides, dilations):
    """All windows over a padded image: [rows, columns, taps, taps, channels]."""
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    windows = np.lib.stride_tricks.sliding_window_view(x, span, (0, 1))[::strides[0], ::strides[1]]
    return windows[..., ::dilations[0], ::dilations[1]].transpose(0, 1, 3, 4, 2)


class LanesTest(CliTest):
    random = np.random.default_rng(1)

    def schedule(self, packed, keys="", more=()):
        return self.plan_file({"*": f"pixel_packing = {packed}{keys}", **dict(more)}, schedule="pipelined")

    def values(self, hw, *schedule):
        """Of net.mlir, and the cycles that the vector engine is busy."""
        self.tilewright("run", "net.mlir", "--hw", hw, "--schedule", self.schedule(*schedule), "--input", "x.npy", "--check",
                        "--output-dir", "out", "--json", "report.json")
        self.report = json.loads((self.path / "report.json").read_text())
        busy = {engine["name"]: engine["busy_cycles"] for engine in self.report["engines"]}
        return np.load(self.path / "out/output0.npy")[0], busy["vector"]

    def image(self, shape, element):
        """Whole numbers, so that sums of floats are exact."""
        x = self.random.integers(-128, 128, shape).astype(element)
        np.save(self.path / "x.npy", x[None])
        return x

    def window(self, shape, kernel, pads, strides=(1, 1), dilations=(1, 1), element=np.int8, pool=False):
        """Writes net.mlir, a depthwise convolution or a pool; its input and its values."""
        x = self.image(shape, element)
        is_int, channels, kind = element == np.int8, shape[-1], "i8" if element == np.int8 else "f32"
        zero, weight_zero = (3, 1) if is_int else (0, 0)
        padding = (-128 if is_int else -np.inf) if pool else zero
        (top, left), (bottom, right) = pads
        padded = np.pad(x, ((top, bottom), (left, right), (0, 0)), constant_values=padding)
        windows = taps(padded, kernel, strides, dilations)
        attributes = f"strides = array<i64: {strides[0]}, {strides[1]}>, pads = array<i64: {top}, {left}, {bottom}, {right}>, " \
                     f'dilations = array<i64: {dilations[0]}, {dilations[1]}>, layout = "nhwc"'
        source = f"tensor<1x{shape[0]}x{shape[1]}x{channels}x{kind}>"
        target = f"tensor<1x{windows.shape[0]}x{windows.shape[1]}x{channels}x{'i32' if is_int and not pool else kind}>"
        if pool:
            body = f"%0 = graph.max_pool %x {{kernel = array<i64: {kernel[0]}, {kernel[1]}>, {attributes}}} : ({source}) -> {target}"
            expected = windows.max((2, 3))
        else:
            w = self.random.integers(-128, 128, (*kernel, 1, channels)).astype(element)
            weights = f"tensor<{kernel[0]}x{kernel[1]}x1x{channels}x{kind}>"
            name = "conv_integer" if is_int else "conv"
            zeros = f"x_zero_point = {zero} : i32, w_zero_points = array<i32: {weight_zero}>, " if is_int else ""
            body = f"%w = graph.constant {hexed(w)} : {weights}\n" \
                   f"  %0 = graph.{name} %x, %w {{{zeros}group = {channels} : i64, {attributes}}} : ({source}, {weights}) -> {target}"
            expected = np.einsum("hwyxc,yxc->hwc", windows.astype(np.float64) - zero, w[:, :, 0].astype(np.float64) - weight_zero)
        self.write("net.mlir", f"""func.func @main(%x: {source}) -> {target} {{
  {body} loc("window")
  return %0 : {target}
}}
""")
        return x, expected

    def test_windows_of_one_column_go_down_the_rows(self):
        """Neighbours share taps there, as those of one row do along the row: a cycle for each row that the window moves by."""
        for kernel, strides in [((3, 1), (1, 1)), ((3, 1), (2, 1)), ((1, 3), (1, 1)), ((1, 3), (1, 2))]:
            for pool in [False, True]:
                with self.subTest(kernel=kernel, strides=strides, pool=pool):
                    _, expected = self.window((33, 33, 16), kernel, ((0, 0), (0, 0)), strides, pool=pool)
                    rows, columns, _ = expected.shape
                    values, busy = self.values("gemmini_16x16_int8", "false", f", tile = [16, {columns}, {rows}, 1]")
                    np.testing.assert_array_equal(values, expected)
                    self.assertLess(busy, 1.25 * max(strides) * rows * columns)  # the first window of a row or a column has all its taps
                    self.assertLessEqual(self.report["lower_bound_cycles"], self.report["total_cycles"])

    def same_in_less(self, hw, expected, **schedule):
        apart, alone = self.values(hw, "false", *schedule.values())
        together, shared = self.values(hw, "true", *schedule.values())
        np.testing.assert_array_equal(apart, expected)
        np.testing.assert_array_equal(together, expected)
        self.assertLess(shared, alone)

    def test_depthwise(self):
        """Vectors of whole pixels, and of parts of them: each block of lanes has its own weights."""
        for channels, width in [(4, 8), (2, 8), (6, 8), (5, 8), (12, 6)]:
            with self.subTest(channels=channels):
                self.same_in_less(INT8, self.window((30, width, channels), (3, 3), ((1, 1), (1, 1)))[1])

    def test_kernels_strides_and_dilations(self):
        for kernel, pads, strides, dilations in [((5, 4), ((2, 0), (2, 3)), (1, 1), (1, 1)), ((3, 1), ((1, 0), (1, 0)), (1, 1), (1, 1)),
                                                 ((2, 3), ((0, 2), (1, 0)), (1, 1), (1, 1)), ((3, 3), ((0, 1), (1, 1)), (2, 1), (1, 1)),
                                                 ((3, 3), ((2, 1), (2, 1)), (1, 1), (2, 1)), ((3, 3), ((1, 3), (0, 1)), (1, 1), (1, 2))]:
            with self.subTest(kernel=kernel, strides=strides, dilations=dilations):
                self.same_in_less(INT8, self.window((12, 8, 2), kernel, pads, strides, dilations)[1])

    def test_pools(self):
        for element, hw in [(np.int8, INT8), (np.float32, FP32)]:
            self.same_in_less(hw, self.window((9, 8, 4), (3, 3), ((1, 1), (1, 1)), element=element, pool=True)[1])

    def test_one_channel(self):
        """Rows of it are runs of elements, as those of any other number of channels are."""
        for element, hw in [(np.int8, INT8), (np.float32, FP32)]:
            self.same_in_less(hw, self.window((9, 32, 1), (1, 5), ((0, 2), (0, 2)), element=element, pool=True)[1])

    def test_rows_that_whole_vectors_do_not_divide(self):
        """Vectors with a few lanes empty, which read what lies behind their row."""
        for channels, width in [(1, 12), (1, 4), (2, 6), (3, 12)]:
            with self.subTest(channels=channels, width=width):
                self.same_in_less(INT8, self.window((10, width, channels), (3, 3), ((1, 1), (1, 1)), pool=channels == 1)[1])
                self.same_in_less(FP32, self.window((10, width, channels), (3, 3), ((1, 1), (1, 1)), element=np.float32, pool=True)[1])

    def test_large_windows_are_done_in_parts(self):
        """Each of at most three rows and columns, in which neighbours share taps; what they give is put together."""
        for kernel, parts, cycles in [((5, 5), 4, 10), ((7, 7), 9, 21), ((4, 6), 4, 8), ((9, 1), 3, 3), ((3, 5), 2, 6)]:
            for element, hw in [(np.int8, "gemmini_16x16_int8"), (np.float32, FP32)]:
                for pool in [False, True]:
                    with self.subTest(kernel=kernel, hw=hw, pool=pool):
                        pads = tuple((k - 1) // 2 for k in kernel), tuple(k // 2 for k in kernel)
                        _, expected = self.window((24, 24, 16), kernel, pads, element=element, pool=pool)
                        values, busy = self.values(hw, "false")
                        np.testing.assert_array_equal(values, expected)
                        self.assertLess(busy, 1.25 * 24 * 24 * (cycles + parts)) # the first window of a row has all its taps
                        self.assertLessEqual(self.report["lower_bound_cycles"], self.report["total_cycles"])

    def test_a_window_without_neighbours_is_done_as_a_whole(self):
        _, expected = self.window((7, 7, 16), (7, 7), ((0, 0), (0, 0)), pool=True)
        values, busy = self.values("gemmini_16x16_int8", "false")
        np.testing.assert_array_equal(values, expected)
        self.assertLess(busy, 7 * 7 + 7) # nine parts would take nine cycles more

    def test_a_large_window_is_done_as_a_whole_where_nothing_else_fits(self):
        _, expected = self.window((9, 9, 8), (7, 7), ((3, 3), (3, 3)), pool=True)
        small = ["--set", "scratchpads.activation.capacity_bytes=512", "--set", "scratchpads.activation.banks=1"]
        self.tilewright("run", "net.mlir", "--hw", INT8, *small, "--input", "x.npy", "--check", "--output-dir", "out")
        np.testing.assert_array_equal(np.load(self.path / "out/output0.npy")[0], expected)

    def test_large_windows_whose_neighbours_share_little(self):
        for strides, dilations in [((1, 3), (1, 1)), ((2, 2), (1, 1)), ((1, 1), (1, 2)), ((1, 1), (2, 1)), ((3, 1), (1, 1))]:
            for pool in [False, True]:
                with self.subTest(strides=strides, dilations=dilations, pool=pool):
                    _, expected = self.window((19, 17, 16), (5, 4), ((2, 1), (2, 2)), strides, dilations, pool=pool)
                    np.testing.assert_array_equal(self.values("gemmini_16x16_int8", "false")[0], expected)

    def test_tiles(self):
        """Parts of rows, and tiles that share rows of the input."""
        expected = self.window((17, 8, 4), (3, 3), ((1, 1), (1, 1)))[1]
        self.same_in_less(INT8, expected, keys=", tile = [0, 4, 3, 1]")
        self.same_in_less(INT8, expected, keys=", tile = [0, 8, 4, 1]", more={"window": "depth = 2, line_buffer = 3"})

    def test_infinity_stays_in_its_channel(self):
        x, _ = self.window((9, 8, 4), (3, 3), ((1, 1), (1, 1)), element=np.float32)
        x[4, 3, 2] = np.inf
        np.save(self.path / "x.npy", x[None])
        together, _ = self.values(FP32, "true")
        self.assertTrue((~np.isfinite(together)).any())
        outside = np.ones(together.shape, bool)
        outside[3:6, 2:5, 2] = False
        self.assertTrue(np.isfinite(together[outside]).all())

    def test_on_chip_between_kernels(self):
        """Pixels without gaps: from a convolution with outputs side by side, and on to a pool."""
        image = "tensor<1x9x8x4xi8>"
        self.image((9, 8, 4), np.int8)
        full, deep = (self.random.integers(-9, 9, shape).astype(np.int8) for shape in [(3, 3, 4, 4), (3, 3, 1, 4)])
        conv = 'strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "nhwc"'
        sums = image.replace("i8", "i32")
        self.write("net.mlir", f"""func.func @main(%x: {image}) -> {image} {{
  %f = graph.constant {hexed(full)} : tensor<3x3x4x4xi8>
  %d = graph.constant {hexed(deep)} : tensor<3x3x1x4xi8>
  %0 = graph.conv_integer %x, %f {{x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, group = 1 : i64, {conv}}}
    : ({image}, tensor<3x3x4x4xi8>) -> {sums} loc("first")
  %1 = graph.requantize %0 {{multipliers = array<f32: 0.02, 0.01, 0.03, 0.04>, axis = 3 : i64, zero_point = 3 : i32}}
    : ({sums}) -> {image} loc("first")
  %2 = graph.conv_integer %1, %d {{x_zero_point = 3 : i32, w_zero_points = array<i32: 0>, group = 4 : i64, {conv}}}
    : ({image}, tensor<3x3x1x4xi8>) -> {sums} loc("second")
  %3 = graph.requantize %2 {{multipliers = array<f32: 0.04, 0.03, 0.01, 0.02>, axis = 3 : i64, zero_point = -2 : i32}}
    : ({sums}) -> {image} loc("second")
  %4 = graph.max_pool %3 {{kernel = array<i64: 3, 3>, {conv}}} : ({image}) -> {image} loc("third")
  return %4 : {image}
}}
""")
        def keep(on_chip):
            return {name: f"on_chip = {on_chip}" for name in ["first", "second"]}
        expected, _ = self.values(INT8, "false", "", keep("false"))
        self.assertGreater(len(np.unique(expected)), 20)
        together, _ = self.values(INT8, "true", "", keep("true"))
        np.testing.assert_array_equal(together, expected)
        self.assertEqual(layers_of(self.report)[2]["dram_read_bytes"], 0)

    def test_the_choice_comes_back(self):
        self.window((9, 8, 4), (3, 3), ((1, 1), (1, 1)))
        self.choice_comes_back("pixel_packing = true", "net.mlir", "--hw", INT8)

    def test_what_is_refused(self):
        place = re.escape("plan.mlir:2:3: ")
        for shape, keys, why in [((9, 8, 16), "", "would take no fewer cycles so"),   # no lane is empty
                                 ((9, 7, 4), "", "would take no fewer cycles so"),    # an output is left over
                                 ((9, 8, 4), ", tile = [0, 3, 0, 0]", "2 outputs along x at once"),
                                 ((40, 8, 12), ", tile = [8, 0, 0, 0]", "side by side with all of them and needs 24")]:
            self.window(shape, (3, 3), ((1, 1), (1, 1)))
            error = self.fails("compile", "net.mlir", "--hw", INT8, "--schedule", self.schedule("true", keys), message="")
            self.assertRegex(error, place + ".*" + why)


if __name__ == "__main__":
    unittest.main()
