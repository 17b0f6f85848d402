#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What runs where no schedule is named: the fastest of three programs, in every command, and the report says which."""

import json
import unittest

from cli_test import DIGITS, NETWORK, CliTest

# On each machine another one of the three may be the fastest.
KERNELS = [("gemm:16x16x4096:int8", "vdla_16x16"), ("gemm:64x64x64:int8", "tiny_8x8"), ("gemm:40x64x96:fp32", "gemmini_16x16_fp32"),
           ("conv:1x6x6x8:1x1x29:s2:p0:int8", "tiny_8x8"), (NETWORK, "gemmini_16x16_int8"), (NETWORK, "tiny_8x8")]
# Here loading a tile ahead is faster than the plan.
DOUBLE_BUFFER = ["gemm:16x16x4096:int8", "--hw", "vdla_16x16"]


class ScheduleChoiceTest(CliTest):
    def report(self, *arguments):
        self.tilewright("run", *arguments, "--json", "report.json")
        return json.loads((self.path / "report.json").read_text())

    def measured(self, model):
        """Cycles of the three programs, each asked for by itself."""
        asked = {"list_scheduled": self.plan_file({}, schedule="pipelined"), "double_buffer": "double_buffer", "serial": "serial"}
        return {name: self.report(*model, "--schedule", schedule)["total_cycles"] for name, schedule in asked.items()}

    def image(self, *arguments):
        self.tilewright("compile", *arguments, "-o", "image.twp")
        return (self.path / "image.twp").read_bytes()

    def test_the_default_is_the_fastest_and_the_report_says_which(self):
        for kernel, machine in KERNELS:
            model = [kernel, "--hw", machine]
            measured = self.measured(model)
            for schedule in [[], ["--schedule", "pipelined"]]:
                report = self.report(*model, *schedule)
                self.assertEqual(report["schedule"], "pipelined")
                self.assertEqual(report["total_cycles"], min(measured.values()), model)
                self.assertEqual({c["schedule"]: c["cycles"] for c in report["schedule_candidates"]}, measured)
                self.assertEqual(measured[report["schedule_ran"]], report["total_cycles"])
            text, _ = self.tilewright("run", *model)
            others = min(cycles for name, cycles in measured.items() if name != report["schedule_ran"])
            self.assertIn(f"schedule pipelined ({report['schedule_ran']} ran: {report['total_cycles']:,} cycles against {others:,})", text)

    def test_networks_with_layers_for_the_cpu(self):
        model = [DIGITS / "digits_fp32.onnx", "--hw", "tiny_8x8"]
        report = self.report(*model)
        self.assertIn("cpu", {entry["target"] for entry in report["offload"]})
        self.assertEqual(report["total_cycles"], min(self.measured(model).values()))

    def test_what_is_compiled_is_what_ran(self):
        self.assertEqual(self.report(*DOUBLE_BUFFER)["schedule_ran"], "double_buffer")
        image = self.image(*DOUBLE_BUFFER)
        self.assertEqual(image, self.image(*DOUBLE_BUFFER, "--schedule", "double_buffer"))
        self.assertNotEqual(image, self.image(*DOUBLE_BUFFER, "--schedule", self.plan_file({}, schedule="pipelined")))
        # The file names the schedule that ran, and is taken by its word.
        self.tilewright("compile", *DOUBLE_BUFFER, "--emit", "plan", "-o", "chosen.mlir")
        self.assertIn('schedule = "double_buffer"', (self.path / "chosen.mlir").read_text())
        self.assertEqual(self.image(*DOUBLE_BUFFER, "--schedule", "chosen.mlir"), image)

    def test_search_is_never_slower(self):
        for kernel, machine in KERNELS[:4]:
            model = [kernel, "--hw", machine]
            for budget in [1, 3]:
                report = self.report(*model, "--schedule", "search", "--search-budget", budget)
                self.assertLessEqual(report["total_cycles"], min(self.measured(model).values()), model)
                self.assertEqual([c["schedule"] for c in report["schedule_candidates"]],
                                 ["search", "list_scheduled", "double_buffer", "serial"])
        tuned, _ = self.tilewright("tune", *DOUBLE_BUFFER, "--budget", 1)
        self.assertIn(f"best {self.measured(DOUBLE_BUFFER)['double_buffer']:,} cycles", tuned)
        self.assertIn("of schedule double_buffer", tuned)

    def test_long_programs_are_not_run_to_choose(self):
        model = ["gemm:512x512x512:int8", "--hw", "tiny_8x8"]
        report = self.report(*model)
        self.assertGreater(report["lower_bound_cycles"], 1000000)
        self.assertEqual((report["schedule_ran"], report["schedule_candidates"]), ("list_scheduled", []))
        listed = self.plan_file({}, schedule="pipelined")
        self.assertEqual(report["total_cycles"], self.report(*model, "--schedule", listed)["total_cycles"])
        self.assertIn("(list_scheduled ran, not compared: more than 1,000,000 cycles)", self.tilewright("run", *model)[0])

    def test_what_is_asked_for_is_not_compared(self):
        for options in [["--across", "prefetch"], ["--schedule", self.plan_file({}, schedule="pipelined")], ["--schedule", "serial"]]:
            report = self.report(*DOUBLE_BUFFER, *options)
            self.assertNotIn("schedule_ran", report)
            self.assertNotIn(" ran", self.tilewright("run", *DOUBLE_BUFFER, *options)[0].splitlines()[0])

    def test_profiles_name_it(self):
        self.assertIn("schedule pipelined (double_buffer ran: ", self.tilewright("profile", *DOUBLE_BUFFER)[0])
        out, _ = self.tilewright("profile", *DOUBLE_BUFFER, "--json", "-")
        self.assertEqual(json.loads(out)["schedule_ran"], "double_buffer")

    def test_loads_are_as_fast_as_latency_lets_them(self):
        """With memory far away 16 bursts in flight are a tenth of what the bus could move."""
        model = ["gemm:256x256x256:int8", "--hw", "gemmini_16x16_int8", "--set", "dram.path_latency_cycles=500"]
        measured = self.measured(model)
        self.assertLess(measured["list_scheduled"], 1.1 * measured["double_buffer"])


if __name__ == "__main__":
    unittest.main()
