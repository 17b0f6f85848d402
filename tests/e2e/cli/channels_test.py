#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles whose rows in DRAM lie in a part of its channels leave the others idle."""

import re
import unittest

from cli_test import CliTest, pointwise


class ChannelsTest(CliTest):
    def test_runs_of_results_meet_all_channels(self):
        # LPDDR4: four channels, a burst of 32 bytes each. All channels of a pixel are 2048 bytes, so runs always begin in the first.
        self.write("net.mlir", f"""func.func @main(%x: tensor<1x1024x14x14xf32>) -> tensor<1x1024x14x14xf32> {{
{pointwise("%1", "%x", "first", 1024, 1024, 14)}
{pointwise("%2", "%1", "narrow", 1024, 256, 14)}
{pointwise("%3", "%2", "wide", 256, 1024, 14)}
  %4 = graph.add %3, %1 : (tensor<1x1024x14x14xf32>, tensor<1x1024x14x14xf32>) -> tensor<1x1024x14x14xf32> loc("sum")
{pointwise("%5", "%4", "last", 1024, 1024, 14)}
  return %5 : tensor<1x1024x14x14xf32>
}}
""")
        text, _ = self.tilewright("compile", "net.mlir", "--hw", "edge_32x32_bf16", "--schedule", "pipelined", "--emit", "plan")
        channels = {name: int(count) for name, count in re.findall(r'plan.kernel "(\w+)" \{tile = \[(\d+)', text)}
        self.assertGreaterEqual(2 * channels["wide"], 4 * 32, text)
        half = self.plan_file({"wide": "tile = [32, 0, 0, 0]"})
        self.assertLess(self.cycles("edge_32x32_bf16", "pipelined"), self.cycles("edge_32x32_bf16", half))


if __name__ == "__main__":
    unittest.main()
