#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs `tilewright compare` as a user would: targets, external runtimes, the tables, the JSON document, and what is refused.

Environment: TILEWRIGHT is the binary, TILEWRIGHT_SOURCE_DIR the source tree, STAND_IN_ORT the library of StandInOrt.c,
OTHER_LIBRARY one of something else. TILEWRIGHT_ORT and TILEWRIGHT_DNNL, if set, are the libraries of ONNX Runtime and oneDNN; else the loader looks
for them.
"""

import ctypes
import json
import os
import shutil
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from onnx import helper

BINARY = os.environ["TILEWRIGHT"]
SOURCE = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])
STAND_IN = os.environ["STAND_IN_ORT"]
OTHER = os.environ["OTHER_LIBRARY"]
DIGITS = SOURCE / "tests/data/digits"
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "scripts"))
import networks  # noqa: E402


def library(variable, name):
    """Options that say where a library is; None if it is nowhere."""
    path = os.environ.get(variable)
    try:
        ctypes.CDLL(path or name)
    except OSError:
        return None
    return [f"--{variable.split('_')[1].lower()}", path] if path else []


ORT = library("TILEWRIGHT_ORT", "libonnxruntime.so.1")
DNNL = library("TILEWRIGHT_DNNL", "libdnnl.so.2")


class CompareCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def compare(self, *arguments, status=0, **environment):
        """Runs it in an empty folder with one thread and one round. Returns standard output and standard error."""
        command = [BINARY, "compare", *map(str, arguments)]
        for option in ("--repeat", "--threads"):
            if option not in arguments:
                command += [option, "1"]
        result = subprocess.run(command, cwd=self.path, capture_output=True, timeout=300, env={**os.environ, **environment})
        out, err = result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace")
        self.assertEqual(result.returncode, status, f"{arguments}\n{out}\n{err}")
        return out, err

    def document(self, *arguments, **others):
        return json.loads(self.compare(*arguments, "--json", "-", **others)[0])

    def refuses(self, *arguments, message, **environment):
        out, err = self.compare(*arguments, status=1, **environment)
        for text in [message] if isinstance(message, str) else message:
            self.assertIn(text, err)
        self.assertEqual(out, "")

    def network(self, name, build, **sizes):
        graph = networks.Graph(name, seed=1)
        build(graph, **sizes)
        (self.path / f"{name}.onnx").write_bytes(graph.model())
        return f"{name}.onnx"

    def residual(self):
        return self.network("residual", networks.resnet, block=networks.basic_block, depths=[2, 1], image=32, width=16)


class TargetTest(CompareCase):
    def test_the_cpu_needs_no_machine(self):
        out, _ = self.compare("gemm:8x8x8:fp32", "--targets", "cpu")
        self.assertRegex(out, r"(?m)^cpu +\d+\.\d{4} +\d+\.\d{4} +\d+\.\d % +\d+\.\d{4} +\d+\.\d\d +\d+\.\d % +\d+  measured: \d+ runs? in 1 round, 1 thread$")
        self.assertRegex(out, r"peak: cpu \d+\.\d GMAC/s \(fp32, .*, measured\)")
        for text in ["accel", "simulated", "agree"]:
            self.assertNotIn(text, out)

    def test_the_accelerator_alone(self):
        out, _ = self.compare("gemm:64x64x64:int8", "--hw", "tiny_8x8", "--targets", "accel")
        self.assertRegex(out, r"(?m)^accel +\d+\.\d{4} +- +- +- +\d+\.\d\d +\d+\.\d % +-  simulated: [\d,]+ cycles at \d+ MHz on ")
        self.assertNotIn("cpu", out)

    def test_a_program_has_an_accelerator_only(self):
        subprocess.run([BINARY, "compile", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "-o", "gemm.twp"], cwd=self.path, check=True)
        self.assertIn("simulated", self.compare("gemm.twp", "--hw", "tiny_8x8", "--targets", "accel")[0])
        self.refuses("gemm.twp", "--hw", "tiny_8x8", message="is a program for an accelerator and cannot run on the CPU")

    def test_times_and_rates_belong_together(self):
        report = self.document("gemm:64x96x128:int8", "--hw", "gemmini_16x16_int8", "--repeat", "3")
        self.assertEqual([row["name"] for row in report["rows"]], ["accel", "cpu"])
        for row in report["rows"]:
            self.assertEqual(row["macs"], 64 * 96 * 128)
            self.assertAlmostEqual(row["gmac_per_second"] * row["milliseconds"]["median"] * 1e6, row["macs"], delta=1)
            self.assertAlmostEqual(row["share_of_peak"] * row["peak_gmac_per_second"], row["gmac_per_second"], places=6)
            self.assertLessEqual(row["milliseconds"]["minimum"], row["milliseconds"]["median"])
        accelerator, cpu = report["rows"]
        self.assertTrue(accelerator["simulated"])
        self.assertAlmostEqual(accelerator["cycles"] / accelerator["clock_mhz"] / 1e3, accelerator["milliseconds"]["median"])
        # 256 products in a cycle.
        self.assertAlmostEqual(accelerator["peak_gmac_per_second"], 256 * accelerator["clock_mhz"] / 1e3)
        self.assertIsNone(accelerator["cpu_milliseconds"])
        self.assertFalse(cpu["simulated"])
        self.assertGreaterEqual(cpu["runs"], 3)
        self.assertEqual((report["rounds"], report["threads"]), (3, 1))

    def test_macs_of_a_network_do_not_count_the_padding(self):
        # 3x3 windows with padding 1 on 4x4: corners have 4 products, borders 6, the inside 9.
        report = self.document("conv:1x4x4x2:3x3x5:s1:p1:fp32", "--targets", "cpu")
        self.assertEqual(report["rows"][0]["macs"], (4 * 4 + 8 * 6 + 4 * 9) * 2 * 5)

    def test_every_pair_with_values_is_compared(self):
        report = self.document(DIGITS / "digits_int8_qdq.onnx", "--hw", "gemmini_16x16_int8")
        (agreement,) = report["agreement"]
        self.assertEqual((agreement["first"], agreement["second"], agreement["output"]), ("accel", "cpu", "logits"))
        self.assertTrue(agreement["within_tolerance"])
        self.assertEqual(agreement["tolerance"]["of_range"], 0.02)
        self.assertTrue(agreement["tolerance"]["reason"])

    def test_fast_math_is_judged_as_bfloat16(self):
        report = self.document("gemm:64x64x256:fp32", "--hw", "gemmini_16x16_fp32", "--math", "fast")
        (agreement,) = report["agreement"]
        self.assertTrue(agreement["within_tolerance"], agreement)
        self.assertEqual(agreement["tolerance"]["of_range"], 0.03)
        self.assertEqual(report["math"], "fast")
        self.assertIn("math: fast\n", self.compare("gemm:8x8x8:fp32", "--targets", "cpu", "--math", "fast")[0])

    def test_inputs_are_given(self):
        np.save(self.path / "x.npy", np.zeros((8, 8), np.float32))
        for targets in ["cpu", "accel", "accel,cpu"]:
            machine = ["--hw", "gemmini_16x16_fp32"] if "accel" in targets else []
            out, _ = self.compare("gemm:8x8x8:fp32", *machine, "--targets", targets, "--input", "x.npy")
            self.assertNotIn("random inputs", out)
        self.refuses("gemm:8x8x8:fp32", "--targets", "cpu", "--input", "z=x.npy", message="the network has no input 'z', only: x")

    def test_layers_are_joined_by_their_nodes(self):
        report = self.document(self.residual(), "--hw", "gemmini_16x16_fp32", "--layers")
        both = [layer for layer in report["layers"] if layer["accelerator_layers"] and layer["cpu_kernels"]]
        self.assertTrue(both)
        for layer in both:
            self.assertTrue(layer["nodes"])
            self.assertGreater(layer["cpu_microseconds"], 0)
        named = [node for layer in report["layers"] for node in layer["nodes"]]
        self.assertEqual(len(named), len(set(named)), "a node stands in one row")
        cycles = sum(layer["accelerator_cycles"] or 0 for layer in report["layers"])
        self.assertEqual(cycles, report["rows"][0]["cycles"], "cycles of the layers sum to the total")

    def test_the_table_of_layers(self):
        out, _ = self.compare(DIGITS / "digits_int8_qdq.onnx", "--hw", "gemmini_16x16_int8", "--layers")
        self.assertRegex(out, r"(?m)^accelerator layers +cycles +us +CPU us +CPU kernels$")
        out, _ = self.compare("gemm:8x8x8:fp32", "--targets", "cpu", "--layers")
        self.assertRegex(out, r"(?m)^- +- +- +\d+\.\d\d  gemm$")

    def test_json_beside_the_table(self):
        out, _ = self.compare("gemm:8x8x8:fp32", "--targets", "cpu", "--json", "report.json")
        self.assertIn("measured", out)
        self.assertEqual(json.loads((self.path / "report.json").read_text())["model"], "gemm:8x8x8:fp32")

    def test_what_is_refused(self):
        kernel = "gemm:8x8x8:fp32"
        self.refuses(kernel, message=["target accel needs a machine", "--hw", "--targets cpu"])
        self.refuses(kernel, "--targets", "cpu,npu", message="--targets: 'npu' is none of accel, cpu, gpu, opencl")
        self.refuses(kernel, "--targets", "cpu", "--hw", "tiny_8x8", message="--hw is for target accel, which --targets leaves out")
        if not pathlib.Path("/proc/driver/nvidia").exists():
            self.assertIn("target gpu is not measured: no GPU here", self.compare(kernel, "--targets", "gpu", status=1)[1])
        self.refuses(kernel, "--targets", "cpu,cpu", message="--targets names 'cpu' twice")
        self.refuses(kernel, "--targets", "cpu", "--repeat", "0", message="--repeat")
        self.refuses(kernel, "--targets", "cpu", "--threads", "0", message="--threads")
        self.refuses(kernel, "--targets", "cpu", "--json", "none/report.json", message="none/report.json")
        self.refuses("none.onnx", "--targets", "cpu", message="none.onnx")


class ExternalTest(CompareCase):
    """With a library that stands in for ONNX Runtime: its result is 0 everywhere."""

    KERNEL = ["gemm:8x8x8:fp32", "--targets", "cpu", "--external", "ort", "--ort", STAND_IN]

    def test_another_result_is_an_error_that_names_both(self):
        out, err = self.compare(*self.KERNEL, status=1)
        self.assertRegex(out, r"(?m)^ort .* measured: ONNX Runtime 0\.0\.stand-in, \d+ runs? in 1 round, 1 thread$")
        self.assertIn("the results disagree", out)
        self.assertIn("cpu and ort disagree: output 'y'", err)

    def test_zeros_for_zeros(self):
        np.save(self.path / "x.npy", np.zeros((8, 8), np.float32))
        out, _ = self.compare(*self.KERNEL, "--input", "x.npy")
        self.assertIn("cpu and ort: output 'y'", out)
        self.assertIn("the results agree", out)

    def test_every_pair_is_compared(self):
        np.save(self.path / "x.npy", np.zeros((8, 8), np.float32))
        report = self.document("gemm:8x8x8:fp32", "--hw", "gemmini_16x16_fp32", "--external", "ort", "--ort", STAND_IN, "--input", "x.npy")
        self.assertEqual([(pair["first"], pair["second"]) for pair in report["agreement"]], [("accel", "cpu"), ("accel", "ort"), ("cpu", "ort")])

    def test_a_shape_that_only_a_run_knows(self):
        graph = helper.make_graph([helper.make_node("NonZero", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", 1, [4])],
                                  [helper.make_tensor_value_info("y", 7, [1, None])])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        (self.path / "m.onnx").write_bytes(model.SerializeToString())
        self.refuses("m.onnx", *self.KERNEL[1:], message="m.onnx: 'y' has a shape that only a run knows")

    def test_the_library_is_not_replaced_by_the_report(self):
        library = self.path / "library.so"
        shutil.copy(STAND_IN, library)
        before = library.read_bytes()
        self.refuses(*self.KERNEL[:-1], library, "--json", library, message=["cannot write", "library.so", "input"])
        self.assertEqual(library.read_bytes(), before)

    def test_a_runtime_that_is_not_there(self):
        kernel = ["gemm:8x8x8:fp32", "--targets", "cpu"]
        self.refuses(*kernel, "--external", "mkl", message="--external: 'mkl' is none of ort, dnnl, torch")
        self.refuses(*kernel, "--external", "ort", "--ort", "none.so",
                     message=["--ort is 'none.so' but must be the shared library of ONNX Runtime", "none.so: cannot open shared object file"])
        (self.path / "text.so").write_text("no library")
        self.refuses(*kernel, "--external", "ort", "--ort", "text.so", message=["--ort is 'text.so'", "file too short"])
        self.refuses(*kernel, "--external", "dnnl", "--dnnl", STAND_IN, message="is not oneDNN 2 built with OpenMP: it has no function dnnl_version")
        self.refuses(*kernel, "--external", "ort", "--ort", OTHER, message="is not ONNX Runtime: it has no function OrtGetApiBase")
        self.refuses(*kernel, "--external", "torch", "--python", "none", message=["PyTorch is not there: 'none", "--python"])
        self.refuses(*kernel, "--ort", STAND_IN, message="--ort is for --external ort, which is not asked for")

    @unittest.skipIf(ORT == [], "the loader finds an ONNX Runtime")
    def test_without_a_path_the_loader_looks(self):
        self.refuses("gemm:8x8x8:fp32", "--targets", "cpu", "--external", "ort",
                     message=["ONNX Runtime is not there: looked for libonnxruntime.so.1 in the loader's path", "--ort"])

    def test_what_the_library_says(self):
        self.refuses(*self.KERNEL, STAND_IN_OLD="1", message="is ONNX Runtime 0.0.stand-in, expected 1.14 or newer")
        self.refuses(*self.KERNEL, STAND_IN_REFUSES="no such operator", message="gemm:8x8x8:fp32: ONNX Runtime: no such operator")
        self.refuses(*self.KERNEL, STAND_IN_INPUTS="2", message="ONNX Runtime sees 2 inputs where our compiler sees 1")

    def test_models_that_a_runtime_cannot_take(self):
        (self.path / "net.mlir").write_text("""func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.relu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
