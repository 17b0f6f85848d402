#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles whose rows in DRAM lie in a part of its channels leave the others idle."""

import json
import re
import unittest

from cli_test import CliTest

CONV = """  %w_{name} = graph.constant dense<0.01> : tensor<{outputs}x{inputs}x1x1xf32>
  {result} = graph.conv {x}, %w_{name} {{dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw",
    pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>}}
    : (tensor<1x{inputs}x14x14xf32>, tensor<{outputs}x{inputs}x1x1xf32>) -> tensor<1x{outputs}x14x14xf32> loc("{name}")
"""


class ChannelsTest(CliTest):
    def test_runs_of_results_meet_all_channels(self):
        # LPDDR4: four channels, a burst of 32 bytes each. All channels of a pixel are 2048 bytes, so runs always begin in the first.
        self.write("net.mlir", f"""func.func @main(%x: tensor<1x1024x14x14xf32>) -> tensor<1x1024x14x14xf32> {{
{CONV.format(name="first", result="%1", x="%x", inputs=1024, outputs=1024)}
{CONV.format(name="narrow", result="%2", x="%1", inputs=1024, outputs=256)}
{CONV.format(name="wide", result="%3", x="%2", inputs=256, outputs=1024)}
  %4 = graph.add %3, %1 : (tensor<1x1024x14x14xf32>, tensor<1x1024x14x14xf32>) -> tensor<1x1024x14x14xf32> loc("sum")
{CONV.format(name="last", result="%5", x="%4", inputs=1024, outputs=1024)}
  return %5 : tensor<1x1024x14x14xf32>
}}
""")
        text, _ = self.tilewright("compile", "net.mlir", "--hw", "edge_32x32_bf16", "--schedule", "modulo", "--emit", "schedule")
        names = dict(re.findall(r'(%\w+) = transform\.tilewright\.match_node "(\w+)"', text))
        channels = {names[k]: int(count) for k, count in re.findall(r"tile (%\w+) \{sizes = \[(\d+)", text)}
        self.assertGreaterEqual(2 * channels["wide"], 4 * 32, text)
        half = self.write("half.mlir", """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    %k = transform.tilewright.match_node "wide"
    transform.tilewright.tile %k {sizes = [32, 0, 0, 0]}
    transform.yield
  }
}
""")
        self.assertLess(self.cycles("modulo"), self.cycles(half))

    def cycles(self, schedule):
        self.tilewright("run", "net.mlir", "--hw", "edge_32x32_bf16", "--schedule", schedule, "--json", "report.json")
        return json.loads((self.path / "report.json").read_text())["total_cycles"]


if __name__ == "__main__":
    unittest.main()
