#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention: the softmax along the rows of a batch of products is part of their kernel."""

import json
import re
import unittest

import numpy as np

from cli_test import CliTest, layers_of

BATCH, ROWS, COLUMNS, DEPTH = 3, 20, 37, 9


class AttentionTest(CliTest):
    def setUp(self):
        super().setUp()
        self.model(BATCH, ROWS, COLUMNS, DEPTH)

    def model(self, batch, rows, columns, depth, root=3.0, shift=None):
        """As net.mlir, with inputs. `shift`: an fp32 literal that all scaled scores are moved by, if any."""
        self.root = root
        q, k, v, s, y = (f"tensor<{batch}x{a}x{b}xf32>" for a, b in
                         [(rows, depth), (depth, columns), (columns, depth), (rows, columns), (rows, depth)])
        moved = "" if shift is None else f"""  %shift = graph.constant dense<{shift}> : tensor<1xf32>
  %m = graph.add %d, %shift : ({s}, tensor<1xf32>) -> {s} loc("moved")
"""
        self.write("net.mlir", f"""func.func @main(%q: {q}, %k: {k}, %v: {v}) -> {y} {{
  %s = graph.matmul %q, %k : ({q}, {k}) -> {s} loc("scores")
  %root = graph.constant dense<{root}> : tensor<1xf32>
  %d = graph.div %s, %root : ({s}, tensor<1xf32>) -> {s} loc("scaled")
{moved}  %p = graph.softmax {"%m" if moved else "%d"} {{axis = 2 : i64}} : {s} loc("softmax")
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
        e = np.exp(q @ k / self.root)
        expected = e / e.sum(axis=2, keepdims=True) @ v
        # fp32 sums of at most 64 products of at most about 4; the exponential of the vector engine is good to 2 units in the last place.
        np.testing.assert_allclose(np.load(self.path / "out/output0.npy"), expected, rtol=0, atol=1e-5)
        self.report = json.loads((self.path / "report.json").read_text())
        return [layer["name"] for layer in layers_of(self.report)]

    def test_scores_never_leave_the_chip(self):
        for schedule in ["serial", "double_buffer", "pipelined"]:
            layers = self.run_on("--hw", "gemmini_16x16_fp32", "--schedule", schedule)
            self.assertEqual(layers, ["scores", "context"], schedule)

    def scores(self):
        """The vector instructions of the first tile of scores."""
        text = self.tilewright("compile", "net.mlir", "--hw", "gemmini_16x16_fp32", "--schedule", "serial", "--emit", "tiles", "-o", "-")[0]
        return re.findall(r"\bvector .*", text[text.index("# scores:"):])

    def test_scores_are_scaled_where_they_are_read(self):
        largest, exponential, total, quotient = self.scores()[:4]
        # The largest of the sums, divided, is the largest of the quotients.
        self.assertRegex(largest, r"a_memory=accumulator .*window_op=max lane_reduce=1 .*stage=\[fdiv:imm0\]")
        self.assertRegex(exponential, r"a_memory=accumulator .*stage=\[fdiv:imm0,fsub:b,fexp:none\]")
        self.assertIn("window_op=sum lane_reduce=1", total)
        self.assertIn("stage=[fdiv:b]", quotient)

    def test_of_scores_that_change_their_sign_the_smallest_becomes_the_largest(self):
        self.model(BATCH, ROWS, COLUMNS, DEPTH, root=-3.0)
        self.run_on("--hw", "gemmini_16x16_fp32", "--schedule", "pipelined")
        self.assertNotRegex(self.scores()[0], "window_op=max")

    def test_infinity_is_added_before_the_largest_is_taken(self):
        # Of -inf and 1 the larger one plus infinity is infinity, but one of the sums is no number.
        largest = "a_memory=accumulator .*window_op=max"
        self.model(BATCH, ROWS, COLUMNS, DEPTH, shift="1.5")
        self.assertRegex(self.scores()[0], largest + r".*stage=\[fdiv:imm\d,fadd:imm\d\]")
        self.model(BATCH, ROWS, COLUMNS, DEPTH, shift="0x7F800000")
        self.assertNotRegex(self.scores()[0], largest)

    def test_rows_that_the_accumulator_does_not_hold(self):
        layers = self.run_on("--hw", "gemmini_16x16_fp32", "--set", "accumulator.capacity_bytes=4096", "--schedule", "pipelined")
        self.assertEqual(layers, ["scores", "softmax", "context"])

    def schedule(self, keys):
        return self.plan_file({"scores": keys})

    def test_bands_of_rows_of_matrices(self):
        """Parts of a matrix, the last of them smaller, one matrix, two of them."""
        self.run_on("--hw", "gemmini_16x16_fp32", "--schedule", self.schedule("on_chip = false"))
        apart = self.report["dram_read_bytes"] + self.report["dram_write_bytes"]
        for rows in [4, 7, ROWS, 2 * ROWS]:
            self.run_on("--hw", "gemmini_16x16_fp32", "--schedule", self.schedule(f"on_chip = true, row_tile = {rows}"))
            together = self.report["dram_read_bytes"] + self.report["dram_write_bytes"]
            # The scores, more than half of these bytes, are neither written nor read.
            self.assertLess(together, apart / 2, rows)
        self.fails("compile", "net.mlir", "--hw", "gemmini_16x16_fp32", "--schedule",
                   self.schedule(f"on_chip = true, row_tile = {BATCH * ROWS}"), message=f"row tiles of {BATCH * ROWS} rows are not two or more")

    def test_scores_that_do_not_fit_pass_in_bands(self):
        self.model(6, 64, 64, 32)
        hw = ["--hw", "gemmini_16x16_fp32", "--set", "scratchpads.unified.capacity_bytes=65536"]
        self.run_on(*hw, "--schedule", "pipelined")
        self.choice_comes_back("row_tile = ", "net.mlir", *hw)


class HeadsTest(CliTest):
    """Queries, keys and values of all heads are products of one matrix: those of a head are some of its channels."""

    ROWS, HEADS = 32, 4

    def network(self, depth, infinite=False, projects=False):
        """Writes net.mlir and x.npy; returns what the network makes of it. `projects`: with a product of what all heads give."""
        width = self.HEADS * depth
        random = np.random.default_rng(1)
        x = random.integers(-2, 3, (self.ROWS, width)).astype(np.float32)
        np.save(self.path / "x.npy", x)
        weights = {name: random.integers(-1, 2, (width, width)).astype(np.float32) / 8 for name in "qkvo"}
        if infinite:
            weights["v"][:, depth] = np.inf  # one channel of the second head
        rows, heads = f"tensor<{self.ROWS}x{width}xf32>", f"tensor<1x{self.ROWS}x{self.HEADS}x{depth}xf32>"
        by_head, keys = f"{self.HEADS}x{self.ROWS}x{depth}xf32>", f"{self.HEADS}x{depth}x{self.ROWS}xf32>"
        scores = f"tensor<{self.HEADS}x{self.ROWS}x{self.ROWS}xf32>"
        ops = []
        for name, layer in [("q", "query"), ("k", "key"), ("v", "value")]:
            w = weights[name]
            perm, turned = ("0, 2, 3, 1", keys) if name == "k" else ("0, 2, 1, 3", by_head)
            ops += [f'%w{name} = graph.constant dense<"0x{w.tobytes().hex()}"> : tensor<{width}x{width}xf32>',
                    f'%{name}0 = graph.matmul %x, %w{name} : ({rows}, tensor<{width}x{width}xf32>) -> {rows} loc("{layer}")',
                    f"%{name}1 = graph.reshape %{name}0 : ({rows}) -> {heads}",
                    f"%{name}2 = graph.transpose %{name}1 {{perm = array<i64: {perm}>}} : ({heads}) -> tensor<1x{turned}",
                    f"%{name} = graph.reshape %{name}2 : (tensor<1x{turned}) -> tensor<{turned}"]
        ops += [f'%s = graph.matmul %q, %k : (tensor<{by_head}, tensor<{keys}) -> {scores} loc("scores")',
                f"%p = graph.softmax %s {{axis = 2 : i64}} : {scores} loc(\"softmax\")",
                f'%c0 = graph.matmul %p, %v : ({scores}, tensor<{by_head}) -> tensor<{by_head} loc("context")',
                f"%c1 = graph.reshape %c0 : (tensor<{by_head}) -> tensor<1x{by_head}",
                f"%c2 = graph.transpose %c1 {{perm = array<i64: 0, 2, 1, 3>}} : (tensor<1x{by_head}) -> {heads}",
                f"%y = graph.reshape %c2 : ({heads}) -> {rows}"]
        result = "%y"
        if projects:
            result = "%z"
            ops += [f'%wo = graph.constant dense<"0x{weights["o"].tobytes().hex()}"> : tensor<{width}x{width}xf32>',
                    f'%z = graph.matmul %y, %wo : ({rows}, tensor<{width}x{width}xf32>) -> {rows} loc("projection")']
        self.write("net.mlir", f"func.func @main(%x: {rows}) -> {rows} {{\n  " + "\n  ".join(ops) + f"\n  return {result} : {rows}\n}}\n")
        with np.errstate(invalid="ignore"):
            q, k, v = ((x.astype(np.float64) @ weights[name]).reshape(self.ROWS, self.HEADS, depth).swapaxes(0, 1) for name in "qkv")
            e = np.exp(q @ k.swapaxes(1, 2))
            y = (e / e.sum(axis=2, keepdims=True) @ v).swapaxes(0, 1).reshape(self.ROWS, width)
            return y @ weights["o"].astype(np.float64) if projects else y

    def values(self, schedule, *options):
        self.tilewright("run", "net.mlir", "--hw", "gemmini_16x16_fp32", *options, "--schedule", schedule, "--input", "x.npy", "--check",
                        "--output-dir", "out", "--json", "report.json")
        self.layers = {layer["name"]: layer for layer in layers_of(json.loads((self.path / "report.json").read_text()))}
        return np.load(self.path / "out/output0.npy")

    def keeping(self, *names):
        return self.plan_file({name: "on_chip = true" for name in names})

    def test_the_array_reads_heads_where_they_lie(self):
        # Half a vector of lanes, one, and two.
        for depth in [8, 16, 32]:
            expected = self.network(depth)
            values = self.values(self.keeping("query", "key", "scores", "value"))
            np.testing.assert_allclose(values, expected, rtol=0, atol=1e-4, err_msg=str(depth))
            for layer in ["scores", "context"]:
                self.assertEqual(self.layers[layer]["dram_read_bytes"], 0, (layer, depth))

    def test_contexts_of_whole_vectors_stay_where_a_product_of_all_heads_reads_them(self):
        for depth in [16, 32]:
            expected = self.network(depth, projects=True)
            values = self.values(self.keeping("context"))
            np.testing.assert_allclose(values, expected, rtol=0, atol=1e-4, err_msg=str(depth))
            self.assertEqual(self.layers["context"]["dram_write_bytes"], 0, depth)
            # Its weights alone.
            self.assertEqual(self.layers["projection"]["dram_read_bytes"], (self.HEADS * depth) ** 2 * 4, depth)

    def test_a_chain_leaves_room_for_contexts(self):
        self.ROWS = 128
        expected = self.network(32, projects=True)
        # With banks of its own for every buffer the chain would leave them none.
        schedule = self.plan_file({"scores": "on_chip = true, row_tile = 64", "context": "on_chip = true"})
        values = self.values(schedule, "--set", "scratchpads.unified.banks=32")
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-4)
        self.assertEqual([self.layers[name]["dram_write_bytes"] for name in ["scores", "context"]], [0, 0])

    def test_contexts_of_half_a_vector_cannot_stay(self):
        self.network(8, projects=True)
        self.fails("compile", "net.mlir", "--hw", "gemmini_16x16_fp32", "--schedule", self.keeping("context"),
                   message="kernel 'context' cannot use it there")

    def test_heads_of_one_vector_do_not_meet(self):
        expected = self.network(8, infinite=True)
        values = self.values(self.keeping("query", "key", "scores", "value"))
        second = np.arange(expected.shape[1]) // 8 == 1
        self.assertFalse(np.isfinite(values[:, 8]).any())
        np.testing.assert_allclose(values[:, ~second], expected[:, ~second], rtol=0, atol=1e-4)

    def test_heads_across_the_end_of_a_vector_cannot_stay(self):
        self.network(12)
        for name, reader in [("query", "scores"), ("key", "scores"), ("value", "context")]:
            self.fails("compile", "net.mlir", "--hw", "gemmini_16x16_fp32", "--schedule", self.keeping(name),
                       message=f"kernel '{reader}' cannot use it there")


if __name__ == "__main__":
    unittest.main()
