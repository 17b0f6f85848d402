#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares outputs of the digits network with labels and reference logits.

OUTPUTS is one .npy file with a row of 10 logits per image, or a folder of .npy files, one per image, taken in the
order of the numbers in their names. Needs only numpy.
"""

import argparse
import pathlib
import re
import sys

import numpy as np


def load(path):
    """The array of an .npy file. Raises ValueError or OSError, naming the file."""
    with open(path, "rb") as file:
        try:
            return np.lib.format.read_array(file, allow_pickle=False)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def load_rows(path):
    """Logits as [images, classes]. Raises ValueError or OSError if `path` does not hold such an array."""
    if path.is_dir():
        files = sorted(path.glob("*.npy"), key=lambda f: [int(n) for n in re.findall(r"\d+", f.stem)])
        if not files:
            raise ValueError(f"{path}: holds no .npy file")
        rows = np.stack([load(f).reshape(-1) for f in files])
    else:
        rows = load(path)
        rows = rows.reshape(len(rows), -1) if rows.ndim else rows
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":
        raise ValueError(f"{path}: expected numbers in rows of logits, found {rows.dtype} {list(rows.shape)}")
    if not np.isfinite(rows).all():
        raise ValueError(f"{path}: row {np.argwhere(~np.isfinite(rows))[0][0]} holds a value that is not finite")
    return rows


def compare(outputs, labels, reference):
    """The line printed. Raises ValueError if the three do not describe the same images."""
    if outputs.shape != reference.shape or labels.shape != (len(reference),):
        raise ValueError(f"outputs {list(outputs.shape)}, labels {list(labels.shape)} and reference "
                         f"{list(reference.shape)} must describe the same images")
    answers, expected = outputs.argmax(axis=1), reference.argmax(axis=1)
    difference = np.abs(outputs.astype(np.float64) - reference.astype(np.float64)).max()
    return (f"accuracy {100 * (answers == labels).mean():.1f} % (reference {100 * (expected == labels).mean():.1f} %), "
            f"top-1 agrees on {(answers == expected).sum()} of {len(labels)}, max |difference| {difference:.6g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outputs", type=pathlib.Path, metavar="OUTPUTS")
    parser.add_argument("labels", type=pathlib.Path, metavar="LABELS.npy")
    parser.add_argument("reference", type=pathlib.Path, metavar="REFERENCE_LOGITS.npy")
    parser.add_argument("--first", type=int, metavar="N", help="OUTPUTS holds only the first N images")
    arguments = parser.parse_args()
    try:
        labels, reference = load(arguments.labels), load_rows(arguments.reference)
        if arguments.first is not None:
            if not 1 <= arguments.first <= len(reference):
                raise ValueError(f"--first is {arguments.first} but must be 1 to {len(reference)}")
            labels, reference = labels[:arguments.first], reference[:arguments.first]
        print(compare(load_rows(arguments.outputs), labels, reference))
    except (OSError, ValueError) as error:
        print(f"digits_accuracy: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
