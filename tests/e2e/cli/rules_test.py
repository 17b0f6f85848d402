#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tilewright rules`, --rules, --disable-rule and --explain-rules, and docs/rules.md."""

import json
import os
import pathlib
import unittest

import numpy as np
from onnx import TensorProto, helper, mapping, numpy_helper

from check_test import CommandTest, value
from cli_test import CliTest

SOURCE = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])
HW = ["--hw", "gemmini_16x16_fp32"]
# (a^T)^T + 1 keeps every bit without the transposes; a*b + a*c is a*(b + c) in real arithmetic.
NETWORK = """func.func @main(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>, %c: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %one = graph.constant dense<1.0> : tensor<f32>
  %t = graph.transpose %a {perm = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32> loc("first")
  %u = graph.transpose %t {perm = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32> loc("second")
  %v = graph.add %u, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %ab = graph.mul %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %ac = graph.mul %a, %c : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = graph.add %ab, %ac : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("sum")
  return %v, %s : tensor<4x8xf32>, tensor<4x8xf32>
}
"""


class RulesTest(CliTest):
    def setUp(self):
        super().setUp()
        self.write("net.mlir", NETWORK)

    def rules(self, *options):
        self.tilewright("compile", "net.mlir", *HW, *options, "--emit", "graph", "-o", "graph.mlir", "--explain-rules", "rules.jsonl")
        return [json.loads(line) for line in (self.path / "rules.jsonl").read_text().splitlines()]

    def test_math_and_rules_say_which_classes_are_applied(self):
        for options, expected in [([], ["transpose-of-transpose"]), (["--rules", "none"], []),
                                  (["--math", "reassociate"], ["transpose-of-transpose", "factor-out"]),
                                  (["--math", "reassociate", "--rules", "bit-exact"], ["transpose-of-transpose"]),
                                  (["--math", "fast", "--disable-rule", "transpose-of-transpose"], ["factor-out"])]:
            self.assertCountEqual([entry["rule"] for entry in self.rules(*options)], expected)

    def test_an_entry_says_what_changed(self):
        entry = self.rules()[0]
        self.assertEqual((entry["class"], entry["nodes"]), ("bit-exact", ["second"]))
        self.assertLess(entry["after"], entry["before"])
        text, _ = self.tilewright("run", "net.mlir", *HW, "--explain-rules", "-", "--json", "report.json")
        self.assertRegex(text, r"transpose-of-transpose +bit-exact +1 ")
        self.assertEqual(self.rules("--rules", "none"), [])
        text, _ = self.tilewright("compile", "net.mlir", *HW, "--rules", "none", "--emit", "graph", "-o", "graph.mlir", "--explain-rules", "-")
        self.assertEqual(text, "no rule changed the graph\n")

    def test_reports_say_that_rules_were_off(self):
        self.tilewright("run", "net.mlir", *HW, "--rules", "bit-exact", "--disable-rule", "neg-of-neg", "--json", "report.json")
        self.assertEqual(json.loads((self.path / "report.json").read_text())["schedule"], "pipelined (rules bit-exact) (without neg-of-neg)")

    def test_names_that_are_no_rules_are_refused(self):
        self.fails("run", "net.mlir", *HW, "--disable-rule", "factor-in", message=["--disable-rule is 'factor-in'", "tilewright rules"])
        self.fails("run", "net.mlir", *HW, "--disable-rule", "batch-norm-to-scale", message="always applied")
        self.fails("run", "net.mlir", *HW, "--disable-rule", "dead-code", message="always applied")
        self.fails("run", "net.mlir", *HW, "--rules", "some", message=["--rules", "none,bit-exact,real,all"])

    def test_the_list_is_that_of_the_page(self):
        table, _ = self.tilewright("rules", "--markdown")
        self.assertIn(table, (SOURCE / "docs/rules.md").read_text())
        text, _ = self.tilewright("rules")
        for line in table.splitlines()[2:]:
            self.assertIn(line.split("`")[1], text)


def node(kind, inputs, output, **attributes):
    return helper.make_node(kind, inputs.split(), [output], **attributes)


