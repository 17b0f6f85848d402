#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The order of kernels, their boundaries, and what --emit fusion says of both."""

import json
import re
import unittest

import numpy as np

from cli_test import CliTest
from fusion_test import conv

HW = ["--hw", "gemmini_16x16_fp32"]
ROWS = 44
IMAGE = 4 * 16 * ROWS * ROWS  # bytes, of 16 channels
WEIGHTS = 4 * (16 * 16 + 16 * 128 + 128 * 16 + 16 * 64 + 9 * 16 * 16 + 16 * 16 + 16 * 64)


class BranchesTest(CliTest):
    def branches(self):
        """Two branches of an image that are added: a long one, which the order of the graph phase runs first, and one with a large tensor."""
        first, _ = conv("%a", "%x", "first", 16, 16, rows=ROWS)
        expand, _ = conv("%b", "%a", "expand", 16, 128, rows=ROWS)
        narrow, _ = conv("%c", "%b", "narrow", 128, 16, rows=ROWS)
        last, result = conv("%d", "%c", "last", 16, 64, rows=ROWS)
        wide, _ = conv("%e", "%a", "wide", 16, 16, kernel=3, rows=ROWS)
        middle, _ = conv("%f", "%e", "middle", 16, 16, rows=ROWS)
        tail, _ = conv("%g", "%f", "tail", 16, 64, rows=ROWS)
        self.write("net.mlir", f"func.func @main(%x: tensor<1x16x{ROWS}x{ROWS}xf32>) -> {result} {{\n{first}{expand}{narrow}{last}{wide}{middle}{tail}"
                   f"  %s = graph.add %d, %g : ({result}, {result}) -> {result} loc(\"sum\")\n"
                   f"  %r = graph.relu %s : {result} loc(\"relu\")\n  return %r : {result}\n}}\n")
        np.save(self.path / "x.npy", np.random.default_rng(1).integers(-4, 5, (1, 16, ROWS, ROWS)).astype(np.float32))

    def run_with(self, *options):
        self.tilewright("run", "net.mlir", *HW, *options, "--input", "x.npy", "--output-dir", "out", "--json", "report.json")
        return np.load(self.path / "out/output0.npy"), json.loads((self.path / "report.json").read_text())

    def fusion(self, *options):
        out, _ = self.tilewright("compile", "net.mlir", *options, "--emit", "fusion")
        return out


class OrderTest(BranchesTest):
    def test_every_run_has_its_peaks(self):
        self.branches()
        expected, model = self.run_with("--order", "model")
        values, memory = self.run_with("--order", "memory")
        np.testing.assert_array_equal(values, expected)
        for report in (model, memory):
            peaks = report["peak_live_bytes"]
            self.assertLessEqual(peaks["lower_bound"], peaks["memory_order"])
            self.assertLess(peaks["memory_order"], peaks["model_order"])
        self.assertEqual(model["peak_live_bytes"]["taken_order"], model["peak_live_bytes"]["model_order"])
        self.assertEqual(memory["peak_live_bytes"]["taken_order"], memory["peak_live_bytes"]["memory_order"])

    def test_a_plan_file_says_the_order_and_comes_back(self):
        self.branches()
        path = self.write("plan.mlir", 'plan.network attributes {order = "memory"} {}\n')
        self.tilewright("compile", "net.mlir", *HW, "--schedule", path, "-o", "first.twp")
        out, _ = self.tilewright("compile", "net.mlir", *HW, "--schedule", path, "--emit", "plan")
        self.assertIn('order = "memory"', out)
        again = self.write("again.mlir", out)
        self.tilewright("compile", "net.mlir", *HW, "--schedule", again, "-o", "second.twp")
        self.assertEqual((self.path / "first.twp").read_bytes(), (self.path / "second.twp").read_bytes())
        self.fails("compile", "net.mlir", *HW, "--schedule", path, "--order", "model",
                   message=["--order model and 'order' of", "exclude each other"])

    def test_an_accelerator_keeps_the_models_order_while_dram_has_room(self):
        self.branches()
        expected, report = self.run_with()
        peaks = report["peak_live_bytes"]
        self.assertEqual(peaks["taken_order"], peaks["model_order"])
        always = 5 * IMAGE + WEIGHTS
        self.assertLess(always + peaks["memory_order"], 1 << 21)
        self.assertLess(1 << 21, always + peaks["model_order"])
        values, report = self.run_with("--set", f"dram.capacity_bytes={1 << 21}", "--schedule", "serial")
        self.assertEqual(report["peak_live_bytes"]["taken_order"], peaks["memory_order"])
        np.testing.assert_array_equal(values, expected)

    def test_unknown_orders_are_refused(self):
        self.branches()
        self.fails("run", "net.mlir", *HW, "--order", "shortest", message="shortest")


