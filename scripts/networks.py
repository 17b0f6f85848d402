#!/usr/bin/python3
"""Writes the networks that benches run, as ONNX models with random weights: scripts/networks.py OUTDIR [NAME...]

The architectures are those of their papers; the weights are not trained, since cycles do not depend on them. They are
uniform with He's variance, so that activations keep their range and a quantised network can be compared with the float
one. Batch norms are folded into convolutions with bias, as for inference; Relu and Clip are nodes of their own. Equal
seeds give equal bytes on every host. Needs Python and NumPy only: the few messages of ONNX that a model needs are
written here.
"""
import argparse
import pathlib
import struct
import sys
import zlib

import numpy as np

# ---------------------------------------------------------------------------------------------------- protobuf
# Field numbers and enum values. source: onnx.proto3 of ONNX 1.12

FLOAT, INT64, BFLOAT16 = 1, 7, 16
ATTRIBUTE_FLOAT, ATTRIBUTE_INT, ATTRIBUTE_STRING, ATTRIBUTE_INTS = 1, 2, 3, 7


def varint(value):
    value &= (1 << 64) - 1  # negative numbers are written as 64 bits
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(field, value):
    return varint(field << 3) + varint(value)


def message(field, *parts):
    """A message, string or byte field."""
    body = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def attribute(name, value):
    if isinstance(value, float):
        bits = varint(2 << 3 | 5) + struct.pack("<f", value)
        return message(5, message(1, name), bits, integer(20, ATTRIBUTE_FLOAT))
    if isinstance(value, str):
        return message(5, message(1, name), message(4, value), integer(20, ATTRIBUTE_STRING))
    if isinstance(value, int):
        return message(5, message(1, name), integer(3, value), integer(20, ATTRIBUTE_INT))
    return message(5, message(1, name), *[integer(8, v) for v in value], integer(20, ATTRIBUTE_INTS))


def tensor_info(field, name, shape, kind):
    dims = [message(1, integer(1, dim)) for dim in shape]
    return message(field, message(1, name), message(2, message(1, integer(1, kind), message(2, *dims))))


def to_bfloat16(array):
    """Rounded to nearest even; the bits."""
    bits = array.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


# ---------------------------------------------------------------------------------------------------- graphs


