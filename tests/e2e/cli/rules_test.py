#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tilewright rules`, --rules, --disable-rule and --explain-rules, and docs/rules.md."""

import json
import os
import pathlib
import unittest

from cli_test import CliTest

SOURCE = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])
HW = ["--hw", "gemmini_16x16_fp32"]
# (a^T)^T + 1 keeps every bit without the transposes; a*b + a*c is a*(b + c) in real arithmetic.
NETWORK = """func.func @main(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>, %c: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %one = graph.constant dense<1.0> : tensor<f32>
  %t = graph.transpose %a {perm = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32> loc("first")
  %u = graph.transpose %t {perm = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32> loc("second")
  %v = graph.add %u, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %ab = graph.mul %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %ac = graph.mul %a, %c : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = graph.add %ab, %ac : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("sum")
  return %v, %s : tensor<4x8xf32>, tensor<4x8xf32>
}
"""


class RulesTest(CliTest):
    def setUp(self):
        super().setUp()
        self.write("net.mlir", NETWORK)

    def rules(self, *options):
        self.tilewright("compile", "net.mlir", *HW, *options, "--emit", "graph", "-o", "graph.mlir", "--explain-rules", "rules.jsonl")
        return [json.loads(line) for line in (self.path / "rules.jsonl").read_text().splitlines()]

    def test_math_and_rules_say_which_classes_are_applied(self):
        for options, expected in [([], ["transpose-of-transpose"]), (["--rules", "none"], []),
                                  (["--math", "reassociate"], ["transpose-of-transpose", "factor-out"]),
                                  (["--math", "reassociate", "--rules", "bit-exact"], ["transpose-of-transpose"]),
                                  (["--math", "fast", "--disable-rule", "transpose-of-transpose"], ["factor-out"])]:
            self.assertCountEqual([entry["rule"] for entry in self.rules(*options)], expected)

    def test_an_entry_says_what_changed(self):
        entry = self.rules()[0]
        self.assertEqual((entry["class"], entry["nodes"]), ("bit-exact", ["second"]))
        self.assertLess(entry["after"], entry["before"])
        text, _ = self.tilewright("run", "net.mlir", *HW, "--explain-rules", "-", "--json", "report.json")
        self.assertRegex(text, r"transpose-of-transpose +bit-exact +1 ")
        self.assertEqual(self.rules("--rules", "none"), [])
        text, _ = self.tilewright("compile", "net.mlir", *HW, "--rules", "none", "--emit", "graph", "-o", "graph.mlir", "--explain-rules", "-")
        self.assertEqual(text, "no rule changed the graph\n")

    def test_reports_say_that_rules_were_off(self):
        self.tilewright("run", "net.mlir", *HW, "--rules", "bit-exact", "--disable-rule", "neg-of-neg", "--json", "report.json")
        self.assertEqual(json.loads((self.path / "report.json").read_text())["schedule"], "pipelined (rules bit-exact) (without neg-of-neg)")

    def test_names_that_are_no_rules_are_refused(self):
        self.fails("run", "net.mlir", *HW, "--disable-rule", "factor-in", message=["--disable-rule is 'factor-in'", "tilewright rules"])
        self.fails("run", "net.mlir", *HW, "--disable-rule", "batch-norm-to-scale", message="always applied")
        self.fails("run", "net.mlir", *HW, "--disable-rule", "dead-code", message="always applied")
        self.fails("run", "net.mlir", *HW, "--rules", "some", message=["--rules", "none,bit-exact,real,all"])

    def test_the_list_is_that_of_the_page(self):
        table, _ = self.tilewright("rules", "--markdown")
        self.assertIn(table, (SOURCE / "docs/rules.md").read_text())
        text, _ = self.tilewright("rules")
        for line in table.splitlines()[2:]:
            self.assertIn(line.split("`")[1], text)


if __name__ == "__main__":
    unittest.main()
