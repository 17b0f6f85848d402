#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scripts/model-coverage.py on a network of integers and one of floats, the smallest of TILEWRIGHT_MODELS; skipped without them.

Environment: TILEWRIGHT is the binary, TILEWRIGHT_SOURCE_DIR the source tree.
"""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])
MODELS = pathlib.Path(os.environ.get("TILEWRIGHT_MODELS", "/nonexistent"))


class CoverageTest(unittest.TestCase):
    def test_the_smallest_networks_agree(self):
        smallest = ["ort_conv_qdq_external", "ort_whisper_attn"]
        if not all((MODELS / name / "model.onnx").exists() for name in smallest):
            self.skipTest("TILEWRIGHT_MODELS names no folder with these networks")
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run([SOURCE / "scripts/model-coverage.py", "--models", ",".join(smallest), "-o", f"{folder}/page.md"],
                                    env={**os.environ, "TILEWRIGHT_BUILD": folder}, capture_output=True, text=True, timeout=500)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            page = pathlib.Path(folder, "page.md").read_text()
        self.assertIn("2 networks, 6 runs: 6 agree, 0 disagree, 0 fail.", page)
        for name in smallest:
            rows = re.findall(rf"^\| {re.escape(name)} \| \S+ \| agrees \| .* \| ([\d,]+) \|$", page, re.M)
            self.assertEqual(len(rows), 3)


if __name__ == "__main__":
    unittest.main()
