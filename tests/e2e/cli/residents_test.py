#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Float tensors that stay on chip: those whose channels do not fill a vector of lanes, and results in the place of what they are made of."""

import re
import unittest

import numpy as np

from cli_test import CliTest


def tensor(array):
    return f"tensor<{'x'.join(map(str, array.shape))}xf32>"


def conv_of(x, w, group):
    """Padded so that the result is as large as the image. Zero times infinity does not occur: a sum has no such product."""
    pad = w.shape[0] // 2
    taps = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0))), w.shape[:2], (1, 2))
    if group > 1:
        return np.einsum("nhwcyx,yxc->nhwc", taps, w[:, :, 0, :])
    return np.einsum("nhwcyx,yxco->nhwo", taps, w)


class ResidentsTest(CliTest):
    def network(self, *layers, size=9, width=None, channels=16, infinite=False):
        """net.mlir: convolutions one behind the other, each (name, kernel, channels, group), and what they make of x.npy. All numbers
        are small integers above zero, so that every sum is exact and an infinite one is infinity, not nothing."""
        random = np.random.default_rng(1)
        x = random.integers(1, 3, (1, size, width or size + 2, channels)).astype(np.float32)
        if infinite:
            x[0, 4, 5, 3] = np.inf
        np.save(self.path / "x.npy", x)
        ops, value, y = [], "x", x
        for name, kernel, outputs, group in layers:
            w = random.integers(1, 3, (kernel, kernel, y.shape[3] // group, outputs)).astype(np.float32)
            z, pad = conv_of(y, w, group), kernel // 2
            ops += [f'%w{name} = graph.constant dense<"0x{w.tobytes().hex()}"> : {tensor(w)}',
                    f"%{name} = graph.conv %{value}, %w{name} {{strides = array<i64: 1, 1>, pads = array<i64: {pad}, {pad}, {pad}, {pad}>,"
                    f' dilations = array<i64: 1, 1>, group = {group} : i64, layout = "nhwc"}} :'
                    f' ({tensor(y)}, {tensor(w)}) -> {tensor(z)} loc("{name}")']
            value, y = name, z
        self.write("net.mlir", f"func.func @main(%x: {tensor(x)}) -> {tensor(y)} {{\n  " + "\n  ".join(ops) +
                   f"\n  return %{value} : {tensor(y)}\n}}\n")
        return y

    def test_images_of_one_column(self):
        """A window that reads padding beside it does not find it where it looks for the next row."""
        for size, width in [(1, 1), (4, 1), (8, 1), (1, 5)]:
            for last in [("last", 3, 16, 16), ("last", 3, 20, 1), ("last", 5, 16, 16)]:
                expected = self.network(("first", 1, 16, 1), last, size=size, width=width)
                for machine in ["gemmini_16x16_fp32", "cloud_128x128"]:
                    with self.subTest(size=size, width=width, last=last, machine=machine):
                        np.testing.assert_array_equal(self.output("--hw", machine, "--schedule", "pipelined"), expected)

    def test_one_channel_for_all(self):
        """Spatial attention: what lies in one lane is multiplied with all channels of its pixel."""
        for size in [1, 9]: # of one pixel all axes are as good as one
            mask = self.network(("mask", 1, 1, 1), size=size, width=size)
            x = np.load(self.path / "x.npy")
            text = (self.path / "net.mlir").read_text()
            text = text.replace(f"-> {tensor(mask)} {{", f"-> {tensor(x)} {{", 1)
            text = text[:text.index("  return")] + f"""  %y = graph.mul %x, %mask : ({tensor(x)}, {tensor(mask)}) -> {tensor(x)} loc("y")
  return %y : {tensor(x)}
}}
"""
            self.write("net.mlir", text)
            for schedule in ["serial", "double_buffer", "pipelined"]:
                with self.subTest(size=size, schedule=schedule):
                    values = self.output("--hw", "gemmini_16x16_fp32", "--schedule", schedule)
                    np.testing.assert_array_equal(values, x * mask)

    def keeping(self, name):
        return self.plan_file({name: "on_chip = true"})

    def test_what_lies_behind_the_last_channel_meets_nothing(self):
        # There the writer's weights are zero, so that an infinite input leaves no number. 10 channels are less than the 16 rows, 24 more.
        for channels in [10, 24]:
            for second in [("second", 1, 20, 1), ("second", 3, 20, 1), ("second", 3, channels, channels)]:
                for infinite in [False, True]:
                    expected = self.network(("first", 1, channels, 1), second, infinite=infinite)
                    self.assertEqual(infinite, bool(np.isinf(expected).any()))
                    values = self.output("--hw", "gemmini_16x16_fp32", "--schedule", self.keeping("first"))
                    np.testing.assert_array_equal(values, expected, str((channels, second, infinite)))

    def test_few_channels_go_where_their_taps_lie_side_by_side(self):
        # On chip the second product would take a pass for each of 9 taps instead of 2, and none is saved in the third.
        self.network(("first", 1, 4, 1), ("second", 3, 32, 1), ("third", 1, 32, 1), size=28, channels=32)
        text, _ = self.tilewright("compile", "net.mlir", "--hw", "edge_32x32_bf16", "--schedule", "pipelined", "--emit", "plan")
        kept = {name: on == "true" for name, on in re.findall(r'plan.kernel "(\w+)" .*on_chip = (\w+)', text)}
        self.assertEqual((kept["first"], kept["second"]), (False, True), text)


class SharedPlacesTest(CliTest):
    """A sum of two tensors, one of which nobody needs afterwards. Three of them do not fit three quarters of the scratchpad, two do."""

    def network(self, shortcut="first", again=False, rows=30):
        """`shortcut` is what `sum` adds to a product of `middle`; `again`: what `first` is added to as well."""
        random = np.random.default_rng(1)
        x = random.integers(1, 3, (1, rows, 32, 16)).astype(np.float32)
        np.save(self.path / "x.npy", x)
        values, ops = {"x": x}, []
        def conv(name, source, kernel):
            w = (random.random((kernel, kernel, 16, 16)) < 0.05).astype(np.float32) # so few that all sums are exact
            pad, y = kernel // 2, conv_of(values[source], w, 1)
            ops.extend([f'%w{name} = graph.constant dense<"0x{w.tobytes().hex()}"> : {tensor(w)}',
                        f"%{name} = graph.conv %{source}, %w{name} {{strides = array<i64: 1, 1>, pads = array<i64: {pad}, {pad}, {pad}, {pad}>,"
                        f' dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"}} :'
                        f' ({tensor(x)}, {tensor(w)}) -> {tensor(x)} loc("{name}")'])
            values[name] = y
        conv("first", "x", 1)
        conv("middle", "first", 3)
        conv("product", "middle", 3)
        values["sum"] = values["product"] + values[shortcut]
        ops.append(f'%sum = graph.add %product, %{shortcut} : ({tensor(x)}, {tensor(x)}) -> {tensor(x)} loc("sum")')
        conv("last", "sum", 3)
        if again:
            values["both"] = values["last"] + values["first"]
            ops.append(f'%both = graph.add %last, %first : ({tensor(x)}, {tensor(x)}) -> {tensor(x)} loc("both")')
        result = list(values)[-1]
        self.assertLess(values[result].max(), 2 ** 24)
        self.write("net.mlir", f"func.func @main(%x: {tensor(x)}) -> {tensor(x)} {{\n  " + "\n  ".join(ops) +
                   f"\n  return %{result} : {tensor(x)}\n}}\n")
        return values[result]

    def keeping(self, places, names=("first", "middle", "product")):
        return self.plan_file({name: "on_chip = true" for name in names}, result_places=places)

    def has_no_room(self, schedule):
        self.fails("compile", "net.mlir", "--hw", "gemmini_16x16_fp32", "--schedule", schedule, message="does not fit three quarters of unified")

    def test_a_sum_takes_the_place_of_its_addend(self):
        expected = self.network()
        values = self.output("--hw", "gemmini_16x16_fp32", "--schedule", self.keeping("reused"))
        np.testing.assert_array_equal(values, expected)
        self.has_no_room(self.keeping("own"))

    def test_what_the_next_kernel_needs_keeps_its_place(self):
        self.network(again=True)
        self.has_no_room(self.keeping("reused"))

    def test_what_the_windows_of_the_sum_read_keeps_its_place(self):
        self.network(shortcut="middle", rows=50) # two have no room
        self.has_no_room(self.keeping("reused", ["middle", "product"]))

    def test_the_compiler_shares_where_that_saves_time(self):
        expected = self.network()
        own, shared = (self.cycles("gemmini_16x16_fp32", self.plan_file({}, result_places=places)) for places in ["own", "reused"])
        self.assertLess(shared, own)
        self.tilewright("compile", "net.mlir", "--hw", "gemmini_16x16_fp32", "--schedule", "pipelined", "--emit", "plan", "-o", "chosen.mlir")
        self.assertIn('result_places = "reused"', (self.path / "chosen.mlir").read_text())
        np.testing.assert_array_equal(self.output("--hw", "gemmini_16x16_fp32", "--schedule", "chosen.mlir"), expected)


if __name__ == "__main__":
    unittest.main()
