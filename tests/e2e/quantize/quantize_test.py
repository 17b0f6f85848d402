#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs `tilewright quantize` as a user would: small networks keep their answers, and bad input is refused.

Environment: TILEWRIGHT is the binary, TILEWRIGHT_SOURCE_DIR the source tree.
"""

import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx

BINARY = os.environ["TILEWRIGHT"]
SOURCE = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])
DIGITS = SOURCE / "tests/data/digits"
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "scripts"))
import networks  # noqa: E402


class QuantizeCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def tilewright(self, *arguments, status=0):
        """Runs it in an empty folder. Returns standard output and standard error."""
        result = subprocess.run([BINARY, *map(str, arguments)], cwd=self.path, capture_output=True, timeout=300)
        out, err = result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace")
        self.assertEqual(result.returncode, status, f"{arguments}\n{out}\n{err}")
        return out, err

    def network(self, name, build, **sizes):
        """A small form of one of the networks of scripts/networks.py."""
        graph = networks.Graph(name, seed=1)
        build(graph, **sizes)
        (self.path / f"{name}.onnx").write_bytes(graph.model())
        return f"{name}.onnx"

    def residual(self):
        return self.network("residual", networks.resnet, block=networks.basic_block, depths=[2, 1], image=32,
                            width=16)

    def attention(self, decomposed=False):
        return self.network("attention", networks.bert_block, decomposed=decomposed, sequence=16, hidden=32, heads=2,
                            inner=64)


class QuantizeTest(QuantizeCase):
    def agrees_with_float(self, model, output, bound, *options):
        """The int8 model runs on the accelerator alone, equals the CPU, and is within `bound` of the float range."""
        self.tilewright("quantize", model, "--calibration", "random:7", "--samples", "16", *options, "-o", "int8.onnx")
        self.tilewright("run", model, "--hw", "gemmini_16x16_fp32", "--model", "functional", "--output-dir", "float")
        out, _ = self.tilewright("run", "int8.onnx", "--hw", "gemmini_16x16_int8", "--expect", f"float/{output}.npy",
                                 "--tolerance", bound)
        self.assertRegex(out, r"nodes: \d+ on accelerator(, \d+ folded)?\n")
        difference = re.search(r"max abs error \S+ \((\S+) of the output's range", out)
        self.assertLess(float(difference.group(1)), bound)
        out, _ = self.tilewright("compare", "int8.onnx", "--hw", "gemmini_16x16_int8", "--repeat", "1",
                                 "--threads", "1")
        self.assertIn("the results agree", out)

    def test_a_residual_network_agrees_with_its_float_form(self):
        self.agrees_with_float(self.residual(), "logits", 0.03)

    def test_an_attention_block_agrees_with_its_float_form(self):
        self.agrees_with_float(self.attention(), "output", 0.03)

    def test_a_spelled_out_normalisation_agrees_with_its_float_form(self):
        self.agrees_with_float(self.attention(decomposed=True), "output", 0.03)

    def test_the_portable_form_agrees_with_the_float_form(self):
        for model, output in [(self.residual(), "logits"), (self.attention(), "output"), (self.attention(decomposed=True), "output")]:
            with self.subTest(model=model):
                self.agrees_with_float(model, output, 0.03, "--form", "portable")

    def graph_of(self, model, *options):
        """Nodes of the quantised model by the tensor that they make, and its readers by the tensor that they read."""
        out, _ = self.tilewright("quantize", model, "--calibration", "random:7", "--samples", "2", *options, "-o", "q.onnx")
        graph = onnx.load(str(self.path / "q.onnx")).graph
        makers = {output: node for node in graph.node for output in node.output}
        readers = {}
        for node in graph.node:
            for name in node.input:
                readers.setdefault(name, []).append(node)
        return out, graph, makers, readers

    def test_in_the_portable_form_convolutions_and_additions_are_rounded(self):
        out, graph, makers, readers = self.graph_of(self.residual(), "--form", "portable")
        self.assertRegex(out, r"\d+ tensors uint8")
        rounded = {"Conv": 0, "Add": 0}
        for node in graph.node:
            if node.op_type not in rounded:
                continue
            rounded[node.op_type] += 1
            for name in node.input[:2] if node.op_type == "Add" else node.input:
                self.assertEqual(makers[name].op_type, "DequantizeLinear", f"{node.name} reads {name}")
            (reader,) = readers[node.output[0]]
            self.assertEqual(reader.op_type, "QuantizeLinear", f"behind {node.name}")
        # The stem, two for each of three blocks, and a shortcut.
        self.assertEqual(rounded, {"Conv": 8, "Add": 3})
        types = {tensor.name: tensor.data_type for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "QuantizeLinear":
                self.assertEqual(types[node.input[2]], onnx.TensorProto.UINT8, "activations are uint8")
            if node.op_type == "DequantizeLinear" and types.get(node.input[0]) == onnx.TensorProto.INT8:
                self.assertEqual(len(node.input), 2, "weights have no zero point")

    def test_in_the_fused_form_a_sum_reaches_its_residual_with_all_bits(self):
        _, graph, makers, _ = self.graph_of(self.residual())
        adds = [node for node in graph.node if node.op_type == "Add"]
        self.assertEqual(len(adds), 3)
        for node in adds:
            self.assertIn("Conv", {makers[name].op_type for name in node.input})

    def test_in_the_portable_form_biases_of_products_are_additions_of_their_own(self):
        _, graph, makers, readers = self.graph_of(self.attention(), "--form", "portable")
        constants = {tensor.name: tensor for tensor in graph.initializer}
        products = [node for node in graph.node if node.op_type == "MatMul" and makers[node.input[1]].input[0] in constants]
        self.assertEqual(len(products), 6)
        for node in products:
            (reader,) = readers[node.output[0]]
            bias = constants[reader.input[1] if reader.input[1] in constants else reader.input[0]]
            self.assertEqual(reader.op_type, "Add")
            self.assertEqual(list(bias.dims)[:-1], [1, 1], "a bias of one dim would make it a Gemm in float")

    def test_a_form_that_is_none(self):
        _, err = self.tilewright("quantize", self.residual(), "--calibration", "random:7", "--form", "small", "-o", "q.onnx", status=1)
        self.assertIn("--form", err)
        self.assertIn("portable", err)

    def test_digits_keep_their_answers(self):
        images = DIGITS / "images.npy"
        out, _ = self.tilewright("quantize", DIGITS / "digits_fp32.onnx", "--calibration", images, "--samples", "100",
                                 "-o", "q.onnx")
        self.assertIn("on integers: 4 Conv, 1 Gemm", out)
        self.assertIn("ranges from 100 samples", out)
        self.tilewright("run", "q.onnx", "--hw", "gemmini_16x16_int8", "--model", "functional", "--input", images,
                        "--batch", "--output-dir", "out")
        answers = np.load(self.path / "out/logits.npy").argmax(axis=1)
        # The float network: 98.9 %.
        self.assertGreaterEqual((answers == np.load(DIGITS / "labels.npy")).mean(), 0.98)

    def test_equal_samples_give_equal_bytes(self):
        model = self.residual()
        digests = []
        for name in ["a", "b"]:
            self.tilewright("quantize", model, "--calibration", "random:3", "--samples", "2", "-o", f"{name}.onnx")
            digests.append(hashlib.sha256((self.path / f"{name}.onnx").read_bytes()).hexdigest())
        self.assertEqual(*digests)

    def test_samples_in_a_folder(self):
        (self.path / "samples").mkdir()
        (self.path / "samples/notes.txt").write_text("no sample")
        for i in range(3):
            np.save(self.path / f"samples/{i}.npy", np.random.RandomState(i).rand(1, 3, 32, 32).astype(np.float32))
        model = self.residual()
        out, _ = self.tilewright("quantize", model, "--calibration", "samples", "-o", "q.onnx")
        self.assertIn("ranges from 3 samples of samples", out)
        out, _ = self.tilewright("quantize", model, "--calibration", "samples", "--samples", "2", "-o", "q.onnx")
        self.assertIn("ranges from 2 samples of samples", out)

    def test_a_folder_for_every_sample_of_two_inputs(self):
        graph = networks.Graph("two", seed=1)
        a, b = graph.input("a", (4, 8)), graph.input("b", (8, 4))
        product = graph.node("MatMul", "product", [a, b], (4, 4))
        graph.output(product, "y")
        (self.path / "two.onnx").write_bytes(graph.model())
        for i, (first, second) in enumerate([("a", "b"), ("input_0", "input_1")]):
            folder = self.path / f"samples/{i}"
            folder.mkdir(parents=True)
            np.save(folder / f"{first}.npy", np.ones((4, 8), np.float32))
            np.save(folder / f"{second}.npy", np.ones((8, 4), np.float32))
        out, _ = self.tilewright("quantize", "two.onnx", "--calibration", "samples", "-o", "q.onnx")
        self.assertIn("ranges from 2 samples", out)
        self.assertIn("on integers: 1 MatMul; 2 tensors int8", out)


class BadQuantizeTest(QuantizeCase):
    """Exit status 1; the message says what was found and what was allowed; no file appears."""

    def refuses(self, *arguments, message):
        before = sorted(self.path.rglob("*"))
        _, err = self.tilewright("quantize", *arguments, status=1)
        for text in [message] if isinstance(message, str) else message:
            self.assertIn(text, err)
        self.assertEqual(sorted(self.path.rglob("*")), before)

    def refuses_calibration(self, calibration, message):
        self.refuses(self.residual(), "--calibration", calibration, "-o", "q.onnx", message=message)

    def refuses_model(self, model, message):
        self.refuses(model, "--calibration", "random:1", "-o", "q.onnx", message=message)

    def test_arguments_that_are_missing(self):
        self.refuses("net.onnx", "-o", "q.onnx", message="--calibration is required")
        self.refuses("net.onnx", "--calibration", "random:1", message="--output is required")

    def test_models_that_are_none(self):
        self.refuses_model("none.onnx", "none.onnx")
        self.refuses_model("gemm:8x8x8:int8", "quantize takes .onnx")
        (self.path / "cut.onnx").write_bytes((DIGITS / "digits_fp32.onnx").read_bytes()[:1000])
        self.refuses_model("cut.onnx", "cut.onnx: not a valid ONNX model")

    def test_a_model_that_is_quantised_already(self):
        self.refuses_model(DIGITS / "digits_int8_qdq.onnx", "the model is quantised already")

    def test_a_seed_that_is_none(self):
        self.refuses_calibration("random:fast", "'random:fast' but the seed of random:SEED must be a number")

    def test_samples_that_are_not_there(self):
        self.refuses_calibration("nowhere", "'nowhere': no such folder or file, and not random:SEED")
        (self.path / "empty").mkdir()
        self.refuses_calibration("empty", "calibration folder 'empty' holds no sample")
        (self.path / "notes.txt").write_text("no tensor")
        self.refuses_calibration("notes.txt", "calibration file 'notes.txt' must be .npy or .pb")

    def test_a_sample_of_another_shape(self):
        np.save(self.path / "flat.npy", np.zeros((1, 3, 32), np.float32))
        self.refuses_calibration("flat.npy", ["flat.npy", "float [1x3x32]", "float [1x3x32x32]"])

    def test_a_sample_that_lacks_an_input(self):
        (self.path / "samples/0").mkdir(parents=True)
        self.refuses_calibration("samples", "sample 'samples/0' holds neither image.npy nor input_0.npy (or .pb)")

    def test_a_sample_that_is_not_finite(self):
        np.save(self.path / "nan.npy", np.full((1, 3, 32, 32), np.nan, np.float32))
        self.refuses_calibration("nan.npy", ["sample 1 of nan.npy", "tensor \"image\" takes the value nan"])

    def test_a_file_that_cannot_be_written(self):
        self.refuses(self.residual(), "--calibration", "random:1", "-o", "none/q.onnx",
                     message="cannot write 'none/q.onnx'")


class NetworksTest(QuantizeCase):
    """scripts/networks.py"""

    def run_script(self, *arguments, status=0):
        command = [SOURCE / "scripts/networks.py", *map(str, arguments)]
        result = subprocess.run(command, cwd=self.path, capture_output=True, timeout=300)
        self.assertEqual(result.returncode, status, result.stderr.decode())
        return result.stderr.decode()

    def test_equal_seeds_give_equal_bytes(self):
        for folder, seed in [("a", 5), ("b", 5), ("c", 6)]:
            self.run_script(folder, "--seed", seed, "squeezenet")
        a, b, c = ((self.path / folder / "squeezenet.onnx").read_bytes() for folder in "abc")
        self.assertEqual(a, b)
        self.assertNotEqual(a, c)

    def test_an_unknown_network_is_refused(self):
        error = self.run_script("out", "alexnet", status=2)
        self.assertIn("unknown network 'alexnet', expected one of resnet18", error)

    def test_every_network_is_imported(self):
        self.run_script("out")
        for name in networks.NETWORKS:
            self.tilewright("compile", f"out/{name}.onnx", "--emit", "import", "-o", f"{name}.mlir")


if __name__ == "__main__":
    unittest.main()
