#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Depthwise windows of which the array computes some channels and the vector engine the others: the same values."""

import json
import unittest

import numpy as np

from cli_test import CliTest, hexed, layers_of

HW = ["--hw", "tiny_8x8"]  # 8 lanes, 8 x 8 products a cycle
CHAIN_HW = ["--hw", "gemmini_16x16_int8", "--set", "scratchpads.unified.capacity_bytes=131072"]


class BothEnginesTest(CliTest):
    random = np.random.default_rng(1)

    def values(self, shape):
        return self.random.integers(-128, 128, shape).astype(np.int8)

    def conv(self, result, x, name, source, w, groups=1, stride=1, dilation=1, zero=3):
        """A convolution of int8 whose result has as many positions as its input, less the stride; its text and the type of its result."""
        kernel, outputs = w.shape[:2], w.shape[3]
        low, high = ((kernel[0] - 1) * dilation + 1) // 2, ((kernel[0] - 1) * dilation) // 2
        size = (source[0] - 1) // stride + 1, (source[1] - 1) // stride + 1
        weights, sums = "x".join(map(str, w.shape)), f"tensor<1x{size[0]}x{size[1]}x{outputs}xi32>"
        image = f"tensor<1x{source[0]}x{source[1]}x{source[2]}xi8>"
        return f"""  %w_{name} = graph.constant {hexed(w)} : tensor<{weights}xi8>
  {result} = graph.conv_integer {x}, %w_{name} {{x_zero_point = {zero} : i32, w_zero_points = array<i32: 1>, group = {groups} : i64,
    strides = array<i64: {stride}, {stride}>, pads = array<i64: {low}, {low}, {high}, {high}>,
    dilations = array<i64: {dilation}, {dilation}>, layout = "nhwc"}} : ({image}, tensor<{weights}xi8>) -> {sums} loc("{name}")
""", sums

    def requantized(self, result, x, name, sums, zero=3):
        """To int8, with a factor of each channel's own."""
        channels = int(sums.split("x")[3])
        factors = ", ".join(f"{0.002 + 0.0001 * (c % 7):.4f}" for c in range(channels))
        return f"""  {result} = graph.requantize {x} {{multipliers = array<f32: {factors}>, axis = 3 : i64, zero_point = {zero} : i32}}
    : ({sums}) -> {sums.replace("i32", "i8")} loc("{name}")
"""

    def window(self, shape, kernel=3, requantizes=False, **conv):
        """Writes net.mlir, a depthwise convolution of an image [rows, columns, channels]."""
        np.save(self.path / "x.npy", self.values((1, *shape)))
        text, result = self.conv("%0", "%x", "window", shape, self.values((kernel, kernel, 1, shape[2])), groups=shape[2], **conv)
        if requantizes:
            text += self.requantized("%1", "%0", "window", result)
            result = result.replace("i32", "i8")
        self.write("net.mlir", f"func.func @main(%x: tensor<1x{shape[0]}x{shape[1]}x{shape[2]}xi8>) -> {result} {{\n{text}"
                   f"  return %{int(requantizes)} : {result}\n}}\n")

    def assigned(self, channels, knobs="", engine="vector", schedule="pipelined"):
        return self.plan_file({"window": f'engine = "{engine}", array_channels = {channels}{knobs and ", " + knobs}'}, schedule=schedule)

    def busy(self, engine):
        """Cycles in which it computes the window, in the last run."""
        window = next(layer for layer in layers_of(self.report) if layer["name"] == "window")
        return sum(each["busy_cycles"] for each in window["engines"] if each["name"] == engine)

    def run_with(self, schedule, hw=HW):
        self.tilewright("run", "net.mlir", *hw, "--schedule", schedule, "--input", "x.npy", "--check", "--output-dir", "out",
                        "--json", "report.json")
        self.report = json.loads((self.path / "report.json").read_text())
        return np.load(self.path / "out/output0.npy")

    def test_any_number_of_channels(self):
        """Of whole vectors and of others, from one channel to all."""
        for channels, requantizes in [(32, False), (20, True), (8, True), (5, False)]:
            self.window((11, 9, channels), requantizes=requantizes)
            expected = self.run_with(self.assigned(0))
            self.assertEqual(self.busy("tensor"), 0)
            for on_array in {1, 4, 7, 8, 12, channels - 1, channels} & set(range(channels + 1)):
                with self.subTest(channels=channels, on_array=on_array):
                    np.testing.assert_array_equal(self.run_with(self.assigned(on_array, "tile = [0, 0, 2, 1]")), expected)

    def test_windows(self):
        for options in [dict(stride=2), dict(dilation=2), dict(kernel=5), dict(kernel=5, stride=2), dict(kernel=2)]:
            with self.subTest(**options):
                self.window((13, 12, 24), **options)
                expected = self.run_with(self.assigned(0))
                np.testing.assert_array_equal(self.run_with(self.assigned(11)), expected)

    def test_tiles(self):
        """Parts of the channels, of rows, and tiles that share rows of their input."""
        self.window((16, 12, 40), requantizes=True)
        expected = self.run_with(self.assigned(0))
        for tile, buffers in [("[8, 12, 4, 1]", "depth = 2"), ("[16, 5, 2, 1]", "depth = 3"), ("[24, 12, 1, 1]", "depth = 1"),
                              ("[16, 6, 2, 1]", "depth = 2, line_buffer = 4")]:
            with self.subTest(tile=tile):
                path = self.assigned(17, f"tile = {tile}, {buffers}")
                np.testing.assert_array_equal(self.run_with(path), expected)

    def test_each_engine_has_its_channels(self):
        """The array takes each tap of a vector of channels in a cycle, the vector engine is done with it sooner."""
        self.window((12, 12, 32), stride=2)
        self.run_with(self.assigned(0))
        alone = self.busy("vector")
        for blocks in [1, 2, 4]:
            self.run_with(self.assigned(8 * blocks))
            self.assertEqual(self.busy("tensor"), 9 * 6 * 6 * blocks)
            self.assertLess(self.busy("vector"), alone)

    def test_tiles_take_turns(self):
        """Half a vector of channels is every second tile's: 6 of 12 rows."""
        self.window((12, 12, 8))
        self.run_with(self.assigned(4, "tile = [8, 12, 1, 1]"))
        self.assertEqual(self.busy("tensor"), 9 * 6 * 12)

    def chain(self, stride=1, kernel=3, rows=24):
        """Writes net.mlir: expand a square image, look around, project."""
        np.save(self.path / "x.npy", self.values((1, rows, rows, 16)))
        first, wide = self.conv("%0", "%x", "expand", (rows, rows, 16), self.values((1, 1, 16, 80)))
        second, sums = self.conv("%2", "%1", "window", (rows, rows, 80), self.values((kernel, kernel, 1, 80)), groups=80, stride=stride)
        size = rows // stride
        third, result = self.conv("%4", "%3", "project", (size, size, 80), self.values((1, 1, 80, 16)))
        self.write("net.mlir", f"func.func @main(%x: tensor<1x{rows}x{rows}x16xi8>) -> {result} {{\n{first}"
                   f"{self.requantized('%1', '%0', 'expand', wide)}{second}{self.requantized('%3', '%2', 'window', sums)}{third}"
                   f"  return %4 : {result}\n}}\n")

    def chained(self, channels, rows):
        fused = f"on_chip = true, row_tile = {rows}"
        return self.plan_file({"expand": fused, "window": f'{fused}, engine = "vector", array_channels = {channels}'})

    def test_in_bands(self):
        """Rings of rows, runs of bands, and vectors of channels that are some bands' only."""
        for options, rows in [(dict(), 1), (dict(stride=2), 1), (dict(kernel=5), 1), (dict(), 2), (dict(stride=2), 5)]:
            self.chain(**options)
            expected = self.run_with("serial", CHAIN_HW)
            for channels in [8, 16, 24, 40, 80]:
                with self.subTest(**options, rows=rows, channels=channels):
                    np.testing.assert_array_equal(self.run_with(self.chained(channels, rows), CHAIN_HW), expected)
                    self.assertGreater(self.busy("tensor"), 0)

    def test_the_array_helps_where_the_vector_engine_has_more_to_do(self):
        self.chain(stride=2, rows=64)
        self.choice_comes_back("array_channels = ", "net.mlir", *CHAIN_HW)
        self.assertRegex((self.path / "chosen.mlir").read_text(), r"array_channels = [1-9]")
        expected = self.run_with("serial", CHAIN_HW)
        np.testing.assert_array_equal(self.run_with("pipelined", CHAIN_HW), expected)

    def test_what_is_asked_for_comes_back(self):
        self.window((12, 12, 40), requantizes=True)
        for channels in [0, 12]:
            command = ["compile", "net.mlir", *HW, "--schedule"]
            path = self.assigned(channels)
            self.tilewright(*command, path, "-o", "first.twp")
            self.tilewright(*command, path, "--emit", "plan", "-o", "chosen.mlir")
            self.assertIn(f"array_channels = {channels}}}", (self.path / "chosen.mlir").read_text())
            self.tilewright(*command, "chosen.mlir", "-o", "second.twp")
            self.assertEqual((self.path / "first.twp").read_bytes(), (self.path / "second.twp").read_bytes())

    def test_what_is_refused(self):
        def refused(message, channels, knobs="", hw=HW, **options):
            self.fails("compile", "net.mlir", *hw, "--schedule", self.assigned(channels, knobs, **options), message=message)
        self.window((12, 12, 24))
        refused("plan.mlir:2:3: array_channels is 25 but kernel 'window' has 24 of them", 25)
        refused("'array_channels' is -1 but must be a number, 0 or more", -1)
        for schedule in ["serial", "double_buffer"]:
            refused(f"plan.mlir:2:3: array_channels is 8 but kernel 'window' has schedule {schedule}", 8, schedule=schedule)
        refused("plan.mlir:2:3: array_channels is 8 but kernel 'window' has engine tensor", 8, engine="tensor")
        refused("pixel_packing is true but kernel 'window' has channels on the array", 8, "pixel_packing = true")
        self.write("net.mlir", """func.func @main(%x: tensor<1x12x12x24xi8>) -> tensor<1x12x12x24xi8> {
  %0 = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
    dilations = array<i64: 1, 1>, layout = "nhwc"} : (tensor<1x12x12x24xi8>) -> tensor<1x12x12x24xi8> loc("window")
  return %0 : tensor<1x12x12x24xi8>
}
""")
        refused("plan.mlir:2:3: array_channels is 8 but kernel 'window' is no window of int8 channels, or of floats under --math finite, with constant weights", 8)

    def float_window(self):
        """Writes net.mlir, a window over 32 channels of floats, and an image of numbers so small that all sums are exact."""
        w = self.random.integers(-2, 3, (3, 3, 1, 32)).astype(np.float32)
        np.save(self.path / "x.npy", self.random.integers(-3, 4, (1, 12, 12, 32)).astype(np.float32))
        image = "tensor<1x12x12x32xf32>"
        self.write("net.mlir", f"""func.func @main(%x: {image}) -> {image} {{
  %w = graph.constant {hexed(w)} : tensor<3x3x1x32xf32>
  %0 = graph.conv %x, %w {{group = 32 : i64, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
    dilations = array<i64: 1, 1>, layout = "nhwc"}} : ({image}, tensor<3x3x1x32xf32>) -> {image} loc("window")
  return %0 : {image}
}}
""")

    def test_floats_stay_apart(self):
        """Zero times infinity is not zero."""
        self.float_window()
        for machine in ["gemmini_16x16_fp32", "gemmini_16x16_int8"]:
            self.fails("compile", "net.mlir", "--hw", machine, "--schedule", self.assigned(16),
                       message="array_channels is 16 but kernel 'window' is no window of int8 channels")

    def test_finite_floats(self):
        self.float_window()
        for machine, on_array in [("gemmini_16x16_fp32", 16), ("gemmini_16x16_fp32", 24), ("gemmini_16x16_bf16", 16), ("edge_32x32_bf16", 32)]:
            with self.subTest(machine=machine, on_array=on_array):
                hw = ["--hw", machine, "--math", "finite"]
                expected = self.run_with(self.assigned(0), hw)
                np.testing.assert_array_equal(self.run_with(self.assigned(on_array, "tile = [0, 0, 3, 1]"), hw), expected)
                self.assertGreater(self.busy("tensor"), 0)

    def test_finite_floats_in_bands(self):
        """The squares of a window in a chain take the bytes of a float for each element."""
        weights = {"expand": (1, 1, 16, 96), "window": (3, 3, 1, 96), "project": (1, 1, 96, 24)}
        text, source = "", ("%x", "tensor<1x56x56x16xf32>")
        np.save(self.path / "x.npy", self.random.integers(-1, 2, (1, 56, 56, 16)).astype(np.float32))
        for name, shape in weights.items():
            w, result = self.random.integers(-1, 2, shape).astype(np.float32), f"tensor<1x56x56x{shape[3]}xf32>"
            type, pad = "x".join(map(str, shape)) + "xf32", shape[0] // 2
            text += f"""  %w_{name} = graph.constant {hexed(w)} : tensor<{type}>
  %{name} = graph.conv {source[0]}, %w_{name} {{group = {96 if name == "window" else 1} : i64, strides = array<i64: 1, 1>,
    pads = array<i64: {pad}, {pad}, {pad}, {pad}>, dilations = array<i64: 1, 1>, layout = "nhwc"}} : ({source[1]}, tensor<{type}>) -> {result} loc("{name}")
"""
            source = f"%{name}", result
        self.write("net.mlir", f"func.func @main(%x: tensor<1x56x56x16xf32>) -> {source[1]} {{\n{text}  return {source[0]} : {source[1]}\n}}\n")
        hw = ["--hw", "gemmini_16x16_fp32", "--math", "finite"]
        expected = self.run_with("serial", hw)
        np.testing.assert_array_equal(self.run_with(self.chained(32, 1), hw), expected)
        self.assertGreater(self.busy("tensor"), 0)


if __name__ == "__main__":
    unittest.main()
