#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What one instruction has no room for in its fields becomes several, or is done another way."""

import unittest

import numpy as np

from cli_test import CliTest, tensor

LARGE = ["--hw", "onnxim_128x128"]  # 32 MiB of scratchpad
SCHEDULES = ["serial", "double_buffer", "pipelined"]
POOL = "strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, layout = \"nhwc\""


class LimitsTest(CliTest):
    def network(self, op, *inputs, result, element):
        """One operation on x, y, ... of type `element`."""
        names = ["%x", "%y"][:len(inputs)]
        types = [tensor(x.shape, element) for x in inputs]
        arguments = ", ".join(f"{name}: {type}" for name, type in zip(names, types))
        self.result = tensor(result, element)
        self.write("net.mlir", f"""func.func @main({arguments}) -> {self.result} {{
  %0 = {op.format(*names)} : ({", ".join(types)}) -> {self.result}
  return %0 : {self.result}
}}
""")
        self.inputs = []
        for name, x in zip("xy", inputs):
            np.save(self.path / f"{name}.npy", x)
            self.inputs += ["--input", f"{name}.npy"]

    def makes(self, expected, *options):
        self.tilewright("run", "net.mlir", *options, *self.inputs, "--model", "functional", "--check", "--output-dir", "out")
        np.testing.assert_array_equal(np.load(self.path / "out/output0.npy"), expected, str(options))

    def agrees(self, model, *options):
        self.tilewright("compare", model, *options, "--repeat", "1")

    @staticmethod
    def random(*shape):
        return np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)

    def test_padding_of_any_size(self):
        for before, after in [(5000, 5000), (4096, 0), (0, 9001)]:
            x = self.random(300)
            self.network(f"graph.pad {{}} {{{{low = array<i64: {before}>, high = array<i64: {after}>, value = 7 : i8}}}}", x,
                         result=[before + 300 + after], element="i8")
            for hw in [LARGE, ["--hw", "tiny_8x8"]]:
                self.makes(np.pad(x, (before, after), constant_values=7), *hw)
        x = self.random(3, 40).astype(np.float32)
        self.network("graph.pad {} {{low = array<i64: 5000, 0>, high = array<i64: 4500, 9>, value = 1.5 : f32}}", x, result=[9503, 49],
                     element="f32")
        self.makes(np.pad(x, ((5000, 4500), (0, 9)), constant_values=1.5), *LARGE)

    def test_a_convolution_of_much_padding(self):
        self.write("net.mlir", """func.func @main(%x: tensor<1x1x200x8xf32>) -> tensor<1x1x10198x8xf32> {
  %p = graph.pad %x {low = array<i64: 0, 0, 5000, 0>, high = array<i64: 0, 0, 5000, 0>, value = 0.0 : f32}
    : (tensor<1x1x200x8xf32>) -> tensor<1x1x10200x8xf32>
  %w = graph.constant dense<0.5> : tensor<1x3x8x8xf32>
  %0 = graph.conv %p, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x1x10200x8xf32>, tensor<1x3x8x8xf32>) -> tensor<1x1x10198x8xf32>
  return %0 : tensor<1x1x10198x8xf32>
}
""")
        self.agrees("net.mlir", "--hw", "gemmini_16x16_fp32")

    def test_copies_of_any_length(self):
        """Dimensions of more than 2^20 elements that no power of two divides."""
        x = self.random(1048577, 3)
        self.network("graph.transpose {} {{perm = array<i64: 1, 0>}}", x, result=[3, 1048577], element="i8")
        self.makes(x.T, *LARGE)
        x, y = self.random(1500001), self.random(1300003)
        self.network("graph.slice {} {{starts = array<i64: 1>, steps = array<i64: 1>}}", x, result=[1300001], element="i8")
        self.makes(x[1:1300002], *LARGE)
        self.network("graph.concat {}, {} {{axis = 0 : i64}}", x, y, result=[2800004], element="i8")
        self.makes(np.concatenate([x, y]), *LARGE)

    def test_windows_of_many_taps(self):
        """Of one row or column: they become several."""
        for rows, columns in [(1, 5000), (4095 * 3, 1)]:
            count = rows * columns
            x = self.random(1, rows, columns, 16).astype(np.float32)
            kernel = f"kernel = array<i64: {rows}, {columns}>, {POOL}"
            for op, expected in [(f"graph.max_pool {{}} {{{{{kernel}, dilations = array<i64: 1, 1>}}}}", x.max((1, 2))),
                                 (f"graph.average_pool {{}} {{{{{kernel}, count_include_pad = false}}}}", x.sum((1, 2)) / np.float32(count))]:
                self.network(op, x, result=[1, 1, 1, 16], element="f32")
                for schedule in SCHEDULES:
                    self.makes(expected.reshape(1, 1, 1, 16), *LARGE, "--schedule", schedule)

    def test_windows_that_have_no_form(self):
        """A prime number of taps makes no rows."""
        x = self.random(5003, 48).astype(np.float32)
        self.network("graph.reduce {} {{kind = \"sum\", axes = array<i64: 0>, keepdims = false}}", x, result=[48], element="f32")
        for schedule in [*SCHEDULES, "search"]:
            self.fails("compile", "net.mlir", *LARGE, "--schedule", schedule, "-o", "x.twp",
                       message="no tile has instructions that can be encoded; the last one has vector: window[0] is 5003, allowed is 0 to 4095")

    def test_vectors_far_apart(self):
        x, y = self.random(70001, 7), self.random(70001, 7)[::-1] // 2
        self.network("graph.add {}, {}", x // 2, y, result=x.shape, element="i8")
        for schedule in SCHEDULES:
            self.makes(x // 2 + y, *LARGE, "--schedule", schedule)

    def test_vectors_of_any_number(self):
        x, y = self.random(1500001), self.random(1500001)[::-1] // 2
        self.network("graph.add {}, {}", x // 2, y, result=x.shape, element="i8")
        for schedule in [["serial"], ["pipelined"], ["search", "--search-budget", "3"]]:
            self.makes(x // 2 + y, *LARGE, "--schedule", *schedule)

    def test_more_positions_than_a_pass_counts(self):
        room = [f"scratchpads.{name}.capacity_bytes=268435456" for name in ["activation", "weight"]]
        sets = [word for value in [*room, "accumulator.capacity_bytes=67108864"] for word in ("--set", value)]
        self.agrees("gemm:200001x32x32:int8", "--hw", "edge_32x32_int8", *sets, "--schedule", "serial")

    def test_more_passes_than_a_loop_counts(self):
        one = ["--hw", "edge_32x32_int8", "--set", "array.rows=1", "--set", "array.cols=1", "--set", "vector.lanes=1"]
        for schedule in SCHEDULES:
            self.agrees("gemm:4x300x300:int8", *one, "--schedule", schedule)

    def test_the_smallest_loop_buffers(self):
        for model in ["gemm:40x70x90:int8", "conv:1x14x14x16:3x3x24:s1:p1:int8"]:
            for words in [1, 4, 5]:
                for schedule in SCHEDULES:
                    self.agrees(model, "--hw", "gemmini_16x16_int8", "--set", f"control.loop_buffer_words={words}", "--schedule", schedule)

    def test_the_largest_machines(self):
        for rows, cols in [(256, 256), (1, 256), (256, 1)]:
            self.agrees("gemm:40x270x300:int8", "--hw", "edge_32x32_int8", "--set", f"array.rows={rows}", "--set", f"array.cols={cols}",
                        "--set", f"vector.lanes={cols}", "--schedule", "pipelined")


if __name__ == "__main__":
    unittest.main()
