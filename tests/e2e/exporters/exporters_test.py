#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models with the habits of exporters (docs/exporters.md): PyTorch's, tf2onnx and jax2onnx. Small ones, written here, compared with NumPy.

Environment: TILEWRIGHT is the binary.
"""
import json
import math
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

BINARY = os.environ["TILEWRIGHT"]
MACHINE = "gemmini_16x16_fp32"
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value(name, shape, element=FLOAT):
    return helper.make_tensor_value_info(name, element, shape)


def constants(**arrays):
    return [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]


def erf(x):
    return np.vectorize(math.erf)(x)


def gelu(x):
    return x * (1 + erf(x / math.sqrt(2))) / 2


def layer_norm(x, scale, bias, epsilon=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + epsilon) * scale + bias


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class ExporterTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.random = np.random.default_rng(3)

    def numbers(self, *shape):
        return self.random.standard_normal(shape).astype(np.float32)

    def tilewright(self, *arguments):
        done = subprocess.run([BINARY, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def compare(self, graph, opset, inputs, expected, *options, functions=(), domains=(), ir_version=8):
        """Runs a model on the machine, and with code for the CPU, as an int8 array has no floats; returns where `check` says its nodes run."""
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *domains], functions=list(functions))
        model.ir_version = ir_version
        (self.folder / "m.onnx").write_bytes(model.SerializeToString())
        arguments = []
        for i, (name, array) in enumerate(inputs.items()):
            np.save(self.folder / f"in{i}.npy", array)
            arguments += ["--input", f"{name}=in{i}.npy"]
        for target in (["--hw", MACHINE], ["--hw", "tiny_8x8"]):
            self.tilewright("run", "m.onnx", *target, *arguments, *options, "--output-dir", "out")
            found = list((self.folder / "out").glob("*.npy"))
            self.assertEqual(len(found), 1)
            np.testing.assert_allclose(np.load(found[0]), expected, rtol=2e-4, atol=2e-5, err_msg=str(target))
            found[0].unlink()
        shapes = [text for name, array in inputs.items() for text in ("--shape", f"{name}={','.join(map(str, array.shape))}")]
        checked = json.loads(self.tilewright("check", "m.onnx", "--hw", MACHINE, *shapes, *options, "--json", "-"))
        return {node["node"]: node for node in checked["nodes"]}


class PyTorchTest(ExporterTest):
    def test_functions_of_the_dynamo_exporter(self):
        """Each module and each aten op is a function of the model, which others call; dims come from Shape, Gather and Concat."""
        opset = [helper.make_opsetid("", 18), helper.make_opsetid("pkg.onnxscript.torch_lib", 1), helper.make_opsetid("pkg.torch.2.3", 1)]
        linear = helper.make_function("pkg.onnxscript.torch_lib", "aten_linear_bias", ["input", "weight", "bias"], ["result"], [
            helper.make_node("Transpose", ["weight"], ["tmp"], name="n0", perm=[1, 0]),
            helper.make_node("MatMul", ["input", "tmp"], ["tmp_0"], name="n1"),
            helper.make_node("Add", ["tmp_0", "bias"], ["result"], name="n2")], opset)
        aten_gelu = helper.make_function("pkg.onnxscript.torch_lib", "aten_gelu_none", ["self"], ["result"], [
            helper.make_node("Constant", [], ["half"], name="n0", value=numpy_helper.from_array(np.float32(0.5))),
            helper.make_node("Constant", [], ["root"], name="n1", value=numpy_helper.from_array(np.float32(1 / math.sqrt(2)))),
            helper.make_node("Mul", ["self", "root"], ["scaled"], name="n2"), helper.make_node("Erf", ["scaled"], ["e"], name="n3"),
            helper.make_node("Constant", [], ["one"], name="n4", value=numpy_helper.from_array(np.float32(1))),
            helper.make_node("Add", ["e", "one"], ["plus"], name="n5"), helper.make_node("Mul", ["self", "plus"], ["twice"], name="n6"),
            helper.make_node("Mul", ["half", "twice"], ["result"], name="n7")], opset)
        block = helper.make_function("pkg.torch.2.3", "Mlp_mlp_1", ["l_x_", "fc1.weight", "fc1.bias"], ["gelu"], [
            helper.make_node("aten_linear_bias", ["l_x_", "fc1.weight", "fc1.bias"], ["fc1"], name="aten_linear_0", domain="pkg.onnxscript.torch_lib"),
            helper.make_node("aten_gelu_none", ["fc1"], ["gelu"], name="aten_gelu_1", domain="pkg.onnxscript.torch_lib")], opset)
        weight, bias = self.numbers(16, 8), self.numbers(16)
        nodes = [helper.make_node("Mlp_mlp_1", ["l_x_", "mlp.fc1.weight", "mlp.fc1.bias"], ["mlp_1"], name="Mlp_mlp_1_0", domain="pkg.torch.2.3"),
                 helper.make_node("Shape", ["mlp_1"], ["shape"], name="Shape_1"),
                 helper.make_node("Gather", ["shape", "zero"], ["batch"], name="Gather_2"),
                 helper.make_node("Unsqueeze", ["batch", "zero1"], ["batch_1"], name="Unsqueeze_3"),
                 helper.make_node("Concat", ["batch_1", "rest"], ["wanted"], name="Concat_4", axis=0),
                 helper.make_node("Reshape", ["mlp_1", "wanted"], ["view"], name="Reshape_5", allowzero=0)]
        graph = helper.make_graph(nodes, "main_graph", [value("l_x_", ["s0", 5, 8])], [value("view", ["s0", 80])],
                                  constants(**{"mlp.fc1.weight": weight, "mlp.fc1.bias": bias, "zero": np.int64(0), "zero1": np.array([0]),
                                               "rest": np.array([-1])}))
        x = self.numbers(2, 5, 8)
        places = self.compare(graph, 18, {"l_x_": x}, gelu(x @ weight.T + bias).reshape(2, 80), functions=[linear, aten_gelu, block],
                              domains=opset[1:])
        self.assertEqual({node["target"] for node in places.values()}, {"accelerator", "folded"})
        self.assertTrue(any(name.endswith("n1") and node["operator"] == "MatMul" for name, node in places.items()), places.keys())

    def test_attention_with_shape_chains(self):
        """torch.onnx.export of a head, opsets 18 to 23, with an open batch and sequence; optional attributes as it writes them."""
        w, scale, bias = self.numbers(8, 24), self.numbers(8), self.numbers(8)
        x = self.numbers(2, 4, 8)
        q, k, v = np.split(layer_norm(x, scale, bias) @ w, 3, axis=-1)
        expected = softmax(q @ k.transpose(0, 2, 1) / math.sqrt(8)) @ v
        nodes = [helper.make_node("LayerNormalization", ["x", "scale", "bias"], ["/norm/out"], name="/norm/LayerNormalization", axis=-1, epsilon=1e-5),
                 helper.make_node("MatMul", ["/norm/out", "w"], ["/qkv"], name="/qkv/MatMul"),
                 helper.make_node("Split", ["/qkv"], ["/q", "/k", "/v"], name="/Split", axis=-1, num_outputs=3),
                 helper.make_node("Transpose", ["/k"], ["/kt"], name="/Transpose", perm=[0, 2, 1]),
                 helper.make_node("Shape", ["/q"], ["/shape"], name="/Shape"),
                 helper.make_node("Slice", ["/shape", "minus1", "end"], ["/last"], name="/Slice"),
                 helper.make_node("Cast", ["/last"], ["/lastf"], name="/Cast", to=FLOAT), helper.make_node("Sqrt", ["/lastf"], ["/root"], name="/Sqrt"),
                 helper.make_node("MatMul", ["/q", "/kt"], ["/scores"], name="/MatMul"),
                 helper.make_node("Div", ["/scores", "/root"], ["/scaled"], name="/Div"),
                 helper.make_node("Softmax", ["/scaled"], ["/p"], name="/Softmax", axis=-1),
                 helper.make_node("MatMul", ["/p", "/v"], ["y"], name="/MatMul_1")]
        for opset in range(18, 24):
            graph = helper.make_graph(nodes, "main_graph", [value("x", ["batch", "sequence", 8])], [value("y", ["batch", "sequence", 8])],
                                      constants(w=w, scale=scale, bias=bias, minus1=np.array([-1]), end=np.array([2**63 - 1])))
            places = self.compare(graph, opset, {"x": x}, expected, ir_version=10 if opset > 20 else 8)
            self.assertEqual({node["target"] for node in places.values()}, {"accelerator", "folded"}, opset)


class TensorFlowTest(ExporterTest):
    def test_images_with_channels_last(self):
        """tf2onnx: an NHWC input, transposes around convolutions, names with colons and slashes, pads that SAME has become."""
        image, w, b = self.numbers(1, 8, 8, 3), self.numbers(4, 3, 3, 3) / 5, self.numbers(4)
        name = "StatefulPartitionedCall/model/conv2d/Conv2D"
        nodes = [helper.make_node("Transpose", ["serving_default_input_1:0"], [f"{name}__6:0"], name=f"{name}__6", perm=[0, 3, 1, 2]),
                 helper.make_node("Conv", [f"{name}__6:0", "conv/ReadVariableOp:0", "bias:0"], [f"{name}:0"], name=name, strides=[2, 2],
                                  dilations=[1, 1], group=1, kernel_shape=[3, 3], pads=[0, 0, 1, 1]),
                 helper.make_node("Relu", [f"{name}:0"], ["StatefulPartitionedCall/model/relu/Relu:0"], name="StatefulPartitionedCall/model/relu/Relu"),
                 helper.make_node("Transpose", ["StatefulPartitionedCall/model/relu/Relu:0"], ["Relu__8:0"], name="Relu__8", perm=[0, 2, 3, 1]),
                 helper.make_node("ReduceMean", ["Relu__8:0"], ["StatefulPartitionedCall:0"], name="mean", axes=[1, 2], keepdims=0)]
        graph = helper.make_graph(nodes, "tf2onnx", [value("serving_default_input_1:0", ["unk__9", 8, 8, 3])],
                                  [value("StatefulPartitionedCall:0", ["unk__10", 4])], constants(**{"conv/ReadVariableOp:0": w, "bias:0": b}))
        padded = np.pad(image, ((0, 0), (0, 1), (0, 1), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))[:, ::2, ::2]  # [1, 4, 4, 3, 3, 3]
        expected = np.maximum(np.einsum("nyxcij,ocij->nyxo", windows, w) + b, 0).mean(axis=(1, 2))
        places = self.compare(graph, 15, {"serving_default_input_1:0": image}, expected)
        self.assertEqual(places[name]["target"], "accelerator")

    def test_casts_and_strided_slices(self):
        """A flatten as tf2onnx writes it: Shape, Cast to int32, Slice, Squeeze, Cast back, Concat."""
        nodes = [helper.make_node("Shape", ["x:0"], ["s:0"], name="Flatten/Shape"), helper.make_node("Cast", ["s:0"], ["i:0"], name="Flatten/Shape__2", to=TensorProto.INT32),
                 helper.make_node("Slice", ["i:0", "zero", "one", "zero"], ["first:0"], name="Flatten/strided_slice"),
                 helper.make_node("Squeeze", ["first:0", "zero"], ["scalar:0"], name="Flatten/squeeze"),
                 helper.make_node("Unsqueeze", ["scalar:0", "zero"], ["vector:0"], name="Flatten/unsqueeze"),
                 helper.make_node("Cast", ["vector:0"], ["long:0"], name="Flatten/cast", to=INT64),
                 helper.make_node("Concat", ["long:0", "rest"], ["shape:0"], name="Flatten/concat", axis=0),
                 helper.make_node("Reshape", ["x:0", "shape:0"], ["Identity:0"], name="Flatten/Reshape")]
        graph = helper.make_graph(nodes, "tf2onnx", [value("x:0", [None, 2, 3])], [value("Identity:0", [None, 6])],
                                  constants(zero=np.array([0]), one=np.array([1]), rest=np.array([-1])))
        x = self.numbers(4, 2, 3)
        self.compare(graph, 13, {"x:0": x}, x.reshape(4, 6))


class JaxTest(ExporterTest):
    def test_functions_of_modules(self):
        """jax2onnx: a function of the model for each module, and dot_general as Einsum or MatMul inside; bias by Expand."""
        opset = [helper.make_opsetid("", 21), helper.make_opsetid("custom", 1)]
        dense = helper.make_function("custom", "Linear_1", ["x", "kernel", "bias"], ["y"], [
            helper.make_node("Einsum", ["x", "kernel"], ["dot"], name="dot_general_1", equation="ab,bc->ac"),
            helper.make_node("Shape", ["dot"], ["dims"], name="shape_2"), helper.make_node("Expand", ["bias", "dims"], ["wide"], name="broadcast_in_dim_3"),
            helper.make_node("Add", ["dot", "wide"], ["y"], name="add_4")], opset)
        k1, b1, k2, b2 = self.numbers(8, 16), self.numbers(16), self.numbers(16, 4), self.numbers(4)
        nodes = [helper.make_node("Linear_1", ["var_0", "k1", "b1"], ["h"], name="Linear_1", domain="custom"),
                 helper.make_node("Tanh", ["h"], ["t"], name="tanh_5"),
                 helper.make_node("Linear_1", ["t", "k2", "b2"], ["o"], name="Linear_2", domain="custom"),
                 helper.make_node("ReduceMax", ["o", "last"], ["m"], name="reduce_max_6", keepdims=1),
                 helper.make_node("Sub", ["o", "m"], ["shifted"], name="sub_7"), helper.make_node("Exp", ["shifted"], ["e"], name="exp_8"),
                 helper.make_node("ReduceSum", ["e", "last"], ["sum"], name="reduce_sum_9", keepdims=1),
                 helper.make_node("Div", ["e", "sum"], ["out"], name="div_10")]
        graph = helper.make_graph(nodes, "jax_model", [value("var_0", ["B", 8])], [value("out", ["B", 4])],
                                  constants(k1=k1, b1=b1, k2=k2, b2=b2, last=np.array([-1])))
        x = self.numbers(3, 8)
        expected = softmax(np.tanh(x @ k1 + b1) @ k2 + b2)
        places = self.compare(graph, 21, {"var_0": x}, expected, functions=[dense], domains=opset[1:], ir_version=10)
        self.assertEqual(sum(node["operator"] == "Einsum" for node in places.values()), 2)


if __name__ == "__main__":
    unittest.main()