class FusionPlanTest(BranchesTest):
    def sums(self, text):
        return {name: int(value) for name, value in re.findall(r"^(\w+) (\d+)$", text, re.MULTILINE)}

    def nodes_of_kernels(self, text):
        """Names of nodes, by kernel."""
        return [re.findall(r"^  \S+ '(\S+)':", kernel, re.MULTILINE) for kernel in text.split("\nkernel ")[1:]]

    def test_ops_kernels_and_reasons(self):
        self.branches()
        for options in (HW, ["--target", "cpu"]):
            text = self.fusion(*options)
            self.assertIn("conv 'expand': complex_out_fusable, many_to_many", text)
            self.assertIn("relu 'relu': injective, one_to_one", text)
            self.assertIn("  ends: conv of 'narrow' is not element by element: complex_out_fusable, many_to_many", text)
            sums = self.sums(text)
            self.assertLess(sums["dram_bytes_kernels"], sums["dram_bytes_unfused"])
            self.assertLessEqual(sums["dram_bytes_chosen"], sums["dram_bytes_kernels"])
            self.assertLessEqual(sums["dram_bytes_least"], sums["dram_bytes_all_fused"])

    def test_bytes_are_those_of_the_tensors(self):
        self.branches()
        sums = self.sums(self.fusion("--target", "cpu"))
        self.assertEqual(sums["dram_bytes_least"], 5 * IMAGE + WEIGHTS)
        # Each op alone, in images of 16 channels: seven convolutions, the sum and the relu. Changes of layout may come on top.
        alone = 2 + 9 + 9 + 5 + 2 + 2 + 5 + 12 + 8
        self.assertGreaterEqual(sums["dram_bytes_unfused"], alone * IMAGE + WEIGHTS)

    def test_a_kernel_begins_at_a_node(self):
        self.branches()
        self.assertTrue(any({"sum", "relu"} <= set(nodes) for nodes in self.nodes_of_kernels(self.fusion(*HW))))
        path = self.write("plan.mlir", 'plan.network attributes {kernels_begin_at = ["relu"]} {}\n')
        text = self.fusion(*HW, "--schedule", path)
        self.assertFalse(any({"sum", "relu"} <= set(nodes) for nodes in self.nodes_of_kernels(text)))
        self.assertIn("  ends: a kernel is to begin at relu of 'relu'", text)
        expected, _ = self.run_with()
        values, _ = self.run_with("--schedule", path)
        np.testing.assert_array_equal(values, expected)
        # The plan that comes back forms the same kernels.
        self.tilewright("compile", "net.mlir", *HW, "--schedule", path, "-o", "first.twp")
        out, _ = self.tilewright("compile", "net.mlir", *HW, "--schedule", path, "--emit", "plan")
        self.assertIn('kernels_begin_at = ["relu"]', out)
        again = self.write("again.mlir", out)
        self.tilewright("compile", "net.mlir", *HW, "--schedule", again, "-o", "second.twp")
        self.assertEqual((self.path / "first.twp").read_bytes(), (self.path / "second.twp").read_bytes())

    def test_a_border_has_its_costs_and_can_be_moved(self):
        # DRAM is busy in the kernel of the thin convolution, the array in that of the thick one: the sum of both costs less there.
        thin, shape = conv("%a", "%x", "thin", 16, 16, rows=ROWS)
        thick, _ = conv("%b", "%x", "thick", 16, 16, kernel=5, rows=ROWS)
        self.write("net.mlir", f"func.func @main(%x: {shape}) -> {shape} {{\n{thin}{thick}"
                   f"  %s = graph.add %a, %b : ({shape}, {shape}) -> {shape} loc(\"sum\")\n  return %s : {shape}\n}}\n")
        np.save(self.path / "x.npy", np.random.default_rng(1).integers(-4, 5, (1, 16, ROWS, ROWS)).astype(np.float32))
        text = self.fusion(*HW)
        taken, other = re.search(r"  border: 'sum' joins 'thick': (\d+) cycles; joins 'thin': (\d+) cycles", text).groups()
        self.assertLess(int(taken), int(other))
        self.assertIn(["thick", "sum"], self.nodes_of_kernels(text))
        expected, _ = self.run_with()
        path = self.write("plan.mlir", 'plan.network attributes {kernels_begin_at = ["thick -> sum"]} {}\n')
        self.assertIn(["thin", "sum"], self.nodes_of_kernels(self.fusion(*HW, "--schedule", path)))
        values, _ = self.run_with("--schedule", path)
        np.testing.assert_array_equal(values, expected)
        path = self.write("plan.mlir", 'plan.network attributes {kernels_begin_at = ["thick -> sun"]} {}\n')
        self.fails("compile", "net.mlir", *HW, "--schedule", path, message=["a kernel is to begin at node 'sun'", "the nearest is 'sum'"])
        path = self.write("plan.mlir", 'plan.network attributes {kernels_begin_at = ["sum -> thick"]} {}\n')
        self.fails("compile", "net.mlir", *HW, "--schedule", path,
                   message=["a kernel is to begin between nodes 'sum' and 'thick'", "no op of 'thick' reads one of 'sum'"])

    def test_a_gather_reads_views_of_its_table(self):
        # 2 x 6 x 3 elements of the table, the first and the last dim in each other's place. No accelerator has its functions: with a machine, the views stand
        # between nodes of the CPU, and are its as well.
        self.write("net.mlir", """
func.func @main(%x: tensor<3x7x5xf32>, %i: tensor<1x3x1xi32>) -> tensor<3x3x2xf32> {
  %c = graph.elementwise ceil %x : (tensor<3x7x5xf32>) -> tensor<3x7x5xf32> loc("ceil")
  %0 = graph.slice %c {starts = array<i64: 1, 1, 0>, steps = array<i64: 1, 1, 2>} : (tensor<3x7x5xf32>) -> tensor<2x6x3xf32> loc("part")
  %1 = graph.transpose %0 {perm = array<i64: 2, 1, 0>} : (tensor<2x6x3xf32>) -> tensor<3x6x2xf32> loc("turned")
  %2 = graph.gather %1, %i : (tensor<3x6x2xf32>, tensor<1x3x1xi32>) -> tensor<3x3x2xf32> loc("rows")
  %3 = graph.elementwise sign %2 : (tensor<3x3x2xf32>) -> tensor<3x3x2xf32> loc("sign")
  return %3 : tensor<3x3x2xf32>
}
""")
        x = np.random.default_rng(1).standard_normal((3, 7, 5)).astype(np.float32)
        np.save(self.path / "x.npy", x)
        np.save(self.path / "i.npy", np.array([[[4], [0], [-2]]], np.int32))
        for options in (["--target", "cpu"], HW):
            self.assertIn(["part", "turned", "rows", "sign"], self.nodes_of_kernels(self.fusion(*options)))
        expected = np.sign(np.ceil(x)[1:, 1:, ::2].transpose(2, 1, 0)[:, [4, 0, -2]])
        for options in (["--target", "opencl"], HW):
            self.tilewright("run", "net.mlir", *options, "--input", "x.npy", "--input", "i.npy", "--output-dir", "out")
            np.testing.assert_array_equal(np.load(self.path / "out/output0.npy"), expected)

    def test_nodes_that_are_not_there_are_refused(self):
        self.branches()
        path = self.write("plan.mlir", '\nplan.network attributes {kernels_begin_at = ["rely"]} {}\n')
        self.fails("compile", "net.mlir", *HW, "--schedule", path,
                   message=["plan.mlir:2:1: a kernel is to begin at node 'rely'", "the nearest is 'relu'"])

    def test_a_model_with_kernels_has_no_other_boundaries(self):
        self.branches()
        self.tilewright("compile", "net.mlir", *HW, "--emit", "graph", "-o", "graph.mlir")
        path = self.write("plan.mlir", 'plan.network attributes {kernels_begin_at = ["relu"]} {}\n')
        self.fails("compile", "graph.mlir", *HW, "--schedule", path, message="the model has its kernels already")
        self.tilewright("compile", "net.mlir", *HW, "--emit", "linalg", "-o", "linalg.mlir")
        self.fails("compile", "linalg.mlir", *HW, "--emit", "fusion", message="has no operators any more")


if __name__ == "__main__":
    unittest.main()
