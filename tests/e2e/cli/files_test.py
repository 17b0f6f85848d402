#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files of a command: what is read, what is written, and what --expect makes of a difference (docs/files.md)."""

import json
import os
import pathlib
import shutil
import subprocess
import unittest

import numpy as np

from cli_test import BINARY, COPY, DIGITS, NETWORK, OK, SOURCE, USER, CliTest, tensor

HW = ["--hw", "tiny_8x8"]


class ExpectTest(CliTest):
    """The tolerance decides the exit status."""

    def network(self, *elements):
        """One output for each input: twice the float, the integer if it is not negative. All of it is exact."""
        types = [tensor([2, 4], element) for element in elements]
        arguments = ", ".join(f'%{i}: {t} {{graph.name = "x{i}"}}' for i, t in enumerate(types))
        results = ", ".join(f'{t} {{graph.name = "y{i}"}}' for i, t in enumerate(types))
        body = "".join(f"  %r{i} = graph.add %{i}, %{i} : ({t}, {t}) -> {t}\n" if t.endswith("f32>") else f"  %r{i} = graph.relu %{i} : {t}\n"
                       for i, t in enumerate(types))
        values = ", ".join(f"%r{i}" for i in range(len(types)))
        self.write("net.mlir", f"func.func @main({arguments}) -> ({results}) {{\n{body}  return {values} : {', '.join(types)}\n}}\n")

    def run_network(self, *options, status=OK, machine="gemmini_16x16_fp32"):
        return self.tilewright("run", "net.mlir", "--hw", machine, *options, "--json", "r.json", status=status)

    def floats(self, error, index=0):
        """A float network, its input, and what is expected of it but for one value that is `error` of the range away."""
        self.network("f32")
        x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
        np.save(self.path / "x.npy", x)
        expected = 2 * x.astype(np.float64)
        expected.ravel()[index] += 4 * error  # the range is -2 .. 2
        np.save(self.path / "y.npy", expected)
        return ["--input", "x.npy", "--expect", "y.npy"]

    def test_a_float_network_may_round(self):
        self.run_network(*self.floats(0.9e-4, index=3))
        self.assertTrue(json.loads((self.path / "r.json").read_text())["comparisons"][0]["within_tolerance"])
        _, err = self.run_network(*self.floats(1.1e-4, index=3), status=USER)
        self.assertRegex(err, r"^tilewright: not as expected: output 'y0': 1 of 8 values differ, max abs error 0.00044 \(0.00011 of the output's "
                              r"range 4\).*; the tolerance is 0.0001 of the output's range \(fp32: order of sums\)\n$")
        # The report is written all the same.
        self.assertFalse(json.loads((self.path / "r.json").read_text())["comparisons"][0]["within_tolerance"])

    def test_an_option_sets_the_tolerance(self):
        self.run_network(*self.floats(0.01, index=3), "--tolerance", "0.02")
        self.run_network(*self.floats(0.01, index=3), "--tolerance", "0.005", status=USER)
        self.run_network(*self.floats(0, index=3), "--tolerance", "0")
        self.run_network(*self.floats(1e-7, index=3), "--tolerance", "0", status=USER)
        for bad in ["-1", "nan", "inf", "1x"]:
            self.fails("run", "net.mlir", *HW, *self.floats(0), f"--tolerance={bad}", message="is no finite number from 0")
        self.fails("run", "net.mlir", *HW, "--tolerance", "1", message="--tolerance requires --expect")

    def test_every_value_wrong(self):
        arguments = self.floats(0)
        np.save(self.path / "y.npy", np.load(self.path / "y.npy") + 1)
        _, err = self.run_network(*arguments, status=USER)
        self.assertIn("8 of 8 values differ", err)

    def test_integers_are_exact(self):
        self.network("i8", "i32")
        x = [np.arange(-4, 4).reshape(2, 4).astype(t) for t in (np.int8, np.int32)]
        arguments = []
        for i in range(2):
            np.save(self.path / f"x{i}.npy", x[i])
            arguments += ["--input", f"x{i}=x{i}.npy"]
        for wrong in [None, 0, 1]:
            for i in range(2):
                expected = np.maximum(x[i], 0).astype(np.int64)
                expected[1, 2] += i == wrong
                np.save(self.path / f"y{i}.npy", expected)
            for name in ["y0", "y1"]:
                self.run_network(*arguments, "--expect", f"{name}={name}.npy", status=OK if name != f"y{wrong}" else USER)
            _, err = self.run_network(*arguments, "--expect", "y0.npy", "--expect", "y1.npy", status=OK if wrong is None else USER)
            if wrong is not None:
                self.assertIn(f"output 'y{wrong}': 1 of 8 values differ, max abs error 1", err)
                self.assertIn("integers are exact", err)
                self.assertNotIn(f"output 'y{1 - wrong}'", err)

    def test_a_quantised_network_may_be_a_step_off(self):
        # Steps of 0.5 become steps of 1.
        self.write("net.mlir", f"""func.func @main(%0: {tensor([2, 4], "i8")}) -> {tensor([2, 4], "i8")} {{
  %1 = graph.dequantize %0 {{scales = array<f32: 0.5>, zero_points = array<i32: 0>, axis = 0 : i64}} : ({tensor([2, 4], "i8")}) -> {tensor([2, 4], "f32")}
  %2 = graph.quantize %1 {{scales = array<f32: 1.0>, zero_points = array<i32: 0>, axis = 0 : i64}} : ({tensor([2, 4], "f32")}) -> {tensor([2, 4], "i8")}
  return %2 : {tensor([2, 4], "i8")}
}}
""")
        x = np.arange(-8, 8, 2, dtype=np.int8).reshape(2, 4)
        np.save(self.path / "x.npy", x)
        for off, status in [(0, OK), (1, OK), (2, USER)]:
            expected = x // 2
            expected[0, 1] += off
            np.save(self.path / "y.npy", expected)
            self.run_network("--input", "x.npy", "--expect", "y.npy", machine="tiny_8x8", status=status)
            self.run_network("--input", "x.npy", "--expect", "y.npy", "--tolerance", "0", machine="tiny_8x8", status=OK if off == 0 else USER)

    def test_a_bf16_machine_rounds_floats_more(self):
        self.write("net.mlir", f"""func.func @main(%0: {tensor([1, 8], "f32")}) -> {tensor([1, 8], "f32")} {{
  %w = graph.constant dense<1.0> : {tensor([8, 8], "f32")}
  %1 = graph.matmul %0, %w : ({tensor([1, 8], "f32")}, {tensor([8, 8], "f32")}) -> {tensor([1, 8], "f32")}
  return %1 : {tensor([1, 8], "f32")}
}}
""")
        np.save(self.path / "x.npy", np.ones((1, 8), np.float32))
        np.save(self.path / "y.npy", np.full((1, 8), 8.08, np.float32))  # a hundredth away
        arguments = ["--input", "x.npy", "--expect", "y.npy"]
        self.run_network(*arguments, machine="gemmini_16x16_bf16")
        self.run_network(*arguments, machine="gemmini_16x16_fp32", status=USER)

    def test_infinities_and_nans(self):
        self.network("f32")
        x = np.array([[np.nan, np.inf, -np.inf, 0], [1, 2, 3, 4]], np.float32)
        np.save(self.path / "x.npy", x)
        np.save(self.path / "y.npy", 2 * x)
        arguments = ["--input", "x.npy", "--expect", "y.npy"]
        self.run_network(*arguments, "--tolerance", "0")
        for index, value in [(0, 0), (0, np.inf), (1, np.nan), (1, -np.inf), (2, np.inf), (3, np.nan), (3, np.inf)]:
            wrong = 2 * x
            wrong[0, index] = value
            np.save(self.path / "y.npy", wrong)
            self.run_network(*arguments, "--tolerance", "1000000", status=USER)

    def test_shapes_and_types_must_fit(self):
        arguments = self.floats(0)
        y = np.load(self.path / "y.npy")
        for wrong, text in [(y.reshape(4, 2), "double [4x2]"), (y.ravel(), "double [8]"), (y[:1], "double [1x4]"), (y.astype(np.int8), "int8 [2x4]")]:
            np.save(self.path / "y.npy", wrong)
            self.fails("run", "net.mlir", "--hw", "gemmini_16x16_fp32", *arguments, message=f"output 'y0' is float [2x4] but the expected one is {text}")
        np.save(self.path / "y.npy", y.reshape(1, 2, 4))
        self.run_network(*arguments)
        self.fails("run", "net.mlir", *HW, "--input", "x.npy", "--expect", "y1=y.npy", message="the network has no output 'y1', only: y0")

    def test_a_batch(self):
        images, logits = np.load(DIGITS / "images.npy")[:4], np.load(DIGITS / "logits_int8_qdq.npy")[:4]
        np.save(self.path / "x.npy", images)
        arguments = ["run", NETWORK, *HW, "--input", "x.npy", "--batch", "--expect", "y.npy"]
        np.save(self.path / "y.npy", logits)
        self.tilewright(*arguments)
        logits[3, 9] += 3
        np.save(self.path / "y.npy", logits)
        self.tilewright(*arguments, status=USER)
        np.save(self.path / "y.npy", logits[:3])
        self.fails(*arguments, message="but the expected one is float [3x10]")


