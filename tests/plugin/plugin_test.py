#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""--load-plugin: strategies, priorities and cost models of plug-ins in networks, and libraries that are refused."""

import json
import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, os.environ["TILEWRIGHT_SOURCE_DIR"] + "/tests/e2e/cli")
from cli_test import NETWORK, SOURCE, CliTest

SIMULATED = ["simulation", "schedule-choice"]
PLUGINS = pathlib.Path(os.environ["TILEWRIGHT_PLUGIN_DIR"])
HW = ["--hw", "gemmini_16x16_int8"]
STRATEGY = ["--load-plugin", PLUGINS / "StrategyPlugin.so"]
COST_MODEL = ["--load-plugin", PLUGINS / "CostModelPlugin.so", "--cost-model", "roofline"]
PRIORITY = ["--load-plugin", PLUGINS / "PriorityPlugin.so", "--priority", "longest_path"]


class PluginTest(CliTest):
    def image(self, *options):
        self.tilewright("compile", NETWORK, *HW, *options, "-o", "image.twp")
        return (self.path / "image.twp").read_bytes()

    def explained(self, *options):
        self.tilewright("compile", NETWORK, *HW, *options, "-o", "x.twp", "--explain", "e.jsonl")
        return [json.loads(line) for line in (self.path / "e.jsonl").read_text().splitlines()]


class StrategyTest(PluginTest):
    def test_every_command_loads_it(self):
        for command in [["run", NETWORK], ["compile", NETWORK, "-o", "x.twp"], ["profile", NETWORK], ["tune", NETWORK, "--budget", 1]]:
            _, err = self.tilewright(*command, *HW, *STRATEGY)
            self.assertIn("StrategyPlugin.so adds strategy deeper", err)

    def test_it_proposes_behind_the_product(self):
        own = self.explained()
        with_plugin = [line for line in self.explained(*STRATEGY) if line["strategy"] not in SIMULATED]
        deeper = [line for line in with_plugin if line["strategy"] == "deeper"]
        self.assertTrue(deeper)
        for line in deeper:
            self.assertEqual([change["knob"] for change in line["changes"]], ["depth"])
        self.assertEqual(with_plugin[-len(deeper):], deeper)
        self.assertEqual(with_plugin[:-len(deeper)], [line for line in own if line["strategy"] not in SIMULATED])

    def test_it_never_costs_cycles_by_the_estimate(self):
        best = [line for line in self.explained(*STRATEGY) if line["strategy"] not in SIMULATED and line["taken"]]
        without = [line for line in self.explained() if line["strategy"] not in SIMULATED and line["taken"]]
        self.assertLessEqual(best[-1]["after"], without[-1]["after"])

    def test_it_is_added_once(self):
        self.fails("run", NETWORK, *HW, *STRATEGY, *STRATEGY, message="the plug-in added no strategy, no priority and no cost model")


class PriorityTest(PluginTest):
    def test_it_orders_the_network(self):
        image = self.image(*PRIORITY)
        self.assertNotEqual(image, self.image("--priority", "program_order"))
        self.assertEqual(image, self.image(*PRIORITY))

    def test_results_stay(self):
        """The simulator looks for reads of unwritten words and unordered accesses."""
        self.tilewright("run", NETWORK, *HW, *PRIORITY, "--check", "--output-dir", "plugin")
        self.tilewright("run", NETWORK, *HW, "--schedule", "serial", "--output-dir", "serial")
        outputs = sorted(path.name for path in (self.path / "serial").iterdir())
        self.assertTrue(outputs)
        for name in outputs:
            self.assertEqual((self.path / "plugin" / name).read_bytes(), (self.path / "serial" / name).read_bytes())

    def test_knob_values_have_the_same_option(self):
        images = {name: self.image("--priority", name) for name in ["program_order", "alap", "interleaved"]}
        self.assertGreater(len(set(images.values())), 1)

    def test_wrong_numbers_are_errors(self):
        bad = ["--load-plugin", PLUGINS / "BadPriorityPlugin.so", "--priority"]
        for name, message in [("short", "gives 1 numbers for"), ("nan", "it gives a NaN"), ("throws", "it threw: no licence")]:
            _, err = self.tilewright("compile", NETWORK, *HW, *bad, name, "-o", "x.twp", status=1)
            self.assertIn(f"priority '{name}' is wrong: ", err)
            self.assertIn(message, err)

    def test_unknown_names(self):
        self.fails("run", NETWORK, *HW, "--priority", "longest_path",
                   message="--priority is 'longest_path' but must be one of program_order, alap, interleaved")
        self.fails("run", NETWORK, *HW, "--schedule", "serial", "--priority", "alap", message="is for the schedules pipelined and search")
        self.fails("run", NETWORK, *HW, "--across", "none", "--priority", "alap", message="is for --across prefetch and all")

    def test_a_plan_file_has_the_knob_or_the_command_has_the_option(self):
        self.write("s.mlir", 'plan.network attributes {priority = "alap"} {\n}\n')
        self.fails("run", NETWORK, *HW, "--schedule", "s.mlir", "--priority", "alap", message="exclude each other")


