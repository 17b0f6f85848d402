#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`compile --target gpu` and `tilewright-gpu`, as docs/gpu.md says; none of it needs a GPU."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

import onnx

SOURCE = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests/e2e/cli"))
from cli_test import CliTest  # noqa: E402

RUNNER = os.environ["TILEWRIGHT_GPU"]
NO_GPU = 77
NETWORK = """func.func @main(%x: tensor<8x64xbf16>) -> tensor<8x32xbf16> {
  %a = graph.cast %x : (tensor<8x64xbf16>) -> tensor<8x64xf32>
  %w = graph.constant dense<0.5> : tensor<64x32xf32>
  %y = graph.matmul %a, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32> loc("product")
  %o = graph.cast %y : (tensor<8x32xf32>) -> tensor<8x32xbf16>
  return %o : tensor<8x32xbf16>
}
"""


class GpuTest(CliTest):
    def setUp(self):
        super().setUp()
        self.write("net.mlir", NETWORK)

    def compiled(self):
        self.tilewright("compile", "net.mlir", "--target", "gpu", "-o", "net.gpu")
        return json.loads((self.path / "net.gpu/program.json").read_text())

    def runner(self, *arguments, status):
        result = subprocess.run([RUNNER, *map(str, arguments)], cwd=self.path, capture_output=True, timeout=100, text=True)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stderr

    def test_a_folder_has_what_a_driver_needs(self):
        program = self.compiled()
        folder = self.path / "net.gpu"
        for kernel in program["kernels"]:
            self.assertIn(f".entry {kernel['name']}(", (folder / kernel["file"]).read_text())
        self.assertEqual((folder / "weights.bin").stat().st_size, program["weights_bytes"])
        self.assertEqual([tensor["shape"] for tensor in program["inputs"]], [[8, 64]])
        self.assertEqual([tensor["element"] for tensor in program["outputs"]], ["bf16"])
        product = next(step for step in program["steps"] if "product" in step["nodes"])
        self.assertEqual(product["kind"], "matrix product")
        estimates = [variant["estimate_us"] for variant in product["variants"]]
        self.assertEqual(estimates, sorted(estimates))

    def test_equal_models_give_equal_bytes(self):
        self.compiled()
        self.tilewright("compile", "net.mlir", "--target", "gpu", "-o", "again.gpu")
        for path in sorted((self.path / "net.gpu").rglob("*")):
            if path.is_file():
                other = self.path / "again.gpu" / path.relative_to(self.path / "net.gpu")
                self.assertEqual(path.read_bytes(), other.read_bytes(), path)

    def test_code_for_sm_80_has_no_instructions_of_later_devices(self):
        self.tilewright("compile", "net.mlir", "--target", "gpu", "--gpu", "sm_80", "-o", "net.gpu")
        program = json.loads((self.path / "net.gpu/program.json").read_text())
        self.assertEqual(program["architecture"], "sm_80")
        self.assertEqual(program["maps"], [])
        kernels = [(self.path / "net.gpu" / kernel["file"]).read_text() for kernel in program["kernels"]]
        self.assertTrue(any("mma.sync.aligned.m16n8k16" in kernel for kernel in kernels))
        for kernel in kernels:
            self.assertIn(".target sm_80", kernel)
            for instruction in ("wgmma", "cp.async.bulk", "mbarrier", "griddepcontrol", "setmaxnreg", "stmatrix"):
                self.assertNotIn(instruction, kernel)
        (self.path / "net.gpu/program.json").write_text(json.dumps({**program, "architecture": "sm_70"}))
        self.assertIn('architecture is "sm_70" but must be sm_80 or sm_90a', self.runner("net.gpu", status=1))

    # What docs/gpu.md shows.
    PROGRAM = """#include "net.h"
#include <stdio.h>
int main(void) {
  static uint16_t x[8 * 64], y[8 * 32];
  net_network *network = net_load("net.gpu");
  int failed = !network || net_run(network, x, y);
  if (failed)
    fprintf(stderr, "%s\\n", net_error());
  net_free(network);
  return failed;
}
"""

    def test_a_c_program_of_ten_lines(self):
        for architecture in ("sm_80", "sm_90a"):
            with self.subTest(architecture):
                self.tilewright("compile", "net.mlir", "--target", "gpu", "--gpu", architecture, "-o", "net.gpu")
                self.write("program.c", self.PROGRAM)
                subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Inet.gpu", "program.c", "net.gpu/net.c", "-ldl", "-o", "program"],
                               cwd=self.path, check=True, timeout=100)
                result = subprocess.run(["./program"], cwd=self.path, capture_output=True, text=True, timeout=100)
                if result.returncode:
                    self.assertRegex(result.stderr, "^no GPU here")
                libraries = subprocess.run(["ldd", "./program"], cwd=self.path, capture_output=True, text=True, timeout=100).stdout
                self.assertNotRegex(libraries, "cuda|stdc|LLVM")

    def test_machine_code_where_ptxas_is(self):
        (self.path / "bin").mkdir()
        self.write("bin/ptxas", "#!/bin/sh\n[ \"$1\" = -arch=sm_80 ] && [ \"$3\" = -o ] && echo machine code >\"$4\" || { echo no such thing; exit 1; }\n")
        (self.path / "bin/ptxas").chmod(0o755)
        path = {"PATH": f"{self.path}/bin:{os.environ['PATH']}"}
        command = [os.environ["TILEWRIGHT"], "compile", "net.mlir", "--target", "gpu", "-o", "net.gpu"]
        subprocess.run([*command, "--gpu", "sm_80"], cwd=self.path, check=True, timeout=100, env={**os.environ, **path})
        self.assertEqual((self.path / "net.gpu/kernels/0.cubin").read_text(), "machine code\n")
        failing = subprocess.run(command, cwd=self.path, capture_output=True, text=True, timeout=100, env={**os.environ, **path})
        self.assertEqual(failing.returncode, 1)
        self.assertIn("ptxas fails: no such thing", failing.stderr)
        # Without it, old machine code does not stay beside new kernels.
        subprocess.run([*command, "--gpu", "sm_80"], cwd=self.path, check=True, timeout=100, env={**os.environ, "PATH": "/nowhere"})
        self.assertEqual(list((self.path / "net.gpu/kernels").glob("*.cubin")), [])

    def test_floats_are_rounded_only_when_asked(self):
        self.write("net.mlir", NETWORK.replace("bf16", "f32").replace("  %a = graph.cast %x : (tensor<8x64xf32>) -> tensor<8x64xf32>\n", "")
                   .replace("%a,", "%x,").replace("  %o = graph.cast %y : (tensor<8x32xf32>) -> tensor<8x32xf32>\n", "").replace("%o", "%y"))
        exact, _ = self.tilewright("compile", "net.mlir", "--target", "gpu", "--emit", "ptx")
        self.assertNotIn("wgmma", exact)
        fast, _ = self.tilewright("compile", "net.mlir", "--target", "gpu", "--math", "fast", "--emit", "ptx")
        self.assertIn(".f32.tf32.tf32", fast)

    def test_what_llvm_was_given(self):
        text, _ = self.tilewright("compile", "net.mlir", "--target", "gpu", "--emit", "llvm")
        self.assertIn("; kernel 0\n", text)
        self.assertIn('target triple = "nvptx64-nvidia-cuda"', text)
        self.assertIn("define void @kernel(", text)

    def test_what_is_for_other_targets_is_refused(self):
        for options, message in [(["--hw", "tiny_8x8"], "--hw is for --target accel: --gpu names the architecture of --target gpu"),
                                 (["--emit", "isa"], "--emit is 'isa' but --target gpu has import, graph, linalg, fusion, llvm and ptx"),
                                 (["--emit", "asm"], "--emit asm is for --target cpu"),
                                 (["--name", "2x"], "--name is '2x' but must be a C identifier"), (["--gpu", "sm_75"], "--gpu")]:
            self.fails("compile", "net.mlir", "--target", "gpu", *options, message=message)
        self.fails("compile", "net.mlir", "--hw", "gemmini_16x16_fp32", "--emit", "ptx", message="--emit ptx is for --target gpu")
        self.fails("compile", "net.mlir", "--hw", "gemmini_16x16_fp32", "--gpu", "sm_80", message="--gpu is for --target gpu")
        self.fails("compile", "net.mlir", "--hw", "gemmini_16x16_fp32", "--name", "x", message="--name is for --target cpu, gpu or opencl")
        self.write("file", "")
        self.fails("compile", "net.mlir", "--target", "gpu", "-o", "file", message="file")

    def test_an_operator_without_code_is_refused_in_the_name_of_the_target(self):
        tensors = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in "xy"]
        node = onnx.helper.make_node("Hardmax", ["x"], ["y"], name="choice")
        onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "net", tensors[:1], tensors[1:]),
                                         opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), str(self.path / "hardmax.onnx"))
        self.fails("compile", "hardmax.onnx", "--target", "gpu",
                   message='node "choice" (Hardmax): no target takes it: code for a GPU has no such operator')

    def test_without_a_gpu_the_runner_says_so(self):
        self.compiled()
        status = subprocess.run([RUNNER, "net.gpu"], cwd=self.path, capture_output=True, timeout=100, text=True)
        if status.returncode == 0:
            self.skipTest("there is a GPU")
        self.assertEqual(status.returncode, NO_GPU)
        self.assertIn("tilewright-gpu: no GPU here", status.stderr)

    def test_the_runner_refuses_what_is_no_program(self):
        program = self.compiled()
        path = self.path / "net.gpu/program.json"

        def refused(text, message):
            path.write_text(text if isinstance(text, str) else json.dumps(text))
            self.assertIn(message, self.runner("net.gpu", status=1))

        refused("{\n 1}", "net.gpu/program.json: line 2, column 2: this is no JSON")
        refused("[]", "net.gpu/program.json: the document is [] but must be an object")
        refused({"weights_bytes": program["weights_bytes"]}, "program.json: version is missing")
        refused({**program, "steps": 7}, "steps is 7 but must be a list")
        refused({**program, "inputs": [{**program["inputs"][0], "element": "f8"}]},
                'inputs[0].element is "f8" but must be one of f32, bf16, f16, f64, i8, i16, i32, i64, bool')
        refused({**program, "version": 2}, "version is 2 but must be 1")
        refused({**program, "memory_bytes": 16}, "memory")
        refused({**program, "steps": [{**program["steps"][0], "chosen": 99}]}, "has no variant 99")
        refused({**program, "kernels": program["kernels"][:0]}, "has no kernel")
        refused({**program, "kernels": [{"name": "kernel", "file": "../../etc/passwd"}]}, "lies outside of the folder")
        refused({**program, "inputs": [{**program["inputs"][0], "shape": [1 << 40, 1 << 40]}]}, "inputs[0].shape is")
        step = program["steps"][0]
        launch = step["variants"][0]["launches"][0]

        def launched(**changes):
            return {**program, "steps": [{**step, "chosen": 0, "variants": [{**step["variants"][0], "launches": [{**launch, **changes}]}]}]}

        for key, value, most in [("block", 2048, 1024), ("block", 0, 1024), ("cluster", 17, 8), ("shared_bytes", -1, 232448), ("kernel", 0.9, 2**32 - 1),
                                 ("grid", 2**32 + 1, 2**31 - 1)]:
            refused(launched(**{key: value}), f"steps[0].variants[0].launches[0].{key} is {json.dumps(value)} but must be a whole number from ")
        refused({**program, "memory_bytes": -1}, "memory_bytes is -1 but must be a whole number")
        if program["maps"]:
            refused({**program, "maps": [{**program["maps"][0], "box": [1] * 9}]}, "maps[0].box is [1,1,1,1,1,1,1,1,1] but must be")
        path.write_text(json.dumps(program))
        (self.path / "net.gpu/weights.bin").write_bytes(b"12")
        self.assertIn("weights.bin has 2 bytes but program.json says", self.runner("net.gpu", status=1))
        self.assertIn("a folder is needed", self.runner(status=1))
        self.assertIn("--repeat is '0' but must be from 1 to 1000000", self.runner("net.gpu", "--repeat", "0", status=1))
        self.assertIn("--copies is 'x' but must be", self.runner("net.gpu", "--copies", "x", status=1))
        self.assertIn("unknown argument '--fast'", self.runner("--fast", status=1))
        self.assertIn("--save-choice keeps what --no-choice does not time", self.runner("net.gpu", "--save-choice", "--no-choice", status=1))

    def test_a_folder_of_the_bench_is_measured_without_the_compiler(self):
        """As --compile leaves it: a stand-in for the runner says what a GPU would."""
        folder = self.path / "bench"
        (folder / "gemm-8192x8192x8192").mkdir(parents=True)
        self.write("bench/gemm-8192x8192x8192/program.json", "{}")
        self.write("bench/tilewright-gpu", "#!/bin/sh\necho 'A GPU: 1000.0 us, median of 20'\n").chmod(0o755)
        self.write("bench/bench-gpu.py", (SOURCE / "scripts/bench-gpu.py").read_bytes())
        command = [sys.executable, str(folder / "bench-gpu.py"), "--run", str(folder), "--write"]
        environment = {name: value for name, value in os.environ.items() if name != "TILEWRIGHT_GPU"}
        subprocess.run([*command, "--sm-80", "--attention"], check=True, capture_output=True, env=environment)
        page = (folder / "gpu-performance.md").read_text()
        for part in ["A GPU, ", "## Products in bfloat16 by code for sm_80", "| 8192x8192x8192 | 1100 |", "| 512x512x512 |", "| 4096 | 69 |", "Spilled registers: none."]:
            self.assertIn(part, page)
        for part in ["## Products in bfloat16\n", "## Networks"]:
            self.assertNotIn(part, page)
        (folder / "gemm-8192x8192x8192/program.json").unlink()
        failed = subprocess.run(command, capture_output=True, text=True, env=environment)
        self.assertIn("has no gemm-8192x8192x8192/program.json: --compile makes it", failed.stderr)

    def test_the_report_says_which_variant_and_why(self):
        table, _ = self.tilewright("compile", "net.mlir", "--target", "gpu", "-o", "net.gpu", "--json", "report.json", "--verbose")
        program = json.loads((self.path / "net.gpu/program.json").read_text())
        report = json.loads((self.path / "report.json").read_text())
        self.assertEqual([step["name"] for step in report["steps"]], [step["name"] for step in program["steps"]])
        product = next(step for step in report["steps"] if "product" in step["nodes"])
        self.assertEqual(product["kind"], "matrix product")
        self.assertEqual(product["variant"], product["variants"][0]["name"])
        self.assertEqual(product["why_variant"], f"least estimate of {len(product['variants'])}, not timed")
        self.assertIn(product["why_variant"], table)
        for variant in product["variants"]:
            self.assertIn(variant["name"], table)
            self.assertEqual(set(variant), {"name", "estimate_us"})
        self.fails("compile", "net.mlir", "--hw", "tiny_8x8", "--json", "x.json", message="--json is for --target gpu")
        self.fails("compile", "net.mlir", "--target", "gpu", "--emit", "ptx", "--verbose",
                   message="--json and --verbose are for the folder of --target gpu, without --emit")

    def test_compiling_again_leaves_no_kernels_of_the_earlier_program(self):
        self.compiled()
        kernels = self.path / "net.gpu/kernels"
        (kernels / "mine.ptx").write_text("")
        self.assertIn("1.ptx", os.listdir(kernels))
        self.write("net.mlir", "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
                   "  %y = graph.relu %x : tensor<4xf32>\n  return %y : tensor<4xf32>\n}\n")
        program = self.compiled()
        self.assertEqual(len(program["kernels"]), 1)
        self.assertEqual(sorted(set(os.listdir(kernels)) - {"0.cubin"}), ["0.ptx", "mine.ptx"])

    def test_a_float16_network_is_of_float16(self):
        self.write("net.mlir", NETWORK.replace("bf16", "f16"))
        program = self.compiled()
        self.assertEqual([tensor["element"] for tensor in program["inputs"] + program["outputs"]], ["f16", "f16"])
        text, _ = self.tilewright("compile", "net.mlir", "--target", "gpu", "--emit", "ptx")
        self.assertIn(".f32.f16.f16", text)

    def test_the_commands_of_the_page_run(self):
        (self.path / "net.mlir").rename(self.path / "model.mlir")
        commands = [line.split() for line in (SOURCE / "docs/gpu.md").read_text().splitlines() if line.startswith("tilewright")]
        self.assertEqual(len(commands), 8)
        for command in commands:
            command = [word.replace("model.onnx", "model.mlir") for word in command]
            if command[0] == "tilewright":
                self.tilewright(*command[1:])
            else:
                result = subprocess.run([RUNNER, *command[1:]], cwd=self.path, capture_output=True, timeout=100)
                self.assertIn(result.returncode, [0, NO_GPU], result.stderr)


if __name__ == "__main__":
    unittest.main()
