#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Few input channels, the taps of a window side by side: rows that windows share are loaded once a tile."""

import json
import unittest

import numpy as np

from cli_test import CliTest


class PackedTapsTest(CliTest):
    def result(self, model, hw, x, y, *options):
        """The values with tiles of x by y positions, and the bytes that DRAM gives."""
        schedule = self.schedule_file({"*": [f"tile %k {{sizes = [0, {x}, {y}, 1]}}"]})
        self.tilewright("run", model, "--hw", hw, "--check", "--schedule", schedule, *options, "--output-dir", "out",
                        "--json", "report.json")
        values, = [np.load(path) for path in (self.path / "out").glob("*.npy")]
        return values, json.loads((self.path / "report.json").read_text())["layers"][0]["dram_read_bytes"]

    def same_values_in_less(self, model, hw, x, y, *options):
        expected, alone = self.result(model, hw, x, 1, *options)
        values, together = self.result(model, hw, x, y, *options)
        np.testing.assert_array_equal(values, expected)
        self.assertLess(together, alone)

    def test_integers(self):
        self.same_values_in_less("conv:1x29x31x3:7x7x40:s2:p3:int8", "edge_32x32_int8", 8, 4)

    def test_the_last_tile_is_smaller(self):
        self.same_values_in_less("conv:2x33x31x3:3x3x20:s1:p1:int8", "gemmini_16x16_int8", 9, 5)

    def test_infinity_reaches_its_windows_alone(self):
        image = np.zeros((1, 29, 31, 3), np.float32)
        image[0, 14, 15, 1] = np.inf
        np.save(self.path / "image.npy", image)
        self.same_values_in_less("conv:1x29x31x3:7x7x40:s2:p3:fp32", "gemmini_16x16_fp32", 8, 4, "--input", self.path / "image.npy")

    def test_no_burst_is_fetched_for_each_of_three_runs(self):
        """Three taps of 32 bytes begin 32 bytes apart: as one run each burst would come three times."""
        def read(rows):
            self.tilewright("run", f"conv:1x{rows}x55x32:3x3x64:s1:p1:int8", "--hw", "onnxim_128x128", "--check", "--json", "report.json")
            return json.loads((self.path / "report.json").read_text())["dram_read_bytes"]
        self.assertLess(read(20) - read(10), 2.2 * 10 * 55 * 32)
        self.tilewright("compare", "conv:1x10x55x32:3x3x64:s1:p1:int8", "--hw", "onnxim_128x128")


if __name__ == "__main__":
    unittest.main()