class OutputTest(CliTest):
    """An output never replaces an input."""

    def kept(self, *arguments, files, message):
        """The command fails with the message and leaves the files as they are."""
        before = {file: (self.path / file).read_bytes() for file in files}
        self.fails(*arguments, message=message)
        self.assertEqual(before, {file: (self.path / file).read_bytes() for file in files})

    def names(self, file):
        """Other names of a file of ours."""
        os.link(self.path / file, self.path / f"hard-{file}")
        os.symlink(file, self.path / f"soft-{file}")
        os.symlink(".", self.path / "here")
        return [file, f"./{file}", str(self.path / file), f"here/{file}", f"hard-{file}", f"soft-{file}"]

    def model(self):
        shutil.copy(NETWORK, self.path / "m.onnx")

    def test_compile_keeps_the_model_under_every_name(self):
        self.model()
        for name in self.names("m.onnx"):
            for output in [[], ["--emit", "graph"], ["--target", "cpu"]]:
                machine = [] if "cpu" in output else HW
                message = [f"cannot make folder '{name}'"] if "cpu" in output else [f"cannot write '{name}'", "input"]
                self.kept("compile", "m.onnx", *machine, *output, "-o", name, files=["m.onnx"], message=message)
            self.kept("compile", name, *HW, "-o", "m.onnx", files=["m.onnx"], message=["cannot write 'm.onnx'", "input"])

    def test_every_input_is_kept(self):
        self.model()
        shutil.copy(SOURCE / "hw-configs/tiny_8x8.yaml", self.path / "hw.yaml")
        os.mkdir(self.path / "dram")
        shutil.copy(SOURCE / "hw-configs/dram/ideal.yaml", self.path / "dram/ideal.yaml")
        self.plan_file({}, name="s.mlir")
        np.save(self.path / "x.npy", np.load(DIGITS / "images.npy")[:1])
        np.save(self.path / "y.npy", np.load(DIGITS / "logits_int8_qdq.npy")[:1])
        inputs = ["m.onnx", "hw.yaml", "dram/ideal.yaml", "s.mlir", "x.npy", "y.npy"]
        model = ["m.onnx", "--hw", "hw.yaml", "--schedule", "s.mlir"]
        tensors = ["--input", "image=x.npy", "--expect", "y.npy"]
        for file in inputs:
            self.kept("run", *model, *tensors, "--json", file, files=inputs, message=f"cannot write '{file}': it is an input")
            # The device is read later than suffixes are looked at.
            refused = "suffix '.yaml' names no format" if file.startswith("dram") else f"cannot write '{file}': it is an input"
            self.kept("run", *model, *tensors, "--trace", file, files=inputs, message=refused)
            if not file.startswith("dram"): # the device is read later, when the RTL may have to be built
                self.kept("run", *model, *tensors, "--model", "rtl", "--fst", file, files=inputs, message=f"cannot write '{file}'")
        for file in inputs[:4]:
            self.kept("compile", *model, "-o", file, files=inputs, message=f"cannot write '{file}': it is an input")
            self.kept("profile", *model, "--json", file, files=inputs, message=f"cannot write '{file}': it is an input")
        for file in inputs[:3]:
            self.kept("tune", *model[:3], "--budget", "1", "-o", file, files=inputs, message=f"cannot write '{file}': it is an input")

    def test_outputs_in_a_folder(self):
        np.save(self.path / "y.npy", np.zeros((8, 8), np.int8))
        self.kept("run", "gemm:8x8x8:int8", *HW, "--input", "y.npy", "--output-dir", ".", files=["y.npy"], message="cannot write './y.npy'")
        os.mkdir(self.path / "out")
        os.link(self.path / "y.npy", self.path / "out/y.npy")
        self.kept("run", "gemm:8x8x8:int8", *HW, "--input", "y.npy", "--output-dir", "out", files=["y.npy"],
                  message="cannot write 'out/y.npy': it is the same file as the input 'y.npy'")

    def test_assembler(self):
        self.write("copy.tasm", COPY)
        self.kept("asm", "copy.tasm", "-o", "./copy.tasm", files=["copy.tasm"], message="cannot write './copy.tasm'")
        self.tilewright("asm", "copy.tasm")
        self.kept("disasm", "copy.twp", "-o", "copy.twp", files=["copy.twp"], message="cannot write 'copy.twp': it is an input")
        # The name it takes itself.
        self.write("text.twp", COPY)
        self.kept("asm", "text.twp", files=["text.twp"], message="cannot write 'text.twp': it is an input")

    def test_quantize(self):
        shutil.copy(DIGITS / "digits_fp32.onnx", self.path / "m.onnx")
        os.mkdir(self.path / "samples")
        np.save(self.path / "samples/a.npy", np.load(DIGITS / "images.npy")[:1])
        for calibration in ["samples", "samples/a.npy", "random:1"]:
            for output in ["m.onnx", "samples/a.npy"]:
                if calibration != "random:1" or output == "m.onnx":
                    self.kept("quantize", "m.onnx", "--calibration", calibration, "-o", output, files=["m.onnx", "samples/a.npy"],
                              message=f"cannot write '{output}': it is an input")

    def test_an_output_that_is_no_input_is_replaced(self):
        self.write("m.twp", "old")
        self.tilewright("compile", "gemm:8x8x8:int8", *HW, "-o", "m.twp")
        self.assertNotEqual((self.path / "m.twp").read_bytes(), b"old")
        self.assertEqual(os.listdir(self.path), ["m.twp"])

    def test_links_are_not_followed(self):
        self.write("other", "old")
        os.symlink("other", self.path / "link.twp")
        os.symlink("none", self.path / "dangling.twp")
        for name in ["link.twp", "dangling.twp"]:
            self.kept("compile", "gemm:8x8x8:int8", *HW, "-o", name, files=["other"], message=f"cannot write '{name}': it is a symbolic link")
        self.assertFalse((self.path / "none").exists())

    def test_standard_output_and_devices(self):
        for name in ["-", "/dev/stdout"]:
            out, _ = self.tilewright("compile", "gemm:8x8x8:int8", *HW, "--emit", "isa", "-o", name)
            self.assertIn("halt", out)
        self.tilewright("run", "gemm:8x8x8:int8", *HW, "--json", "/dev/null", "--trace", "/dev/null")
        self.fails("run", "gemm:8x8x8:int8", *HW, "--json", "-", "--trace", "-", message="cannot write '-': output '-' goes there")
        result = subprocess.run(["bash", "-c", '"$0" compile gemm:8x8x8:int8 --hw tiny_8x8 --emit isa -o >(cat)', BINARY], cwd=self.path,
                                capture_output=True, text=True, timeout=300)
        self.assertIn("halt", result.stdout)

    def test_nobody_works_for_an_output_that_cannot_be_written(self):
        # A budget that takes hours.
        self.fails("tune", NETWORK, *HW, "--budget", "100000000", "-o", "none/x.twp", message="cannot write 'none/x.twp': No such file or directory")


