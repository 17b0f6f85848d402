#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every JSON document is as its schema says: it names the schema with its version, has every key that the schema requires and none that the
schema does not know."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCES = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])
SCHEMAS = SOURCES / "runtime/schemas"
DIGITS = "tests/data/digits/digits_int8_qdq.onnx"
FLOATS = "tests/data/digits/digits_fp32.onnx"
try:
    import jsonschema
except ImportError:
    print("skipped: jsonschema is not installed (scripts/setup.sh tests)")
    sys.exit(77)

FOLDER = tempfile.TemporaryDirectory()
COMMANDS = {
    "run": [["run", DIGITS, "--hw", "tiny_8x8"], ["run", DIGITS, "--hw", "gemmini_16x16_int8", "--trace", f"{FOLDER.name}/t.json"],
            ["run", DIGITS, "--hw", "gemmini_16x16_int8", "--schedule", "search", "--search-budget", "4"],
            ["run", FLOATS, "--hw", "gemmini_16x16_fp32", "--model", "functional"], ["run", "gemm:24x24x24:bf16", "--hw", "cloud_128x128"],
            ["run", DIGITS, "--hw", "tiny_8x8", "--input", "tests/data/digits/images.npy", "--batch", "--expect",
             "tests/data/digits/logits_int8_qdq.npy"],
            ["run", FLOATS, "--hw", "tiny_8x8"]],  # every kernel falls back to the CPU
    "profile": [["profile", DIGITS, "--hw", "tiny_8x8"], ["profile", "gemm:64x64x64:int8", "--hw", "vdla_16x16", "--schedule", "serial"]],
    "compare": [["compare", DIGITS, "--hw", "tiny_8x8", "--repeat", "1"], ["compare", DIGITS, "--targets", "cpu", "--repeat", "1", "--layers"]],
    "check": [["check", DIGITS, "--hw", "tiny_8x8"], ["check", FLOATS]],
    "operators": [["operators"], ["operators", "--target", "accel", "--machine", "tiny_8x8"]],
    "dram": [["dram", "-", "--device", "ddr4_2400"], ["dram", "-", "--device", "ideal"]],
}


def without_unknown(schema):
    """The schema, with every object closed."""
    if isinstance(schema, dict):
        closed = {key: without_unknown(value) for key, value in schema.items()}
        if "properties" in closed:
            closed.setdefault("additionalProperties", False)
        return closed
    return [without_unknown(entry) for entry in schema] if isinstance(schema, list) else schema


class SchemaTest(unittest.TestCase):
    def document(self, command):
        done = subprocess.run([os.environ["TILEWRIGHT"], *command, "--json", "-"], cwd=SOURCES, capture_output=True, text=True,
                              input="0 R 0\n0 R 40\n0 W 20000\n500 R 80\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_every_schema_has_documents_and_the_other_way_round(self):
        self.assertEqual({path.name for path in SCHEMAS.glob("*.json")}, {f"{name}.schema.json" for name in COMMANDS})

    def test_documents_are_as_their_schemas_say(self):
        for name, commands in COMMANDS.items():
            schema = without_unknown(json.loads((SCHEMAS / f"{name}.schema.json").read_text()))
            jsonschema.Draft202012Validator.check_schema(schema)
            for command in commands:
                with self.subTest(" ".join(command)):
                    jsonschema.validate(self.document(command), schema, cls=jsonschema.Draft202012Validator)

    def test_layers_say_what_they_read(self):
        """A residual network: the block's end reads its own branch and, past it, what came before the block."""
        spec = importlib.util.spec_from_file_location("networks", SOURCES / "scripts/networks.py")
        networks = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(networks)
        graph = networks.Graph("residual", 1)
        networks.resnet(graph, networks.basic_block, [2, 1], image=32, width=8)
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "residual.onnx"
            model.write_bytes(graph.model())
            for more in ([], ["--schedule", "serial"]):
                document = self.document(["run", str(model), "--hw", "gemmini_16x16_fp32", *more])
                layers = [part for row in document["layers"] for part in row["members"] or [row] if part["number"] is not None]
                self.assertEqual([layer["number"] for layer in layers], list(range(len(layers))))
                maker = {node: layer["number"] for layer in layers for node in layer["nodes"]}
                for layer in layers:
                    self.assertTrue(all(number < layer["number"] for number in layer["reads"]), layer)
                self.assertEqual(layers[0]["reads"], [])
                for stage, block, before in ((1, 1, "stem_pool"), (1, 2, "stage1_block1_add"), (2, 1, "stage2_block1_shortcut")):
                    add = layers[maker[f"stage{stage}_block{block}_add"]]
                    branch = maker[f"stage{stage}_block{block}_conv1" if f"stage{stage}_block{block}_conv2" in add["nodes"] else f"stage{stage}_block{block}_conv2"]
                    self.assertEqual(add["reads"], sorted({branch, maker[before]} - {add["number"]}) if maker[before] != add["number"]
                                     else sorted({branch, maker["stage1_block2_add"]}))
                read = {number for layer in layers for number in layer["reads"]}
                self.assertEqual(set(range(len(layers))) - read, {len(layers) - 1}, "only the last layer's result is the network's")

    def test_a_program_does_not_say_what_its_layers_read(self):
        with tempfile.TemporaryDirectory() as folder:
            program = str(pathlib.Path(folder) / "digits.twp")
            subprocess.run([os.environ["TILEWRIGHT"], "compile", DIGITS, "--hw", "tiny_8x8", "-o", program], cwd=SOURCES, check=True, capture_output=True)
            self.assertEqual({layer["reads"] for layer in self.document(["run", program, "--hw", "tiny_8x8"])["layers"]}, {None})

    def test_kernels_of_other_targets_are_numbered_behind_the_layers(self):
        document = self.document(["run", FLOATS, "--hw", "tiny_8x8"])
        calls = document["fallback"]["calls"]
        self.assertEqual(len(calls), document["fallback"]["kernels"])
        layers = sum(part["number"] is not None for row in document.get("layers", []) for part in row["members"] or [row])
        self.assertEqual([call["number"] for call in calls], list(range(layers, layers + len(calls))))
        self.assertTrue(any(call["reads"] for call in calls))

    def test_a_key_that_no_schema_knows_is_found(self):
        schema = without_unknown(json.loads((SCHEMAS / "run.schema.json").read_text()))
        document = self.document(COMMANDS["run"][0])
        document["machine"]["novelty"] = 1
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)


if __name__ == "__main__":
    unittest.main()
