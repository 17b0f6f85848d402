#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tilewright check` and `tilewright operators`: where nodes run, before anything is compiled.

Environment: TILEWRIGHT is the binary, TILEWRIGHT_SOURCE_DIR the source tree.
"""
import json
import os
import pathlib
import re
import resource
import subprocess
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BINARY = os.environ["TILEWRIGHT"]
SOURCE = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])
DIGITS = SOURCE / "tests/data/digits/digits_int8_qdq.onnx"
OK, USER = 0, 1
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value(name, shape, element=FLOAT):
    return helper.make_tensor_value_info(name, element, shape)


class CommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def tilewright(self, *arguments, status=OK):
        done = subprocess.run([BINARY, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr if status else done.stdout

    def save(self, nodes, inputs, outputs, initializers=(), opset=17, domains=()):
        graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *domains])
        model.ir_version = 8
        path = self.folder / "m.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    def convolutions(self, count=2, between="Trilu", channels=16):
        """`count` times Conv, Relu and an operator that the accelerator lacks."""
        random = np.random.default_rng(1)
        weights = (random.standard_normal((channels, channels, 3, 3)) / 12).astype(np.float32)
        initializers = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.int64(1), "diagonal")]
        nodes, x = [], "x"
        for i in range(count):
            nodes += [helper.make_node("Conv", [x, "w"], [f"c{i}"], name=f"conv{i}", pads=[1] * 4),
                      helper.make_node("Relu", [f"c{i}"], [f"r{i}"], name=f"relu{i}")]
            x = f"r{i}"
            if between:
                nodes.append(helper.make_node(between, [x, "diagonal"], [f"s{i}"], name=f"triangle{i}"))
                x = f"s{i}"
        shape = [1, channels, 8, 8]
        return self.save(nodes, [value("x", shape)], [value(x, shape)], initializers)

    def check(self, model, *arguments):
        return json.loads(self.tilewright("check", model, *arguments, "--json", "-"))


class CheckTest(CommandTest):
    def test_places_kernels_and_crossings(self):
        found = self.check(self.convolutions(), "--hw", "gemmini_16x16_fp32")
        places = {node["node"]: node for node in found["nodes"]}
        self.assertEqual([node["node"] for node in found["nodes"]], ["conv0", "relu0", "triangle0", "conv1", "relu1", "triangle1"])
        self.assertEqual([node["operator"] for node in found["nodes"]], ["Conv", "Relu", "Trilu"] * 2)
        for name in ("conv0", "relu0", "conv1", "relu1"):
            self.assertEqual(places[name]["target"], "accelerator", name)
        for name in ("triangle0", "triangle1"):
            self.assertEqual((places[name]["target"], places[name]["fell_back"]), ("cpu", True))
            self.assertIn("the accelerator has no such operator", places[name]["reason"])
        kernels = {kernel["name"]: kernel for kernel in found["kernels"]}
        for node in found["nodes"]:
            self.assertTrue(node["kernels"])
            for kernel in node["kernels"]:
                self.assertIn(node["node"], kernels[kernel]["nodes"])
        # 8 x 8 positions; windows at the border have fewer taps: 22 of 24 rows and columns.
        self.assertEqual(found["macs"], 2 * 22 * 22 * 16 * 16)
        self.assertEqual({entry["target"]: entry["macs"] for entry in found["targets"]}, {"accelerator": found["macs"], "cpu": 0, "folded": 0})
        # accelerator, host, accelerator, host: three tensors of 1 x 16 x 8 x 8 floats.
        self.assertEqual((found["crossings"], found["crossing_bytes"]), (3, 3 * 4 * 16 * 64))
        self.assertEqual(found["late_nodes"], 0)

    def test_it_says_what_a_run_says(self):
        for model, machine in ((DIGITS, "tiny_8x8"), (DIGITS, "gemmini_16x16_int8"), (self.convolutions(), "gemmini_16x16_fp32"),
                               (self.convolutions(), "tiny_8x8")):
            ran = json.loads(self.tilewright("run", model, "--hw", machine, "--json", "-"))
            found = self.check(model, "--hw", machine)
            self.assertEqual([(node["node"], node["target"]) for node in found["nodes"]],
                             [(node["node"], node["target"]) for node in ran["offload"]], f"{model} on {machine}")
            if machine != "tiny_8x8" or model == DIGITS:
                self.assertEqual(found["targets"][0]["macs"], ran["macs"])

    def test_nodes_of_an_inlined_branch_are_listed(self):
        branch = helper.make_graph([helper.make_node("Relu", ["x"], ["t"], name="taken")], "then", [], [value("t", [2, 3])])
        other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"], name="left")], "else", [], [value("e", [2, 3])])
        model = self.save([helper.make_node("If", ["c"], ["y"], name="if", then_branch=branch, else_branch=other)], [value("x", [2, 3])],
                          [value("y", [2, 3])], [numpy_helper.from_array(np.array(True), "c")])
        found = self.check(model, "--hw", "gemmini_16x16_fp32")
        self.assertEqual([node["operator"] for node in found["nodes"]], ["If", "Relu"])
        self.assertEqual(found["nodes"][1]["target"], "accelerator")

    def test_what_only_a_run_knows(self):
        model = self.save([helper.make_node("Relu", ["x"], ["r"], name="relu"), helper.make_node("NonZero", ["r"], ["y"], name="nonzero")],
                          [value("x", [4, 4])], [value("y", [2, None], INT64)])
        found = self.check(model, "--hw", "gemmini_16x16_fp32")
        self.assertEqual([node["target"] for node in found["nodes"]], ["accelerator", "cpu"])
        self.assertIn("the shape of its result is known when it runs", found["nodes"][1]["reason"])
        self.assertEqual((found["late_nodes"], found["crossings"], found["crossing_bytes"]), (1, 1, 64))
        alone = self.save([helper.make_node("NonZero", ["x"], ["y"], name="nonzero")], [value("x", [4, 4])], [value("y", [2, None], INT64)])
        self.assertEqual(self.check(alone, "--hw", "tiny_8x8")["nodes"][0]["target"], "cpu")

    def test_without_a_machine_it_is_for_the_cpu(self):
        found = self.check(DIGITS)
        self.assertIsNone(found["machine"])
        self.assertEqual({node["target"] for node in found["nodes"]} - {"folded"}, {"cpu"})

    def test_the_text(self):
        text = self.tilewright("check", self.convolutions(), "--hw", "gemmini_16x16_fp32")
        self.assertRegex(text, r"(?m)^triangle0 +Trilu +cpu +the accelerator has no such operator")
        self.assertRegex(text, r"(?m)^accelerator +4 +\d+ +247,808 +100\.0$")
        self.assertNotIn("evaluated on the host", text)
        self.assertIn("crossings between accelerator and host: 3, 12.0 KiB over the link\n", text)
        summary = self.tilewright("check", self.convolutions(), "--hw", "gemmini_16x16_fp32", "--summary")
        self.assertNotIn("triangle0", summary)
        evaluated = self.save([helper.make_node("Hardmax", ["x"], ["y"])], [value("x", [4, 4])], [value("y", [4, 4])])
        self.assertIn("evaluated on the host, MACs not counted: Hardmax\n", self.tilewright("check", evaluated, "--hw", "gemmini_16x16_fp32"))

    def test_unknown_operators_are_listed_at_once(self):
        nodes = [helper.make_node("Nothing", ["x"], ["a"], name="first", domain="my.own"), helper.make_node("Relu", ["a"], ["b"], name="relu"),
                 helper.make_node("Void", ["b"], ["y"], name="second", domain="my.own")]
        for shape in (None, [2]):  # unknown, or declared by the model
            model = self.save(nodes, [value("x", [2])], [value("y", [2])], domains=[helper.make_opsetid("my.own", 1)])
            if shape:
                proto = onnx.load(model)
                proto.graph.value_info.append(value("a", shape))
                onnx.save(proto, model)
            text = self.tilewright("check", model, "--hw", "tiny_8x8", status=USER)
            self.assertIn('node "first" (my.own.Nothing): this operator is not supported', text)
            self.assertIn('node "second" (my.own.Void): this operator is not supported', text)

    def test_models_that_cannot_be_read(self):
        (self.folder / "bad.onnx").write_bytes(b"\x08\x01garbage")
        for model, message in (("bad.onnx", "not a"), ("none.onnx", "no such file")):
            self.assertIn(message, self.tilewright("check", model, "--hw", "tiny_8x8", status=USER))
        self.assertIn("fix them with --shape", self.tilewright("check", self.save(
            [helper.make_node("Relu", ["x"], ["y"])], [value("x", ["n"])], [value("y", ["n"])]), "--hw", "tiny_8x8", status=USER))
        self.tilewright("compile", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "-o", "p.twp")
        self.assertIn("is a program already", self.tilewright("check", "p.twp", "--hw", "tiny_8x8", status=USER))


class SpeedTest(CommandTest):
    def test_ten_thousand_nodes_take_less_than_five_seconds(self):
        """Processor time: a machine with other work has little to give."""
        for name, count, between in (("chain", 3334, "Trilu"), ("convolutions", 5000, "")):
            model = self.convolutions(count, between)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            found = self.check(model, "--hw", "gemmini_16x16_fp32")
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(f"{name}: {len(found['nodes'])} nodes, {len(found['kernels'])} kernels, {seconds:.2f} s of processor time")
            self.assertGreaterEqual(len(found["nodes"]), 10000)
            self.assertLess(seconds, 5)


class OperatorsTest(CommandTest):
    def test_the_page_is_what_the_command_writes(self):
        page = (SOURCE / "docs/operators.md").read_text()
        self.assertEqual(page, self.tilewright("operators", "--markdown"), "tilewright operators --markdown > docs/operators.md")

    def operators(self, *arguments):
        document = json.loads(self.tilewright("operators", *arguments, "--json", "-"))
        return {(entry["domain"], entry["operator"]): entry["runs_as"] for entry in document["operators"]}

    def test_kernels_and_host(self):
        found = self.operators()
        self.assertEqual(found["ai.onnx", "Conv"], "kernels")
        self.assertEqual(found["ai.onnx", "NonMaxSuppression"], "host")
        self.assertIn(("com.microsoft", "FastGelu"), found)
        self.assertIn(("ai.onnx.ml", "TreeEnsembleClassifier"), found)
        self.assertEqual(self.operators("--target", "gpu")["ai.onnx", "NonMaxSuppression"], "no")
        text = self.tilewright("operators", "--machine", "tiny_8x8")
        self.assertIn("The array of tiny_8x8 multiplies int8", text)

    def test_bad_arguments(self):
        for arguments, message in ((["--target", "cpu", "--machine", "tiny_8x8"], "--machine is for --target accel, not cpu"),
                                   (["--machine", "none"], "none"), (["--markdown", "--json", "-"], "both write standard output")):
            self.assertIn(message, self.tilewright("operators", *arguments, status=USER))


class DocumentTest(CommandTest):
    """The commands of docs/import.md and docs/walks.md run as they stand there."""

    def run_commands(self, page):
        (self.folder / "docs").symlink_to(SOURCE / "docs")
        (self.folder / "tests").symlink_to(SOURCE / "tests")
        environment = {**os.environ, "PATH": f"{pathlib.Path(BINARY).parent}:/usr/bin:{os.environ['PATH']}"}
        commands = re.findall(r"^(?:tilewright (?!\S+:)|python3 docs).*$", (SOURCE / page).read_text(), re.M)
        skipped = 0
        for command in commands:
            if "$TILEWRIGHT_MODELS" in command and not os.environ.get("TILEWRIGHT_MODELS"):
                skipped += 1
                continue
            with self.subTest(command):
                done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300)
                self.assertEqual(done.returncode, OK, done.stderr)
        if skipped:
            print(f"{page}: {skipped} of {len(commands)} commands skipped, TILEWRIGHT_MODELS names no folder of networks")
        return len(commands)

    def test_import(self):
        self.assertEqual(self.run_commands("docs/import.md"), 2)

    def test_walks(self):
        self.assertEqual(self.run_commands("docs/walks.md"), 15)

    def test_exporters(self):
        """The models of docs/exporters.md are made by frameworks: only options are looked at."""
        for command in re.findall(r"^tilewright (.*)$", (SOURCE / "docs/exporters.md").read_text(), re.M):
            done = subprocess.run([BINARY, *command.split()], cwd=self.folder, capture_output=True, text=True)
            self.assertRegex(done.stderr, "(?i)no such file")
            self.assertEqual(done.returncode, USER)


if __name__ == "__main__":
    unittest.main()
