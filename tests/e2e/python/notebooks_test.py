#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The notebooks run from top to bottom, and stand in the tree without outputs."""
import os
import pathlib
import sys
import unittest

SOURCES = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])
os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
os.environ.setdefault("MPLBACKEND", "agg")
try:
    import nbclient
    import nbformat
except ImportError as missing:
    print(f"skipped: {missing.name} is not installed (scripts/setup.sh notebooks)")
    sys.exit(77)


class NotebookTest(unittest.TestCase):
    def test_every_notebook_runs(self):
        notebooks = sorted((SOURCES / "docs/notebooks").glob("*.ipynb"))
        self.assertEqual(len(notebooks), 3)
        for path in notebooks:
            with self.subTest(path.name):
                notebook = nbformat.read(path, as_version=4)
                nbformat.validate(notebook)
                self.assertFalse(any(cell.get("outputs") for cell in notebook.cells), "clear the outputs before you commit")
                nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3",
                                        resources={"metadata": {"path": str(SOURCES)}}).execute()


if __name__ == "__main__":
    unittest.main()
