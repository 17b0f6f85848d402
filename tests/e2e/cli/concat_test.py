#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is put together along an axis, whoever makes or moves the parts: kernels write theirs where it belongs."""

import unittest

import numpy as np

from cli_test import CliTest, tensor

SCHEDULES = ["serial", "double_buffer", "pipelined"]


class ConcatTest(CliTest):
    def check(self, axis, parts):
        """Concatenates results of operations on x: of each a text, and its value."""
        lines = [f"  %{i} = {text} loc(\"part{i}\")" for i, (text, _) in enumerate(parts)]
        types = [tensor(value.shape, "i8") for _, value in parts]
        expected = np.concatenate([value for _, value in parts], axis)
        result = tensor(expected.shape, "i8")
        names = ", ".join(f"%{i}" for i in range(len(parts)))
        self.write("net.mlir", f"func.func @main(%x: {tensor(self.x.shape, 'i8')}) -> {result} {{\n" + "\n".join(lines) +
                   f"\n  %y = graph.concat {names} {{axis = {axis} : i64}} : ({', '.join(types)}) -> {result} loc(\"concat\")\n"
                   f"  return %y : {result}\n}}\n")
        for schedule in SCHEDULES:
            self.tilewright("run", "net.mlir", "--hw", "tiny_8x8", "--schedule", schedule, "--input", "x.npy", "--check",
                            "--output-dir", "out")
            np.testing.assert_array_equal(np.load(self.path / "out/output0.npy"), expected, schedule)

    def setUp(self):
        super().setUp()
        self.image((6, 5, 9))

    def image(self, shape):
        self.x = np.random.default_rng(1).integers(-127, 128, shape).astype(np.int8)
        np.save(self.path / "x.npy", self.x)
        self.type = tensor(self.x.shape, "i8")
        self.relu = f"graph.relu %x : {self.type}", np.maximum(self.x, 0)

    def slice(self, starts, steps, value):
        text = lambda numbers: ", ".join(map(str, numbers))
        return (f"graph.slice %x {{starts = array<i64: {text(starts)}>, steps = array<i64: {text(steps)}>}} : "
                f"({self.type}) -> {tensor(value.shape, 'i8')}", value)

    def test_parts_that_are_slices(self):
        for axis in range(3):
            self.check(axis, [self.relu, self.slice([0, 0, 0], [1, 1, 1], self.x)])
        self.check(1, [self.slice([1, 2, 0], [1, 1, 1], self.x[1:5, 2:4]), self.slice([2, 0, 0], [1, 1, 1], self.x[2:, :3])])

    def test_parts_that_are_read_backwards(self):
        for axis in range(3):
            self.check(axis, [self.relu, self.slice([5, 0, 8], [-1, 1, -1], self.x[::-1, :, ::-1])])

    def test_parts_of_few_channels(self):
        """Which kernels by themselves take for one run of elements."""
        self.image((2, 6, 5, 3))
        for axis in range(4):
            self.check(axis, [self.relu, (f"graph.neg %x : {self.type}", -self.x)])

    def test_parts_that_are_padded(self):
        padded = np.pad(self.x, ((0, 0), (0, 0), (2, 1)), constant_values=7)
        text = (f"graph.pad %x {{low = array<i64: 0, 0, 2>, high = array<i64: 0, 0, 1>, value = 7 : i8}} : "
                f"({self.type}) -> {tensor(padded.shape, 'i8')}")
        self.check(2, [(text, padded), self.relu])


if __name__ == "__main__":
    unittest.main()
