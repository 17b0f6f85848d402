#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shortcuts with fewer channels than the sum: the kernel of the convolution reads the shortcut itself, without a padded copy."""

import json
import unittest

import numpy as np

from cli_test import CliTest, hexed, layers_of, tensor

FLOATS = ["gemmini_16x16_fp32", "gemmini_16x16_bf16", "edge_32x32_bf16", "cloud_128x128"]
SCHEDULES = ["serial", "double_buffer", "pipelined"]
RESIDENCIES = ["none", "all"]


def pad_of(name, source, shape, low, high, value, element):
    padded = (*shape[:3], shape[3] + low + high)
    return (f"""%{name} = graph.pad %{source} {{low = array<i64: 0, 0, 0, {low}>, high = array<i64: 0, 0, 0, {high}>, value = {value} : {element}}}
    : ({tensor(shape, element)}) -> {tensor(padded, element)} loc("{name}")""")


class PaddedChannelsTest(CliTest):
    """A convolution p of the input, and the sum of a convolution of p and p with padded channels: small whole numbers, exact in every type."""

    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(1)

    def weights(self, inputs, outputs):
        """At most four ones of either sign for each output."""
        w = np.zeros((1, 1, inputs, outputs), np.float32)
        for channel in range(outputs):
            w[0, 0, self.random.choice(inputs, 4, replace=False), channel] = self.random.choice([-1, 1], 4)
        return w

    def conv(self, name, source, x, w):
        return f"""%w_{name} = graph.constant {hexed(w)} : {tensor(w.shape, "f32")}
  %{name} = graph.conv %{source}, %w_{name} {{strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nhwc"}} : ({tensor(x.shape, "f32")}, {tensor(w.shape, "f32")}) -> {tensor((*x.shape[:3], w.shape[3]), "f32")} loc("{name}")"""

    def network(self, ops, result, shape, x, element="f32"):
        np.save(self.path / "x.npy", x)
        self.write("net.mlir", f"func.func @main(%x: {tensor(x.shape, element)}) -> {tensor(shape, element)} {{\n  " + "\n  ".join(ops) +
                   f"\n  return %{result} : {tensor(shape, element)}\n}}\n")

    def block(self, image, channels, low, high, step=1, concatenates=False):
        """Returns the result of the block."""
        x = self.random.integers(-1, 2, (*image, 8)).astype(np.float32)
        w, v = self.weights(8, channels), self.weights(channels, low + channels + high)
        p = np.maximum(x @ w[0, 0], 0)
        walked = p[:, ::step, ::step]
        q = walked @ v[0, 0]
        outputs = tensor(q.shape, "f32")
        ops = [self.conv("sums", "x", x, w), f"%p = graph.relu %sums : {tensor(p.shape, 'f32')} loc(\"p\")"]
        source = "p"
        if step > 1:
            ops.append(f"%s = graph.slice %p {{starts = array<i64: 0, 0, 0, 0>, steps = array<i64: 1, {step}, {step}, 1>}} : "
                       f"({tensor(p.shape, 'f32')}) -> {tensor(walked.shape, 'f32')} loc(\"slice\")")
            source = "s"
        ops.append(self.conv("q", "p", p, v).replace("strides = array<i64: 1, 1>", f"strides = array<i64: {step}, {step}>")
                   .replace(f"-> {tensor((*p.shape[:3], q.shape[3]), 'f32')}", f"-> {outputs}"))
        if concatenates:
            zeros = tensor((*q.shape[:3], high), "f32")
            ops.append(f"%z = graph.constant dense<0.0> : {zeros}\n  %pad = graph.concat %{source}, %z {{axis = 3 : i64}} : "
                       f"({tensor(walked.shape, 'f32')}, {zeros}) -> {outputs} loc(\"pad\")")
        else:
            ops.append(pad_of("pad", source, walked.shape, low, high, "0.0", "f32"))
        ops.append(f"%sum = graph.add %q, %pad : ({outputs}, {outputs}) -> {outputs} loc(\"sum\")\n  "
                   f"%y = graph.relu %sum : {outputs} loc(\"y\")")
        self.network(ops, "y", q.shape, x)
        return np.maximum(q + np.pad(walked, ((0, 0), (0, 0), (0, 0), (low, high))), 0)

    def check(self, expected, machines, schedules=SCHEDULES):
        for hw in machines:
            for schedule in schedules:
                for residency in RESIDENCIES if schedule == "pipelined" else [None]:
                    plan = self.plan_file({}, residency=residency) if residency else schedule
                    options = ["--hw", hw, "--schedule", plan]
                    np.testing.assert_array_equal(self.output(*options), expected, str((hw, schedule, residency)))

    def test_pads_at_either_end(self):
        """Whole blocks of channels, parts of them, and blocks of padding alone."""
        for channels, low, high in [(24, 0, 4), (28, 0, 4), (48, 0, 8), (16, 8, 8), (32, 32, 0), (16, 128, 16), (8, 3, 70)]:
            expected = self.block((1, 9, 7), channels, low, high)
            self.assertEqual(self.kernels("--hw", FLOATS[0]), {"sums", "q"}, (channels, low, high))
            self.check(expected, FLOATS[:2] if channels > 8 else FLOATS)

    def test_a_concatenation_with_zeros(self):
        expected = self.block((2, 6, 5), 20, 0, 12, concatenates=True)
        self.assertEqual(self.kernels("--hw", FLOATS[0]), {"sums", "q"})
        self.check(expected, FLOATS[:1])

    def test_a_shortcut_that_leaves_out_positions(self):
        expected = self.block((2, 10, 8), 16, 8, 8, step=2)
        self.assertEqual(self.kernels("--hw", FLOATS[0]), {"sums", "q"})
        self.check(expected, FLOATS[:2])

    def test_small_tiles(self):
        expected = self.block((1, 9, 7), 40, 0, 56)
        for tile in ["16, 7, 2, 1", "32, 3, 9, 1", "96, 2, 2, 1"]:
            for residency in RESIDENCIES:
                plan = self.plan_file({"q": f"tile = [{tile}]"}, residency=residency)
                np.testing.assert_array_equal(self.output("--hw", FLOATS[0], "--schedule", plan), expected, (tile, residency))

    def test_the_shortcut_of_a_pool(self):
        x = self.random.integers(-4, 5, (1, 12, 10, 28)).astype(np.float32)
        w = self.weights(28, 44)
        halves = x.reshape(1, 6, 2, 5, 2, 28)
        pooled, q = halves.max((2, 4)), x[:, ::2, ::2] @ w[0, 0]
        outputs = tensor(q.shape, "f32")
        conv = self.conv("q", "x", x, w).replace("strides = array<i64: 1, 1>", "strides = array<i64: 2, 2>").replace(
            f"-> {tensor((1, 12, 10, 44), 'f32')}", f"-> {outputs}")
        self.network([f"""%pool = graph.max_pool %x {{kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, layout = "nhwc"}} : ({tensor(x.shape, "f32")}) -> {tensor(pooled.shape, "f32")} loc("pool")""",
                      conv, pad_of("pad", "pool", pooled.shape, 0, 16, "0.0", "f32"),
                      f'%y = graph.add %pad, %q : ({outputs}, {outputs}) -> {outputs} loc("y")'], "y", q.shape, x)
        self.assertEqual(self.kernels("--hw", FLOATS[0]), {"pool", "q"})
        self.check(q + np.pad(pooled, ((0, 0), (0, 0), (0, 0), (0, 16))), FLOATS[:2])

    def test_what_lies_behind_the_channels_is_not_read(self):
        """Lanes behind the channels of p are no numbers: infinity times a weight of zero."""
        x = np.full((1, 4, 4, 8), np.inf, np.float32)
        w, v = -np.ones((1, 1, 8, 20), np.float32), self.weights(20, 32)
        outputs = tensor((1, 4, 4, 32), "f32")
        p = np.zeros((1, 4, 4, 20), np.float32)
        self.network([self.conv("sums", "x", x, w), f"%p = graph.relu %sums : {tensor(p.shape, 'f32')}", self.conv("q", "p", p, v),
                      pad_of("pad", "p", p.shape, 0, 12, "0.0", "f32"),
                      f"%y = graph.add %q, %pad : ({outputs}, {outputs}) -> {outputs}"], "y", (1, 4, 4, 32), x)
        self.check(np.zeros((1, 4, 4, 32), np.float32), FLOATS[:2])

    def test_bytes_padded_with_their_zero_point(self):
        zero, outputs = 3, 40
        x = self.random.integers(-128, 128, (1, 7, 6, 24)).astype(np.int8)
        w = self.random.integers(-128, 128, (1, 1, 24, outputs)).astype(np.int8)
        sums = (x.astype(np.int64) - zero) @ w[0, 0].astype(np.int64)
        scale = 2.0 ** -10
        padded = np.pad(x, ((0, 0), (0, 0), (0, 0), (4, 12)), constant_values=zero)
        real = sums.astype(np.float32) * np.float32(scale) + (padded.astype(np.float32) - zero) * np.float32(0.5)
        expected = np.clip(np.rint(real), -128, 127).astype(np.int8)
        of = lambda element: tensor(expected.shape, element)
        self.network([f"""%w = graph.constant {hexed(w)} : {tensor(w.shape, "i8")}
  %s = graph.conv_integer %x, %w {{x_zero_point = {zero} : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>,
    pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"}}
    : ({tensor(x.shape, "i8")}, {tensor(w.shape, "i8")}) -> {of("i32")} loc("q")
  %a = graph.dequantize %s {{scales = array<f32: {scale}>, zero_points = array<i32: 0>, axis = 0 : i64}} : ({of("i32")}) -> {of("f32")}""",
                      pad_of("pad", "x", x.shape, 4, 12, zero, "i8"),
                      f"""%b = graph.dequantize %pad {{scales = array<f32: 0.5>, zero_points = array<i32: {zero}>, axis = 0 : i64}}
    : ({of("i8")}) -> {of("f32")}
  %r = graph.add %a, %b : ({of("f32")}, {of("f32")}) -> {of("f32")}
  %y = graph.quantize %r {{scales = array<f32: 1.0>, zero_points = array<i32: 0>, axis = 0 : i64}} : ({of("f32")}) -> {of("i8")}"""],
                     "y", expected.shape, x, "i8")
        self.assertEqual(self.kernels("--hw", "gemmini_16x16_int8"), {"q"})
        self.check(expected, ["gemmini_16x16_int8", "tiny_8x8"])

    def test_the_shortcut_is_not_copied(self):
        """In DRAM both kernels that read p read its channels alone; on chip nothing of p moves."""
        self.block((1, 24, 24), 24, 0, 24)
        p, weights = 4 * 24 * 24 * 24, 4 * 32 * 48  # of the array's blocks
        for residency, read in [("none", 2 * p + weights), ("all", weights)]:
            plan = self.plan_file({}, residency=residency, fusion="none")
            self.tilewright("run", "net.mlir", "--hw", FLOATS[0], "--schedule", plan, "--check", "--json", "report.json")
            layers = layers_of(json.loads((self.path / "report.json").read_text()))
            self.assertEqual([layer["name"] for layer in layers], ["sums", "q"])
            self.assertEqual(layers[1]["dram_read_bytes"], read, residency)
            self.assertEqual(layers[1]["compulsory_dram_bytes"], p + 4 * 24 * 48 + 2 * p, "p, weights and y, once each")


if __name__ == "__main__":
    unittest.main()