class CostModelTest(PluginTest):
    def test_choices_go_by_it(self):
        """No schedule of the same network takes less than its roofline says, and the list scheduler says more."""
        first, own = self.explained(*COST_MODEL)[0], self.explained("--cost-model", "closed_form")[0]
        self.assertEqual([first["strategy"], own["strategy"]], ["first-plan", "first-plan"])
        self.assertLess(first["after"], own["after"])
        image = self.image(*COST_MODEL)
        self.assertEqual(image, self.image(*COST_MODEL))
        self.assertNotEqual(image, self.image("--cost-model", "closed_form"))

    def test_it_is_taken_by_its_word(self):
        for line in self.explained(*COST_MODEL):
            self.assertNotIn(line["strategy"], SIMULATED)

    def test_results_stay(self):
        """Whatever it says: the verifier of schedules passes the program, and the simulator finds nothing."""
        self.tilewright("run", NETWORK, *HW, "--schedule", "serial", "--output-dir", "serial")
        outputs = sorted(path.name for path in (self.path / "serial").iterdir())
        self.assertTrue(outputs)
        bad = ["--load-plugin", PLUGINS / "BadCostModelPlugin.so", "--cost-model", "no_numbers"]
        for name, model in [("roofline", COST_MODEL), ("bad", bad)]:
            for schedule in ["double_buffer", "pipelined"]:
                folder = f"{name}-{schedule}"
                self.tilewright("run", NETWORK, *HW, *model, "--schedule", schedule, "--check", "--output-dir", folder)
                for output in outputs:
                    self.assertEqual((self.path / folder / output).read_bytes(), (self.path / "serial" / output).read_bytes())

    def test_unknown_names(self):
        self.fails("run", NETWORK, *HW, "--cost-model", "roofline",
                   message="--cost-model is 'roofline' but must be one of closed_form; a plug-in may add others")
        self.fails("run", NETWORK, *HW, *COST_MODEL[:2], "--cost-model", "roof",
                   message="--cost-model is 'roof' but must be one of closed_form, roofline; a plug-in may add others")

    def test_a_name_is_taken_once(self):
        _, err = self.tilewright("run", NETWORK, *HW, "--load-plugin", PLUGINS / "BadCostModelPlugin.so")
        self.assertIn("adds cost model no_numbers", err)
        self.assertNotIn("adds cost model closed_form", err)


class RefusedTest(PluginTest):
    def test_libraries_with_nothing_for_the_compiler(self):
        for name, message in [("NoPlugin", "not a plug-in: it does not export tilewrightPluginVersion"),
                              ("SchedulerPlugin", "it does not export tilewrightRegisterStrategies or tilewrightRegisterPriorities "
                               "or tilewrightRegisterCostModels")]:
            _, err = self.tilewright("run", NETWORK, *HW, "--load-plugin", PLUGINS / f"{name}.so", status=1)
            self.assertIn(f"{name}.so: ", err)
            self.assertIn(message, err)


class DocumentTest(PluginTest):
    def test_its_commands_run(self):
        """Compilers are left out: the libraries are built already."""
        commands = re.findall(r"^tilewright (.*)$", (SOURCE / "docs/plugins.md").read_text(), re.M)
        self.assertEqual(len(commands), 3)
        libraries = {"./longest_path.so": PLUGINS / "PriorityPlugin.so", "./deeper.so": PLUGINS / "StrategyPlugin.so",
                     "./roofline.so": PLUGINS / "CostModelPlugin.so"}
        for command in commands:
            self.tilewright(*[libraries.get(word, word) for word in command.split()])


if __name__ == "__main__":
    unittest.main()
