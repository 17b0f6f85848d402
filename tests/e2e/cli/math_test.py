#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`--math`: what may become of a network's numbers, and docs/targets.md."""

import json
import os
import pathlib
import unittest

import numpy as np

from cli_test import CliTest

SOURCE = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])
HW = ["--hw", "gemmini_16x16_fp32"]


def affine(factor, offset):
    """A convolution with a bias, whose result is multiplied and shifted channel by channel."""
    return f"""func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {{
  %w = graph.constant dense<[[[[0.3]], [[0.7]]], [[[1.1]], [[0.9]]]]> : tensor<2x2x1x1xf32>
  %b = graph.constant dense<[0.5, -0.25]> : tensor<2xf32>
  %factor = graph.constant dense<[[[{factor[0]}]], [[{factor[1]}]]]> : tensor<2x1x1xf32>
  %offset = graph.constant dense<[[[{offset[0]}]], [[{offset[1]}]]]> : tensor<2x1x1xf32>
  %y = graph.conv %x, %w, %b {{strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
                          layout = "nchw"}} : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32> loc("conv")
  %scaled = graph.mul %y, %factor : (tensor<1x2x4x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4x4xf32> loc("scale")
  %shifted = graph.add %scaled, %offset : (tensor<1x2x4x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4x4xf32> loc("shift")
  return %shifted : tensor<1x2x4x4xf32>
}}
"""


class MathTest(CliTest):
    def setUp(self):
        super().setUp()
        self.factor, self.offset = [1.3, -0.7], [0.1, 0.2]
        self.write("net.mlir", affine(self.factor, self.offset))

    def test_reassociate_leaves_the_convolution_alone(self):
        for target in [HW, ["--target", "cpu"]]:
            for math in ["exact", "finite"]:
                graph, _ = self.tilewright("compile", "net.mlir", *target, "--math", math, "--emit", "graph", "-o", "-")
                self.assertEqual((graph.count("graph.mul"), graph.count("graph.add")), (1, 2))
            for math in ["reassociate", "fast"]:
                graph, _ = self.tilewright("compile", "net.mlir", *target, "--math", math, "--emit", "graph", "-o", "-")
                self.assertEqual((graph.count("graph.mul"), graph.count("graph.add")), (0, 1)) # the bias

    def test_what_is_reassociated_is_equal_in_real_arithmetic(self):
        x = np.random.default_rng(1).normal(size=(1, 2, 4, 4)).astype(np.float32)
        np.save(self.path / "x.npy", x)
        w = np.array([[0.3, 0.7], [1.1, 0.9]])
        expected = (np.einsum("oc,nchw->nohw", w, x.astype(np.float64)) + np.reshape([0.5, -0.25], (2, 1, 1))) * np.reshape(self.factor, (2, 1, 1)) + np.reshape(self.offset, (2, 1, 1))
        for math in ["exact", "reassociate"]:
            # Six roundings of numbers below 8.
            np.testing.assert_allclose(self.output(*HW, "--math", math), expected, rtol=0, atol=6 * 8 * 2.0 ** -24)

    def test_reports_say_what_was_allowed(self):
        for options, schedule in [([], "pipelined"), (["--math", "strict"], "pipelined (strict math)"), (["--math", "fast"], "pipelined (fast math)")]:
            self.tilewright("run", "net.mlir", *HW, *options, "--json", "report.json")
            self.assertEqual(json.loads((self.path / "report.json").read_text())["schedule"], schedule)

    def test_another_value_is_refused(self):
        self.fails("run", "net.mlir", *HW, "--math", "sloppy", message=["--math", "sloppy", "strict,exact,finite,reassociate,fast"])
        self.fails("run", "net.mlir", *HW, "--finite-math", message="--finite-math")

    def test_the_commands_of_the_page_run(self):
        (self.path / "net.mlir").rename(self.path / "model.mlir")
        commands = [line for line in (SOURCE / "docs/targets.md").read_text().splitlines() if line.startswith("tilewright ")]
        self.assertEqual(len(commands), 2)
        for command in commands:
            self.tilewright(*command.replace("model.onnx", "model.mlir").split()[1:])
        report = json.loads((self.path / "report.json").read_text())
        self.assertEqual(report["targets"], ["accelerator", "cpu"])


if __name__ == "__main__":
    unittest.main()
