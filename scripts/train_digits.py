#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains the digits network and writes its ONNX files and reference outputs.

The result lies in tests/data/digits, so nothing but a change of the network needs this script. It needs the packages
of scripts/packages-training.txt. In order it trains a small CNN with PyTorch on scikit-learn's bundled 8x8 digits,
writes it as float ONNX, quantises that file after training (int8 QDQ, laid out as ONNX Runtime's quantiser does), and
evaluates both files node by node with a numpy evaluator that shares nothing with the compiler.
"""

import argparse
import os
import pathlib
import sys

# One thread and no choice of kernels by CPU type: sums are then taken in the same order on every run.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["ATEN_CPU_CAPABILITY"] = "default"

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

OPSET = 13
IR_VERSION = 7
TEST_IMAGES = 360
EPOCHS = 60
BATCH = 32
REPOSITORY = pathlib.Path(__file__).resolve().parent.parent

# ONNX's own node tests (libonnx-testdata) that the evaluator must pass before its outputs are stored.
NODE_TESTS = [
    "test_add", "test_add_bcast", "test_basic_conv_with_padding", "test_basic_conv_without_padding",
    "test_batchnorm_epsilon", "test_batchnorm_example", "test_conv_with_strides_and_asymmetric_padding",
    "test_conv_with_strides_no_padding", "test_conv_with_strides_padding", "test_dequantizelinear",
    "test_dequantizelinear_axis", "test_flatten_axis1", "test_flatten_default_axis", "test_gemm_all_attributes",
    "test_gemm_default_vector_bias", "test_gemm_transposeB", "test_maxpool_2d_default", "test_maxpool_2d_pads",
    "test_maxpool_2d_strides", "test_quantizelinear", "test_quantizelinear_axis", "test_relu",
]
NODE_TEST_FOLDER = pathlib.Path("/usr/share/libonnx-testdata/data/node")


# ---------------------------------------------------------------------------------------------------- network


class DigitsNet(nn.Module):
    """[N, 1, 8, 8] pixels in 0..1 -> [N, 10] logits. Every convolution is followed by batch normalisation."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.stem_bn = nn.BatchNorm2d(16)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False)
        self.depthwise_bn = nn.BatchNorm2d(16)
        self.pointwise = nn.Conv2d(16, 16, 1, bias=False)
        self.pointwise_bn = nn.BatchNorm2d(16)
        self.down = nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False)
        self.down_bn = nn.BatchNorm2d(32)
        self.classifier = nn.Linear(32 * 2 * 2, 10)

    def forward(self, image):
        stem = torch.relu(self.stem_bn(self.stem(image)))
        branch = torch.relu(self.depthwise_bn(self.depthwise(stem)))
        branch = self.pointwise_bn(self.pointwise(branch))
        residual = torch.relu(stem + branch)
        down = torch.relu(self.down_bn(self.down(residual)))
        pool = torch.max_pool2d(down, 2)
        return self.classifier(torch.flatten(pool, 1))


