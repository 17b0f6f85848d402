#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tilewright dram`, and docs/dram.md.

Environment: TILEWRIGHT is the binary, TILEWRIGHT_SOURCE_DIR the source tree.
"""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

BINARY = os.environ["TILEWRIGHT"]
SOURCE = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])
DOCUMENT = (SOURCE / "docs/dram.md").read_text()


class DramTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def dram(self, *arguments, status=0, text=None):
        """Standard output, or what it complains about. `text` goes to standard input."""
        result = subprocess.run([BINARY, "dram", *map(str, arguments)], cwd=self.path, capture_output=True, text=True, input=text, timeout=300)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stderr if status else result.stdout

    def write(self, name, text):
        (self.path / name).write_text(text)
        return name


class TraceTest(DramTest):
    def test_files_and_standard_input_are_the_same(self):
        text = "0 R 0\n5 W 0x40 # a write\n"
        from_file = self.dram(self.write("a.trace", text), "--device", "ddr4_2400")
        self.assertEqual(from_file, self.dram("-", "--device", "ddr4_2400", text=text))
        self.assertIn("1 reads, 1 writes", from_file)
        self.assertIn("all legal", from_file)

    def test_json_on_standard_output_is_all_there_is(self):
        report = json.loads(self.dram(self.write("a.trace", "0 R 0\n"), "--device", "ddr4_2400", "--json", "-"))
        self.assertEqual(report["total_cycles"], 36)
        self.dram("a.trace", "--device", "ddr4_2400", "--json", "out.json")
        self.assertEqual(json.loads((self.path / "out.json").read_text()), report)

    def test_a_device_file_and_overrides(self):
        trace = self.write("a.trace", "0 R 0\n")
        self.write("mine.yaml", (SOURCE / "hw-configs/dram/ddr4_2400.yaml").read_text().replace("cl_ticks: 16", "cl_ticks: 20"))
        self.assertIn("40 cycles", self.dram(trace, "--device", "mine.yaml"))
        self.assertIn("37 cycles", self.dram(trace, "--device", "ddr4_2400", "--set", "dram.cl_ticks=17"))
        self.assertIn("cycles of 2400 MHz", self.dram(trace, "--device", "ddr4_2400", "--clock-mhz", 2400))

    def test_every_device_replays(self):
        trace = self.write("a.trace", "".join(f"{i // 3} {'RRW'[i % 3]} {i * 7919 % 4096 * 64:x}\n" for i in range(3000)))
        for device in sorted((SOURCE / "hw-configs/dram").glob("*.yaml")):
            for controller in ["in_order", "windowed"]:
                self.assertIn("2,000 reads, 1,000 writes", self.dram(trace, "--device", device.stem, "--set", f"dram.controller={controller}"))


class RefusalTest(DramTest):
    def test_bad_traces_have_a_place(self):
        for text, message in [("0 R 0\n1 X 0\n", "a.trace:2:3: found 'X' where R or W must stand"),
                              ("7 R 0\n6 R 0\n", "a.trace:2:1: the arrival is 6 but must be at least that of the access before, 7"),
                              ("0 R xyz\n", "a.trace:1:5: found 'xyz' where an address must stand"),
                              ("0 R 0 \x01\n", "a.trace:1:7: found")]:
            self.assertIn("tilewright: " + message, self.dram(self.write("a.trace", text), "--device", "ddr4_2400", status=1))
        self.assertIn("standard input:1:1: found", self.dram("-", "--device", "ddr4_2400", text="?", status=1))

    def test_bad_options(self):
        trace = self.write("a.trace", "0 R 0\n")
        self.assertIn("known devices: ddr4_2400", self.dram(trace, "--device", "ddr9", status=1))
        self.assertIn("none.yaml", self.dram(trace, "--device", "none.yaml", status=1))
        self.assertIn("must be a key of the DRAM", self.dram(trace, "--device", "ddr4_2400", "--set", "clock_mhz=1", status=1))
        self.assertIn("dram.cl_ticks is 0", self.dram(trace, "--device", "ddr4_2400", "--set", "dram.cl_ticks=0", status=1))
        self.assertIn("is no whole number", self.dram(trace, "--device", "ddr4_2400", "--clock-mhz", 0, status=1))
        self.assertIn("dram.refresh is per_bank, but dram.refi_bank_ticks is missing",
                      self.dram(trace, "--device", "ddr4_2400", "--set", "dram.refresh=per_bank", status=1))
        self.assertIn("No such file", self.dram("none", "--device", "ddr4_2400", status=1))
        self.assertIn("--device is required", self.dram(trace, status=1))

    def test_an_output_never_replaces_the_trace(self):
        trace = self.write("a.trace", "0 R 0\n")
        self.assertIn("a.trace", self.dram(trace, "--device", "ddr4_2400", "--json", trace, status=1))
        self.assertEqual((self.path / trace).read_text(), "0 R 0\n")


class DocumentTest(DramTest):
    def test_the_example(self):
        command, shown = re.search(r"```\n\$ printf '(.*?)' \| tilewright dram - --device ddr4_2400\n(.*?)```", DOCUMENT, re.S).groups()
        self.assertEqual(self.dram("-", "--device", "ddr4_2400", text=command.encode().decode("unicode_escape")), shown)

    def test_the_table(self):
        """Every total within 1 % of Ramulator's, and the numbers of the document."""
        result = subprocess.run([SOURCE / "scripts/dram-traces.py"], capture_output=True, text=True, timeout=500)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 26)
        self.assertIn(result.stdout, DOCUMENT)


if __name__ == "__main__":
    unittest.main()