""")
        cpu = ["--targets", "cpu"]
        self.refuses("net.mlir", *cpu, "--external", "ort", message="--external ort cannot run 'net.mlir': ONNX Runtime takes ONNX files and inline kernels")
        self.refuses("gemm:8x8x8:bf16", *cpu, "--external", "ort", message="has no bf16 products")
        self.refuses("gemm:8x8x8:int8", *cpu, "--external", "torch", message="no int8 product")
        for name in ["dnnl", "torch"]:
            self.refuses(DIGITS / "digits_fp32.onnx", *cpu, "--external", name, message=f"--external {name} cannot run")


@unittest.skipIf(ORT is None, "ONNX Runtime is not installed and TILEWRIGHT_ORT does not name its library")
class OnnxRuntimeTest(CompareCase):
    """The layout of the table of functions, and the numbers of every form that we write for it."""

    def agrees(self, model, *options, differing=None):
        report = self.document(model, "--targets", "cpu", "--external", "ort", *(ORT or []), *options)
        self.assertTrue(all(pair["within_tolerance"] for pair in report["agreement"]), report["agreement"])
        if differing is not None:
            self.assertEqual(sum(pair["differing"] for pair in report["agreement"]), differing)
        return report

    def test_products_of_integers_are_equal(self):
        for kernel in ["gemm:33x47x65:int8", "conv:2x9x11x8:3x3x12:s2:p1:int8", "conv:1x8x8x16:3x3x16:s1:p1:g16:int8", "conv:1x8x8x8:3x3x4:s1:p1:g2:int8"]:
            self.agrees(kernel, differing=0)

    def test_products_of_floats(self):
        for kernel in ["gemm:33x47x65:fp32", "conv:2x9x11x8:3x3x12:s2:p1:fp32", "conv:1x8x8x16:3x3x16:s1:p1:g16:fp32"]:
            self.agrees(kernel)

    def test_networks(self):
        self.agrees(self.residual())
        self.agrees(DIGITS / "digits_int8_qdq.onnx")

    def test_what_quantize_writes(self):
        for model in [self.residual(), self.network("attention", networks.bert_block, sequence=16, hidden=32, heads=2, inner=64)]:
            for form in ["fused", "portable"]:
                subprocess.run([BINARY, "quantize", model, "--calibration", "random:1", "--samples", "2", "--form", form, "-o", "q.onnx"], cwd=self.path, check=True,
                               stdout=subprocess.DEVNULL)
                self.agrees("q.onnx")

    def test_more_threads(self):
        report = self.agrees("gemm:64x64x64:fp32", "--threads", "2")
        self.assertIn("2 threads", report["rows"][1]["how"])


@unittest.skipIf(DNNL is None, "oneDNN is not installed (package libdnnl2) and TILEWRIGHT_DNNL does not name its library")
class OneDnnTest(CompareCase):
    def test_products(self):
        for kernel in ["gemm:33x47x65:TYPE", "conv:2x9x11x8:3x3x12:s2:p1:TYPE", "conv:1x8x8x16:3x3x16:s1:p1:g16:TYPE"]:
            for element in ["fp32", "bf16", "int8"]:
                with self.subTest(kernel=kernel, element=element):
                    report = self.document(kernel.replace("TYPE", element), "--targets", "cpu", "--external", "dnnl", *(DNNL or []))
                    self.assertTrue(all(pair["within_tolerance"] for pair in report["agreement"]), report["agreement"])


# Computes with NumPy what the worker asks of PyTorch.
STAND_IN_TORCH = '''
import contextlib
import numpy as np
float32, bfloat16, int16, int32 = np.float32, "bfloat16", np.int16, np.int32
__version__ = "0.stand-in"
set_num_threads = lambda count: None
frombuffer = lambda data, dtype: Tensor(np.frombuffer(bytes(data), dtype))
no_grad = contextlib.nullcontext
matmul = lambda a, b: Tensor(a.values @ b.values)
class nn:
    class functional:
        def conv2d(x, w, stride, padding, groups):
            x, w = np.pad(x.values, [(0, 0), (0, 0), (padding, padding), (padding, padding)]), w.values
            parts = []
            for xs, ws in zip(np.split(x, groups, 1), np.split(w, groups, 0)):
                windows = np.lib.stride_tricks.sliding_window_view(xs, ws.shape[2:], (2, 3))[:, :, ::stride, ::stride]
                parts.append(np.einsum("nchwij,ocij->nohw", windows, ws))
            return Tensor(np.ascontiguousarray(np.concatenate(parts, 1), np.float32))
class Tensor:
    def __init__(self, values): self.values = values
    def reshape(self, shape): return Tensor(self.values.reshape(shape))
    def contiguous(self): return self
    def view(self, dtype): return Tensor(self.values.view(dtype))
    def numpy(self): return self.values
'''


class TorchTest(CompareCase):
    """With a module that stands in for torch, since few machines have it."""

    def test_a_product(self):
        (self.path / "torch.py").write_text(STAND_IN_TORCH)
        for kernel in ["gemm:5x7x9:fp32", "conv:2x9x11x8:3x5x12:s2:p1:fp32", "conv:1x8x8x8:3x3x16:s1:p1:g4:fp32"]:
            out, _ = self.compare(kernel, "--targets", "cpu", "--external", "torch", "--python", sys.executable, PYTHONPATH=str(self.path))
            self.assertIn("measured: PyTorch 0.stand-in,", out)
            self.assertIn("the results agree", out)

    def test_a_python_without_torch(self):
        (self.path / "torch.py").write_text("raise ImportError('none here')")
        self.refuses("gemm:5x7x9:fp32", "--targets", "cpu", "--external", "torch", "--python", sys.executable, PYTHONPATH=str(self.path),
                     message=["cannot import torch (ImportError: none here)", "--python"])


class DocumentTest(CompareCase):
    """The commands of docs/compare.md, run as they stand there."""

    def test_commands(self):
        text = (SOURCE / "docs/compare.md").read_text()
        commands = [line for block in re.findall(r"```\n(.*?)```", text, re.S) for line in block.splitlines() if line.startswith("tilewright compare ")]
        self.assertGreaterEqual(len(commands), 3)
        names = {"squeezenet.onnx": self.residual()}
        for command in commands:
            if "[" in command:
                continue
            arguments = [names.get(word, word) for word in command.split("#")[0].split()[2:]]
            if "--external" in arguments:
                name = arguments[arguments.index("--external") + 1]
                options = {"ort": ORT, "dnnl": DNNL}.get(name)
                if options is None:
                    continue
                arguments += options
            self.compare(*arguments)


if __name__ == "__main__":
    unittest.main()
