#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""--explain: every proposal of the exploration and the comparison of schedules, as text and as JSON lines."""

import json
import re
import unittest

from cli_test import NETWORK, SOURCE, CliTest

HW = ["--hw", "gemmini_16x16_int8"]
KEYS = ["strategy", "changes", "before", "after", "taken", "why"]
FIRST, CHOICE = "first-plan", "schedule-choice"
SIMULATED = ["simulation", CHOICE]


class ExplainTest(CliTest):
    def lines(self, *arguments):
        self.tilewright(*arguments, "--explain", "e.jsonl")
        return [json.loads(line) for line in (self.path / "e.jsonl").read_text().splitlines()]

    def proposals(self, *arguments):
        """Those of the exploration."""
        return [line for line in self.lines(*arguments) if line["strategy"] not in SIMULATED]


class LinesTest(ExplainTest):
    def setUp(self):
        super().setUp()
        self.compiled = self.lines("compile", NETWORK, *HW, "-o", "x.twp")

    def test_keys(self):
        for line in self.compiled:
            self.assertEqual(list(line), KEYS)
            for change in line["changes"]:
                self.assertEqual(list(change), ["kernel", "knob", "from", "to"])
                self.assertNotEqual(change["from"], change["to"])

    def test_strategies_are_listed_in_their_order(self):
        strategies = list(dict.fromkeys(line["strategy"] for line in self.compiled))
        self.assertEqual((strategies[0], strategies[-1]), (FIRST, CHOICE))
        # What a network of several layers always tries, on a machine whose DRAM is a device.
        order = [name for name in strategies if name in ("residency", "serpentine", "priorities", "bus")]
        self.assertEqual(order, ["residency", "serpentine", "priorities", "bus"])

    def test_what_is_taken_is_where_the_next_begins(self):
        proposals = [line for line in self.compiled if line["strategy"] not in SIMULATED]
        self.assertIsNone(proposals[0]["before"])
        best = proposals[0]["after"]
        for line in proposals[1:]:
            self.assertEqual(line["before"], best, line)
            if line["taken"]:
                self.assertLess(line["after"], best, line)
                self.assertTrue(line["changes"], line)
                best = line["after"]

    def test_a_reason_stands_where_nothing_was_taken(self):
        for line in self.compiled:
            self.assertEqual(line["why"] is None, line["taken"], line)

    def test_every_command_explains_the_same(self):
        for command in ["run", "profile"]:
            self.assertEqual(self.lines(command, NETWORK, *HW), self.compiled, command)

    def test_equal_commands_explain_equally(self):
        first = (self.path / "e.jsonl").read_bytes()
        self.lines("compile", NETWORK, *HW, "-o", "x.twp")
        self.assertEqual((self.path / "e.jsonl").read_bytes(), first)

    def test_schedules_are_compared_by_simulation(self):
        report = json.loads(self.tilewright("run", NETWORK, *HW, "--json", "-")[0])
        candidates = {c["schedule"]: c["cycles"] for c in report["schedule_candidates"]}
        lines = [line for line in self.compiled if line["strategy"] == CHOICE]
        self.assertEqual([line["after"] for line in lines], list(candidates.values()))
        self.assertEqual([line["changes"][0]["to"] for line in lines[1:]], list(candidates)[1:])
        self.assertEqual([line for line in lines if line["taken"]][-1]["after"], report["total_cycles"])


class TextTest(ExplainTest):
    def test_text_says_what_the_lines_say(self):
        lines = self.lines("compile", NETWORK, *HW, "-o", "x.twp")
        out, _ = self.tilewright("compile", NETWORK, *HW, "-o", "x.twp", "--explain", "-")
        self.assertEqual([line.split(":")[0] for line in out.splitlines() if not line.startswith("  ")],
                         [line["strategy"] for line in lines])
        self.assertEqual(sum(line.startswith("  ") for line in out.splitlines()), sum(len(line["changes"]) for line in lines))
        self.assertEqual(sum(line.endswith(" cycles, taken") for line in out.splitlines()), sum(line["taken"] for line in lines))

    def test_a_file_of_another_name_is_text(self):
        out, _ = self.tilewright("compile", NETWORK, *HW, "-o", "x.twp", "--explain", "-")
        self.tilewright("compile", NETWORK, *HW, "-o", "x.twp", "--explain", "e.txt")
        self.assertEqual((self.path / "e.txt").read_text(), out)

    def test_what_decides_nothing_says_so(self):
        out, _ = self.tilewright("compile", NETWORK, *HW, "--emit", "graph", "-o", "graph.mlir", "--explain", "-")
        self.assertEqual(out, "nothing was explored\n")

    def test_what_is_asked_for_is_not_proposed(self):
        proposals = self.proposals("compile", NETWORK, *HW, "-o", "x.twp", "--priority", "alap")
        self.assertNotIn("priority", {change["knob"] for line in proposals for change in line["changes"]})

    def test_tuning_explains_its_first_plan(self):
        self.assertGreater(len(self.proposals("tune", NETWORK, *HW, "--budget", 1)), 1)

    def test_simple_schedules_explore_nothing(self):
        self.assertEqual(self.lines("run", NETWORK, *HW, "--schedule", "serial"), [])


class RefusalTest(ExplainTest):
    def test_bad_paths(self):
        (self.path / "folder").mkdir()
        self.tilewright("compile", "gemm:8x8x8:int8", *HW, "-o", "p.twp")
        command = {"run": [], "profile": [], "tune": [], "compile": ["-o", "x.twp"]}
        for name, options in command.items():
            for path, message in [("none/e.txt", "none/e.txt"), ("folder", "folder")]:
                self.fails(name, "gemm:8x8x8:int8", *HW, *options, "--explain", path, message=message)

    def test_the_explanation_is_no_other_output(self):
        self.fails("run", "gemm:8x8x8:int8", *HW, "--json", "r.json", "--explain", "r.json", message="r.json")

    def test_programs_are_planned_already(self):
        self.tilewright("compile", "gemm:8x8x8:int8", *HW, "-o", "p.twp")
        self.fails("run", "p.twp", "--explain", "e.txt", message="p.twp is a program already: --explain has nothing to tell")

    def test_other_targets_have_no_plan(self):
        self.fails("compile", "gemm:8x8x8:int8", "--target", "cpu", "--explain", "e.txt", message="--explain is for --target accel")


class DocumentTest(ExplainTest):
    def test_its_commands_run(self):
        commands = re.findall(r"^tilewright (.*)$", (SOURCE / "docs/explain.md").read_text(), re.M)
        self.assertEqual(len(commands), 2)
        for command in commands:
            self.tilewright(*command.replace("tests/", f"{SOURCE}/tests/").split())


if __name__ == "__main__":
    unittest.main()
