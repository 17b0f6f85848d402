#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every JSON document is as its schema says: it names the schema with its version, has every key that the schema requires and none that the
schema does not know."""
import json
import os
import pathlib
import subprocess
import sys
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

COMMANDS = {
    "run": [["run", DIGITS, "--hw", "tiny_8x8"], ["run", DIGITS, "--hw", "gemmini_16x16_int8", "--schedule", "search", "--search-budget", "4"],
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

    def test_a_key_that_no_schema_knows_is_found(self):
        schema = without_unknown(json.loads((SCHEMAS / "run.schema.json").read_text()))
        document = self.document(COMMANDS["run"][0])
        document["machine"]["novelty"] = 1
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)


if __name__ == "__main__":
    unittest.main()
