#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reports add up: rows of layers and of fusion groups, the critical path, the nodes of the model, and networks that run nowhere on the accelerator.

cli_test.py makes every run look at the rules of docs/profile.md; here stands what they do not say."""

import json
import unittest

import numpy as np

from cli_test import CliTest
from fusion_test import conv

FLOAT = ["--hw", "gemmini_16x16_fp32", "--schedule", "pipelined"]


#===--- ONNX models, field by field of their protobuf messages ---===#

def message(*fields):
    """Fields (number, value): integers as varints, text and bytes with their length; lists are repeated fields."""
    def varint(number):
        encoded = b""
        while number >= 128:
            encoded, number = encoded + bytes([number % 128 + 128]), number // 128
        return encoded + bytes([number])
    encoded = b""
    for number, value in fields:
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, int):
                encoded += varint(number * 8) + varint(item)
            else:
                data = item.encode() if isinstance(item, str) else item
                encoded += varint(number * 8 + 2) + varint(len(data)) + data
    return encoded


def constant(name, values):
    types = {"float32": 1, "int64": 7}
    return message((1, list(values.shape)), (2, types[values.dtype.name]), (8, name), (9, values.tobytes()))


def node(kind, inputs, output, name="", **attributes):
    """Attributes are integers, lists of integers, or text."""
    def attribute(key, value):
        number, type_ = {int: (3, 2), list: (8, 7), str: (4, 3)}[type(value)]
        return message((1, key), (number, value), (20, type_))
    return message((1, inputs), (2, output), (3, name), (4, kind), (5, [attribute(*item) for item in attributes.items()]))


def tensor_info(name, shape):
    dims = message((1, [message((1, size)) for size in shape]))
    return message((1, name), (2, message((1, message((1, 1), (2, dims))))))


def model(nodes, inputs, outputs, constants=()):
    graph = message((1, list(nodes)), (2, "net"), (5, [constant(*item) for item in dict(constants).items()]),
                    (11, [tensor_info(*item) for item in inputs.items()]), (12, [tensor_info(*item) for item in outputs.items()]))
    return message((1, 8), (7, graph), (8, message((1, ""), (2, 13))))


class ReportsTest(CliTest):
    def report(self, *arguments):
        out, _ = self.tilewright("run", *arguments, "--json", "report.json")
        return json.loads((self.path / "report.json").read_text()), out


class LayersTest(ReportsTest):
    def convolutions(self, layers):
        """Names of the rows; what brings images into the layout of the array and back is beside the point."""
        return [layer["name"] for layer in layers if not layer["name"].startswith("transpose")]

    def test_layers_side_by_side(self):
        """The second layer of these ends no later than the third, and loads its weights before the first begins."""
        first, _ = conv("%a", "%x", "first", 16, 64, kernel=3)
        second, side = conv("%b", "%a", "second", 64, 16)
        third, last = conv("%c", "%a", "third", 64, 64, kernel=3)
        self.write("net.mlir", f"func.func @main(%x: tensor<1x16x24x24xf32>) -> ({side}, {last}) {{\n{first}{second}{third}  return %b, %c : {side}, {last}\n}}\n")
        for schedule in ["serial", "double_buffer", "pipelined"]:
            report, out = self.report("net.mlir", "--hw", "gemmini_16x16_fp32", "--schedule", schedule)
            layers = report["layers"]
            self.assertEqual(self.convolutions(layers), ["first", "second", "third"])
            for layer in layers:
                self.assertLessEqual(layer["utilisation"], 1)
                self.assertGreater(layer["cycles"], 0)
                self.assertGreaterEqual(layer["cycles"], layer["bound_cycles"])
            self.assertEqual(sum(layer["critical_cycles"] for layer in layers), report["total_cycles"])
            busy = {engine["name"]: engine["busy_cycles"] for engine in report["engines"]}
            for engine in ["load0", "preload", "tensor", "vector", "store0"]:
                parts = [part["busy_cycles"] for layer in layers for part in layer["engines"] if part["name"] == engine]
                self.assertEqual(sum(parts), busy[engine], engine)
            for text in ["critical", "alone", "layers overlap", "busy cycles"]:
                self.assertIn(text, out)

    def test_a_short_branch_is_hardly_critical(self):
        """A product of 16 x 16 beside a convolution of 10 million MACs."""
        first, wide = conv("%a", "%x", "long", 64, 64, kernel=3)
        self.write("net.mlir", f"""func.func @main(%x: tensor<1x64x24x24xf32>, %y: tensor<16x16xf32>) -> ({wide}, tensor<16x16xf32>) {{
{first}  %w = graph.constant dense<2.0> : tensor<16x16xf32>
  %b = graph.matmul %y, %w : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("short")
  return %a, %b : {wide}, tensor<16x16xf32>
}}
""")
        report, _ = self.report("net.mlir", *FLOAT)
        critical = {layer["name"]: layer["critical_cycles"] for layer in report["layers"]}
        self.assertLess(critical["short"], 0.02 * report["total_cycles"])
        self.assertEqual(sum(critical.values()), report["total_cycles"])

    def test_the_trace_shows_the_critical_path(self):
        report, _ = self.report("gemm:64x64x64:int8", "--hw", "tiny_8x8", "--trace", "trace.json")
        events = json.loads((self.path / "trace.json").read_text())["traceEvents"]
        track = next(event["tid"] for event in events if event["name"] == "thread_name" and event["args"]["name"] == "critical path")
        steps = [event for event in events if event["ph"] == "X" and event["tid"] == track]
        self.assertEqual(steps[0]["ts"], 0)
        for before, after in zip(steps, steps[1:]):
            self.assertEqual(before["ts"] + before["dur"], after["ts"])
        self.assertEqual(steps[-1]["ts"] + steps[-1]["dur"], report["total_cycles"])

    def test_a_fusion_group_opens_into_its_members(self):
        first, _ = conv("%a", "%x", "expand", 16, 64)
        second, _ = conv("%b", "%a", "middle", 64, 64, kernel=3, groups=64)
        third, result = conv("%c", "%b", "project", 64, 16)
        self.write("net.mlir", f"func.func @main(%x: tensor<1x16x24x24xf32>) -> {result} {{\n{first}{second}{third}  return %c : {result}\n}}\n")
        names = ["expand", "middle", "project"]
        report, out = self.report("net.mlir", *FLOAT, "--set", "scratchpads.unified.capacity_bytes=65536")
        self.assertEqual(self.convolutions(report["layers"]), ["expand + middle + project"])
        group = next(layer for layer in report["layers"] if layer["members"])
        self.assertEqual([member["name"] for member in group["members"]], names)
        self.assertEqual(group["cycles"], max(member["last_retirement_cycle"] for member in group["members"]) -
                         min(member["first_start_cycle"] for member in group["members"]))
        self.assertLess(group["cycles"], sum(member["cycles"] for member in group["members"]))
        self.assertIn("\nexpand + middle + project ", out)
        for name in names:
            self.assertIn(f"\n  {name} ", out)
        # A layer that finds its input on chip may be faster than from DRAM to DRAM.
        self.assertTrue(all(member["alone_bound_cycles"] > 0 for member in group["members"]))
        # Apart, they are rows.
        report, _ = self.report("net.mlir", *FLOAT, "--across", "prefetch")
        self.assertEqual(self.convolutions(report["layers"]), names)
        self.assertTrue(all(layer["members"] == [] for layer in report["layers"]))

    def test_a_program_file_has_the_same_rows(self):
        self.tilewright("compile", "gemm:40x30x20:int8", "--hw", "tiny_8x8", "-o", "g.twp")
        whole, _ = self.report("gemm:40x30x20:int8", "--hw", "tiny_8x8")
        image, out = self.report("g.twp")
        for key in ["cycles", "critical_cycles", "bound_cycles", "alone_bound_cycles", "macs", "dram_bytes", "engines"]:
            self.assertEqual(image["layers"][0][key], whole["layers"][0][key], key)
        self.assertIsNone(image["layers"][0]["tile"])


class NodesTest(ReportsTest):
    def targets(self, net, *arguments):
        self.write("net.onnx", net)
        report, out = self.report("net.onnx", *arguments)
        return [(entry["node"], entry["target"]) for entry in report["offload"]], out

    def test_a_node_of_several_operations_is_one(self):
        scales = np.array([1, 1, 2, 2], np.float32)
        net = model([node("Resize", ["x", "", "scales"], "y", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")],
                    {"x": [1, 8, 4, 4]}, {"y": [1, 8, 8, 8]}, {"scales": scales})
        targets, out = self.targets(net, *FLOAT)
        self.assertEqual(targets, [("y", "accelerator")])
        self.assertIn("nodes: 1 on accelerator\n", out)

    def test_constants_are_no_nodes(self):
        """The six nodes of a root mean square norm; every constant has a name too."""
        net = model([node("Pow", ["x", "two"], "square"), node("ReduceMean", ["square"], "mean", axes=[-1 % 2**64]), node("Add", ["mean", "eps"], "sum"),
                     node("Sqrt", ["sum"], "root"), node("Div", ["x", "root"], "norm"), node("Mul", ["norm", "scale"], "y")],
                    {"x": [1, 8, 16]}, {"y": [1, 8, 16]},
                    {"two": np.array(2, np.float32), "eps": np.array(1e-5, np.float32), "scale": np.arange(16, dtype=np.float32)})
        targets, out = self.targets(net, *FLOAT)
        self.assertEqual([name for name, _ in targets], ["square", "mean", "sum", "root", "norm", "y"])
        self.assertIn("nodes: 6 on accelerator\n", out)

    def test_what_no_kernel_computes_is_folded(self):
        net = model([node("Identity", ["c"], "d", "copy"), node("Neg", ["d"], "e", "constant"), node("Reshape", ["x", "to"], "r", "view"),
                     node("Add", ["r", "e"], "y", "sum")],
                    {"x": [2, 8]}, {"y": [4, 4]}, {"c": np.arange(4, dtype=np.float32), "to": np.array([4, 4], np.int64)})
        targets, out = self.targets(net, *FLOAT)
        self.assertEqual(targets, [("copy", "folded"), ("constant", "folded"), ("view", "folded"), ("sum", "accelerator")])
        self.assertIn("nodes: 1 on accelerator, 3 folded\n", out)

    def test_nodes_of_one_name_are_two(self):
        net = model([node("Relu", ["x"], "a", "same"), node("Neg", ["a"], "b", "same"), node("Relu", ["b"], "y", "other")], {"x": [4, 16]}, {"y": [4, 16]})
        targets, _ = self.targets(net, *FLOAT)
        self.assertEqual(targets, [("same", "accelerator"), ("same", "accelerator"), ("other", "accelerator")])

    def test_nodes_on_both_targets(self):
        """An array of int8 multiplies no floats; the rest of the network is the vector engine's."""
        net = model([node("Relu", ["x"], "a", "before"), node("MatMul", ["a", "w"], "b", "product"), node("Relu", ["b"], "y", "after")],
                    {"x": [4, 16]}, {"y": [4, 16]}, {"w": np.eye(16, dtype=np.float32)})
        targets, out = self.targets(net, "--hw", "gemmini_16x16_int8")
        self.assertEqual(len(targets), 3)
        self.assertIn(("product", "cpu"), targets)
        self.assertIn("\n  product on cpu: ", out)


