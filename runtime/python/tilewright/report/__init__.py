# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One HTML page from what runs, profiles, comparisons and sweeps have written (docs/report.md).

    from tilewright.report import make

    page = make(["run.json", "timeline.json"])
"""
from .page import find_template, make

__all__ = ["find_template", "make"]
