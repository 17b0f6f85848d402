#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pixels side by side in the array: the same values as one by one, in fewer passes."""

import json
import re
import unittest

import numpy as np

from cli_test import DIGITS, NETWORK, CliTest


class PixelsTest(CliTest):
    def packed(self, value, keys=""):
        return self.plan_file({"*": f"pixel_packing = {value}{keys}"}, f"packed-{value}.mlir")

    def result(self, model, hw, *options):
        """The values, and the cycles that the tensor engine is busy."""
        self.tilewright("run", model, "--hw", hw, "--check", *options, "--output-dir", "out", "--json", "report.json")
        values, = [np.load(path) for path in (self.path / "out").glob("*.npy")]
        report = json.loads((self.path / "report.json").read_text())
        return values, sum(engine["busy_cycles"] for engine in report["engines"] if engine["name"] == "tensor")

    def same_values_in_less(self, hw, *models):
        for model in models:
            expected, alone = self.result(model, hw, "--schedule", self.packed("false"))
            values, together = self.result(model, hw, "--schedule", self.packed("true"))
            np.testing.assert_array_equal(values, expected, model)
            self.assertLess(together, alone, model)

    def test_outputs_and_taps_in_pairs(self):
        """Outputs in the columns, pixels in the rows, and both."""
        self.same_values_in_less("tiny_8x8", "conv:1x8x8x8:3x3x4:s1:p1:int8", "conv:1x8x8x4:3x3x8:s1:p1:int8",
                                 "conv:1x8x8x4:3x3x4:s1:p1:int8", "conv:1x8x8x4:3x3x12:s1:p1:int8")

    def test_strides_odd_widths_and_large_kernels(self):
        self.same_values_in_less("tiny_8x8", "conv:2x7x9x4:3x3x8:s2:p1:int8", "conv:1x9x12x3:5x5x2:s1:p2:int8",
                                 "conv:1x6x7x4:3x3x4:s1:p1:int8", "conv:1x20x20x3:5x5x4:s2:p2:int8")

    def test_single_taps(self):
        self.same_values_in_less("tiny_8x8", "conv:1x8x16x4:1x1x2:s1:p0:int8", "conv:1x8x16x4:1x1x2:s2:p0:int8",
                                 "gemm:64x4x4:int8")

    def test_rows_that_stay_partly_empty(self):
        self.same_values_in_less("edge_32x32_int8", "conv:1x12x12x5:3x3x5:s1:p0:int8", "conv:1x15x16x8:7x7x8:s1:p3:int8",
                                 "conv:1x6x8x5:3x3x5:s1:p4:int8", "conv:1x3x4x16:1x3x16:s1:p300:int8")

    def test_floats_leave_out_what_a_window_does_not_reach(self):
        """Two pixels for three taps and for five, with and without stride."""
        for model in ["conv:2x7x9x8:3x3x20:s1:p1:fp32", "conv:1x9x12x8:5x5x8:s1:p2:fp32", "conv:1x13x11x8:5x5x16:s2:p1:fp32",
                      "conv:1x13x11x8:3x3x16:s3:p0:fp32", "conv:1x5x6x8:3x3x16:s1:p4:fp32"]:
            expected, alone = self.result(model, "gemmini_16x16_fp32", "--schedule", self.packed("false"))
            values, together = self.result(model, "gemmini_16x16_fp32", "--schedule", self.packed("true"))
            np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max(), err_msg=model)
            self.assertLess(together, alone, model)

    def test_infinity_reaches_its_windows_alone(self):
        """In the rows of the array, and with two outputs in its columns."""
        image = np.ones((1, 9, 12, 8), np.float32)
        image[0, 4, 6, 3] = np.inf
        np.save(self.path / "image.npy", image)
        for channels in [16, 8]:
            reads = np.zeros((1, 9, 12, channels), bool)
            reads[0, 3:6, 5:8] = True
            values, _ = self.result(f"conv:1x9x12x8:3x3x{channels}:s1:p1:fp32", "gemmini_16x16_fp32", "--schedule",
                                    self.packed("true"), "--input", self.path / "image.npy")
            np.testing.assert_array_equal(~np.isfinite(values), reads)

    def test_finite_floats_share_columns_as_integers_do(self):
        """Outputs in the columns, with pixels in the rows and without, of an odd number of taps and with a stride."""
        for model in ["conv:1x8x8x16:3x3x8:s1:p1:fp32", "conv:1x8x8x8:3x3x4:s1:p1:fp32", "conv:2x7x16x8:5x5x8:s2:p2:fp32",
                      "conv:1x9x12x3:5x5x4:s1:p2:fp32", "conv:1x8x16x16:1x1x4:s1:p0:fp32"]:
            options = ["--math", "finite", "--schedule"]
            tiles, _ = self.tilewright("compile", model, "--hw", "gemmini_16x16_fp32", *options, self.packed("true"), "--emit", "tiles")
            self.assertRegex(tiles, r"pixel packing of \d+ outputs", model)
            expected, alone = self.result(model, "gemmini_16x16_fp32", *options, self.packed("false"))
            values, together = self.result(model, "gemmini_16x16_fp32", *options, self.packed("true"))
            # fp32 sums of at most 200 products, added in another order.
            np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max(), err_msg=model)
            self.assertLessEqual(together, alone, model)

    def test_the_bound_knows_that_floats_are_finite(self):
        """Outputs of a 1x1 convolution share no input: those of 16 channels leave 112 of 128 columns empty, if they stay apart."""
        bounds = []
        for options, schedule in [([], "pipelined"), (["--math", "finite"], "pipelined (finite math)")]:
            self.tilewright("run", "conv:1x56x56x64:1x1x16:s1:p0:bf16", "--hw", "cloud_128x128", "--schedule", "pipelined", *options,
                            "--json", "report.json")
            report = json.loads((self.path / "report.json").read_text())
            self.assertEqual(report["schedule"], schedule)
            bounds.append(report["lower_bound_cycles"])
        self.assertLess(bounds[1], bounds[0])

    def test_outputs_of_two_rows_share_what_both_read(self):
        """An odd number of rows, an odd number in a tile, two images, strides, few channels, and whole vectors of one pixel."""
        for model, keys in [("conv:2x7x9x8:3x3x8:s1:p1:fp32", ""), ("conv:1x12x9x8:3x3x8:s1:p1:fp32", ", tile = [0, 0, 3, 0]"),
                            ("conv:1x21x32x8:5x5x6:s2:p2:fp32", ""), ("conv:1x9x12x16:3x3x8:s1:p0:fp32", ""),
                            ("conv:1x9x20x20:3x3x5:s1:p1:fp32", "")]:
            path = self.packed("true", keys)
            tiles, _ = self.tilewright("compile", model, "--hw", "gemmini_16x16_fp32", "--schedule", path, "--emit", "tiles")
            self.assertIn("pairs of rows", tiles, model)
            expected, alone = self.result(model, "gemmini_16x16_fp32", "--schedule", self.packed("false", keys))
            values, together = self.result(model, "gemmini_16x16_fp32", "--schedule", path)
            # fp32 sums of at most 200 products, added in another order.
            np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max(), err_msg=model)
            self.assertLess(together, alone, model)

    def test_what_is_added_to_pairs(self):
        """A bias for each channel, and a tensor, which lie in DRAM or stay on chip as the input does."""
        def conv(x, weights, bias, channels):
            return f"""graph.conv %{x}, %{weights}, %{bias} {{strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"}} : (tensor<1x15x20x16xf32>, tensor<3x3x16x{channels}xf32>,
    tensor<{channels}xf32>) -> tensor<1x15x20x{channels}xf32>"""
        few = "tensor<1x15x20x8xf32>"
        model = self.write("residual.mlir", f"""func.func @main(%x: tensor<1x15x20x16xf32>) -> {few} {{
  %w = graph.constant dense<{self.random(3, 3, 16, 16)}> : tensor<3x3x16x16xf32>
  %b = graph.constant dense<{self.random(16)}> : tensor<16xf32>
  %v = graph.constant dense<{self.random(3, 3, 16, 8)}> : tensor<3x3x16x8xf32>
  %c = graph.constant dense<{self.random(8)}> : tensor<8xf32>
  %d = graph.constant dense<1.0> : tensor<8xf32>
  %0 = {conv("x", "w", "b", 16)} loc("wide")
  %1 = {conv("0", "v", "c", 8)} loc("first")
  %2 = {conv("x", "v", "d", 8)} loc("second")
  %3 = graph.relu %2 : {few} loc("second")
  %4 = graph.add %1, %3 : ({few}, {few}) -> {few} loc("first")
  return %4 : {few}
}}
""")
        def schedule(packed, on_chip):
            kept, packs = f"on_chip = {on_chip}", f"pixel_packing = {packed}"
            return self.plan_file({"wide": kept, "first": packs, "second": f"{kept}, {packs}"}, f"{packed}-{on_chip}.mlir")

        for on_chip in ["true", "false"]:
            path = schedule("true", on_chip)
            tiles, _ = self.tilewright("compile", model, "--hw", "gemmini_16x16_fp32", "--schedule", path, "--emit", "tiles")
            for name in ["first", "second"]:
                self.assertRegex(tiles, f"# {name}: .*pairs of rows")
            expected, alone = self.result(model, "gemmini_16x16_fp32", "--schedule", schedule("false", on_chip))
            values, together = self.result(model, "gemmini_16x16_fp32", "--schedule", path)
            # fp32 sums of 144 products of such sums, added in another order.
            np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
            self.assertLess(together, alone)

    def test_what_two_operations_read_of_pairs(self):
        """relu(y) + tanh(y) takes two instructions, which may both begin with the sums where these lie in one place."""
        model = self.write("twice.mlir", f"""func.func @main(%x: tensor<1x13x20x8xf32>) -> tensor<1x13x20x8xf32> {{
  %w = graph.constant dense<{self.random(3, 3, 8, 8)}> : tensor<3x3x8x8xf32>
  %b = graph.constant dense<{self.random(8)}> : tensor<8xf32>
  %0 = graph.conv %x, %w, %b {{strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"}}
    : (tensor<1x13x20x8xf32>, tensor<3x3x8x8xf32>, tensor<8xf32>) -> tensor<1x13x20x8xf32>
  %1 = graph.relu %0 : tensor<1x13x20x8xf32>
  %2 = graph.tanh %0 : tensor<1x13x20x8xf32>
  %3 = graph.add %1, %2 : (tensor<1x13x20x8xf32>, tensor<1x13x20x8xf32>) -> tensor<1x13x20x8xf32>
  return %3 : tensor<1x13x20x8xf32>
}}
""")
        tiles, _ = self.tilewright("compile", model, "--hw", "gemmini_16x16_fp32", "--schedule", self.packed("true"), "--emit", "tiles")
        self.assertIn("pairs of rows", tiles)
        expected, _ = self.result(model, "gemmini_16x16_fp32", "--schedule", "serial")
        values, _ = self.result(model, "gemmini_16x16_fp32", "--schedule", self.packed("true"))
        # fp32 sums of 72 products, added in another order.
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())

    def random(self, *shape):
        return np.random.default_rng(1).standard_normal(shape).astype(np.float32).tolist()

    def test_a_network(self):
        """Tensors between kernels, on chip and in DRAM."""
        for options in [[], ["--across", "prefetch"]]:
            tiles, _ = self.tilewright("compile", NETWORK, "--hw", "edge_32x32_int8", "--schedule", "pipelined", *options,
                                       "--emit", "tiles")
            self.assertRegex(tiles, r"pixel packing of \d+ outputs")
            out, _ = self.tilewright("run", NETWORK, "--hw", "edge_32x32_int8", "--schedule", "pipelined", *options, "--check",
                                     "--input", DIGITS / "images.npy", "--batch", "--expect", DIGITS / "logits_int8_qdq.npy")
            self.assertIn("360 of 360", out)

    def test_the_choice_comes_back(self):
        self.choice_comes_back("pixel_packing = true", NETWORK, "--hw", "edge_32x32_int8")

    def test_tiles_count_outputs(self):
        path = self.packed("true", ", tile = [0, 4, 1, 1]")
        tiles, _ = self.tilewright("compile", "conv:1x8x8x4:3x3x4:s1:p1:int8", "--hw", "tiny_8x8", "--schedule", path,
                                   "--emit", "tiles")
        self.assertIn("tile 1 x 1 x 2 positions", tiles)
        self.assertIn("pixel packing of 2 outputs", tiles)

    def test_what_cannot_be_packed(self):
        place = re.escape("packed-true.mlir:2:3: ")
        for model, keys, why in [("conv:1x8x8x8:3x3x8:s1:p1:int8", "", "would take no fewer cycles so"),
                                 ("conv:1x8x8x16:3x3x12:s1:p1:fp32", "", "would take no fewer cycles so"),
                                 ("conv:1x8x8x4:3x3x4:s1:p1:int8", ", tile = [0, 3, 0, 0]", "2 outputs along x at once"),
                                 ("conv:1x8x8x4:3x3x4:s1:p1:int8", ", tile = [0, 10, 0, 0]", "size along x is 10 .* has 8 there")]:
            hw = "gemmini_16x16_fp32" if model.endswith("fp32") else "tiny_8x8"
            error = self.fails("compile", model, "--hw", hw, "--schedule", self.packed("true", keys), message="")
            self.assertRegex(error, place + ".*" + why)


if __name__ == "__main__":
    unittest.main()
