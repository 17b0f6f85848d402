#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A machine's RTL as a project of its own: it is whole, Verilator finds nothing in it, and refusals say why."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"]) / "scripts/export-rtl.sh"


class ExportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def export(self, *arguments):
        return subprocess.run([SCRIPT, *arguments], cwd=self.path, capture_output=True, text=True, timeout=60)

    def test_a_project_that_lints(self):
        result = self.export("tiny_8x8", "out")
        self.assertEqual(result.returncode, 0, result.stderr)
        files = (self.path / "out/files.f").read_text().split()
        self.assertEqual(sorted(files), sorted(f"rtl/{file.name}" for file in (self.path / "out/rtl").iterdir()))
        self.assertFalse(any(file.is_symlink() for file in (self.path / "out").rglob("*")))
        if not shutil.which("verilator"):
            self.skipTest("there is no Verilator")
        # Nothing of it needs the repository.
        shutil.move(self.path / "out", self.path / "moved")
        lint = subprocess.run(["make", "-C", self.path / "moved", "lint"], capture_output=True, text=True, timeout=500)
        self.assertEqual(lint.returncode, 0, lint.stdout + lint.stderr)

    def test_refusals(self):
        (self.path / "full").mkdir()
        (self.path / "full/file").write_text("kept")
        for arguments, message in [(["tiny_8x8"], "usage"), (["tiny_8x8", "full"], "'full' is not empty"), (["none", "out"], "none")]:
            result = self.export(*arguments)
            self.assertEqual(result.returncode, 1)
            self.assertIn(message, result.stderr)
        self.assertEqual(sorted(path.name for path in self.path.rglob("*")), ["file", "full"])


if __name__ == "__main__":
    unittest.main()
