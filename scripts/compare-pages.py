#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cycles of docs/networks.md and docs/models.md beside those that another revision of these pages has: their geometric mean, and every
row that takes more than 1.01 times as many. Exit status 1 if a row takes more than 1.03 times as many.

  scripts/compare-pages.py REVISION [PAGE...]
"""

import argparse
import math
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ["docs/networks.md", "docs/models.md"]


def rows(text):
    """Cycles by what stands before them, of every table with a column `cycles`."""
    column, found = None, {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            column = None
        elif column is None:
            column = cells.index("cycles") if "cycles" in cells else 0
        elif column and cells[column].replace(",", "").isdigit():
            found.setdefault(" ".join(cells[:column]), int(cells[column].replace(",", "")))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision")
    parser.add_argument("pages", nargs="*", default=PAGES)
    arguments = parser.parse_args()
    ratios = []
    for page in arguments.pages:
        before = subprocess.run(["git", "show", f"{arguments.revision}:{page}"], cwd=ROOT, capture_output=True, text=True)
        if before.returncode:
            sys.exit(f"compare-pages: {page}: {before.stderr.strip()}")
        old, new = rows(before.stdout), rows((ROOT / page).read_text())
        ratios += [(new[name] / old[name], name) for name in old if name in new]
    if not ratios:
        sys.exit("compare-pages: the pages have no row in common")
    mean = math.exp(sum(math.log(ratio) for ratio, _ in ratios) / len(ratios))
    print(f"{len(ratios)} rows, geometric mean {mean:.5f}")
    for ratio, name in sorted(ratios, reverse=True):
        if ratio > 1.01:
            print(f"{ratio:.4f} {name}")
    return max(ratios)[0] > 1.03


if __name__ == "__main__":
    sys.exit(main())
