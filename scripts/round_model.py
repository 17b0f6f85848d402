# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model whose every float tensor is rounded to bfloat16: the inputs, the constants and the result of every node, those of graphs inside nodes
too. What computes it in float gives the values of a machine that stores all tensors as bfloat16. Needs Debian's python3-onnx."""

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)
# Results whose type is not that of input 0.
FIXED = {TensorProto.INT64: ("Shape", "Size", "NonZero", "ArgMax", "ArgMin", "NonMaxSuppression"),
         TensorProto.BOOL: ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Not", "And", "Or", "Xor", "IsNaN", "IsInf"),
         TensorProto.INT32: ("MatMulInteger", "ConvInteger")}
KINDS = {op: kind for kind, ops in FIXED.items() for op in ops}


def to_bfloat(values):
    """The nearest bfloat16 of each number of a float array, ties to even, as that array's type."""
    bits = numpy.frombuffer(values.astype(numpy.float32).tobytes(), numpy.uint32).astype(numpy.uint64)
    rounded = ((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000).astype(numpy.uint32).view(numpy.float32).reshape(values.shape)
    return numpy.where(numpy.isfinite(values), rounded, values).astype(values.dtype)


def round_tensor(tensor):
    if tensor.data_type in FLOATS:
        tensor.CopyFrom(numpy_helper.from_array(to_bfloat(numpy_helper.to_array(tensor)), tensor.name))


class Rounder:
    def __init__(self):
        self.count = 0

    def cast(self, name, result, kind):
        """Nodes that make `result` of `name`, rounded."""
        self.count += 1
        narrow = f"bfloat16/{self.count}"
        return [helper.make_node("Cast", [name], [narrow], to=TensorProto.BFLOAT16), helper.make_node("Cast", [narrow], [result], to=kind)]

    def kinds_of(self, node, kinds):
        """Types of the node's results; 0 where nobody knows. The graphs in it are rounded."""
        attributes = {attribute.name: attribute for attribute in node.attribute}
        inner = {name: self.graph(attribute.g, kinds) for name, attribute in attributes.items() if attribute.type == attribute.GRAPH}
        if node.op_type == "If":
            return inner["then_branch"]
        if node.op_type == "Loop":
            return inner["body"][1:]
        if inner:
            return inner["body"]
        if node.op_type == "Cast":
            return [attributes["to"].i]
        if node.op_type in ("Constant", "ConstantOfShape"):
            value = attributes.get("value")
            return [value.t.data_type if value else TensorProto.FLOAT]
        if node.op_type in KINDS:
            return [KINDS[node.op_type]]
        if node.op_type == "QuantizeLinear":
            return [kinds.get(node.input[2], 0) if len(node.input) > 2 else TensorProto.UINT8]
        if node.op_type == "DynamicQuantizeLinear":
            return [TensorProto.UINT8, TensorProto.FLOAT, TensorProto.UINT8]
        source = {"DequantizeLinear": 1, "Where": 1, "OneHot": 2}.get(node.op_type, 0)
        kind = kinds.get(node.input[source], 0) if len(node.input) > source else 0
        if node.op_type in ("TopK", "MaxPool", "Unique"):
            return [kind] + [TensorProto.INT64] * 3
        return [kind] * len(node.output)

    def graph(self, graph, outer):
        """Rounds a graph; returns the types of its outputs."""
        kinds = dict(outer)
        for tensor in graph.initializer:
            kinds[tensor.name] = tensor.data_type
            round_tensor(tensor)
        constants = {tensor.name for tensor in graph.initializer}
        nodes, renamed = [], {}
        for value in graph.input:
            kinds[value.name] = value.type.tensor_type.elem_type
            if kinds[value.name] in FLOATS and value.name not in constants:
                renamed[value.name] = f"{value.name}/rounded"
                nodes += self.cast(value.name, renamed[value.name], kinds[value.name])
        for name in renamed:
            self.rename(graph.node, name, renamed[name])
            kinds[renamed[name]] = kinds[name]
        waiting = list(graph.node)
        pending = {name for node in waiting for name in node.output if name}
        while waiting:  # once, but for models that have their nodes in another order
            later = []
            for node in waiting:
                if not pending.isdisjoint(self.reads(node)):
                    later.append(node)
                    continue
                pending.difference_update(node.output)
                node_kinds = self.kinds_of(node, kinds)
                nodes.append(node)
                for i, (name, kind) in enumerate(zip(node.output, node_kinds)):
                    kinds[name] = kind
                    if name and kind in FLOATS:
                        node.output[i] = f"{name}/exact"
                        nodes += self.cast(node.output[i], name, kind)
            if len(later) == len(waiting):
                raise ValueError(f"nodes read each other's results: {', '.join(node.name for node in later)}")
            waiting = later
        copied = [helper.make_node("Identity", [renamed[value.name]], [f"{value.name}/out"]) for value in graph.output if value.name in renamed]
        for value in graph.output:
            value.name = f"{value.name}/out" if value.name in renamed else value.name
        del graph.node[:]
        graph.node.extend(nodes + copied)
        return [kinds.get(value.name, 0) for value in graph.output]

    def reads(self, node):
        names = set(node.input)
        for attribute in node.attribute:
            if attribute.type == attribute.GRAPH:
                names |= {name for inner in attribute.g.node for name in self.reads(inner)} - self.defined(attribute.g)
        return names

    def defined(self, graph):
        """Names that mean something else in the graph than around it."""
        return {value.name for value in [*graph.input, *graph.initializer]} | {name for node in graph.node for name in node.output}

    def rename(self, nodes, name, new):
        for node in nodes:
            for i, read in enumerate(node.input):
                if read == name:
                    node.input[i] = new
            for attribute in node.attribute:
                if attribute.type == attribute.GRAPH and name not in self.defined(attribute.g):
                    self.rename(attribute.g.node, name, new)


def rounded(path):
    """The model in the file `path`, rounded; bytes."""
    model = onnx.load(str(path))
    Rounder().graph(model.graph, {})
    return model.SerializeToString()
