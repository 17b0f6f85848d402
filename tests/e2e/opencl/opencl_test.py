#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`--target opencl` of run, compare and compile, as docs/opencl.md says, on the first device.

Environment: TILEWRIGHT is the binary, TILEWRIGHT_SOURCE_DIR the source tree.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import numpy as np
import onnx
import onnx.parser

try:
    import jsonschema
except ImportError:
    jsonschema = None

SOURCE = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests/e2e/cli"))
from cli_test import BINARY, CliTest  # noqa: E402

DIGITS = SOURCE / "tests/data/digits"
DOCUMENT = (SOURCE / "docs/opencl.md").read_text()


def skip(why):
    """ctest sees the line and calls the whole entry skipped."""
    print(f"skipped: {why}", file=sys.stderr)
    raise unittest.SkipTest(why)


class OpenClTest(CliTest):
    def setUp(self):
        super().setUp()
        result = subprocess.run([BINARY, "run", "gemm:1x1x1:fp32", "--target", "opencl"], capture_output=True, text=True, timeout=300)
        if "no OpenCL here" in result.stderr:
            skip(result.stderr.strip() + " (scripts/setup.sh opencl)")

    def save(self, name, values):
        np.save(self.path / name, values)
        return name


class RunTest(OpenClTest):
    def test_networks_of_every_type_give_the_stored_results(self):
        """The first twelve images; the types are those of docs/opencl.md."""
        images = self.save("images.npy", np.load(DIGITS / "images.npy")[:12])
        for form in ["fp32", "int8_qdq"]:
            expected = self.save("logits.npy", np.load(DIGITS / f"logits_{form}.npy")[:12])
            out, _ = self.tilewright("run", DIGITS / f"digits_{form}.onnx", "--target", "opencl", "--input", images, "--batch",
                                     "--expect", expected, "--output-dir", "out")
            self.assertRegex(out, r"on .*: \d+ kernels, [\d.]+ ms for 12 inputs")
            self.assertEqual(np.load(self.path / "out/logits.npy").shape, (12, 10))

    def test_integers_are_those_of_the_cpu(self):
        out, _ = self.tilewright("compare", DIGITS / "digits_int8_qdq.onnx", "--targets", "cpu,opencl", "--repeat", "2", "--json", "report.json")
        report = json.loads((self.path / "report.json").read_text())
        self.assertEqual([row["name"] for row in report["rows"]], ["cpu", "opencl"])
        self.assertGreater(report["rows"][1]["milliseconds"]["median"], 0)
        self.assertIn("runs, without copies", report["rows"][1]["how"])
        self.assertEqual(report["agreement"][0]["differing"], 0)

    def test_narrow_floats(self):
        for kind in ["bf16", "fp32", "int8"]:
            out, _ = self.tilewright("compare", f"conv:1x9x9x24:3x3x40:s2:p1:{kind}", "--targets", "cpu,opencl", "--repeat", "1")
            self.assertIn("the results agree", out)

    def test_a_block_of_a_transformer(self):
        subprocess.run([SOURCE / "scripts/networks.py", self.path, "bert_block"], check=True, timeout=100)
        out, _ = self.tilewright("compare", "bert_block.onnx", "--targets", "cpu,opencl", "--repeat", "1")
        self.assertIn("the results agree", out)

    def test_an_index_out_of_range(self):
        self.write("net.mlir", "func.func @main(%x: tensor<1x5x3xf32>, %i: tensor<1x2x1xi64>) -> tensor<1x2x3xf32> {\n  %y = graph.gather %x, %i : "
                   "(tensor<1x5x3xf32>, tensor<1x2x1xi64>) -> tensor<1x2x3xf32>\n  return %y : tensor<1x2x3xf32>\n}\n")
        table = np.arange(15, dtype=np.float32).reshape(1, 5, 3)
        run = ["run", "net.mlir", "--target", "opencl", "--input", self.save("x.npy", table), "--input", "i.npy"]
        self.save("i.npy", np.array([[[4], [-5]]]))
        self.save("y.npy", table[:, [4, 0]])
        self.tilewright(*run, "--expect", "y.npy", "--tolerance", "0")
        self.save("i.npy", np.array([[[4], [5]]]))
        self.fails(*run, message="index 5 is out of range for a dim of 5")

    def test_json(self):
        """What programs read: the device, what runs there, and what the table says, in the form of the schema."""
        images = self.save("images.npy", np.load(DIGITS / "images.npy")[:2])
        expected = self.save("logits.npy", np.load(DIGITS / "logits_fp32.npy")[:2])
        run = ["run", DIGITS / "digits_fp32.onnx", "--target", "opencl", "--input", images, "--batch", "--expect", expected]
        out, _ = self.tilewright(*run, "--json", "report.json", "--output-dir", "out")
        report = json.loads((self.path / "report.json").read_text())
        if jsonschema:
            jsonschema.validate(report, json.loads((SOURCE / "runtime/schemas/run.schema.json").read_text()))
        use = report["opencl"]
        self.assertIn(f"on {use['device']} ({use['platform']}): {use['kernels']} kernels, {use['measured_seconds'] * 1e3:.3f} ms for 2 inputs", out)
        self.assertEqual((report["batch"], use["runs"], report["targets"]), (2, 1, ["opencl", "cpu"]))
        self.assertLessEqual({entry["target"] for entry in report["offload"]}, {"opencl", "folded"})
        self.assertEqual(report["fallback"]["devices"], ["the OpenCL device"])
        self.assertEqual([(entry["name"], entry["shape"]) for entry in report["outputs"]], [("logits", [2, 10])])
        self.assertTrue(report["comparisons"][0]["within_tolerance"])
        out, _ = self.tilewright(*run, "--json", "-")
        self.assertEqual(json.loads(out)["opencl"]["kernels"], use["kernels"])

    def test_nodes_that_only_the_host_evaluates(self):
        """The device runs what lies before and behind them; a library, which has no host to ask, is refused by name."""
        x, w = np.random.RandomState(1).standard_normal((2, 8, 8)).astype(np.float32)
        places = np.array([[6], [1]])
        model = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["" : 16]>
            g (float[8,8] x, float[8,8] w, int64[2,1] places, float[2,8] rows) => (float[8,8] y) {
              product = MatMul (x, w)
              positive = Relu (product)
              written = ScatterND (positive, places, rows)
              y = MatMul (written, w)
            }''')
        for name, node in zip(["first", "relu", "scatter", "last"], model.graph.node):
            node.name = name
        onnx.save(model, self.path / "net.onnx")
        written = np.maximum(x @ w, 0)
        written[places[:, 0]] = x[:2]
        tensors = {"x": x, "w": w, "places": places, "rows": x[:2], "y": written @ w}
        files = {name: self.save(name + ".npy", values) for name, values in tensors.items()}
        inputs = [word for name in ["x", "w", "places", "rows"] for word in ("--input", f"{name}={files[name]}")]
        out, _ = self.tilewright("run", "net.onnx", "--target", "opencl", *inputs, "--expect", files["y"], "--json", "report.json")
        self.assertIn("2 kernels in 2 runs", out)
        self.assertRegex(out, r"scatter on cpu: .+")
        report = json.loads((self.path / "report.json").read_text())
        self.assertEqual({entry["node"]: entry["target"] for entry in report["offload"]},
                         {"first": "opencl", "relu": "opencl", "scatter": "cpu", "last": "opencl"})
        self.assertEqual([call["target"] for call in report["fallback"]["calls"]], ["opencl", "cpu", "opencl"])
        compared, _ = self.tilewright("compare", "net.onnx", *inputs, "--targets", "cpu,opencl", "--repeat", "1")
        self.assertIn("the results agree", compared)
        self.fails("run", "net.onnx", "--target", "opencl", *inputs, "--fallback", "none", message=["opencl does not take 1 node", "scatter"])
        self.fails("compile", "net.onnx", "--target", "opencl", "-o", "lib", message=['"scatter"', "no code is made for"])

    def test_a_device_by_number(self):
        first, _ = self.tilewright("run", "gemm:8x8x8:fp32", "--target", "opencl", "--device", "0")
        again, _ = self.tilewright("run", "gemm:8x8x8:fp32", "--target", "opencl")
        self.assertEqual(re.sub(r"[\d.]+ (ms|s|MiB)", "", first), re.sub(r"[\d.]+ (ms|s|MiB)", "", again))


class BundleTest(OpenClTest):
    def program(self, name, text):
        """Compiles and links as a user does: with the C compiler, the loader, and libOpenCL."""
        if not pathlib.Path("/usr/include/CL/cl.h").exists() or not shutil.which("cc"):
            skip("scripts/setup.sh opencl installs what C programs for OpenCL are made with")
        self.write("program.c", text)
        command = ["cc", "-Wall", "-Wextra", "-Werror", "-Ilib", "program.c", f"lib/{name}.c", "-lOpenCL", "-o", "program"]
        result = subprocess.run(command, cwd=self.path, capture_output=True, text=True, timeout=100)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_ten_lines_of_the_document(self):
        text = re.search(r"```c\n(.*?)```", DOCUMENT, re.S).group(1)
        self.assertLessEqual(len(text.splitlines()), 12)
        images = np.load(DIGITS / "images.npy")[:3].astype(np.float32)
        # Kernels for either type of device run on any.
        for form, kind in [("fp32", "cpu"), ("int8_qdq", "gpu")]:
            self.tilewright("compile", DIGITS / f"digits_{form}.onnx", "--target", "opencl", "--device-type", kind, "--name", "digits", "-o", "lib")
            self.assertEqual("barrier(" in (self.path / "lib/digits.cl").read_text(), kind == "gpu")
            self.assertEqual(sorted(os.listdir(self.path / "lib")), ["digits.c", "digits.cl", "digits.h", "digits.weights.bin"])
            self.program("digits", text)
            result = subprocess.run(["./program"], cwd=self.path, input=images.tobytes(), capture_output=True, timeout=200)
            self.assertEqual(result.returncode, 0, result.stderr)
            expected = np.load(DIGITS / f"logits_{form}.npy")[:3]
            # Sums in another order; a step of the int8 network is 0.0357, and ties may be rounded the other way by float arithmetic.
            np.testing.assert_allclose(np.frombuffer(result.stdout, np.float32).reshape(-1, 10), expected, rtol=0,
                                       atol=1e-5 * np.ptp(expected) if form == "fp32" else 0.036)

    def test_errors_of_the_loader(self):
        self.tilewright("compile", "gemm:8x8x8:fp32", "--target", "opencl", "--name", "product", "-o", "lib")
        self.program("product", '#include "product.h"\n#include <stdio.h>\nint main(int count, char **words) {\n'
                     "  product_network *network = product_open(words[1], count > 2 ? words[2] : NULL);\n"
                     "  printf(\"%s\\n\", network ? \"opened\" : product_error());\n  product_close(network);\n  return !network;\n}\n")

        def says(*words):
            return subprocess.run(["./program", *words], cwd=self.path, capture_output=True, text=True, timeout=200).stdout
        self.assertEqual(says("lib"), "opened\n")
        self.assertIn("there is no device 'abacus'", says("lib", "abacus"))
        (self.path / "lib/product.weights.bin").write_bytes(b"few")
        self.assertRegex(says("lib"), r"product.weights.bin has 3 bytes, not \d+")
        (self.path / "lib/product.weights.bin").unlink()
        self.assertIn("cannot read lib/product.weights.bin", says("lib"))

    def test_equal_models_give_equal_bytes(self):
        for folder in ["one", "two"]:
            self.tilewright("compile", DIGITS / "digits_int8_qdq.onnx", "--target", "opencl", "-o", folder)
        for file in (self.path / "one").iterdir():
            self.assertEqual(file.read_bytes(), (self.path / "two" / file.name).read_bytes(), file.name)

    def test_the_text_of_the_kernels(self):
        text, _ = self.tilewright("compile", DIGITS / "digits_fp32.onnx", "--target", "opencl", "--emit", "cl")
        self.assertIn("#pragma OPENCL FP_CONTRACT OFF", text)
        self.assertIn("__kernel", text)
        self.assertIn("// matrix product: stem", text)


class RefusalTest(OpenClTest):
    def test_what_is_refused(self):
        run = ["run", "gemm:8x8x8:fp32", "--target", "opencl"]
        self.fails(*run, "--device", "no such device", message=["--device is 'no such device'", "0: "], status=1)
        self.fails(*run, "--hw", "tiny_8x8", message="--hw is for the accelerator")
        self.fails(*run, "--trace", "trace.json", message="--trace is for the accelerator")
        self.fails(*run, "--schedule", "search", message="--schedule is for the accelerator")
        self.fails("run", "gemm:8x8x8:fp32", "--device", "0", message="--device is for --target opencl")
        self.fails("compare", "gemm:8x8x8:fp32", "--targets", "cpu", "--device", "0", message="--device is for target opencl")
        compile = ["compile", "gemm:8x8x8:fp32", "--target", "opencl"]
        self.fails(*compile, "--emit", "asm", message="--emit asm is for --target cpu")
        self.fails(*compile, "--hw", "tiny_8x8", message="--hw is for --target accel")
        self.fails(*compile, "--device-type", "abacus", message="--device-type")
        self.fails("compile", "gemm:8x8x8:fp32", "--target", "cpu", "--device-type", "cpu", message="--device-type is for --target opencl")
        self.fails(*compile, "-o", "-", message="must be a folder")
        self.fails(*compile, "--name", "int", message="--name is 'int'")
        self.fails("compile", "gemm:8x8x8:fp32", "--target", "cpu", "--emit", "cl", message="--emit is 'cl'")

    def test_a_host_without_a_platform(self):
        environment = {**os.environ, "OCL_ICD_VENDORS": str(self.path / "none")}
        result = subprocess.run([BINARY, "run", "gemm:8x8x8:fp32", "--target", "opencl"], env=environment, capture_output=True, text=True, timeout=100)
        self.assertEqual(result.returncode, 1)
        self.assertIn("no OpenCL here: the loader knows no platform", result.stderr)
        result = subprocess.run([BINARY, "compare", "gemm:8x8x8:fp32", "--targets", "cpu,opencl"], env=environment, capture_output=True, text=True, timeout=100)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("not measured: no OpenCL here", result.stdout)


if __name__ == "__main__":
    unittest.main()