class Graph:
    """A model under construction. Values are pairs of name and shape."""

    def __init__(self, name, seed, batch=1, kind=FLOAT):
        self.name = name
        self.seed = seed
        self.batch = batch
        self.kind = kind  # of all floats
        self.inputs, self.outputs, self.nodes, self.initializers = [], [], [], []

    def input(self, name, shape):
        """`shape`: for one of the batch."""
        shape = (self.batch * shape[0], *shape[1:])
        self.inputs.append(tensor_info(11, name, shape, self.kind))
        return name, shape

    def output(self, value, name):
        """Makes `value`, the result of the last node, the network's, and names it."""
        assert self.nodes[-1][1] == [value[0]], "not the last node"
        self.nodes[-1][1] = [name]
        self.outputs.append(tensor_info(12, name, value[1], self.kind))
        return name, value[1]

    def constant(self, name, array):
        kind = {"float32": self.kind, "int64": INT64}[array.dtype.name]
        dims = [integer(1, dim) for dim in array.shape]
        if kind == BFLOAT16:
            array = to_bfloat16(array)
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
        self.initializers.append(message(5, *dims, integer(2, kind), message(8, name), message(9, data)))
        return name, array.shape

    def scalar(self, name, value):
        return self.constant(name, np.array(value, np.float32))

    def uniform(self, name, shape, variance):
        """Each tensor has a generator of its own: one network more changes no other."""
        state = np.random.RandomState([self.seed, zlib.crc32(f"{self.name}/{name}".encode())])
        values = state.random_sample(shape) * 2 - 1
        return self.constant(name, (values * np.sqrt(3 * variance)).astype(np.float32))

    def node(self, kind, name, inputs, shape, **attributes):
        return self.node_of_parts(kind, name, inputs, [shape], ["_out"], **attributes)[0]

    def node_of_parts(self, kind, name, inputs, shapes, suffixes, **attributes):
        """A node with a result for each of `shapes`."""
        inputs = b"".join(message(1, value[0]) for value in inputs)
        parts = [attribute(key, value) for key, value in sorted(attributes.items())]
        outputs = [name + suffix for suffix in suffixes]
        self.nodes.append([inputs, outputs, message(3, name) + message(4, kind) + b"".join(parts)])
        return [(output, tuple(shape)) for output, shape in zip(outputs, shapes)]

    def model(self):
        nodes = [message(1, inputs, *[message(2, output) for output in outputs], rest) for inputs, outputs, rest in self.nodes]
        graph = message(7, *nodes, message(2, self.name), *self.initializers, *self.inputs, *self.outputs)
        opset = message(8, message(1, ""), integer(2, 17))
        return integer(1, 8) + message(2, "tilewright networks.py") + graph + opset

    # Layers. `gain` is the variance of a layer's result by that of its input: 2 in front of a Relu, which halves it.

    def conv(self, name, x, channels, kernel, stride=1, pad=None, group=1, gain=2.0):
        n, c, h, w = x[1]
        pad = kernel // 2 if pad is None else pad
        shape = (n, channels, (h + 2 * pad - kernel) // stride + 1, (w + 2 * pad - kernel) // stride + 1)
        taps = c // group * kernel * kernel
        weights = self.uniform(name + "_weights", (channels, c // group, kernel, kernel), gain / taps)
        bias = self.uniform(name + "_bias", (channels,), 0.01)
        return self.node("Conv", name, [x, weights, bias], shape, group=group, kernel_shape=[kernel] * 2,
                         pads=[pad] * 4, strides=[stride] * 2)

    def relu(self, x):
        return self.node("Relu", x[0].removesuffix("_out") + "_relu", [x], x[1])

    def relu6(self, x):
        name = x[0].removesuffix("_out") + "_clip"
        return self.node("Clip", name, [x, self.scalar(name + "_min", 0), self.scalar(name + "_max", 6)], x[1])

    def max_pool(self, name, x, kernel, stride, pad):
        n, c, h, w = x[1]
        shape = (n, c, (h + 2 * pad - kernel) // stride + 1, (w + 2 * pad - kernel) // stride + 1)
        return self.node("MaxPool", name, [x], shape, kernel_shape=[kernel] * 2, pads=[pad] * 4, strides=[stride] * 2)

    def global_pool(self, x):
        x = self.node("GlobalAveragePool", "pool", [x], x[1][:2] + (1, 1))
        return self.node("Flatten", "flatten", [x], x[1][:2], axis=1)

    def classifier(self, x, classes=1000):
        weights = self.uniform("classifier_weights", (classes, x[1][1]), 1 / x[1][1])
        bias = self.uniform("classifier_bias", (classes,), 0.01)
        return self.node("Gemm", "classifier", [x, weights, bias], (x[1][0], classes), transB=1)

    def dense(self, name, x, columns, gain=1.0, bias=True):
        weights = self.uniform(name + "_weights", (x[1][-1], columns), gain / x[1][-1])
        y = self.node("MatMul", name, [x, weights], x[1][:-1] + (columns,))
        if not bias:
            return y
        return self.node("Add", name + "_add", [y, self.uniform(name + "_bias", (columns,), 0.01)], y[1])


# ---------------------------------------------------------------------------------------------------- networks


def resnet(graph, block, depths, image=224, width=64):
    """He et al., Deep Residual Learning, table 1; bottlenecks have their stride in the 3x3 convolution."""
    x = graph.input("image", (1, 3, image, image))
    x = graph.relu(graph.conv("stem", x, width, 7, stride=2))
    x = graph.max_pool("stem_pool", x, 3, 2, 1)
    for stage, depth in enumerate(depths):
        for i in range(depth):
            x = block(graph, f"stage{stage + 1}_block{i + 1}", x, width << stage, 2 if stage and i == 0 else 1)
    graph.output(graph.classifier(graph.global_pool(x)), "logits")


def shortcut(graph, name, x, y, stride):
    if x[1] != y[1]:
        x = graph.conv(name + "_shortcut", x, y[1][1], 1, stride=stride, gain=1.0)
    return graph.relu(graph.node("Add", name + "_add", [y, x], y[1]))


def basic_block(graph, name, x, width, stride):
    y = graph.relu(graph.conv(name + "_conv1", x, width, 3, stride=stride))
    y = graph.conv(name + "_conv2", y, width, 3, gain=0.25)
    return shortcut(graph, name, x, y, stride)


def bottleneck(graph, name, x, width, stride):
    y = graph.relu(graph.conv(name + "_conv1", x, width, 1))
    y = graph.relu(graph.conv(name + "_conv2", y, width, 3, stride=stride))
    y = graph.conv(name + "_conv3", y, 4 * width, 1, gain=0.25)
    return shortcut(graph, name, x, y, stride)


def resnet18(graph):
    resnet(graph, basic_block, [2, 2, 2, 2])


def resnet50(graph):
    resnet(graph, bottleneck, [3, 4, 6, 3])


def mobilenetv2(graph):
    """Sandler et al., MobileNetV2, table 2, width 1.0."""
    *_, x = mobilenetv2_blocks(graph, 224)
    graph.output(graph.classifier(graph.global_pool(x)), "logits")


def mobilenetv2_blocks(graph, image):
    """Yields what the expansions and the head make."""
    x = graph.input("image", (1, 3, image, image))
    x = graph.relu6(graph.conv("stem", x, 32, 3, stride=2))
    rows = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    index = 0
    for expansion, channels, repeats, first_stride in rows:
        for i in range(repeats):
            index += 1
            name, stride, hidden = f"block{index}", first_stride if i == 0 else 1, expansion * x[1][1]
            y = graph.relu6(graph.conv(name + "_expand", x, hidden, 1)) if expansion > 1 else x
            yield y
            y = graph.relu6(graph.conv(name + "_depthwise", y, hidden, 3, stride=stride, group=hidden))
            y = graph.conv(name + "_project", y, channels, 1, gain=1.0)
            x = graph.node("Add", name + "_add", [x, y], y[1]) if stride == 1 and x[1] == y[1] else y
    yield graph.relu6(graph.conv("head", x, 1280, 1))


def squeezenet(graph):
    """Iandola et al., SqueezeNet; version 1.1 of its repository."""
    x = graph.input("image", (1, 3, 224, 224))
    x = graph.relu(graph.conv("stem", x, 64, 3, stride=2, pad=0))
    widths = [(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)]
    for index, (squeeze, expand) in enumerate(widths):
        name = f"fire{index + 2}"
        if index in (0, 2, 4):
            x = graph.max_pool(name + "_pool", x, 3, 2, 0)
        x = graph.relu(graph.conv(name + "_squeeze", x, squeeze, 1))
        parts = [graph.relu(graph.conv(f"{name}_expand{k}x{k}", x, expand, k)) for k in (1, 3)]
        x = graph.node("Concat", name + "_concat", parts, (x[1][0], 2 * expand) + x[1][2:], axis=1)
    x = graph.relu(graph.conv("classifier", x, 1000, 1))
    graph.output(graph.global_pool(x), "logits")


def layer_norm(graph, name, x, decomposed, epsilon=1e-12):
    scale = graph.constant(name + "_scale", 1 + np.linspace(-0.5, 0.5, x[1][-1], dtype=np.float32))
    bias = graph.uniform(name + "_bias", x[1][-1:], 0.01)
    if not decomposed:
        return graph.node("LayerNormalization", name, [x, scale, bias], x[1], axis=-1, epsilon=epsilon)
    row = x[1][:-1] + (1,)
    mean = graph.node("ReduceMean", name + "_mean", [x], row, axes=[-1])
    centred = graph.node("Sub", name + "_sub", [x, mean], x[1])
    square = graph.node("Pow", name + "_pow", [centred, graph.scalar(name + "_two", 2)], x[1])
    variance = graph.node("ReduceMean", name + "_variance", [square], row, axes=[-1])
    variance = graph.node("Add", name + "_add_epsilon", [variance, graph.scalar(name + "_epsilon", epsilon)], row)
    deviation = graph.node("Sqrt", name + "_sqrt", [variance], row)
    normal = graph.node("Div", name + "_div", [centred, deviation], x[1])
    scaled = graph.node("Mul", name + "_mul", [normal, scale], x[1])
    return graph.node("Add", name + "_add_bias", [scaled, bias], x[1])


def gelu(graph, name, x):
    """x * (1 + erf(x / sqrt(2))) / 2, as exporters write it."""
    y = graph.node("Div", name + "_div", [x, graph.scalar(name + "_sqrt2", np.sqrt(2))], x[1])
    y = graph.node("Erf", name + "_erf", [y], x[1])
    y = graph.node("Add", name + "_add", [y, graph.scalar(name + "_one", 1)], x[1])
    y = graph.node("Mul", name + "_mul", [x, y], x[1])
    return graph.node("Mul", name + "_mul_half", [y, graph.scalar(name + "_half", 0.5)], x[1])


def bert_block(graph, decomposed=False, sequence=128, hidden=768, heads=12, inner=3072):
    """One encoder block of BERT-base on a full sequence, which needs no mask. Devlin et al., BERT, section 3."""
    x = graph.input("hidden", (1, sequence, hidden))
    split = graph.constant("split_heads", np.array([graph.batch, sequence, heads, hidden // heads], np.int64))
    merge = graph.constant("merge_heads", np.array([graph.batch, sequence, hidden], np.int64))

    def by_head(name, perm):
        y = graph.dense(name, x, hidden)
        y = graph.node("Reshape", name + "_split", [y, split], (graph.batch, sequence, heads, hidden // heads))
        return graph.node("Transpose", name + "_transpose", [y], [y[1][i] for i in perm], perm=perm)

    query, key, value = by_head("query", [0, 2, 1, 3]), by_head("key", [0, 2, 3, 1]), by_head("value", [0, 2, 1, 3])
    scores = graph.node("MatMul", "scores", [query, key], (graph.batch, heads, sequence, sequence))
    scale = graph.scalar("scores_scale", np.sqrt(hidden // heads))
    scores = graph.node("Div", "scores_div", [scores, scale], scores[1])
    weights = graph.node("Softmax", "softmax", [scores], scores[1], axis=-1)
    y = graph.node("MatMul", "context", [weights, value], value[1])
    y = graph.node("Transpose", "context_transpose", [y], split_shape(y), perm=[0, 2, 1, 3])
    y = graph.node("Reshape", "context_merge", [y, merge], x[1])
    y = graph.node("Add", "attention_add", [graph.dense("projection", y, hidden), x], x[1])
    x = layer_norm(graph, "attention_norm", y, decomposed)
    y = gelu(graph, "gelu", graph.dense("ffn_inner", x, inner, gain=2.0))
    y = graph.node("Add", "ffn_add", [graph.dense("ffn_output", y, hidden), x], x[1])
    graph.output(layer_norm(graph, "ffn_norm", y, decomposed), "output")


def split_shape(value):
    shape = value[1]
    return shape[0], shape[2], shape[1], shape[3]


def bert_block_decomposed(graph):
    """The same with layer normalisation spelled out, as exporters did before opset 17."""
    bert_block(graph, decomposed=True)


def channels_from(graph, name, x, first, count, axis=1):
    """Channels `first` to `first + count` of x, or so much of another axis."""
    bounds = [graph.constant(f"{name}_{key}", np.array([value], np.int64))
              for key, value in (("starts", first), ("ends", first + count), ("axes", axis))]
    return graph.node("Slice", name, [x, *bounds], x[1][:axis] + (count,) + x[1][axis + 1:])


def reshape(graph, name, x, shape):
    return graph.node("Reshape", name, [x, graph.constant(name + "_shape", np.array(shape, np.int64))], shape)


def transpose(graph, name, x, perm):
    return graph.node("Transpose", name, [x], [x[1][i] for i in perm], perm=perm)


def concat(graph, name, parts, axis=1):
    shape = list(parts[0][1])
    shape[axis] = sum(part[1][axis] for part in parts)
    return graph.node("Concat", name, parts, shape, axis=axis)


def shufflenetv2(graph):
    """Ma et al., ShuffleNet V2, table 5, width 1.0."""

    def shuffle(name, x):
        n, c, h, w = x[1]
        x = reshape(graph, name + "_split", x, (n, 2, c // 2, h, w))
        return reshape(graph, name + "_merge", transpose(graph, name, x, [0, 2, 1, 3, 4]), (n, c, h, w))

    def branch(name, x, channels, stride):
        y = graph.relu(graph.conv(name + "_conv1", x, channels, 1))
        y = graph.conv(name + "_depthwise", y, channels, 3, stride=stride, group=channels, gain=1.0)
        return graph.relu(graph.conv(name + "_conv2", y, channels, 1))

    x = graph.input("image", (1, 3, 224, 224))
    x = graph.max_pool("stem_pool", graph.relu(graph.conv("stem", x, 24, 3, stride=2)), 3, 2, 1)
    for stage, (channels, repeats) in enumerate([(116, 4), (232, 8), (464, 4)]):
        half = channels // 2
        for i in range(repeats):
            name = f"stage{stage + 2}_block{i + 1}"
            if i == 0:
                left = graph.conv(name + "_left_depthwise", x, x[1][1], 3, stride=2, group=x[1][1], gain=1.0)
                left = graph.relu(graph.conv(name + "_left_conv", left, half, 1))
                right = branch(name, x, half, 2)
            else:
                left = channels_from(graph, name + "_left", x, 0, half)
                right = branch(name, channels_from(graph, name + "_right", x, half, half), half, 1)
            x = shuffle(name + "_shuffle", concat(graph, name + "_concat", [left, right]))
    x = graph.relu(graph.conv("head", x, 1024, 1))
    graph.output(graph.classifier(graph.global_pool(x)), "logits")


def yolo(graph, image=320, classes=80):
    """YOLOv5n as its repository writes it, release 6.0, on a smaller image: C3 blocks, SPPF, two ways through three scales, and
    detections of all scales in one tensor. The boxes' decoding is left out."""
    width, depth = [16, 32, 64, 128, 256], [1, 2, 3, 1]

    def unit(name, x, channels, kernel, stride=1, pad=None):
        x = graph.conv(name, x, channels, kernel, stride, pad)
        gate = graph.node("Sigmoid", name + "_sigmoid", [x], x[1])
        return graph.node("Mul", name + "_silu", [x, gate], x[1])

    def c3(name, x, channels, repeats, adds=True):
        y = unit(name + "_cv1", x, channels // 2, 1)
        for i in range(repeats):
            z = unit(f"{name}_m{i}_cv2", unit(f"{name}_m{i}_cv1", y, channels // 2, 1), channels // 2, 3)
            y = graph.node("Add", f"{name}_m{i}_add", [y, z], y[1]) if adds else z
        return unit(name + "_cv3", concat(graph, name + "_concat", [y, unit(name + "_cv2", x, channels // 2, 1)]), channels, 1)

    def upsample(name, x):
        n, c, h, w = x[1]
        roi = graph.constant(name + "_roi", np.zeros(0, np.float32))
        scales = graph.constant(name + "_scales", np.array([1, 1, 2, 2], np.float32))
        return graph.node("Resize", name, [x, roi, scales], (n, c, 2 * h, 2 * w), mode="nearest",
                          coordinate_transformation_mode="asymmetric", nearest_mode="floor")

    x = unit("stem", graph.input("image", (1, 3, image, image)), width[0], 6, 2, 2)
    scales = []
    for stage in range(4):
        x = unit(f"stage{stage}_down", x, width[stage + 1], 3, 2)
        x = c3(f"stage{stage}_c3", x, width[stage + 1], depth[stage])
        scales.append(x)
    y = unit("sppf_cv1", x, width[4] // 2, 1)
    pools = [y]
    for i in range(3):
        pools.append(graph.max_pool(f"sppf_pool{i}", pools[-1], 5, 1, 2))
    x = unit("sppf_cv2", concat(graph, "sppf_concat", pools), width[4], 1)
    laterals = []
    for i, stage in enumerate((2, 1)):
        laterals.append(unit(f"up{i}_lateral", x, width[stage + 1], 1))
        x = concat(graph, f"up{i}_concat", [upsample(f"up{i}_resize", laterals[-1]), scales[stage]])
        x = c3(f"up{i}_c3", x, width[stage + 1], 1, adds=False)
    found = [x]
    for i, stage in enumerate((2, 3)):
        x = concat(graph, f"down{i}_concat", [unit(f"down{i}_conv", x, x[1][1], 3, 2), laterals[1 - i]])
        x = c3(f"down{i}_c3", x, width[stage + 1], 1, adds=False)
        found.append(x)
    rows = []
    for i, x in enumerate(found):
        x = graph.conv(f"detect{i}", x, 3 * (classes + 5), 1, gain=1.0)
        n, _, h, w = x[1]
        x = reshape(graph, f"detect{i}_split", x, (n, 3, classes + 5, h, w))
        x = transpose(graph, f"detect{i}_transpose", x, [0, 1, 3, 4, 2])
        x = graph.node("Sigmoid", f"detect{i}_sigmoid", [x], x[1])
        rows.append(reshape(graph, f"detect{i}_merge", x, (n, 3 * h * w, classes + 5)))
    graph.output(concat(graph, "detections", rows), "detections")


def ssd(graph, image=300, classes=91):
    """MobileNetV2 (mobilenetv2() above) with the heads of Liu et al., SSD, section 2, made lighter: Sandler et al., MobileNetV2, section 6.2.
    Each scale's boxes and scores go channels last and behind those of the scale before."""

    def separable(name, x, channels, stride=1):
        y = graph.relu6(graph.conv(name + "_depthwise", x, x[1][1], 3, stride=stride, group=x[1][1]))
        return graph.conv(name, y, channels, 1, gain=1.0)

    scales = []
    for value in mobilenetv2_blocks(graph, image):
        if value[0] in ("block14_expand_clip_out", "head_clip_out"):
            scales.append(value)
    x = scales[-1]
    for i, channels in enumerate((512, 256, 256, 128)):
        y = graph.relu6(graph.conv(f"extra{i}_reduce", x, channels // 2, 1))
        x = graph.relu6(separable(f"extra{i}", y, channels, stride=2))
        scales.append(x)
    for kind, size in (("boxes", 4), ("scores", classes)):
        rows = []
        for i, x in enumerate(scales):
            name = f"{kind}{i}"
            y = transpose(graph, name + "_transpose", separable(name, x, (3 if i == 0 else 6) * size), [0, 2, 3, 1])
            rows.append(reshape(graph, name + "_merge", y, (y[1][0], y[1][1] * y[1][2] * y[1][3] // size, size)))
        y = concat(graph, kind + "_concat", rows)
        graph.output(graph.node("Softmax", "scores", [y], y[1], axis=-1) if kind == "scores" else y, kind)


# Decoder layers. Their forms are those of exporters, so that prefill and decode can be measured with either.


def split_heads(graph, name, x, size):
    """[batch, rows, heads * size] as [batch, heads, rows, size]."""
    n, rows, width = x[1]
    x = reshape(graph, name + "_split_heads", x, (n, rows, width // size, size))
    return transpose(graph, name + "_transpose", x, [0, 2, 1, 3])


def with_past(graph, name, x, past, form):
    """The keys or values that attention reads, and makes the cache an output.
    "concat": the cache grows by a Concat. "static": its length is constant, and the last row is replaced."""
    if not past:
        return graph.output(x, "present_" + name)
    n, heads, rows, size = x[1]
    if form == "concat":
        cache = graph.input("past_" + name, (1, heads, past - rows, size))
    else:
        cache = graph.input("past_" + name, (1, heads, past, size))
        cache = channels_from(graph, name + "_kept", cache, 0, past - rows, axis=2)
    return graph.output(concat(graph, name + "_concat", [cache, x], axis=2), "present_" + name)


def attend(graph, query, key, value, bias=None):
    """Softmax of the scaled products of heads; `bias` is added to the scores."""
    n, heads, rows, size = query[1]
    key = transpose(graph, "key_columns", key, [0, 1, 3, 2])
    scores = graph.node("MatMul", "scores", [query, key], (n, heads, rows, key[1][3]))
    if bias is not None:
        scores = graph.node("Add", "scores_mask", [scores, bias], scores[1])
    weights = graph.node("Softmax", "softmax", [scores], scores[1], axis=-1)
    y = graph.node("MatMul", "context", [weights, value], (n, heads, rows, size))
    y = transpose(graph, "context_transpose", y, [0, 2, 1, 3])
    return reshape(graph, "context_merge", y, (n, rows, heads * size))


def causal_mask(graph, rows):
    """Row i sees the rows up to itself."""
    return graph.constant("mask", np.triu(np.full((rows, rows), -1e4, np.float32), 1)[None, None]) if rows > 1 else None


def opt_layer(graph, rows=1, past=0, form="concat", hidden=768, heads=12, inner=3072):
    """A decoder layer of OPT-125m: Zhang et al., OPT, section 2.1. `rows`: positions that are computed. `past`: positions that the last of
    them attends, itself included; 0: no cache, those that are computed. `form`: how the cache is written (with_past()); "split": as "concat",
    and queries, keys and values are the parts of one product; "given": the caches are complete, and the new keys and values are outputs."""
    x = graph.input("hidden", (1, rows, hidden))
    size = hidden // heads
    y = layer_norm(graph, "attention_norm", x, False, 1e-5)
    if form == "split":
        y = graph.dense("qkv", y, 3 * hidden)
        parts = graph.constant("qkv_sizes", np.full(3, hidden, np.int64))
        query, key, value = graph.node_of_parts("Split", "qkv_split", [y, parts], [x[1]] * 3, ["_query", "_key", "_value"], axis=-1)
    else:
        query, key, value = (graph.dense(name, y, hidden) for name in ("query", "key", "value"))
    query = graph.node("Mul", "query_scale", [query, graph.scalar("scale", size**-0.5)], query[1])
    query = split_heads(graph, "query", query, size)
    caches = []
    for name, new in (("key", key), ("value", value)):
        new = split_heads(graph, name, new, size)
        if form == "given":
            graph.output(new, "new_" + name)
            caches.append(graph.input("past_" + name, (1, heads, past, size)))
        else:
            caches.append(with_past(graph, name, new, past, "static" if form == "static" else "concat"))
    y = attend(graph, query, *caches, causal_mask(graph, rows))
    x = graph.node("Add", "attention_add", [graph.dense("projection", y, hidden), x], x[1])
    y = graph.relu(graph.dense("ffn_inner", layer_norm(graph, "ffn_norm", x, False, 1e-5), inner, gain=2.0))
    y = graph.dense("ffn_output", y, hidden)
    graph.output(graph.node("Add", "ffn_add", [y, x], x[1]), "output")


def rms_norm(graph, name, x, epsilon=1e-5):
    """Zhang and Sennrich, Root Mean Square Layer Normalization, as exporters write it."""
    row = x[1][:-1] + (1,)
    y = graph.node("Pow", name + "_pow", [x, graph.scalar(name + "_two", 2)], x[1])
    y = graph.node("ReduceMean", name + "_mean", [y], row, axes=[-1])
    y = graph.node("Add", name + "_add_epsilon", [y, graph.scalar(name + "_epsilon", epsilon)], row)
    y = graph.node("Sqrt", name + "_sqrt", [y], row)
    y = graph.node("Div", name + "_div", [x, y], x[1])
    scale = graph.constant(name + "_scale", 1 + np.linspace(-0.5, 0.5, x[1][-1], dtype=np.float32))
    return graph.node("Mul", name + "_mul", [y, scale], x[1])


def rotary(graph, name, x, cosine, sine):
    """x * cos + rotate_half(x) * sin: Su et al., RoFormer, section 3.4, with halves in place of pairs."""
    half = x[1][3] // 2
    low, high = (channels_from(graph, f"{name}_{part}", x, first, half, axis=3) for part, first in (("low", 0), ("high", half)))
    turned = concat(graph, name + "_turned", [graph.node("Neg", name + "_neg", [high], high[1]), low], axis=3)
    straight = graph.node("Mul", name + "_mul_cos", [x, cosine], x[1])
    turned = graph.node("Mul", name + "_mul_sin", [turned, sine], x[1])
    return graph.node("Add", name + "_rotary", [straight, turned], x[1])


def repeat_heads(graph, name, x, times):
    """[batch, heads, rows, size] with each head `times` times, as exporters write it."""
    n, heads, rows, size = x[1]
    x = reshape(graph, name + "_unsqueeze", x, (n, heads, 1, rows, size))
    shape = (n, heads, times, rows, size)
    x = graph.node("Expand", name + "_expand", [x, graph.constant(name + "_times", np.array(shape, np.int64))], shape)
    return reshape(graph, name + "_repeat", x, (n, heads * times, rows, size))


def llama_layer(graph, rows=1, past=0, form="concat", hidden=768, heads=12, groups=4, inner=2048):
    """A decoder layer of Touvron et al., LLaMA, section 2.2, with the grouped queries of Ainslie et al., GQA, section 2.2. `cosine` and `sine`
    of the positions are inputs, as a model computes them once for all its layers. Other parameters: opt_layer()."""
    size = hidden // heads
    x = graph.input("hidden", (1, rows, hidden))
    angles = [graph.input(name, (1, 1, rows, size)) for name in ("cosine", "sine")]
    y = rms_norm(graph, "attention_norm", x)

    def by_head(name, count):
        return split_heads(graph, name, graph.dense(name, y, count * size, bias=False), size)

    query = rotary(graph, "query", by_head("query", heads), *angles)
    query = graph.node("Mul", "query_scale", [query, graph.scalar("scale", size**-0.5)], query[1])
    key = with_past(graph, "key", rotary(graph, "key", by_head("key", groups), *angles), past, form)
    value = with_past(graph, "value", by_head("value", groups), past, form)
    key, value = (repeat_heads(graph, name, cache, heads // groups) for name, cache in (("key", key), ("value", value)))
    y = attend(graph, query, key, value, causal_mask(graph, rows))
    x = graph.node("Add", "attention_add", [graph.dense("projection", y, hidden, bias=False), x], x[1])
    y = rms_norm(graph, "ffn_norm", x)
    gate = graph.dense("ffn_gate", y, inner, bias=False)
    gate = graph.node("Mul", "ffn_silu", [gate, graph.node("Sigmoid", "ffn_sigmoid", [gate], gate[1])], gate[1])
    y = graph.node("Mul", "ffn_mul", [gate, graph.dense("ffn_up", y, inner, bias=False)], gate[1])
    y = graph.dense("ffn_output", y, hidden, bias=False)
    graph.output(graph.node("Add", "ffn_add", [y, x], x[1]), "output")


def decoder(layer, **parameters):
    return lambda graph: layer(graph, **parameters)


NETWORKS = {
    "resnet18": resnet18,
    "resnet50": resnet50,
    "mobilenetv2": mobilenetv2,
    "squeezenet": squeezenet,
    "shufflenetv2": shufflenetv2,
    "yolo": yolo,
    "ssd": ssd,
    "bert_block": bert_block,
    "bert_block_decomposed": bert_block_decomposed,
    "opt_prefill_128": decoder(opt_layer, rows=128),
    "llama_prefill_128": decoder(llama_layer, rows=128),
    **{f"opt_{form}_{past}": decoder(opt_layer, past=past, form=form)
       for form in ("given", "concat", "static", "split") for past in (512, 1024)},
    **{f"llama_{form}_{past}": decoder(llama_layer, past=past, form=form) for form in ("concat", "static") for past in (512, 1024)},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("outdir", metavar="OUTDIR", type=pathlib.Path, help="gets NAME.onnx for each network")
    parser.add_argument("names", metavar="NAME", nargs="*", help="one of " + ", ".join(NETWORKS) + "; default: all")
    parser.add_argument("--seed", type=int, default=1, help="of the weights; default 1")
    parser.add_argument("--batch", type=int, default=1, help="inputs that are run together; default 1")
    parser.add_argument("--type", choices=["float", "bfloat16"], default="float", help="of all tensors; default float")
    arguments = parser.parse_intermixed_args()
    unknown = [name for name in arguments.names if name not in NETWORKS]
    if unknown:
        parser.error(f"unknown network '{unknown[0]}', expected one of {', '.join(NETWORKS)}")
    if not 0 <= arguments.seed < 2**32:
        parser.error(f"--seed is {arguments.seed} but must be from 0 to 4294967295")
    if arguments.batch < 1:
        parser.error(f"--batch is {arguments.batch} but must be at least 1")
    arguments.outdir.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or NETWORKS:
        graph = Graph(name, arguments.seed, arguments.batch, {"float": FLOAT, "bfloat16": BFLOAT16}[arguments.type])
        NETWORKS[name](graph)
        path = arguments.outdir / (name + ".onnx")
        path.write_bytes(graph.model())
        print(path)


if __name__ == "__main__":
    sys.exit(main())
