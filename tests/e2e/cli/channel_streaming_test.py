#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Channel streaming between producer and consumer: the same values, and weights load while the producer is still at work."""

import json
import unittest

import numpy as np

from cli_test import CliTest, hexed, tensor

EDGE = ["--hw", "edge_32x32_bf16"]


class ChannelStreamingTest(CliTest):
    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(1)

    def integers(self, shape, most=2):
        """Small ones, so that fp32 sums are exact in any order."""
        return self.random.integers(-most, most + 1, shape).astype(np.float32)

    def net(self, channels=(32, 64, 96, 160), kernels=(3, 3, 3), stride=2, adds=False, size=14):
        """Three convolutions, called front, makes and takes, in net.mlir; its input is x.npy. `adds`: takes what front makes as well."""
        body, x, height = "", "%x", size
        shape = [1, size, size, channels[0]]
        for i, (name, kernel) in enumerate(zip(["front", "makes", "takes"], kernels)):
            step = stride if name == "takes" else 1
            height = (height - 1) // step + 1
            weights, result = [kernel, kernel, channels[i], channels[i + 1]], [1, height, height, channels[i + 1]]
            body += f"""  %w{i} = graph.constant {hexed(self.integers(weights, 1))} : {tensor(weights, "f32")}
  %{i} = graph.conv {x}, %w{i} {{strides = array<i64: {step}, {step}>, pads = array<i64: {", ".join([str(kernel // 2)] * 4)}>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"}} : ({tensor(shape, "f32")}, {tensor(weights, "f32")})
    -> {tensor(result, "f32")} loc("{name}")
"""
            x, shape = f"%{i}", result
            if adds and name == "makes":
                kind = tensor(shape, "f32")
                body += f"  %sum = graph.add %1, %0 : ({kind}, {kind}) -> {kind}\n"
                x = "%sum"
        image = [1, size, size, channels[0]]
        self.write("net.mlir", f"""func.func @main(%x: {tensor(image, "f32")}) -> {tensor(shape, "f32")} {{
{body}  return {x} : {tensor(shape, "f32")}
}}
""")
        np.save(self.path / "x.npy", self.integers(image))

    def streaming(self, value, schedule="pipelined"):
        return self.plan_file({"takes": f"channel_streaming = {value}"}, f"{value}.mlir", schedule=schedule)

    def same_values(self, *machine, **network):
        self.net(**network)
        np.testing.assert_array_equal(self.output(*machine, "--schedule", self.streaming("true")), self.output(*machine, "--schedule", "serial"))

    def test_values(self):
        """Whole blocks of channels, and others; what is added to them; products of pixels; a stride of one."""
        for network in [{}, {"channels": (32, 64, 80, 144)}, {"channels": (32, 96, 96, 160), "adds": True},
                        {"channels": (64, 256, 512, 320), "kernels": (1, 1, 1), "size": 8}, {"channels": (32, 64, 96, 64), "stride": 1}]:
            with self.subTest(**network):
                self.same_values(*EDGE, **network)

    def test_values_of_integers(self):
        """As many slots and sums as the smallest machine has room for."""
        body, x, sizes, channels = "", "%x", [6, 6, 6, 3], [8, 16, 24, 40]
        kind = lambda i, element: tensor([1, sizes[i], sizes[i], channels[i]], element)
        for i, name in enumerate(["front", "makes", "takes"]):
            weights = self.random.integers(-8, 8, [3, 3, channels[i], channels[i + 1]]).astype(np.int8)
            stride = sizes[i] // sizes[i + 1]
            body += f"""  %w{i} = graph.constant {hexed(weights)} : {tensor(weights.shape, "i8")}
  %sums{i} = graph.conv_integer {x}, %w{i} {{x_zero_point = 0 : i32, w_zero_points = array<i32: 0>, strides = array<i64: {stride}, {stride}>,
    pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"}}
    : ({kind(i, "i8")}, {tensor(weights.shape, "i8")}) -> {kind(i + 1, "i32")} loc("{name}")
  %{i} = graph.requantize %sums{i} {{multipliers = array<f32: 0.01>, axis = 3 : i64, zero_point = 0 : i32}}
    : ({kind(i + 1, "i32")}) -> {kind(i + 1, "i8")}
"""
            x = f"%{i}"
        self.write("net.mlir", f"""func.func @main(%x: {kind(0, "i8")}) -> {kind(3, "i8")} {{
{body}  return %2 : {kind(3, "i8")}
}}
""")
        np.save(self.path / "x.npy", self.random.integers(-128, 128, [1, 6, 6, 8]).astype(np.int8))
        tiny = ["--hw", "tiny_8x8", "--schedule"]
        np.testing.assert_array_equal(self.output(*tiny, self.streaming("true")), self.output(*tiny, "serial"))

    def test_without_room_on_chip_for_what_is_made(self):
        self.net()
        schedule = self.plan_file({"takes": "channel_streaming = true", "makes": "on_chip = false"}, schedule="pipelined")
        np.testing.assert_array_equal(self.output(*EDGE, "--schedule", schedule), self.output(*EDGE, "--schedule", "serial"))

    def test_tiles_that_are_asked_for(self):
        """Neither need be what the compiler would take."""
        self.net()
        schedule = self.plan_file({"takes": 'channel_streaming = true, depth = 3, tile_k = 64, loop_order = "positions_outer"',
                                   "makes": 'tile = [32, 14, 7, 1], loop_order = "positions_outer"'}, schedule="pipelined")
        np.testing.assert_array_equal(self.output(*EDGE, "--schedule", schedule), self.output(*EDGE, "--schedule", "serial"))

    def hurried(self):
        """The weights of the last layer take DRAM 92,160 cycles, its products the array 56,448; of the one before, 46,080 and 112,896."""
        self.net(channels=(32, 256, 256, 512))

    def test_weights_come_while_the_kernel_before_is_at_work(self):
        self.hurried()
        self.assertLess(self.cycles(EDGE[1], self.streaming("true")), 0.92 * self.cycles(EDGE[1], self.streaming("false")))

    def test_the_compiler_sees_where_it_pays(self):
        self.hurried()
        self.choice_comes_back("channel_streaming = true", "net.mlir", *EDGE)

    def test_kernels_that_cannot(self):
        self.net()
        command = ["compile", "net.mlir", *EDGE, "--schedule"]
        first = self.plan_file({"front": "channel_streaming = true"}, schedule="pipelined")
        self.fails(*command, first, message=["plan.mlir:2:3", "'front'", "both must be products or convolutions"])
        both = self.plan_file({"takes": "channel_streaming = true", "makes": "channel_streaming = true"}, schedule="pipelined")
        self.fails(*command, both, message="streams with one other")
        self.fails(*command, self.streaming("true", "serial"), message=["true.mlir:2:3", "pipelined or search"])
        self.fails("compile", "net.mlir", "--hw", "gemmini_16x16_fp32", "--schedule", self.streaming("true"),
                   message="no scratchpad for weights alone")
        self.net(channels=(32, 64, 96, 1024), stride=1)
        self.fails(*command, self.streaming("true"), message="the accumulator does not hold all its sums")

    def test_channels_of_another_shape(self):
        """A product behind a flattened image takes each pixel's channels for others."""
        weights, columns = self.integers([3, 3, 32, 64], 1), self.integers([4096, 96], 1)
        self.write("net.mlir", f"""func.func @main(%x: tensor<2x8x8x32xf32>) -> tensor<2x96xf32> {{
  %w = graph.constant {hexed(weights)} : tensor<3x3x32x64xf32>
  %0 = graph.conv %x, %w {{strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"}} : (tensor<2x8x8x32xf32>, tensor<3x3x32x64xf32>) -> tensor<2x8x8x64xf32> loc("makes")
  %1 = graph.reshape %0 : (tensor<2x8x8x64xf32>) -> tensor<2x4096xf32>
  %v = graph.constant {hexed(columns)} : tensor<4096x96xf32>
  %2 = graph.matmul %1, %v : (tensor<2x4096xf32>, tensor<4096x96xf32>) -> tensor<2x96xf32> loc("takes")
  return %2 : tensor<2x96xf32>
}}
""")
        np.save(self.path / "x.npy", self.integers([2, 8, 8, 32]))
        self.fails("compile", "net.mlir", *EDGE, "--schedule", self.streaming("true"), message="its channels are not those that are made")
        np.testing.assert_array_equal(self.output(*EDGE, "--schedule", "pipelined"), self.output(*EDGE, "--schedule", "serial"))


if __name__ == "__main__":
    unittest.main()
