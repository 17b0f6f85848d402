#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a detector: three convolutions, an SSD head (boxes, scores) and NonMaxSuppression. Usage: ssd_head.py OUT.onnx [--features]

Weights are random with a fixed seed, as the walk is about where nodes run. --features leaves everything behind the convolutions of the
head out."""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CLASSES, ANCHORS, GRID = 4, 3, 8


def main():
    output, isFeatures = sys.argv[1], "--features" in sys.argv[2:]
    random = np.random.default_rng(7)
    nodes, weights = [], []

    def constant(name, array):
        weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def conv(x, name, channels, out, stride):
        w = constant(name + ".w", (random.standard_normal((out, channels, 3, 3)) / np.sqrt(9 * channels)).astype(np.float32))
        nodes.append(helper.make_node("Conv", [x, w], [name], name=name, pads=[1] * 4, strides=[stride] * 2))
        return name

    x, channels = "image", 3
    for i, out in enumerate((8, 16, 32)):
        x, channels = conv(x, f"conv{i}", channels, out, 2), out
        nodes.append(helper.make_node("Relu", [x], [f"relu{i}"], name=f"relu{i}"))
        x = f"relu{i}"
    boxes = conv(x, "box_head", channels, ANCHORS * 4, 1)
    scores = conv(x, "class_head", channels, ANCHORS * CLASSES, 1)
    number = ANCHORS * GRID * GRID
    outputs = [helper.make_tensor_value_info(boxes, TensorProto.FLOAT, [1, ANCHORS * 4, GRID, GRID]),
               helper.make_tensor_value_info(scores, TensorProto.FLOAT, [1, ANCHORS * CLASSES, GRID, GRID])]
    if not isFeatures:
        # [1, anchors * last, y, x] to [1, boxes, last]
        for name, last in ((boxes, 4), (scores, CLASSES)):
            split = constant(name + ".split", np.array([1, ANCHORS, last, GRID * GRID], np.int64))
            flat = constant(name + ".flat", np.array([1, number, last], np.int64))
            nodes += [helper.make_node("Reshape", [name, split], [name + "_4d"], name=name + "_split"),
                      helper.make_node("Transpose", [name + "_4d"], [name + "_t"], name=name + "_transpose", perm=[0, 1, 3, 2]),
                      helper.make_node("Reshape", [name + "_t", flat], [name + "_flat"], name=name + "_flatten")]
        nodes += [helper.make_node("Softmax", ["class_head_flat"], ["likely"], name="likely", axis=2),
                  helper.make_node("Transpose", ["likely"], ["by_class"], name="by_class", perm=[0, 2, 1]),
                  helper.make_node("NonMaxSuppression",
                                   ["box_head_flat", "by_class", constant("most", np.int64(5)), constant("overlap", np.float32(0.5)),
                                    constant("least", np.float32(0.3))], ["selected"], name="suppress", center_point_box=1)]
        outputs = [helper.make_tensor_value_info("selected", TensorProto.INT64, ["found", 3]),
                   helper.make_tensor_value_info("box_head_flat", TensorProto.FLOAT, [1, number, 4])]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 8 * GRID, 8 * GRID])
    model = helper.make_model(helper.make_graph(nodes, "ssd", [image], outputs, weights), opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, output)


if __name__ == "__main__":
    main()
