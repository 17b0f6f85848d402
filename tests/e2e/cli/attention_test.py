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
        self.write("net.mlir", f"""func.func @main(%q: tensor<{BATCH}x{ROWS}x{DEPTH}xf32>, %k: tensor<{BATCH}x{DEPTH}x{COLUMNS}xf32>,
    %v: tensor<{BATCH}x{COLUMNS}x{DEPTH}xf32>) -> tensor<{BATCH}x{ROWS}x{DEPTH}xf32> {{
  %s = graph.matmul %q, %k : (tensor<{BATCH}x{ROWS}x{DEPTH}xf32>, tensor<{BATCH}x{DEPTH}x{COLUMNS}xf32>) -> tensor<{BATCH}x{ROWS}x{COLUMNS}xf32> loc("scores")
  %root = graph.constant dense<3.0> : tensor<1xf32>
  %d = graph.div %s, %root : (tensor<{BATCH}x{ROWS}x{COLUMNS}xf32>, tensor<1xf32>) -> tensor<{BATCH}x{ROWS}x{COLUMNS}xf32> loc("scaled")
  %p = graph.softmax %d {{axis = 2 : i64}} : tensor<{BATCH}x{ROWS}x{COLUMNS}xf32> loc("softmax")
  %y = graph.matmul %p, %v : (tensor<{BATCH}x{ROWS}x{COLUMNS}xf32>, tensor<{BATCH}x{COLUMNS}x{DEPTH}xf32>) -> tensor<{BATCH}x{ROWS}x{DEPTH}xf32> loc("context")
  return %y : tensor<{BATCH}x{ROWS}x{DEPTH}xf32>
}}
""")
        random = np.random.default_rng(1)
        self.inputs = [random.normal(size=shape).astype(np.float32)
                       for shape in [(BATCH, ROWS, DEPTH), (BATCH, DEPTH, COLUMNS), (BATCH, COLUMNS, DEPTH)]]
        for name, value in zip("qkv", self.inputs):
            np.save(self.path / f"{name}.npy", value)

    def run_on(self, *options):
        self.tilewright("run", "net.mlir", *options, "--input", "q.npy", "--input", "k.npy", "--input", "v.npy", "--check",
                        "--output-dir", "out", "--json", "report.json")
        q, k, v = (x.astype(np.float64) for x in self.inputs)
        e = np.exp(q @ k / 3)
        expected = e / e.sum(axis=2, keepdims=True) @ v
        # fp32 sums of 37 products of at most about 3; the exponential of the vector engine is good to 2 units in the last place.
        np.testing.assert_allclose(np.load(self.path / "out/output0.npy"), expected, rtol=0, atol=1e-5)
        return [layer["name"] for layer in json.loads((self.path / "report.json").read_text())["layers"]]

    def test_scores_never_leave_the_chip(self):
        for schedule in ["serial", "double_buffer", "modulo"]:
            layers = self.run_on("--hw", "gemmini_16x16_fp32", "--schedule", schedule)
            self.assertEqual(layers, ["scores", "context"], schedule)

    def test_rows_that_the_accumulator_does_not_hold(self):
        layers = self.run_on("--hw", "gemmini_16x16_fp32", "--set", "accumulator.capacity_bytes=4096", "--schedule", "modulo")
        self.assertEqual(layers, ["scores", "softmax", "context"])


if __name__ == "__main__":
    unittest.main()
