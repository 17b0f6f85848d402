#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a user of an ONNX file is told and given before anything runs: folded constants, refusals, inputs that are constants.

Environment: TILEWRIGHT is the binary.
"""

import os
import pathlib
import resource
import subprocess
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BINARY = os.environ["TILEWRIGHT"]
OK, USER = 0, 1
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name, shape, element=FLOAT):
    return helper.make_tensor_value_info(name, element, shape)


def constants(**arrays):
    return [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]


class ImportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def save(self, nodes, inputs, outputs, initializers=(), opset=13, name="m.onnx"):
        graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
        path = self.folder / name
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 8
        path.write_bytes(model.SerializeToString())
        return path

    def tilewright(self, *arguments, space=None):
        limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (space, space))) if space else None
        return subprocess.run([BINARY, *map(str, arguments)], cwd=self.folder, capture_output=True, timeout=120, preexec_fn=limit)

    def run_model(self, model, *arguments):
        """The outputs of a model on the smallest machine."""
        done = self.tilewright("run", model, "--hw", "tiny_8x8", "--output-dir", "out", *arguments)
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        return {path.stem: np.load(path) for path in (self.folder / "out").glob("*.npy")}

    def refusal(self, model, *arguments, command=("run", "--hw", "tiny_8x8"), **options):
        done = self.tilewright(command[0], model, *command[1:], *arguments, **options)
        text = done.stderr.decode()
        self.assertEqual(done.returncode, USER, text)
        for line in text.splitlines():
            self.assertTrue(line.startswith("tilewright: "), text)
        return text

    def file(self, name, array):
        np.save(self.folder / name, array)
        return self.folder / name


class FoldTest(ImportTest):
    """Whatever depends on constants only is a constant."""

    def result(self, op, *arrays, opset=13, outputs=1, **attributes):
        names = [f"c{i}" for i in range(len(arrays))]
        node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], name="n", **attributes)
        element = onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[arrays[0].dtype]
        model = self.save([node], [], [value("y0", None, element)], constants(**dict(zip(names, arrays))), opset)
        return self.run_model(model)["y0"]

    def check(self, expected, op, *arrays, **options):
        found = self.result(op, *arrays, **options)
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7, err_msg=op)

    def test_activations(self):
        x = np.linspace(-4, 4, 60, dtype=np.float32).reshape(3, 4, 5)
        self.check(np.where(x < 0, np.float32(0.1) * x, x), "LeakyRelu", x, alpha=0.1)
        for opset in (6, 13):
            self.check(np.clip(np.float32(0.3) * x + np.float32(0.6), 0, 1), "HardSigmoid", x, opset=opset, alpha=0.3, beta=0.6)
        self.check(x * np.clip(x / 6 + 0.5, 0, 1), "HardSwish", x, opset=14)
        self.check(1 / (1 + np.exp(-x.astype(float))), "Sigmoid", x)
        self.check(np.tanh(x), "Tanh", x)
        self.check(np.maximum(x, 0), "Relu", x)
        e = np.exp(x - x.max(axis=1, keepdims=True))
        self.check(e / e.sum(axis=1, keepdims=True), "Softmax", x, axis=1)

    def test_specials_follow_ieee_754(self):
        x = np.array([-np.inf, -0.0, np.inf, np.nan], np.float32)
        with np.errstate(invalid="ignore"):
            self.check(np.where(x < 0, np.float32(0.5) * x, x), "LeakyRelu", x, alpha=0.5)
            self.check([0, 0.5, 1, np.nan], "HardSigmoid", x, alpha=0.2, beta=0.5)
            self.check([0, 0.5, 1, np.nan], "Sigmoid", x)
            self.check([np.nan] * 4, "Softmax", x.reshape(1, 4).ravel())

    def test_sums(self):
        random = np.random.default_rng(1)
        a = random.standard_normal((3, 4)).astype(np.float32)
        b = random.standard_normal((4, 5)).astype(np.float32)
        self.check(a @ b, "MatMul", a, b)
        self.check(2 * a @ b, "Gemm", a, b, alpha=2.0)
        self.check(a.mean(axis=0, keepdims=True), "ReduceMean", a, axes=[0])
        image = random.standard_normal((1, 2, 4, 4)).astype(np.float32)
        self.check(image.mean(axis=(2, 3), keepdims=True), "GlobalAveragePool", image)
        taps = np.ones((1, 2, 4, 4), np.float32)
        self.check(image.sum().reshape(1, 1, 1, 1), "Conv", image, taps)
        self.check(image.reshape(1, 2, 2, 2, 2, 2).max(axis=(3, 5)), "MaxPool", image, kernel_shape=[2, 2], strides=[2, 2])

    def test_integers_stay_integers(self):
        large = np.array([2**53 + 1, -(2**62) - 1], np.int64)
        self.assertEqual(self.result("Add", large, np.int64(1)).tolist(), [2**53 + 2, -(2**62)])
        self.assertEqual(self.result("Neg", large).tolist(), [-(2**53) - 1, 2**62 + 1])

    def test_made_by_the_graph_s_passes(self):
        # A weight that stays quantised while the model is imported.
        nodes = [helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"]), helper.make_node("LeakyRelu", ["w"], ["v"], alpha=0.5),
                 helper.make_node("Add", ["x", "v"], ["y"])]
        model = self.save(nodes, [value("x", [3])], [value("y", [3]), value("v", [3])],
                          constants(q=np.array([-4, 0, 6], np.int8), s=np.float32(0.5), z=np.int8(0)))
        found = self.run_model(model, "--input", self.file("x.npy", np.ones(3, np.float32)))
        self.assertEqual(found["y"].tolist(), [0, 1, 4])
        self.assertEqual(found["v"].tolist(), [-1, 0, 3])

    def test_outputs_without_a_kernel(self):
        nodes = [helper.make_node("Identity", ["x"], ["y"])]
        model = self.save(nodes, [value("x", [2])], [value("y", [2]), value("w", [3])], constants(w=np.arange(3, dtype=np.float32)))
        found = self.run_model(model, "--input", self.file("x.npy", np.array([5, 7], np.float32)))
        self.assertEqual(found["y"].tolist(), [5, 7])
        self.assertEqual(found["w"].tolist(), [0, 1, 2])


class RefusalTest(ImportTest):
    def test_all_unsupported_nodes_with_reasons(self):
        nodes = [helper.make_node("Nothing", ["x"], ["a"], name="first"), helper.make_node("Nothing", ["a"], ["b"], name="second"),
                 helper.make_node("Void", ["b"], ["y"], name="third")]
        for declared in ([1, 1, 4, 4], None):
            model = self.save(nodes, [value("x", [1, 1, 2, 2])], [value("y", declared)])
            text = self.refusal(model)
            self.assertIn('3 nodes cannot run on any target: Nothing (2), Void (1)', text)
            self.assertIn('node "first" (Nothing): this operator is not supported', text)
            self.assertIn('node "third" (Void): this operator is not supported', text)
            self.assertNotIn("declare", text)

    def test_the_importer_s_reason(self):
        """What no kernel computes runs on the host, and `check` says why."""
        def check(model):
            done = self.tilewright("check", model, "--hw", "tiny_8x8")
            self.assertEqual(done.returncode, OK, done.stderr.decode())
            return done.stdout.decode()

        model = self.save([helper.make_node("Reshape", ["x", "s"], ["y"], name="r")], [value("x", [6]), value("s", [2], INT64)], [value("y", [2, 3])])
        self.assertRegex(check(model), r"(?m)^r +Reshape +cpu +input 1 \(shape\) is not a constant")
        model = self.save([helper.make_node("Conv", ["x", "w"], ["y"], name="c")], [value("x", [1, 1, 3, 3, 3])], [value("y", [1, 1, 1, 1, 1])],
                          constants(w=np.ones((1, 1, 3, 3, 3), np.float32)))
        self.assertRegex(check(model), r"(?m)^c +Conv +cpu +.*3")

    def test_no_words_of_the_compiler(self):
        model = self.save([helper.make_node("ReduceMax", ["x"], ["y"], name="r", axes=[1])], [value("x", [4, 3], BOOL)], [value("y", [4, 1], BOOL)])
        text = self.refusal(model)
        self.assertIn('node "r" (ReduceMax): input 0 is of bool, expected float', text)
        self.assertNotIn("graph.", text)

    def test_names_are_printable(self):
        hostile = "evil\nname\x1b[31m\x7f"
        model = self.save([helper.make_node("Nothing", ["x"], ["y"], name=hostile)], [value("x", [2])], [value("y", [2])])
        self.assertIn(r'node "evil\nname\x1b[31m\x7f" (Nothing)', self.refusal(model))
        model = self.save([helper.make_node("Relu", [hostile], ["y"])], [value(hostile, [2])], [value("y", [2])])
        self.assertIn(r"evil\nname\x1b[31m\x7f", self.refusal(model, "--input", "other=" + str(self.file("x.npy", np.ones(2, np.float32)))))
        for path in ("no\nsuch.onnx", "no\x1b[2Jsuch.onnx"):
            text = self.refusal(path)
            self.assertEqual(len(text.splitlines()), 1, text)
            self.assertNotIn("\x1b", text)

    def test_dead_nodes_are_dropped(self):
        nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("NonZero", ["x"], ["unused"])]
        model = self.save(nodes, [value("x", [4])], [value("y", [4])])
        self.assertEqual(self.run_model(model, "--input", self.file("x.npy", -np.ones(4, np.float32)))["y"].tolist(), [0] * 4)


class BudgetTest(ImportTest):
    def test_large_constants_are_refused_before_they_are_made(self):
        x, shape = value("x", [1]), value("y", None)
        models = {
            "ConstantOfShape": ([helper.make_node("ConstantOfShape", ["s"], ["c"], name="n")], {"s": np.array([2**31 - 1])}),
            "Expand": ([helper.make_node("Expand", ["a", "s"], ["c"], name="n")], {"a": np.ones(1, np.float32), "s": np.array([2**30])}),
            "Tile": ([helper.make_node("Tile", ["a", "s"], ["c"], name="n")], {"a": np.arange(2, dtype=np.float32), "s": np.array([2**29])}),
            "Pad": ([helper.make_node("Pad", ["a", "s"], ["c"], name="n")], {"a": np.arange(2, dtype=np.float32), "s": np.array([0, 2**30])}),
            "Range": ([helper.make_node("Range", ["a", "s", "d"], ["c"], name="n")], {"a": np.float32(0), "s": np.float32(2**30), "d": np.float32(1)}),
            "MatMul": ([helper.make_node("MatMul", ["a", "s"], ["c"], name="n")], {"a": np.ones((2**15, 1), np.float32), "s": np.ones((1, 2**15), np.float32)}),
        }
        for op, (nodes, arrays) in models.items():
            model = self.save(nodes + [helper.make_node("Add", ["x", "c"], ["y"])], [x], [shape], constants(**arrays))
            text = self.refusal(model, space=2 << 30, command=("compile", "--hw", "tiny_8x8", "--emit", "import"))
            self.assertRegex(text, rf'node "n" \({op}\): its constants take \d+ bytes, beside \d+ before it; at most 2147483648 are allowed '
                                   r"\(--max-constant-bytes\)")

    def test_the_option_is_the_limit(self):
        model = self.save([helper.make_node("ConstantOfShape", ["s"], ["c"]), helper.make_node("Add", ["x", "c"], ["y"])], [value("x", [1])],
                          [value("y", [100])], constants(s=np.array([100])))
        self.assertIn("at most 407 are allowed", self.refusal(model, "--max-constant-bytes", 407))
        self.run_model(model, "--max-constant-bytes", 408)


class InputTest(ImportTest):
    def open_model(self):
        return self.save([helper.make_node("Reshape", ["x", "s"], ["y"])], [value("x", ["N", 4]), value("s", [2], INT64)], [value("y", ["A", "B"])])

    def test_files_fix_open_dims_and_constants_bind_inputs(self):
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        file = self.file("x.npy", x)
        for const in ("s=6,2", "s=" + str(self.file("s.npy", np.array([6, 2])))):
            found = self.run_model(self.open_model(), "--input", f"x={file}", "--const", const)
            self.assertEqual(found["y"].tolist(), x.reshape(6, 2).tolist())
        found = self.run_model(self.open_model(), "--input", file, "--const", "s=4,-1")
        self.assertEqual(found["y"].shape, (4, 3))

    def test_conflicts(self):
        file, model = self.file("x.npy", np.zeros((3, 4), np.float32)), self.open_model()
        text = self.refusal(model, "--input", f"x={file}", "--const", "s=6,2", "--shape", "x=2,4")
        self.assertIn(f'input "x" is [2, 4] by --shape, but {file} holds [3, 4]', text)
        self.assertIn("input 's' is given by both --input and --const",
                      self.refusal(model, "--input", f"s={self.file('s.npy', np.array([6, 2]))}", "--const", "s=6,2"))
        self.assertIn("--const gives input 's' twice", self.refusal(model, "--const", "s=6,2", "--const", "s=1,2"))
        self.assertIn('a constant is given for "t", the inputs of the model are: s, x', self.refusal(model, "--const", "t=1", "--shape", "x=3,4"))
        self.assertIn("expected a number of int64", self.refusal(model, "--const", "s=1,b", "--shape", "x=3,4"))
        self.assertIn("given a constant of float, the model declares int64",
                      self.refusal(model, "--const", f"s={self.file('f.npy', np.zeros(2, np.float32))}", "--shape", "x=3,4"))

    def test_every_command_takes_constants(self):
        model = self.open_model()
        shape = ("--const", "s=6,2", "--shape", "x=3,4")
        for command in (("compile", "-o", "m.twp"), ("compare", "--repeat", "1"), ("profile",), ("tune", "--budget", "1"), ("run",)):
            done = self.tilewright(command[0], model, *command[1:], "--hw", "tiny_8x8", *shape)
            self.assertNotIn("not a constant", done.stderr.decode(), command)
            self.assertNotIn("--const", done.stderr.decode(), command)


if __name__ == "__main__":
    unittest.main()