def train(images, labels, seed):
    """Trains for a fixed number of epochs: no choice is made by looking at the test images."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.backends.mkldnn.enabled = False
    net = DigitsNet()
    images, labels = torch.from_numpy(images), torch.from_numpy(labels)
    optimiser = torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=1e-2)
    steps = EPOCHS * ((len(images) + BATCH - 1) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=5e-3, total_steps=steps)
    for epoch in range(EPOCHS):
        total = 0.0
        for batch in torch.randperm(len(images)).split(BATCH):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(net(images[batch]), labels[batch], label_smoothing=0.05)
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item() * len(batch)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:2d} of {EPOCHS}: loss {total / len(images):.4f}")
    return net.eval()


def fold_batch_norm(conv, bn):
    """Returns (weights, bias), float32, of the convolution that equals `conv` followed by `bn`."""
    def f64(tensor):
        return tensor.detach().numpy().astype(np.float64)

    factor = f64(bn.weight) / np.sqrt(f64(bn.running_var) + bn.eps)
    weights = f64(conv.weight) * factor[:, None, None, None]
    bias = f64(bn.bias) - f64(bn.running_mean) * factor
    return weights.astype(np.float32), bias.astype(np.float32)


# ---------------------------------------------------------------------------------------------------- ONNX files


class GraphBuilder:
    """Collects nodes and initializers. A node is named as the layer it stands for, its output as the node."""

    def __init__(self):
        self.nodes = []
        self.initializers = []

    def constant(self, name, array):
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op_type, name, inputs, output=None, **attributes):
        output = output or name + "_out"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attributes))
        return output

    def model(self, graph_name):
        """The whole model: [1, 1, 8, 8] float `image` -> [1, 10] float `logits`."""
        graph = helper.make_graph(
            self.nodes, graph_name,
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 10])], self.initializers)
        model = helper.make_model(graph, producer_name="train_digits.py", ir_version=IR_VERSION,
                                  opset_imports=[helper.make_opsetid("", OPSET)])
        onnx.checker.check_model(model, full_check=True)
        return model


CONV_ATTRIBUTES = {
    "stem": dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "depthwise": dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=16),
    "pointwise": dict(kernel_shape=[1, 1]),
    "down": dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
}


def folded_layers(net):
    """Weights and bias of every layer, batch normalisation folded away."""
    layers = {name: fold_batch_norm(getattr(net, name), getattr(net, name + "_bn")) for name in CONV_ATTRIBUTES}
    layers["classifier"] = (net.classifier.weight.detach().numpy(), net.classifier.bias.detach().numpy())
    return layers


def build_float(net):
    """The float model. The batch normalisation after `down` stays a node, so that an importer meets one."""
    graph = GraphBuilder()
    layers = folded_layers(net)

    def conv(name, source):
        weights, bias = layers[name]
        inputs = [source, graph.constant(name + "_weights", weights), graph.constant(name + "_bias", bias)]
        return graph.node("Conv", name, inputs, **CONV_ATTRIBUTES[name])

    stem = graph.node("Relu", "stem_relu", [conv("stem", "image")])
    branch = graph.node("Relu", "depthwise_relu", [conv("depthwise", stem)])
    branch = conv("pointwise", branch)
    residual = graph.node("Relu", "residual_relu", [graph.node("Add", "residual", [stem, branch])])
    weights = graph.constant("down_weights", net.down.weight.detach().numpy())
    down = graph.node("Conv", "down", [residual, weights], **CONV_ATTRIBUTES["down"])
    statistics = dict(scale=net.down_bn.weight, bias=net.down_bn.bias, mean=net.down_bn.running_mean,
                      variance=net.down_bn.running_var)
    down = graph.node(
        "BatchNormalization", "down_bn",
        [down] + [graph.constant("down_bn_" + key, value.detach().numpy()) for key, value in statistics.items()],
        epsilon=net.down_bn.eps)
    down = graph.node("Relu", "down_relu", [down])
    pool = graph.node("MaxPool", "pool", [down], kernel_shape=[2, 2], strides=[2, 2])
    flat = graph.node("Flatten", "flatten", [pool], axis=1)
    weights, bias = layers["classifier"]
    graph.node("Gemm", "classifier", [flat, graph.constant("classifier_weights", weights),
                                      graph.constant("classifier_bias", bias)], output="logits", transB=1)
    return graph.model("digits_fp32")


class Quantiser(GraphBuilder):
    """Builds a QDQ graph: every operator computes on dequantised values and its output is quantised again.

    Activations: int8 with scale and zero point from the smallest and largest value of the calibration run (the range
    is made to contain 0). Weights: int8, symmetric in -127..127, one scale per output channel. Bias: int32 with scale
    sx*sw[c] and zero point 0, so that an integer implementation can add it to its accumulator.
    """

    def __init__(self, ranges):
        super().__init__()
        self.ranges = ranges  # name of the float model's tensor -> (smallest, largest)
        self.parameters = {}  # name of the tensor -> (scale, zero point)

    def activation_parameters(self, tensor):
        low, high = (float(value) for value in self.ranges[tensor])
        low, high = min(low, 0.0), max(high, 0.0)
        scale = np.float32((high - low) / 255.0)
        return scale, np.int8(np.clip(np.rint(-128.0 - low / float(scale)), -128, 127))

    def quantised(self, value, tensor, like=None, output=None):
        """Appends the Q/DQ pair after `value`; `like` names the tensor whose scale and zero point are shared."""
        owner = like or tensor
        if owner not in self.parameters:
            scale, zero_point = self.activation_parameters(owner)
            self.parameters[owner] = scale, zero_point
            self.constant(owner + "_scale", scale)
            self.constant(owner + "_zero_point", zero_point)
        self.parameters[tensor] = self.parameters[owner]
        arguments = [owner + "_scale", owner + "_zero_point"]
        stored = self.node("QuantizeLinear", tensor + "_q", [value] + arguments)
        return self.node("DequantizeLinear", tensor + "_dq", [stored] + arguments, output=output)

    def weights(self, name, weights, bias, source_tensor):
        """Stores weights [C, ...] and bias [C] quantised; returns the names of their dequantised values."""
        largest = np.abs(weights.reshape(len(weights), -1)).max(axis=1)
        scale = np.where(largest > 0, largest / np.float32(127), np.float32(1)).astype(np.float32)
        by_channel = scale.reshape(-1, *[1] * (weights.ndim - 1))
        stored = np.clip(np.rint(weights / by_channel), -127, 127).astype(np.int8)
        bias_scale = self.parameters[source_tensor][0] * scale
        stored_bias = np.rint(bias.astype(np.float64) / bias_scale)
        assert np.abs(stored_bias).max() < 2**31, "bias does not fit int32"
        names = []
        stored_bias = stored_bias.astype(np.int32)
        for kind, values, values_scale in [("weights", stored, scale), ("bias", stored_bias, bias_scale)]:
            prefix = f"{name}_{kind}"
            inputs = [self.constant(prefix + "_quantized", values), self.constant(prefix + "_scale", values_scale),
                      self.constant(prefix + "_zero_point", np.zeros(len(values), values.dtype))]
            names.append(self.node("DequantizeLinear", prefix + "_dq", inputs, axis=0))
        return names


def build_quantised(net, ranges):
    """The int8 QDQ model.

    As in ONNX Runtime's quantiser, a Relu that follows a convolution disappears: its output's range starts at 0, so
    saturation at the zero point does its work. The one after Add stays, so that an importer meets both forms. MaxPool
    and Flatten keep scale and zero point of their input.
    """
    graph = Quantiser(ranges)
    layers = folded_layers(net)

    def conv(name, source, source_tensor, tensor):
        inputs = [source] + graph.weights(name, *layers[name], source_tensor)
        return graph.quantised(graph.node("Conv", name, inputs, **CONV_ATTRIBUTES[name]), tensor)

    image = graph.quantised("image", "image")
    stem = conv("stem", image, "image", "stem_relu_out")
    branch = conv("depthwise", stem, "stem_relu_out", "depthwise_relu_out")
    branch = conv("pointwise", branch, "depthwise_relu_out", "pointwise_out")
    residual = graph.node("Add", "residual", [stem, branch])
    residual = graph.node("Relu", "residual_relu", [residual], output="residual_relu_float")
    residual = graph.quantised(residual, "residual_relu_out")
    down = conv("down", residual, "residual_relu_out", "down_relu_out")
    pool = graph.node("MaxPool", "pool", [down], output="pool_float", kernel_shape=[2, 2], strides=[2, 2])
    pool = graph.quantised(pool, "pool_out", like="down_relu_out")
    flat = graph.node("Flatten", "flatten", [pool], output="flatten_float", axis=1)
    flat = graph.quantised(flat, "flatten_out", like="down_relu_out")
    inputs = [flat] + graph.weights("classifier", *layers["classifier"], "flatten_out")
    graph.quantised(graph.node("Gemm", "classifier", inputs, transB=1), "logits", output="logits")
    return graph.model("digits_int8_qdq")


# ---------------------------------------------------------------------------------------------------- reference


def windows(x, kernel, strides, pads, fill):
    """[N, C, H, W] -> [N, C, OH, OW, KH, KW], padded with `fill`."""
    top, left, bottom, right = pads
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(x, kernel, axis=(2, 3))
    return view[:, :, ::strides[0], ::strides[1]]


def conv_2d(x, weights, bias=None, kernel_shape=None, strides=(1, 1), pads=(0, 0, 0, 0), group=1):
    assert kernel_shape is None or tuple(kernel_shape) == weights.shape[2:]
    view = windows(x.astype(np.float64), weights.shape[2:], strides, pads, 0.0)
    n, channels, height, width = view.shape[:4]
    view = view.reshape(n, group, channels // group, height, width, *weights.shape[2:])
    split = weights.astype(np.float64).reshape(group, -1, *weights.shape[1:])
    y = np.einsum("ngchwij,gkcij->ngkhw", view, split).reshape(n, len(weights), height, width)
    return y if bias is None else y + bias.astype(np.float64)[:, None, None]


def max_pool(x, kernel_shape, strides=(1, 1), pads=(0, 0, 0, 0)):
    return windows(x, tuple(kernel_shape), strides, pads, -np.inf).max(axis=(4, 5))


def gemm(a, b, c=None, alpha=1.0, beta=1.0, transA=0, transB=0):
    a, b = a.astype(np.float64), b.astype(np.float64)
    y = alpha * ((a.T if transA else a) @ (b.T if transB else b))
    return y if c is None else y + beta * c.astype(np.float64)


def batch_norm(x, scale, bias, mean, variance, epsilon=1e-5):
    scale, bias, mean, variance = (v.astype(np.float64)[:, None, None] for v in (scale, bias, mean, variance))
    return (x.astype(np.float64) - mean) / np.sqrt(variance + epsilon) * scale + bias


def along_axis(parameter, x, axis):
    return parameter.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]) if parameter.ndim else parameter


def quantize_linear(x, scale, zero_point, axis=1):
    """saturate(round half to even(x / scale) + zero_point): one float32 division, then exact."""
    rounded = np.rint(x / along_axis(scale, x, axis)).astype(np.float64)
    limits = np.iinfo(zero_point.dtype)
    shifted = rounded + along_axis(zero_point, x, axis).astype(np.float64)
    return np.clip(shifted, limits.min, limits.max).astype(zero_point.dtype)


def dequantize_linear(x, scale, zero_point, axis=1):
    shifted = x.astype(np.int64) - along_axis(zero_point, x, axis).astype(np.int64)
    return shifted.astype(np.float32) * along_axis(scale, x, axis)


OPERATORS = {
    "Add": np.add,
    "BatchNormalization": batch_norm,
    "Conv": conv_2d,
    "DequantizeLinear": dequantize_linear,
    "Flatten": lambda x, axis=1: x.reshape(int(np.prod(x.shape[:axis])), -1),
    "Gemm": gemm,
    "MaxPool": max_pool,
    "QuantizeLinear": quantize_linear,
    "Relu": lambda x: np.maximum(x, 0),
}


def evaluate(model, feeds):
    """Evaluates an ONNX model node by node; returns every tensor by name.

    Every tensor between nodes is float32 (or an integer). ONNX leaves the order of a sum open; here the sums of one
    operator are taken in float64 and rounded once, so that no order is preferred.
    """
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    values.update(feeds)
    for node in model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        result = OPERATORS[node.op_type](*[values[name] for name in node.input], **attributes)
        values[node.output[0]] = result.astype(np.float32) if result.dtype == np.float64 else result
    return values


def check_evaluator():
    """Runs ONNX's own node tests of the operators used, with the tolerance of ONNX's own runner (1e-3, 1e-7)."""
    for test in NODE_TESTS:
        folder = NODE_TEST_FOLDER / test
        model = onnx.load(str(folder / "model.onnx"))

        def tensor(path):
            return numpy_helper.to_array(onnx.load_tensor(str(path)))

        data = folder / "test_data_set_0"
        feeds = {value.name: tensor(data / f"input_{i}.pb") for i, value in enumerate(model.graph.input)}
        output = evaluate(model, feeds)[model.graph.output[0].name]
        expected = tensor(data / "output_0.pb")
        assert output.dtype == expected.dtype and output.shape == expected.shape, test
        np.testing.assert_allclose(output, expected, rtol=1e-3, atol=1e-7, err_msg=test)
    print(f"evaluator: passes {len(NODE_TESTS)} of {len(NODE_TESTS)} ONNX node tests")


def accuracy(logits, labels):
    correct = int((logits.argmax(axis=1) == labels).sum())
    return f"{100 * correct / len(labels):.2f} % ({correct} of {len(labels)})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="seeds the split, the weights and the batches")
    parser.add_argument("--output-dir", type=pathlib.Path, default=REPOSITORY / "tests/data/digits")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}; torch {torch.__version__}, numpy {np.__version__}, onnx {onnx.__version__}")
    check_evaluator()

    digits = load_digits()
    images = (digits.images[:, None] / 16.0).astype(np.float32)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, digits.target.astype(np.int64), test_size=TEST_IMAGES, random_state=arguments.seed,
        stratify=digits.target)
    net = train(train_images, train_labels, arguments.seed)

    float_model = build_float(net)
    calibration = evaluate(float_model, {"image": train_images})
    constants = {tensor.name for tensor in float_model.graph.initializer}
    ranges = {name: (value.min(), value.max()) for name, value in calibration.items() if name not in constants}
    int8_model = build_quantised(net, ranges)

    logits_float = evaluate(float_model, {"image": test_images})["logits"]
    logits_int8 = evaluate(int8_model, {"image": test_images})["logits"]
    with torch.no_grad():
        logits_torch = net(torch.from_numpy(test_images)).numpy()
    difference = np.abs(logits_float - logits_torch).max()
    print(f"float: evaluator against torch: max |difference| {difference:.2e}, largest |logit| "
          f"{np.abs(logits_torch).max():.2f}")
    assert difference < 1e-4, "the evaluator and torch disagree"

    out = arguments.output_dir
    out.mkdir(parents=True, exist_ok=True)
    onnx.save(float_model, str(out / "digits_fp32.onnx"))
    onnx.save(int8_model, str(out / "digits_int8_qdq.onnx"))
    for name, array in [("images", test_images), ("labels", test_labels), ("logits_fp32", logits_float),
                        ("logits_int8_qdq", logits_int8)]:
        np.save(out / f"{name}.npy", np.ascontiguousarray(array))

    train_logits = [evaluate(model, {"image": train_images})["logits"] for model in (float_model, int8_model)]
    print(f"fp32:     test {accuracy(logits_float, test_labels)}, training {accuracy(train_logits[0], train_labels)}")
    print(f"int8 QDQ: test {accuracy(logits_int8, test_labels)}, training {accuracy(train_logits[1], train_labels)}")
    agree = int((logits_float.argmax(axis=1) == logits_int8.argmax(axis=1)).sum())
    print(f"fp32 and int8 QDQ: same answer on {agree} of {len(test_labels)}, max |difference| of a logit "
          f"{np.abs(logits_float - logits_int8).max():.3f}")
    for tensor in int8_model.graph.initializer:
        if tensor.name.endswith("_zero_point") and not tensor.dims:
            name = tensor.name[:-len("_zero_point")]
            scale = next(t for t in int8_model.graph.initializer if t.name == name + "_scale")
            print(f"  {name}: scale {numpy_helper.to_array(scale):.6g}, zero point {numpy_helper.to_array(tensor)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