class NowhereTest(ReportsTest):
    """A network of which the accelerator runs nothing."""

    def setUp(self):
        super().setUp()
        self.write("net.onnx", model([node("MatMul", ["x", "w"], "y", "product")], {"x": [4, 8]}, {"y": [4, 8]}, {"w": np.eye(8, dtype=np.float32)}))
        self.x = np.arange(32, dtype=np.float32).reshape(4, 8)
        np.save(self.path / "x.npy", self.x)
        self.network = ["net.onnx", "--hw", "gemmini_16x16_int8"]

    def test_run_says_so(self):
        out, _ = self.tilewright("run", *self.network, "--input", "x.npy", "--output-dir", "out", "--json", "report.json")
        self.assertIn("nothing runs on the accelerator\nnodes: 1 on cpu\n  product on cpu: ", out)
        self.assertNotIn("cycles", out)
        np.testing.assert_array_equal(np.load(self.path / "out/y.npy"), self.x)
        report = json.loads((self.path / "report.json").read_text())
        self.assertNotIn("total_cycles", report)
        self.assertEqual(report["programs"], 0)
        self.assertEqual(report["macs"], 0)
        self.assertEqual(report["fallback"]["kernels"], 1)

    def test_compare_has_nothing_to_compare(self):
        out, _ = self.tilewright("compare", *self.network, "--input", "x.npy", "--repeat", "1", "--threads", "1")
        self.assertRegex(out, r"(?m)^accel +(- +)+nothing runs on gemmini_16x16_int8$")
        self.assertIn("nothing runs on the accelerator: it has no results to compare\nnodes: 1 on cpu\n  product on cpu: ", out)
        for text in ["simulated", "cycles", "agree"]:
            self.assertNotIn(text, out)
        self.assertRegex(out, r"(?m)^cpu +\d+\.\d+ ")

    def test_other_commands_need_the_accelerator(self):
        for command, purpose in [("profile", "nothing to profile"), ("verify", "nothing to verify"), ("tune", "nothing to tune")]:
            self.fails(command, *self.network, message=["nothing of net.onnx runs on the accelerator", purpose, "product on cpu: "])


if __name__ == "__main__":
    unittest.main()
