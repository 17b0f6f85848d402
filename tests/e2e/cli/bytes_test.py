#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arithmetic on bytes keeps the lowest eight bits, as ONNX says, also where the next operation reads them before they are written."""

import unittest

import numpy as np

from cli_test import CliTest, tensor

ELEMENTS = {np.dtype(np.int8): "i8", np.dtype(np.uint8): "ui8", np.dtype(np.int32): "i32", np.dtype(np.float32): "f32"}


class BytesTest(CliTest):
    random = np.random.default_rng(1)

    def bytes(self):
        return self.random.integers(-128, 128, (4, 40)).astype(np.int8)

    def gives(self, expected, inputs, *operations):
        """`operations`: what makes %0, %1, ... of inputs %x0, %x1, ... and of one another, and the type of its elements."""
        names = [f"%x{i}" for i in range(len(inputs))]
        types = dict(zip(names, (tensor(x.shape, ELEMENTS[x.dtype]) for x in inputs)))
        text = ""
        for i, (operation, element) in enumerate(operations):
            operands = ", ".join(types[o] for o in operation.replace(",", "").split()[1:])
            types[f"%{i}"] = tensor(expected.shape, element)
            keeps = operation.startswith(("graph.relu", "graph.abs"))  # written with one type
            text += f"  %{i} = {operation} : {operands if keeps else f'({operands}) -> ' + types[f'%{i}']}\n"
        result = f"%{len(operations) - 1}"
        self.write("net.mlir", f"func.func @main({', '.join(f'{n}: {types[n]}' for n in names)}) -> {types[result]} {{\n{text}"
                   f"  return {result} : {types[result]}\n}}\n")
        files = []
        for i, x in enumerate(inputs):
            np.save(self.path / f"x{i}.npy", x)
            files += ["--input", f"x{i}.npy"]
        np.save(self.path / "y.npy", expected)
        for machine in ["tiny_8x8", "gemmini_16x16_fp32"]:
            out, _ = self.tilewright("run", "net.mlir", "--hw", machine, *files, "--expect", "y.npy")
            self.assertIn(f"all {expected.size} values equal", out)

    def test_a_sum_wraps_before_the_next_operation(self):
        x, y = self.bytes(), self.bytes()
        self.gives(np.maximum(x + y, 0), [x, y], ("graph.add %x0, %x1", "i8"), ("graph.relu %0", "i8"))

    def test_a_product_wraps(self):
        x, y = self.bytes(), self.bytes()
        self.gives(x * y, [x, y], ("graph.mul %x0, %x1", "i8"))

    def test_the_least_byte_has_no_magnitude(self):
        x = np.append(self.bytes().ravel()[:-1], np.int8(-128)).reshape(4, 40)
        self.gives(np.abs(x), [x], ("graph.abs %x0", "i8"))

    def test_floats_become_unsigned_bytes(self):
        x = self.random.integers(0, 256, (4, 40))
        self.gives(x.astype(np.uint8), [x.astype(np.float32)], ("graph.cast %x0", "ui8"))

    def test_integers_become_bytes(self):
        x = self.random.integers(-1000, 1000, (4, 40)).astype(np.int32)
        self.gives(x.astype(np.uint8), [x], ("graph.cast %x0", "ui8"))
        self.gives(x.astype(np.int8), [x], ("graph.cast %x0", "i8"))

    def test_bytes_between_are_bytes(self):
        x = self.random.integers(-1000, 1000, (4, 40)).astype(np.int32)
        for element, kind in [("i8", np.int8), ("ui8", np.uint8)]:
            self.gives(x.astype(kind).astype(np.float32), [x], ("graph.cast %x0", element), ("graph.cast %0", "f32"))


if __name__ == "__main__":
    unittest.main()