class OnnxTest(CommandTest):
    """The rules that optimising importers are known for, from ONNX files. Values with rules are those without, up to roundings."""

    def compare(self, rules, nodes, inputs, constants=None, outputs=("y",), math="reassociate", hw=HW, tolerance=1e-4, opset=13):
        """`inputs`: arrays, whose shapes and types are those of the network. All of `rules` fire."""
        arrays = {name: np.asarray(array) for name, array in inputs.items()}
        described = [value(name, array.shape, mapping.NP_TYPE_TO_TENSOR_TYPE[array.dtype]) for name, array in arrays.items()]
        for name, array in arrays.items():
            np.save(self.folder / f"{name}.npy", array)
        self.save(nodes, described, [helper.make_empty_tensor_value_info(name) for name in outputs],
                  [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()], opset)
        results = {}
        for allowed in ["none", "all"]:
            self.tilewright("run", "m.onnx", *hw, "--math", math, "--rules", allowed, "--output-dir", allowed, "--explain-rules", "rules.jsonl",
                            *[part for name in arrays for part in ("--input", f"{name}={name}.npy")])
            results[allowed] = [np.load(self.folder / allowed / f"{name}.npy") for name in outputs]
        fired = {json.loads(line)["rule"] for line in (self.folder / "rules.jsonl").read_text().splitlines()}
        self.assertEqual([rule for rule in rules if rule not in fired], [], f"fired: {sorted(fired)}")
        for before, after in zip(results["none"], results["all"]):
            self.assertEqual((before.dtype, before.shape), (after.dtype, after.shape))
            if before.dtype.kind == "f" and tolerance:
                np.testing.assert_allclose(after, before, rtol=0, atol=tolerance * np.abs(before, dtype=np.float64).max(initial=1, where=np.isfinite(before)))
            else:
                np.testing.assert_array_equal(after, before)
        return results["all"]

    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(1)

    def floats(self, *shape, element=np.float32):
        return self.random.standard_normal(shape).astype(element)

    def positive(self, *shape, element=np.float32):
        return self.random.uniform(0.5, 2, shape).astype(element)

    def test_elementwise_algebra(self):
        for element, tolerance in [(np.float32, 1e-4), (np.float16, 1e-2)]:
            a, b, c = (self.positive(4, 8, element=element) for _ in range(3))
            self.compare(["reciprocal-of-product"], [node("Reciprocal", "a", "ra"), node("Mul", "a b", "ab"), node("Reciprocal", "ab", "rab"),
                                                     node("Mul", "ra rab", "y")], {"a": a, "b": b}, tolerance=tolerance)
            self.compare(["factor-out"], [node("Mul", "a c", "ac"), node("Mul", "a b", "ab"), node("Add", "ac ab", "y")],
                         {"a": a, "b": b, "c": c}, tolerance=tolerance)
            self.compare(["product-reduction-of-exponentials"], [node("Exp", "a", "e"), node("ReduceProd", "e", "y", axes=[1])],
                         {"a": a / element(8)}, tolerance=tolerance)
        integers = self.random.integers(-2**31, 2**31, (3, 4, 8), np.int32)
        self.compare(["factor-out-of-integers"], [node("Mul", "a c", "ac"), node("Mul", "a b", "ab"), node("Add", "ac ab", "y")],
                     dict(zip("abc", integers)), math="strict", tolerance=0)

    def test_shifts(self):
        for element in [np.uint32, np.uint64]:
            for bits in [0, 3, np.iinfo(element).bits - 1]:
                self.compare(["shift-out-of-sum"], [node("BitShift", "a s", "b", direction="LEFT"), node("ReduceSum", "b axes", "y")],
                             {"a": self.random.integers(0, np.iinfo(element).max, (4, 8), element)},
                             {"s": np.array([bits], element), "axes": np.array([1])}, math="strict", tolerance=0)

    def test_movement(self):
        self.compare(["product-of-transposes"], [node("Transpose", "a", "at"), node("Transpose", "b", "bt"), node("MatMul", "at bt", "y")],
                     {"a": self.floats(8, 4), "b": self.floats(6, 8)})
        a = self.floats(8, 4)
        result, = self.compare(["transpose-of-transpose"], [node("Transpose", "a", "at"), node("Transpose", "at", "b"), node("Relu", "b", "y")],
                               {"a": a}, math="strict", tolerance=0)
        np.testing.assert_array_equal(result, np.maximum(a, 0))
        self.compare(["reshape-of-reshape"], [node("Reshape", "a flat", "b"), node("Reshape", "b there", "c"), node("Relu", "c", "y")],
                     {"a": a}, {"flat": np.array([32]), "there": np.array([2, 16])}, math="strict", tolerance=0)

    def test_pools_move(self):
        pool = dict(kernel_shape=[2, 2], strides=[2, 2])
        self.compare(["pool-of-transpose"], [node("Transpose", "a", "at", perm=[0, 3, 1, 2]), node("MaxPool", "at", "y", **pool)],
                     {"a": self.floats(1, 8, 8, 4)}, math="strict", tolerance=0)
        bytes_ = self.random.integers(-128, 128, (1, 4, 8, 8), np.int8)
        self.compare(["pool-of-widening"], [node("Cast", "a", "b", to=TensorProto.FLOAT), node("MaxPool", "b", "y", **pool)],
                     {"a": bytes_}, math="strict", tolerance=0)
        self.compare(["pool-of-widening"], [node("DequantizeLinear", "a scale zero", "b"), node("MaxPool", "b", "y", **pool)],
                     {"a": bytes_}, {"scale": np.float32(0.1), "zero": np.int8(3)}, math="strict", tolerance=0)

    def test_constants_go_into_weights(self):
        statistics = {name: self.positive(8) for name in ["scale", "bias", "mean", "variance"]}
        self.compare(["batch-norm-into-conv", "scale-into-conv", "bias-into-conv"],
                     [node("Conv", "x w", "a"), node("BatchNormalization", "a scale bias mean variance", "b"), node("Mul", "b k", "c"),
                      node("Add", "c l", "y")],
                     {"x": self.floats(1, 4, 8, 8)}, {"w": self.floats(8, 4, 3, 3), **statistics, "k": self.floats(8, 1, 1), "l": self.floats(8, 1, 1)})

        self.compare(["batch-norm-into-conv"], [node("Conv", "x w", "a"), node("BatchNormalization", "a scale bias mean variance", "y")],
                     {"x": self.floats(2, 4, 20)}, {"w": self.floats(8, 4, 3), **statistics})
        dead = dict(statistics, variance=np.zeros(8, np.float32)) # a division by zero is not folded
        self.compare([], [node("Conv", "x w", "a"), node("BatchNormalization", "a scale bias mean variance", "y", epsilon=0.0)],
                     {"x": self.floats(1, 4, 8, 8)}, {"w": self.floats(8, 4, 3, 3), **dead})

    def test_chains_of_gemm(self):
        weights = {"v": self.floats(16, 64), "w": self.floats(64, 16), "b": self.floats(64), "c": self.floats(16)}
        self.compare(["product-chain"], [node("Gemm", "x v", "a"), node("Gemm", "a w", "y")], {"x": self.floats(32, 16)}, weights)
        self.compare(["product-chain-with-bias", "constants-together"], [node("Gemm", "x v b", "a"), node("Gemm", "a w c", "y")],
                     {"x": self.floats(32, 16)}, weights)
        turned = dict(weights, v=weights["v"].T.copy(), w=weights["w"].T.copy())
        self.compare(["product-chain-with-bias"], [node("Gemm", "x v b", "a", transB=1, alpha=0.5), node("Gemm", "a w c", "y", transB=1, beta=2.0)],
                     {"x": self.floats(32, 16)}, turned)
        # A result that others read too is still computed.
        self.compare([], [node("Gemm", "x v b", "a"), node("Gemm", "a w c", "y"), node("Relu", "a", "z")], {"x": self.floats(32, 16)}, weights,
                     outputs=["y", "z"])
        self.compare([], [node("Gemm", "x v b", "a"), node("Gemm", "a w c", "y")], {"x": self.floats(32, 16)}, weights, outputs=["y", "a"])

    def test_parallel_products(self):
        names = ["q", "k", "v"]
        weights = {f"w{name}": self.floats(512, 4) for name in names} | {f"b{name}": self.floats(4) for name in names}
        self.compare(["parallel-products"], [node("Gemm", f"x w{name} b{name}", name) for name in names], {"x": self.floats(32, 512)}, weights,
                     outputs=names, math="strict", tolerance=0)
        self.compare(["parallel-convolutions"], [node("Conv", f"x w{name}", name) for name in names], {"x": self.floats(1, 1024, 4, 4)},
                     {f"w{name}": self.floats(5, 1024, 1, 1) for name in names}, outputs=names, math="strict", tolerance=0)

    def test_reductions_of_reductions(self):
        nodes = [node("ReduceMean", "x", "a", axes=[3], keepdims=0), node("ReduceMean", "a", "y", axes=[2], keepdims=1)]
        x = self.floats(2, 3, 16, 20)
        result, = self.compare(["sum-of-sum"], nodes, {"x": x}, math="strict")
        np.testing.assert_allclose(result, x.mean((2, 3))[..., None], atol=1e-6)
        self.compare(["max-of-max"], [node("ReduceMax", "x", "a", axes=[3], keepdims=0), node("ReduceMax", "a", "y", axes=[1])], {"x": x},
                     math="strict", tolerance=0)
        self.compare(["sum-of-integer-sum"], [node("ReduceSum", "x last", "a"), node("ReduceSum", "a first", "y", keepdims=0)],
                     {"x": self.random.integers(-2**31, 2**31, (2, 3, 4), np.int32)}, {"last": np.array([2]), "first": np.array([0])},
                     math="strict", tolerance=0)

    def test_passes_are_counted(self):
        self.compare(["layer-norm"], [node("LayerNormalization", "x scale bias", "y")], {"x": self.floats(4, 32)},
                     {"scale": self.floats(32), "bias": self.floats(32)}, opset=17)
        self.compare(["integer-product", "requantize"],
                     [node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xf"), node("DequantizeLinear", "w s z", "wf"),
                      node("MatMul", "xf wf", "a"), node("QuantizeLinear", "a t z", "y")],
                     {"x": self.floats(16, 32)}, {"s": np.float32(0.02), "t": np.float32(0.2), "z": np.int8(0), "w": self.random.integers(-128, 128, (32, 16), np.int8)},
                     hw=["--hw", "gemmini_16x16_int8"])

    def test_constants_that_overflow_stay_apart(self):
        huge, tiny = np.full(8, 1e30, np.float32), np.full(8, 1e-30, np.float32)
        for c, d, x in [(huge, huge, 1e-35), (tiny, tiny, 1e35)]:
            result, = self.compare([], [node("Mul", "x c", "a"), node("Mul", "a d", "y")], {"x": np.full((4, 8), x, np.float32)}, {"c": c, "d": d})
            np.testing.assert_allclose(result, np.full((4, 8), np.float32(x) * c * d), rtol=1e-6)
        result, = self.compare([], [node("MatMul", "x w", "a"), node("Mul", "a c", "y")], {"x": np.full((4, 8), 1e-35, np.float32)},
                               {"w": np.full((8, 8), 1e20, np.float32), "c": huge})
        np.testing.assert_allclose(result, np.full((4, 8), np.float32(8e15)), rtol=1e-5)

    def test_numbers_that_are_none(self):
        x = np.array([[np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 3e38, -3e38]], np.float32)
        for rules, nodes in [(["clip-of-clip"], [node("Clip", "x low high", "a"), node("Relu", "a", "b"), node("Clip", "b low six", "y")]),
                             (["idempotent"], [node("Abs", "x", "a"), node("Abs", "a", "y")]), (["neg-of-neg"], [node("Neg", "x", "a"), node("Neg", "a", "y")]),
                             (["divide-by-power-of-two"], [node("Div", "x half", "y")]), (["relu-out-of-max"], [node("Relu", "x", "a"), node("ReduceMax", "a", "y", axes=[1])]),
                             (["neutral-element"], [node("Sub", "x zero", "a"), node("Mul", "a one", "y")])]:
            constants = {name: np.float32(number) for name, number in [("low", -1), ("high", 9), ("six", 6), ("half", 0.5), ("zero", 0), ("one", 1)]}
            self.compare(rules, nodes, {"x": x}, constants, math="strict", tolerance=0)

    def test_tensors_without_elements(self):
        empty = np.zeros((0, 8), np.float32)
        self.compare([], [node("Mul", "a c", "ac"), node("Mul", "a b", "ab"), node("Add", "ac ab", "y")], {"a": empty, "b": empty, "c": empty})
        self.compare([], [node("Transpose", "a", "at"), node("Transpose", "at", "b"), node("Neg", "b", "y")], {"a": empty})
        self.compare([], [node("ReduceSum", "a last", "b"), node("ReduceSum", "b first", "y")], {"a": empty}, {"last": np.array([1]), "first": np.array([0])})
        self.compare([], [node("MatMul", "a w", "y"), node("MatMul", "a v", "z")], {"a": empty}, {"w": self.floats(8, 4), "v": self.floats(8, 4)}, outputs=["y", "z"])



if __name__ == "__main__":
    unittest.main()
