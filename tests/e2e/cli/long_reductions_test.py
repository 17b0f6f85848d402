#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions and windows that no scratchpad holds: in parts on the accelerator, or else on the CPU, with the reason."""

import unittest

import numpy as np
from onnx import helper, numpy_helper

from check_test import USER, CommandTest, value

MACHINE = ["--hw", "gemmini_16x16_fp32"]


class LongReductionsTest(CommandTest):
    def check(self, nodes, shape, reference, initializers=(), opset=13, target="accelerator", machine=MACHINE, tolerance=1e-4):
        """Runs a network of one input on random numbers; `tolerance`: of the largest expected number, for the order of sums."""
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        expected = reference(x.astype(np.float64))
        np.save(self.folder / "x.npy", x)
        self.save(nodes, [value("x", shape)], [value("y", expected.shape)], initializers, opset)
        text = self.tilewright("run", "m.onnx", *machine, "--input", "x.npy", "--output-dir", "out")
        self.assertIn(f" on {target}", text)
        self.assertNotIn(f" on {'cpu' if target == 'accelerator' else 'accelerator'}", text)
        y = np.load(self.folder / "out/y.npy")
        np.testing.assert_allclose(y, expected, rtol=0, atol=tolerance * np.abs(expected).max())
        return text

    def test_pools_of_a_large_image(self):
        for machine in ["gemmini_16x16_fp32", "cloud_128x128"]:
            tolerance = 1e-4 if machine == "gemmini_16x16_fp32" else 3e-2  # bfloat16 between the parts
            for size in [64, 200]:
                options = dict(shape=[2, 5, size, size], machine=["--hw", machine], tolerance=tolerance)
                self.check([helper.make_node("GlobalMaxPool", ["x"], ["y"])], reference=lambda x: x.max((2, 3), keepdims=True), **options)
                self.check([helper.make_node("Abs", ["x"], ["a"]), helper.make_node("GlobalAveragePool", ["a"], ["y"])],
                           reference=lambda x: np.abs(x).mean((2, 3), keepdims=True), **options)

    def test_a_pool_of_an_image_as_it_lies_is_a_row(self):
        # No window of 16 channels has room, and the image has no equal parts.
        self.check([helper.make_node("GlobalAveragePool", ["x"], ["y"])], [1, 8, 16001], lambda x: x.mean(2, keepdims=True))

    def test_instance_normalisation_of_a_large_image(self):
        scale, bias = np.linspace(0.5, 1.5, 4).astype(np.float32), np.linspace(-1, 1, 4).astype(np.float32)

        def reference(x):
            mean, variance = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
            return (x - mean) / np.sqrt(variance + 1e-5) * scale.reshape(-1, 1, 1) + bias.reshape(-1, 1, 1)

        self.check([helper.make_node("InstanceNormalization", ["x", "s", "b"], ["y"])], [1, 4, 96, 96], reference,
                   [numpy_helper.from_array(scale, "s"), numpy_helper.from_array(bias, "b")])

    def test_long_rows(self):
        for kind, axes, shape, reference in [("Sum", None, [3, 160, 200], np.sum), ("Max", None, [3, 160, 200], np.max),
                                             ("Mean", [0], [6000, 33], np.mean), ("Max", [1], [2, 90000], np.max)]:
            attributes = {"axes": axes} if axes else {}
            self.check([helper.make_node("Reduce" + kind, ["x"], ["y"], keepdims=1, **attributes)], shape,
                       lambda x, axes=axes, reference=reference: reference(x, axis=tuple(axes) if axes else None, keepdims=True), opset=11)

    def test_what_has_no_equal_parts_runs_on_the_cpu(self):
        text = self.check([helper.make_node("GlobalAveragePool", ["x"], ["y"], name="pool")], [1, 4, 70001],
                          lambda x: x.mean(2, keepdims=True), target="cpu")
        self.assertRegex(text, r"pool.*cpu.*no tile fits machine 'gemmini_16x16_fp32'; the smallest one needs \d+ bytes of unified")
        refusal = self.tilewright("run", "m.onnx", *MACHINE, "--input", "x.npy", "--fallback", "none", status=USER)
        self.assertIn("no tile fits machine 'gemmini_16x16_fp32'", refusal)
        self.assertIn("no tile fits machine 'gemmini_16x16_fp32'", self.tilewright("check", "m.onnx", *MACHINE))

    def test_windows_and_rows_without_a_tile_run_on_the_cpu(self):
        def softmax(x):
            powers = np.exp(x - x.max(1, keepdims=True))
            return powers / powers.sum(1, keepdims=True)

        self.check([helper.make_node("Softmax", ["x"], ["y"], axis=1)], [1, 70001], softmax, target="cpu")
        weights = np.random.default_rng(2).standard_normal((4, 1, 31, 31)).astype(np.float32)

        def depthwise(x):
            taps = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (15, 15), (15, 15))), (31, 31), (2, 3))
            return np.einsum("nchwyx,cyx->nchw", taps, weights[:, 0])

        self.check([helper.make_node("Conv", ["x", "w"], ["y"], group=4, pads=[15] * 4)], [1, 4, 24, 24], depthwise,
                   [numpy_helper.from_array(weights, "w")], target="cpu")

    def test_the_rest_of_a_network_stays_on_the_accelerator(self):
        text = self.tilewright("check", self.save(
            [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("GlobalMaxPool", ["c"], ["y"], name="pool")],
            [value("x", [1, 4, 10007])], [value("y", [1, 4, 1])],
            [numpy_helper.from_array(np.ones((4, 4, 1), np.float32), "w")]), *MACHINE)
        self.assertRegex(text, r"accelerator\s+1 ")
        self.assertRegex(text, r"pool.*cpu")


if __name__ == "__main__":
    unittest.main()
