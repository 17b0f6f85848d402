#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""DRAM latency behind the array's work: cycles of schedule search grow no faster than the lower bound, plus 1 %."""

import json
import unittest

from cli_test import CliTest, pointwise

CONV = "conv:1x28x28x128:3x3x256:s2:p1:int8"


class LatencyTest(CliTest):
    def hides(self, model, hw, bursts, *settings):
        """Of two settings, the second one is the longer latency."""
        first, second = [], []
        for setting, result in zip(settings, [first, second]):
            self.tilewright("run", model, "--hw", hw, "--set", setting, "--set", f"dma.outstanding_bursts={bursts}", "--set",
                            f"dram.write_buffer_bursts={bursts}", "--schedule", "search", "--search-budget", 33, "--json", "r.json")
            report = json.loads((self.path / "r.json").read_text())
            result += [report["total_cycles"], report["lower_bound_cycles"]]
        self.assertLessEqual(second[0] - first[0], second[1] - first[1] + 0.01 * first[0])

    def test_weights_that_fill_a_small_scratchpad(self):
        self.hides(CONV, "vdla_16x16", 128, "dram.latency_cycles=64", "dram.latency_cycles=512")

    def test_pixels_that_meet_some_of_the_channels(self):
        self.hides(CONV, "edge_32x32_int8", 512, "dram.path_latency_cycles=0", "dram.path_latency_cycles=413")

    def test_operands_without_reuse_between_tiles(self):
        self.hides("gemm:512x512x512:int8", "onnxim_128x128", 8192, "dram.path_latency_cycles=0", "dram.path_latency_cycles=315")

    def test_where_the_array_waits_a_plan_chooses_the_tile(self):
        """For the closed form two slots are as good as three, whose loads need not wait for one another."""
        image = "tensor<1x64x13x13xf32>"
        self.write("net.mlir", f"""func.func @main(%x: {image}) -> {image} {{
{pointwise("%1", "%x", "wide", 64, 384, 13)}{pointwise("%2", "%1", "narrow", 384, 64, 13)}  return %2 : {image}
}}
""")
        closed = self.plan_file({"narrow": 'tile = [64, 13, 2, 1], tile_k = 64, loop_order = "k_outer", depth = 2'}, schedule="pipelined")
        machine = "gemmini_16x16_fp32"
        # The transposes around the two convolutions take a quarter of the program, whatever the plan.
        self.assertLess(self.cycles(machine, "pipelined"), 0.98 * self.cycles(machine, closed))


if __name__ == "__main__":
    unittest.main()
