#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights that are needed until earlier layers are done: the lower bound adds their loads to the products of those layers."""

import json
import unittest

from cli_test import CliTest

# The first of four layers keeps the array busy, the last two DRAM.
CONV = """  %w_{name} = graph.constant dense<0.01> : tensor<{weights}xf32>
  {result} = graph.conv {x}, %w_{name} {{dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw",
    pads = array<i64: {pad}, {pad}, {pad}, {pad}>, strides = array<i64: {stride}, {stride}>}}
    : (tensor<{input}xf32>, tensor<{weights}xf32>) -> tensor<{output}xf32> loc("{name}")
"""
POOL = """  {result} = graph.average_pool {x} {{kernel = array<i64: 8, 8>, layout = "nchw", pads = array<i64: 0, 0, 0, 0>,
    strides = array<i64: 8, 8>, count_include_pad = false}} : (tensor<{input}xf32>) -> tensor<{output}xf32> loc("{name}")
"""


class LateWeightsTest(CliTest):
    def report(self, mixes):
        """Of four layers, of which the second mixes channels or does not."""
        large, small, wide = "1x64x32x32", "1x64x4x4", "1x4096x4x4"
        mixing = CONV.format(name="b", result="%2", x="%1", weights="64x64x8x8", pad=0, stride=8, input=large, output=small)
        self.write("net.mlir", f"""func.func @main(%x: tensor<{large}xf32>) -> tensor<{small}xf32> {{
{CONV.format(name="a", result="%1", x="%x", weights="64x64x3x3", pad=1, stride=1, input=large, output=large)}
{mixing if mixes else POOL.format(name="b", result="%2", x="%1", input=large, output=small)}
{CONV.format(name="c", result="%3", x="%2", weights="4096x64x1x1", pad=0, stride=1, input=small, output=wide)}
{CONV.format(name="d", result="%4", x="%3", weights="64x4096x1x1", pad=0, stride=1, input=wide, output=small)}
  return %4 : tensor<{small}xf32>
}}
""")
        self.tilewright("run", "net.mlir", "--hw", "gemmini_16x16_fp32", "--schedule", "pipelined", "--json", "r.json")
        report = json.loads((self.path / "r.json").read_text())
        self.assertGreaterEqual(report["total_cycles"], report["lower_bound_cycles"])
        return report

    def test_weights_behind_a_mixing_layer_are_late(self):
        report = self.report(True)
        self.assertEqual(report["bound_by"], "cut")
        # All products of the first layer, 94 x 94 of 96 x 96 pairs of a position and a tap along both axes; then 2 MiB of
        # weights but for what the chip may hold, at up to 19.2 bytes a cycle.
        products = 94 * 94 * 64 * 64 // 256
        self.assertGreater(report["lower_bound_cycles"], products + (2 ** 21 - 400_000) / 19.2)

    def test_weights_behind_a_pool_may_be_used_channel_by_channel(self):
        # The last layer's are still late.
        products = 94 * 94 * 64 * 64 // 256
        report = self.report(False)
        self.assertGreater(report["lower_bound_cycles"], products + (2 ** 20 - 400_000) / 19.2)
        self.assertLess(report["lower_bound_cycles"], products + 2 ** 20 / 19.2)


if __name__ == "__main__":
    unittest.main()
