#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Energy and area in reports, `--technology`, and `tilewright hw technology`.

Environment: TILEWRIGHT is the binary, TILEWRIGHT_SOURCE_DIR the source tree.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BINARY = os.environ["TILEWRIGHT"]
SOURCE = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])
GEMM = ["gemm:64x64x64:int8", "--hw", "gemmini_16x16_int8", "--schedule", "double_buffer"]


class EnergyTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def tilewright(self, *arguments, status=0):
        """Standard output, or what it complains about."""
        result = subprocess.run([BINARY, *map(str, arguments)], cwd=self.path, capture_output=True, text=True, timeout=300,
                                env=os.environ | {"TILEWRIGHT_CHECK_REPORTS": "1"})
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stderr if status else result.stdout

    def report(self, *arguments, command="run"):
        return json.loads(self.tilewright(command, *arguments, "--json", "-"))

    def test_the_report_has_energy_and_area(self):
        report = self.report(*GEMM)
        energy, area = report["energy"], report["area"]
        self.assertTrue(energy["estimate"] and area["estimate"])
        self.assertEqual((energy["technology"], energy["technology_is_default"]), ("45nm", True))
        self.assertAlmostEqual(sum(energy["components"].values()) / energy["total_joules"], 1)
        self.assertAlmostEqual(sum(area["components"].values()) / area["total_mm2"], 1)
        self.assertEqual(energy["events"]["array_macs"], 64**3)
        # 0.2 + 0.1 pJ of each product.
        self.assertAlmostEqual(energy["components"]["array_macs"] * 1e12, 0.3 * 64**3, places=3)
        self.assertAlmostEqual(energy["picojoules_per_mac"], energy["total_joules"] * 1e12 / 64**3)
        self.assertEqual([layer["name"] for layer in energy["layers"]], [layer["name"] for layer in report["layers"]])
        self.assertIn("tensor", [engine["name"] for engine in energy["engines"]])

    def test_profile_has_the_same(self):
        run, profile = self.report(*GEMM), self.report(*GEMM, command="profile")
        self.assertEqual(profile["energy"], run["energy"])
        self.assertEqual(profile["area"], run["area"])

    def test_the_table_says_what_counts(self):
        table = self.tilewright("run", *GEMM)
        self.assertRegex(table, r"energy, estimated +uJ +%\n-+\n")
        self.assertRegex(table, r"average [\d.]+ W at 1000 MHz, [\d.]+ pJ per MAC; technology 45nm \(the default\), area [\d.]+ mm2 \(estimate\)")
        self.assertIn("technology 7nm, area", self.tilewright("run", *GEMM, "--technology", "7nm"))

    def test_a_technology_by_option_file_and_machine(self):
        small = self.report(*GEMM, "--technology", "7nm")
        self.assertFalse(small["energy"]["technology_is_default"])
        self.assertLess(small["area"]["total_mm2"], self.report(*GEMM)["area"]["total_mm2"])
        text = (SOURCE / "hw-configs/technology/45nm.yaml").read_text().replace("int8_multiply_pj: 0.2", "int8_multiply_pj: 0.5")
        (self.path / "mine.yaml").write_text(text)
        mine = self.report(*GEMM, "--technology", "mine.yaml")
        self.assertAlmostEqual(mine["energy"]["components"]["array_macs"] * 1e12, 0.6 * 64**3, places=3)
        named = self.report(*GEMM, "--set", "technology=7nm")
        self.assertEqual(named["energy"], small["energy"])
        # A technology changes no cycle: programs are for every one.
        self.assertEqual(named["total_cycles"], self.report(*GEMM)["total_cycles"])

    def test_more_work_costs_more(self):
        once, twice = self.report(*GEMM), self.report("gemm:128x64x64:int8", *GEMM[1:])
        self.assertAlmostEqual(twice["energy"]["components"]["array_macs"], 2 * once["energy"]["components"]["array_macs"])

    def test_a_wrong_technology_is_told_before_anything_runs(self):
        self.assertIn("no such technology; there are: 45nm, 7nm", self.tilewright("run", *GEMM, "--technology", "3nm", status=1))
        (self.path / "bad.yaml").write_text("name: bad\nnode_nm: {value: small, source: x}\n")
        message = self.tilewright("profile", *GEMM, "--technology", "bad.yaml", status=1)
        self.assertIn("bad.yaml:2:18: node_nm is 'small' but must be a number from 1 to 1000", message)
        self.assertIn("arithmetic.int8_multiply_pj is missing", message)
        self.assertIn("3nm", self.tilewright("run", *GEMM, "--set", "technology=3nm", status=1))

    def test_hw_shows_technologies_and_area(self):
        self.assertRegex(self.tilewright("hw", "technology"), r"45nm: .*\n7nm: .*\n")
        numbers = self.tilewright("hw", "technology", "7nm")
        self.assertRegex(numbers, r"arithmetic.int8_multiply_pj +0.07 +Jouppi")
        self.assertRegex(numbers, r"gates.placed_share +0.7 +estimate: ")
        self.assertRegex(self.tilewright("hw", "describe", "tiny_8x8"), r"area +[\d.]+ mm2 \(estimate, technology 45nm\)\n +[\d.]+ mm2 array\n")
        self.assertIn("technology 7nm", self.tilewright("hw", "describe", "tiny_8x8", "--technology", "7nm"))

    def test_the_functional_model_has_no_energy(self):
        self.assertNotIn("energy", self.report(*GEMM, "--model", "functional"))


if __name__ == "__main__":
    unittest.main()
