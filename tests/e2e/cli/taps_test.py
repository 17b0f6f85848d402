#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Taps at both ends of a window leave out as many outputs: they are one loop of passes."""

import unittest

import numpy as np

from cli_test import CliTest


class TapsTest(CliTest):
    def schedule(self, size, rows=None, channels=32):
        tile = f"tile = [{channels}, {size}, {rows or size}, 1], tile_k = {channels}"
        return self.plan_file({"conv": tile}, schedule="pipelined")

    def tiles_of(self, kernel, size, machine="vdla_16x16"):
        self.schedule(size)
        return self.tilewright("compile", kernel, "--hw", machine, "--schedule", "plan.mlir", "--emit", "tiles")[0]

    def test_corners_and_edges_are_a_loop_each(self):
        tiles = self.tiles_of("conv:1x7x7x32:3x3x32:s1:p1:int8", 7)
        # All outputs, without a column, without a row, and without both.
        self.assertEqual(tiles.count(" tensor "), 4, tiles)

    def test_values_are_those_of_all_taps(self):
        # The second window has three pairs of tap groups on each axis; the third leaves out outputs on one side only.
        for kernel, size in (("1x7x7x32:3x3x32:s1:p1", 7), ("1x9x9x32:5x5x32:s1:p2", 9), ("1x8x8x32:3x3x32:s2:p1", 4)):
            for machine, element in (("vdla_16x16", "int8"), ("gemmini_16x16_fp32", "fp32")):
                with self.subTest(kernel=kernel, machine=machine):
                    self.schedule(size)
                    run = ["run", f"conv:{kernel}:{element}", "--hw", machine]
                    self.tilewright(*run, "--schedule", "plan.mlir", "--check", "--output-dir", "some")
                    self.tilewright(*run, "--schedule", "serial", "--output-dir", "all")
                    some, all_taps = (np.load(next((self.path / folder).glob("*.npy"))) for folder in ("some", "all"))
                    tolerance = 0 if element == "int8" else 1e-4  # fp32: taps are added in another order
                    np.testing.assert_allclose(some, all_taps, rtol=tolerance, atol=tolerance)

    def test_the_last_tile_is_a_row_of_few_sums(self):
        """Columns whose taps are one loop come again for each row of taps: too soon for a sum of floats to be added to, so here they are two."""
        self.schedule(5, rows=2, channels=16)
        run = ["run", "conv:1x9x9x16:3x3x16:s2:p1:fp32", "--hw", "gemmini_16x16_fp32"]
        self.tilewright(*run, "--schedule", "plan.mlir", "--check", "--output-dir", "some")
        self.tilewright(*run, "--schedule", "serial", "--output-dir", "all")
        some, all_taps = (np.load(next((self.path / folder).glob("*.npy"))) for folder in ("some", "all"))
        np.testing.assert_allclose(some, all_taps, rtol=1e-4, atol=1e-4)  # taps are added in another order


if __name__ == "__main__":
    unittest.main()