class InputTest(CliTest):
    """What never ends is refused at once."""

    def test_devices_and_pipes(self):
        kinds = {"pipe": "it is a pipe", "zero": "it is a device", "proc": "the system makes it while it is read"}
        for suffix in ["onnx", "mlir", "tasm", "twp", "npy", "pb", "yaml", "so"]:
            os.mkfifo(self.path / f"pipe.{suffix}")
            os.symlink("/dev/zero", self.path / f"zero.{suffix}")
            os.symlink("/proc/self/environ", self.path / f"proc.{suffix}")
        shutil.copy(DIGITS / "digits_fp32.onnx", self.path / "m.onnx")
        for kind, message in kinds.items():
            only = [message, "only regular files are read", kind]
            for suffix in ["onnx", "mlir", "tasm", "twp"]:
                self.fails("run", f"{kind}.{suffix}", *HW, message=only)
            for suffix in ["npy", "pb"]:
                self.fails("run", "gemm:8x8x8:int8", *HW, "--input", f"{kind}.{suffix}", message=only)
                self.fails("run", "gemm:8x8x8:int8", *HW, "--expect", f"{kind}.{suffix}", message=only)
                self.fails("quantize", "m.onnx", "--calibration", f"{kind}.{suffix}", "-o", "q.onnx", message=only)
            self.fails("run", "gemm:8x8x8:int8", "--hw", f"{kind}.yaml", message=only)
            self.fails("hw", "validate", f"{kind}.yaml", message=only)
            self.fails("run", "gemm:8x8x8:int8", *HW, "--schedule", f"{kind}.mlir", message=only)
            self.fails("run", "gemm:8x8x8:int8", *HW, "--load-plugin", f"{kind}.so", message=only)
            self.fails("asm", f"{kind}.tasm", message=only)
            self.fails("disasm", f"{kind}.twp", message=only)

    def test_sizes(self):
        for suffix, most in [("onnx", 2 ** 31 - 1), ("mlir", 2 ** 31 - 1), ("tasm", 2 ** 31 - 1), ("twp", 2 ** 31 - 1)]:
            with open(self.path / f"large.{suffix}", "wb") as file:
                file.truncate(most + 1)
            self.fails("run", f"large.{suffix}", *HW, message=f"it is too large: {most + 1} bytes where at most {most} are allowed")
        with open(self.path / "large.npy", "wb") as file:
            file.truncate(1 << 40)
        self.fails("run", "gemm:8x8x8:int8", *HW, "--input", "large.npy", message="large.npy: cannot read the file: it is too large")
        with open(self.path / "plan.mlir", "wb") as file:
            file.truncate((64 << 20) + 1)
        self.fails("run", "gemm:8x8x8:int8", *HW, "--schedule", "plan.mlir", message="it is too large: 67108865 bytes")
        with open(self.path / "large.yaml", "wb") as file:
            file.truncate((1 << 20) + 1)
        self.fails("hw", "validate", "large.yaml", message="it is too large: 1048577 bytes")


if __name__ == "__main__":
    unittest.main()
