#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""--print-after and --print-after-all: what each phase of the compiler made."""

import unittest

from cli_test import NETWORK, CliTest

HW = ["--hw", "gemmini_16x16_int8"]
FILES = {"import": "0-import.mlir", "graph": "1-graph.mlir", "linalg": "2-linalg.mlir", "plan": "3-plan.mlir", "tiles": "4-tiles.txt",
         "isa": "5-isa.txt"}


class PhasesTest(CliTest):
    def test_all_phases_are_what_emit_shows(self):
        self.tilewright("compile", NETWORK, *HW, "-o", "x.twp", "--print-after-all", "phases")
        self.assertEqual(sorted(path.name for path in (self.path / "phases").iterdir()), sorted(FILES.values()))
        for phase, file in FILES.items():
            self.tilewright("compile", NETWORK, *HW, "--emit", phase, "-o", "emitted")
            self.assertEqual((self.path / "phases" / file).read_text(), (self.path / "emitted").read_text(), phase)

    def test_phases_are_those_of_the_schedule_that_was_chosen(self):
        """Here loading a tile ahead is faster than the plan of the list scheduler."""
        self.tilewright("compile", "gemm:16x16x4096:int8", "--hw", "vdla_16x16", "-o", "x.twp", "--print-after-all", "phases")
        self.assertIn('schedule = "double_buffer"', (self.path / "phases/3-plan.mlir").read_text())

    def test_phases_on_standard_error_stand_in_order(self):
        out, err = self.tilewright("compile", NETWORK, *HW, "-o", "x.twp", "--print-after", "isa", "--print-after", "graph")
        self.assertEqual(out, "")
        self.assertEqual([line for line in err.splitlines() if line.startswith("// phase ")], ["// phase graph", "// phase isa"])
        self.assertIn("graph.", err.split("// phase isa")[0])

    def test_phases_behind_the_one_shown_are_not_reached(self):
        self.tilewright("compile", NETWORK, *HW, "--emit", "graph", "-o", "g.mlir", "--print-after-all", "phases")
        self.assertEqual(sorted(path.name for path in (self.path / "phases").iterdir()), ["0-import.mlir", "1-graph.mlir"])

    def test_an_error_leaves_what_was_reached(self):
        self.write("s.mlir", 'plan.network {\n  plan.kernel "no_such_kernel" {depth = 2}\n}\n')
        _, err = self.tilewright("compile", NETWORK, *HW, "--schedule", "s.mlir", "-o", "x.twp", "--print-after-all", "phases", status=1)
        self.assertIn("s.mlir:2:", err)
        self.assertEqual(sorted(path.name for path in (self.path / "phases").iterdir()), ["0-import.mlir", "1-graph.mlir"])
        self.assertFalse((self.path / "x.twp").exists())

    def test_refusals(self):
        compile = ["compile", "gemm:8x8x8:int8", *HW, "-o", "x.twp"]
        self.fails(*compile, "--print-after", "program", message="--print-after")
        self.fails(*compile, "--print-after-all", "none/phases", message="none/phases")
        self.fails(*compile, "--print-after-all", "phases", "--print-after", "isa", message="excludes")
        self.fails("compile", "gemm:8x8x8:int8", "--target", "cpu", "--print-after", "graph", message="--print-after is for --target accel")


if __name__ == "__main__":
    unittest.main()
