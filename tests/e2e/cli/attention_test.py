#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention: the softmax along the rows of a batch of products is part of their kernel."""

import json
import unittest

import numpy as np

from cli_test import CliTest

BATCH, ROWS, COLUMNS, DEPTH = 3, 20, 37, 9


class AttentionTest(CliTest):
    def setUp(self):
        super().setUp()
        self.model(BATCH, ROWS, COLUMNS, DEPTH)

    def model(self, batch, rows, columns, depth):
        """As net.mlir, with inputs."""
        q, k, v, s, y = (f"tensor<{batch}x{a}x{b}xf32>" for a, b in
                         [(rows, depth), (depth, columns), (columns, depth), (rows, columns), (rows, depth)])
        self.write("net.mlir", f"""func.func @main(%q: {q}, %k: {k}, %v: {v}) -> {y} {{
  %s = graph.matmul %q, %k : ({q}, {k}) -> {s} loc("scores")
  %root = graph.constant dense<3.0> : tensor<1xf32>
  %d = graph.div %s, %root : ({s}, tensor<1xf32>) -> {s} loc("scaled")
  %p = graph.softmax %d {{axis = 2 : i64}} : {s} loc("softmax")
  %y = graph.matmul %p, %v : ({s}, {v}) -> {y} loc("context")
  return %y : {y}
}}
""")
        random = np.random.default_rng(1)
        self.inputs = [random.normal(size=shape).astype(np.float32)
                       for shape in [(batch, rows, depth), (batch, depth, columns), (batch, columns, depth)]]
        for name, value in zip("qkv", self.inputs):
            np.save(self.path / f"{name}.npy", value)

    def run_on(self, *options):
        self.tilewright("run", "net.mlir", *options, "--input", "q.npy", "--input", "k.npy", "--input", "v.npy", "--check",
                        "--output-dir", "out", "--json", "report.json")
        q, k, v = (x.astype(np.float64) for x in self.inputs)
        e = np.exp(q @ k / 3)
        expected = e / e.sum(axis=2, keepdims=True) @ v
        # fp32 sums of at most 64 products of at most about 4; the exponential of the vector engine is good to 2 units in the last place.
        np.testing.assert_allclose(np.load(self.path / "out/output0.npy"), expected, rtol=0, atol=1e-5)
        self.report = json.loads((self.path / "report.json").read_text())
        return [layer["name"] for layer in self.report["layers"]]

    def test_scores_never_leave_the_chip(self):
        for schedule in ["serial", "double_buffer", "modulo"]:
            layers = self.run_on("--hw", "gemmini_16x16_fp32", "--schedule", schedule)
            self.assertEqual(layers, ["scores", "context"], schedule)

    def test_rows_that_the_accumulator_does_not_hold(self):
        layers = self.run_on("--hw", "gemmini_16x16_fp32", "--set", "accumulator.capacity_bytes=4096", "--schedule", "modulo")
        self.assertEqual(layers, ["scores", "softmax", "context"])

    def schedule(self, keys):
        return self.schedule_file({"scores": [f"keep %k {{{keys}}}"]})

    def test_bands_of_rows_of_matrices(self):
        """Parts of a matrix, the last of them smaller, one matrix, two of them."""
        self.run_on("--hw", "gemmini_16x16_fp32", "--schedule", self.schedule("on_chip = false"))
        apart = self.report["dram_read_bytes"] + self.report["dram_write_bytes"]
        for rows in [4, 7, ROWS, 2 * ROWS]:
            self.run_on("--hw", "gemmini_16x16_fp32", "--schedule", self.schedule(f"on_chip = true, bands = {rows}"))
            together = self.report["dram_read_bytes"] + self.report["dram_write_bytes"]
            # The scores, more than half of these bytes, are neither written nor read.
            self.assertLess(together, apart / 2, rows)
        self.fails("compile", "net.mlir", "--hw", "gemmini_16x16_fp32", "--schedule",
                   self.schedule(f"on_chip = true, bands = {BATCH * ROWS}"), message=f"bands of {BATCH * ROWS} rows are not two or more")

    def test_scores_that_do_not_fit_pass_in_bands(self):
        self.model(6, 64, 64, 32)
        hw = ["--hw", "gemmini_16x16_fp32", "--set", "scratchpads.unified.capacity_bytes=65536"]
        self.run_on(*hw, "--schedule", "modulo")
        self.choice_comes_back("bands = ", "net.mlir", *hw)


if __name__ == "__main__":
    unittest.main()
