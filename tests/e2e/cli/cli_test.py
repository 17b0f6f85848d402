#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the `tilewright` binary as a user would: every command, and every class of errors with exit status and message.

Environment: TILEWRIGHT is the binary, TILEWRIGHT_SOURCE_DIR the source tree.
"""

import collections
import json
import os
import pathlib
import pty
import re
import subprocess
import tempfile
import unittest

import numpy as np

BINARY = os.environ["TILEWRIGHT"]
SOURCE = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])
DIGITS = SOURCE / "tests/data/digits"
NETWORK = DIGITS / "digits_int8_qdq.onnx"
OK, USER, FAULT = 0, 1, 2
os.environ["TILEWRIGHT_CHECK_REPORTS"] = "1" # a report that breaks a rule of docs/profile.md is an internal error

# Copies 64 bytes through a scratchpad.
COPY = """.machine tiny_8x8
.code 0x1000
.input x i8 [1,64] 0x0
.output y i8 [1,64] 0x400
.layer copy nodes=[Copy_0]
load dram_address=0 address=0 span=64 counts=[64,1,1,1,1] post=[0:1]
store dram_address=0x400 address=0 span=64 counts=[64,1,1,1,1] wait=[0:1]
halt
"""

# Two products on the accelerator, and between them, on the host, numbers of 64 bits, twice, with an op between that the accelerator has.
HOST = """
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %w = graph.constant dense<0.01> : tensor<64x64xf32>
  %0 = graph.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("first")
  %1 = graph.cast %0 : (tensor<64x64xf32>) -> tensor<64x64xi64> loc("there")
  %2 = graph.neg %1 : tensor<64x64xi64> loc("there")
  %3 = graph.cast %2 : (tensor<64x64xi64>) -> tensor<64x64xf32> loc("back")
  %4 = graph.relu %3 : tensor<64x64xf32> loc("island")
  %5 = graph.cast %4 : (tensor<64x64xf32>) -> tensor<64x64xi64> loc("there2")
  %6 = graph.neg %5 : tensor<64x64xi64> loc("there2")
  %7 = graph.cast %6 : (tensor<64x64xi64>) -> tensor<64x64xf32> loc("back2")
  %8 = graph.matmul %7, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("last")
  return %8 : tensor<64x64xf32>
}
"""

# An NCHW image under a convolution, and two heads of attention; no transpose is a layer of its own.
CONV = "strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64"
ATTENTION = f"""
func.func @main(%image: tensor<1x3x9x9xi8>, %q: tensor<1x10x2x12xi8>, %k: tensor<1x9x2x12xi8>, %v: tensor<1x9x2x20xi8>)
    -> (tensor<1x5x5x4xi8>, tensor<1x10x2x20xi8>) {{
  %w = graph.constant dense<3> : tensor<4x3x3x3xi8>
  %0 = graph.conv_integer %image, %w {{x_zero_point = 5 : i32, w_zero_points = array<i32: 1>, {CONV}, layout = "nchw"}}
    : (tensor<1x3x9x9xi8>, tensor<4x3x3x3xi8>) -> tensor<1x4x5x5xi32> loc("stem")
  %1 = graph.requantize %0 {{multipliers = array<f32: 0.01>, axis = 1 : i64, zero_point = 0 : i32}} : (tensor<1x4x5x5xi32>) -> tensor<1x4x5x5xi8>
  %2 = graph.transpose %1 {{perm = array<i64: 0, 2, 3, 1>}} : (tensor<1x4x5x5xi8>) -> tensor<1x5x5x4xi8>
  %3 = graph.transpose %q {{perm = array<i64: 0, 2, 1, 3>}} : (tensor<1x10x2x12xi8>) -> tensor<1x2x10x12xi8>
  %4 = graph.reshape %3 : (tensor<1x2x10x12xi8>) -> tensor<2x10x12xi8>
  %5 = graph.transpose %k {{perm = array<i64: 0, 2, 3, 1>}} : (tensor<1x9x2x12xi8>) -> tensor<1x2x12x9xi8>
  %6 = graph.reshape %5 : (tensor<1x2x12x9xi8>) -> tensor<2x12x9xi8>
  %7 = graph.matmul_integer %4, %6 {{a_zero_point = 2 : i32, b_zero_points = array<i32: -3>}} : (tensor<2x10x12xi8>, tensor<2x12x9xi8>) -> tensor<2x10x9xi32> loc("scores")
  %8 = graph.requantize %7 {{multipliers = array<f32: 0.001>, axis = 2 : i64, zero_point = 1 : i32}} : (tensor<2x10x9xi32>) -> tensor<2x10x9xi8>
  %9 = graph.transpose %v {{perm = array<i64: 0, 2, 1, 3>}} : (tensor<1x9x2x20xi8>) -> tensor<1x2x9x20xi8>
  %10 = graph.reshape %9 : (tensor<1x2x9x20xi8>) -> tensor<2x9x20xi8>
  %11 = graph.matmul_integer %8, %10 {{a_zero_point = 1 : i32, b_zero_points = array<i32: 4>}} : (tensor<2x10x9xi8>, tensor<2x9x20xi8>) -> tensor<2x10x20xi32> loc("context")
  %12 = graph.requantize %11 {{multipliers = array<f32: 0.01>, axis = 2 : i64, zero_point = 0 : i32}} : (tensor<2x10x20xi32>) -> tensor<2x10x20xi8>
  %13 = graph.reshape %12 : (tensor<2x10x20xi8>) -> tensor<1x2x10x20xi8>
  %14 = graph.transpose %13 {{perm = array<i64: 0, 2, 1, 3>}} : (tensor<1x2x10x20xi8>) -> tensor<1x10x2x20xi8>
  return %2, %14 : tensor<1x5x5x4xi8>, tensor<1x10x2x20xi8>
}}
"""


def hexed(array):
    """The elements as graph.constant takes them."""
    return f'dense<"0x{array.tobytes().hex()}">'


def tensor(shape, element):
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"


def layers_of(report):
    """The layers of a report of `run`, members of fusion groups one by one."""
    return [member for row in report["layers"] for member in row["members"] or [row]]


def pointwise(result, x, name, inputs, outputs, size):
    """A 1x1 convolution of a square image, in the graph dialect."""
    image = f"{size}x{size}xf32"
    return f"""  %w_{name} = graph.constant dense<0.01> : tensor<{outputs}x{inputs}x1x1xf32>
  {result} = graph.conv {x}, %w_{name} {{dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw",
    pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>}}
    : (tensor<1x{inputs}x{image}>, tensor<{outputs}x{inputs}x1x1xf32>) -> tensor<1x{outputs}x{image}> loc("{name}")
"""


class CliTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def tilewright(self, *arguments, status=OK):
        """Runs it in an empty folder. Returns standard output and standard error."""
        result = subprocess.run([BINARY, *map(str, arguments)], cwd=self.path, capture_output=True, timeout=300)
        out, err = result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace")
        self.assertEqual(result.returncode, status, f"{arguments}\n{out}\n{err}")
        return out, err

    def kernels(self, *options):
        """Names of net.mlir's kernels."""
        tiles, _ = self.tilewright("compile", "net.mlir", *options, "--emit", "tiles")
        return {line[2:].split(":")[0] for line in tiles.splitlines() if line.startswith("# ")}

    def output(self, *options):
        """What net.mlir makes of x.npy."""
        self.tilewright("run", "net.mlir", *options, "--input", "x.npy", "--check", "--output-dir", "out")
        return np.load(self.path / "out/output0.npy")

    def cycles(self, machine, schedule):
        """That net.mlir takes."""
        self.tilewright("run", "net.mlir", "--hw", machine, "--schedule", schedule, "--json", "report.json")
        return json.loads((self.path / "report.json").read_text())["total_cycles"]

    def choice_comes_back(self, knob, model, *machine, schedule="pipelined"):
        """The plan file that `schedule` writes has `knob`, and makes the same program."""
        command = ["compile", model, *machine, "--schedule"]
        self.tilewright(*command, schedule, "-o", "first.twp")
        self.tilewright(*command, schedule, "--emit", "plan", "-o", "chosen.mlir")
        self.assertIn(knob, (self.path / "chosen.mlir").read_text())
        self.tilewright(*command, "chosen.mlir", "-o", "second.twp")
        self.assertEqual((self.path / "first.twp").read_bytes(), (self.path / "second.twp").read_bytes())

    def fails(self, *arguments, message, status=USER):
        """It fails, says why, and leaves no new file. `message` is one text or several."""
        before = sorted(self.path.rglob("*"))
        out, err = self.tilewright(*arguments, status=status)
        for text in [message] if isinstance(message, str) else message:
            self.assertIn(text, err)
        for line in err.splitlines():
            self.assertTrue(line.startswith("tilewright: "), err)
        self.assertEqual(sorted(self.path.rglob("*")), before)
        return err

    def write(self, name, contents):
        path = self.path / name
        path.write_bytes(contents.encode() if isinstance(contents, str) else contents)
        return path

    def plan_file(self, kernels, name="plan.mlir", **network):
        """`kernels` has the text of the knobs for each kernel, node or pattern; `network` the knobs of the network and `schedule`."""
        knobs = ", ".join(f"{knob} = {json.dumps(value)}" for knob, value in network.items())
        lines = "".join(f'  plan.kernel "{kernel}" {{{text}}}\n' for kernel, text in kernels.items())
        return self.write(name, f"plan.network attributes {{{knobs}}} {{\n{lines}}}\n")


class UsageTest(CliTest):
    def test_help_lists_the_commands(self):
        out, _ = self.tilewright("--help")
        for command in ["run", "compile", "compare", "profile", "verify", "tune", "quantize", "hw", "dram", "sweep", "sensitivity", "asm", "disasm", "Exit status"]:
            self.assertIn(command, out)

    def test_every_command_has_help(self):
        for command in ["run", "compile", "compare", "profile", "verify", "tune", "quantize", "hw", "dram", "asm", "disasm"]:
            out, _ = self.tilewright(command, "--help")
            self.assertIn("Usage", out)

    def test_version(self):
        self.assertRegex(self.tilewright("--version")[0], r"^tilewright \d+\.\d+\.\d+\n$")

    def test_a_command_is_needed(self):
        self.fails(message="subcommand is required")

    def test_unknown_commands_options_and_values(self):
        self.fails("fly", message=["unknown command 'fly'", "run, compile, compare, profile, check, verify, tune, quantize, hw, dram, ", "asm, disasm, doctor, operators"])
        self.fails("run", "gemm:8x8x8:int8", "--fast", message="--fast")
        self.fails("run", "gemm:8x8x8:int8", "--model", "gates", message=["--model", "gates", "functional"])
        self.fails("run", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "--schedule", "best", message=["--schedule", "best", "double_buffer"])
        self.fails("compile", "gemm:8x8x8:int8", "--emit", "cuda", message=["--emit", "cuda", "linalg"])
        self.fails("compile", "gemm:8x8x8:int8", "--target", "tpu", message=["--target", "tpu", "cpu", "gpu"])
        self.fails("run", message="MODEL is required")

    def test_numbers(self):
        for option in ["--seed", "--max-cycles"]:
            for bad in ["-1", "1.5", "18446744073709551616"]:
                self.fails("run", "gemm:8x8x8:int8", "--hw", "tiny_8x8", f"{option}={bad}",
                           message=f"'{bad}' is no whole number from 0 to 18446744073709551615")
        self.fails("run", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "--search-budget=0", message="'0' is no whole number from 1 to 4294967295")

    def test_what_cannot_be_printed(self):
        for command in [["run", "gemm:8x8x8:int8", "--hw", "tiny_8x8"], ["hw", "list"], ["tune", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "--budget", "3"],
                        ["--version"]]:
            for redirection in [">/dev/full", ">&-"]:
                result = subprocess.run(["bash", "-c", f'"$@" {redirection}', "bash", BINARY, *command], cwd=self.path, stderr=subprocess.PIPE)
                self.assertEqual(result.returncode, USER)
                self.assertRegex(result.stderr.decode(), "^tilewright: cannot write standard output(: No space left on device|: Bad file descriptor)?\n$")

    def test_a_machine_is_needed(self):
        self.fails("run", NETWORK, message="give one with --hw")
        self.fails("compile", NETWORK, message="give one with --hw")

    def test_progress_is_for_terminals_only(self):
        command = [BINARY, "run", "gemm:8x8x8:int8", "--hw", "tiny_8x8"]
        try:
            master, slave = pty.openpty()
        except OSError as error: # a container may have none
            self.skipTest(f"no pseudo-terminal: {error}")
        subprocess.run(command, stdout=subprocess.PIPE, stderr=slave, check=True, cwd=self.path)
        os.close(slave)
        shown = b""
        try:
            while part := os.read(master, 10000):
                shown += part
        except OSError: # the other end is closed, and all has been read
            pass
        os.close(master)
        self.assertIn(b"simulating", shown)
        self.assertEqual(subprocess.run(command, capture_output=True, check=True, cwd=self.path).stderr, b"")


class HwTest(CliTest):
    def test_list_has_the_shipped_machines(self):
        out, _ = self.tilewright("hw", "list")
        for line in ["tiny_8x8", "vdla_16x16", "gemmini_16x16_int8", "gemmini_16x16_bf16", "gemmini_16x16_fp32", "edge_32x32_int8",
                     "edge_32x32_bf16", "cloud_128x128", "onnxim_16x16_16b", "onnxim_16x16_4b", "onnxim_128x128"]:
            self.assertIn(line, out)
        self.assertNotIn("not valid", out)

    def test_describe(self):
        out, _ = self.tilewright("hw", "describe", "gemmini_16x16_int8", "--set", "clock_mhz=500")
        self.assertIn("gemmini_16x16_int8", out)
        self.assertIn("16x16", out.replace(" ", ""))
        self.assertIn("500", out)

    def test_validate_accepts_the_shipped_machines(self):
        out, _ = self.tilewright("hw", "validate", "tiny_8x8", SOURCE / "hw-configs/vdla_16x16.yaml")
        self.assertEqual(re.findall(r"valid|compiler +\w+|systemc +\w+|rtl +\w+", out), 2 * ["valid", "compiler  yes", "systemc   yes", "rtl       yes"])

    def test_validate_says_what_the_compiler_and_the_rtl_do_with_a_machine(self):
        out, _ = self.tilewright("hw", "validate", "cloud_128x128")
        self.assertRegex(out, r"compiler  yes\n  systemc   yes\n  rtl       no \(its banks have one port, ")
        # The compiler's own words, in a report and when it is asked for a program.
        for key, reason in {"vector.lanes=16": "machine 'tiny_8x8' has 16 lanes but 8 array columns; they must be equal",
                            "vector.stages=1": "the machine has 1", "control.semaphores=1": "semaphore"}.items():
            machine = ["tiny_8x8", "--set", key]
            result = subprocess.run([BINARY, "hw", "validate", *machine], cwd=self.path, capture_output=True, text=True, timeout=300)
            self.assertEqual(result.returncode, USER, key)
            self.assertRegex(result.stdout, r"tiny_8x8: valid, machine tiny_8x8 .*\n  compiler  no \(.*\)\n  systemc   yes\n  rtl       yes\n")
            self.assertIn(reason, result.stdout)
            self.assertIn("tilewright: tiny_8x8: the compiler has no code for this machine: ", result.stderr)
            self.assertIn(reason, result.stderr)
            self.fails("run", "gemm:16x16x16:int8", "--hw", *machine, message=reason)

    def test_validate_reports_all_machines(self):
        self.write("a.yaml", "name: a\n")
        self.fails("hw", "validate", "a.yaml", "b.yaml", message=["a.yaml:", "b.yaml"])


class AssemblerTest(CliTest):
    def test_round_trip(self):
        self.write("copy.tasm", COPY)
        self.tilewright("asm", "copy.tasm")
        text, _ = self.tilewright("disasm", "copy.twp")
        self.assertIn("load", text)
        self.write("again.tasm", text)
        self.tilewright("asm", "again.tasm", "-o", "again.twp")
        self.assertEqual((self.path / "copy.twp").read_bytes(), (self.path / "again.twp").read_bytes())
        self.tilewright("disasm", "copy.twp", "-o", "out.tasm")
        self.assertEqual((self.path / "out.tasm").read_text(), text)

    def test_errors_have_a_place(self):
        self.write("bad.tasm", "halt\nlod address=0\n")
        self.fails("asm", "bad.tasm", message="bad.tasm:2:1: ")

    def test_all_faulty_lines_are_reported(self):
        self.write("bad.tasm", "load adress=0\nfoo\nhalt\n")
        self.fails("asm", "bad.tasm", message=["bad.tasm:1:", "bad.tasm:2:"])

    def test_limits_of_the_machine_are_checked(self):
        self.write("bad.tasm", COPY.replace("tensor", "load").replace("load dram", "load unit=3 dram"))
        self.fails("asm", "bad.tasm", message="bad.tasm:6:")

    def test_files_must_exist(self):
        self.fails("asm", "none.tasm", message="none.tasm")
        self.fails("disasm", "none.twp", message="none.twp")

    def test_where_the_image_goes_must_exist(self):
        self.write("copy.tasm", COPY)
        self.fails("asm", "copy.tasm", "-o", "none/copy.twp", message="cannot write 'none/copy.twp': No such file or directory")


class RunTest(CliTest):
    def test_a_quantised_sum_with_one_constant(self):
        """One for all elements is part of the arithmetic: nothing loads it."""
        self.write("net.mlir", """func.func @main(%x: tensor<1x2x3x7xi8>) -> (tensor<1x2x3x7xi8>) {
  %c = graph.constant dense<21> : tensor<1x1x1x1xi8>
  %y = graph.qlinear_add %x, %c {a_scale = 0.5 : f32, a_zero_point = 3 : i32, b_scale = 0.25 : f32, b_zero_point = -8 : i32,
    y_scale = 1.0 : f32, y_zero_point = -5 : i32} : (tensor<1x2x3x7xi8>, tensor<1x1x1x1xi8>) -> tensor<1x2x3x7xi8> loc("sum")
  return %y : tensor<1x2x3x7xi8>
}
""")
        x = np.random.default_rng(1).integers(-128, 128, (1, 2, 3, 7)).astype(np.int8)
        np.save(self.path / "x.npy", x)
        expected = np.rint((x.astype(np.float32) - 3) * 0.5 + (21 + 8) * 0.25) - 5
        for schedule in ["serial", "double_buffer", "pipelined"]:
            np.testing.assert_array_equal(self.output("--hw", "gemmini_16x16_int8", "--schedule", schedule), expected)

    def test_the_report_in_the_readme(self):
        report = re.search(r"^layer .*?^nodes: .*?$", (SOURCE / "README.md").read_text(), re.M | re.S).group()
        out, _ = self.tilewright("run", NETWORK, "--hw", "gemmini_16x16_int8", "--input", DIGITS / "images.npy", "--batch")
        self.assertIn(report, out)

    def image(self):
        np.save(self.path / "image.npy", np.load(DIGITS / "images.npy")[:1])
        np.save(self.path / "logits.npy", np.load(DIGITS / "logits_int8_qdq.npy")[:1])
        return self.path / "image.npy"

    def test_a_network_with_everything(self):
        out, err = self.tilewright("run", NETWORK, "--hw", "gemmini_16x16_int8", "--input", self.image(), "--expect", "logits.npy",
                                   "--output-dir", "out", "--json", "r.json", "--trace", "t.json", "--check")
        self.assertEqual(err, "")
        for text in ["utilisation", "lower bound", "operand", "on accelerator", "top-1 agrees on 1 of 1", "cycles per wall second"]:
            self.assertIn(text, out)
        report = json.loads((self.path / "r.json").read_text())
        for engine in report["engines"]:
            self.assertEqual(engine["busy_cycles"] + engine["idle_cycles"] + sum(engine["stalls"].values()), report["total_cycles"])
        self.assertGreaterEqual(report["total_cycles"], report["lower_bound_cycles"])
        self.assertGreater(report["lower_bound_cycles"], 0)
        self.assertEqual(report["macs"], sum(layer["macs"] for layer in layers_of(report)))
        self.assertAlmostEqual(report["utilisation"], report["macs"] / (256 * report["total_cycles"]))
        nodes = {entry["node"] for entry in report["offload"]}
        self.assertTrue(any("stem" in node for node in nodes), nodes)
        self.assertEqual({entry["target"] for entry in report["offload"]}, {"accelerator", "folded"})
        self.assertEqual(report["outputs"][0]["shape"], [1, 10])
        logits = np.load(self.path / report["outputs"][0]["file"])
        # One quantisation step of the logits is 0.0357 (tests/data/README.md).
        self.assertLess(np.abs(logits - np.load(DIGITS / "logits_int8_qdq.npy")[:1]).max(), 0.036)
        self.assertIn("traceEvents", json.loads((self.path / "t.json").read_text()))

    def test_models_and_schedules_agree(self):
        self.image()
        for name, options in {"a": ["--model", "functional", "--check"], "b": ["--schedule", "serial"], "c": ["--schedule", "double_buffer"]}.items():
            self.tilewright("run", NETWORK, "--hw", "tiny_8x8", "--input", "image=image.npy", "--output-dir", name, *options)
        a, b, c = (np.load(self.path / name / "logits.npy") for name in "abc")
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)

    def test_reshapes_of_any_number_of_inputs(self):
        # One of these counts has the compiler's table of tensors grow at a reshape; sanitizers see what is read from where it was.
        x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16)
        np.save(self.path / "x.npy", x)
        for count in range(15, 19):
            each = [(f"%x{i}: tensor<4x16xf32>", f"""  %r{i} = graph.reshape %x{i} : (tensor<4x16xf32>) -> tensor<64xf32>
  %y{i} = graph.relu %r{i} : tensor<64xf32>""", f"%y{i}", "tensor<64xf32>") for i in range(count)]
            inputs, ops, values, types = zip(*each)
            self.write("net.mlir", f"func.func @main({', '.join(inputs)}) -> ({', '.join(types)}) {{\n" + "\n".join(ops) +
                       f"\n  return {', '.join(values)} : {', '.join(types)}\n}}\n")
            self.tilewright("run", "net.mlir", "--hw", "gemmini_16x16_fp32", "--schedule", "serial", *["--input", "x.npy"] * count,
                            "--output-dir", "out")
            for i in range(count):
                np.testing.assert_array_equal(np.load(self.path / f"out/output{i}.npy"), np.maximum(x, 0).reshape(64), str((count, i)))

    def test_a_batch_is_run_one_by_one(self):
        np.save(self.path / "four.npy", np.load(DIGITS / "images.npy")[:4])
        out, _ = self.tilewright("run", NETWORK, "--hw", "gemmini_16x16_int8", "--input", "four.npy", "--batch", "--output-dir", "out")
        self.assertIn("4 inputs", out)
        logits = np.load(self.path / "out/logits.npy")
        expected = np.load(DIGITS / "logits_int8_qdq.npy")[:4]
        self.assertEqual(logits.shape, (4, 10))
        np.testing.assert_array_equal(logits.argmax(1), expected.argmax(1))

    def test_the_seed_is_printed_and_decides(self):
        def run(seed, folder):
            out, _ = self.tilewright("run", "gemm:16x16x16:int8", "--hw", "tiny_8x8", "--seed", seed, "--output-dir", folder)
            self.assertIn(f"random inputs, seed {seed}", out)
            return np.load(self.path / folder / "y.npy")
        np.testing.assert_array_equal(run(3, "a"), run(3, "b"))
        self.assertFalse(np.array_equal(run(3, "a"), run(4, "c")))

    def test_json_on_standard_output_is_all_there_is(self):
        out, _ = self.tilewright("run", "conv:1x8x8x8:3x3x8:s1:p1:int8", "--hw", "tiny_8x8", "--json", "-")
        self.assertEqual(json.loads(out)["machine"]["name"], "tiny_8x8")

    def test_overrides_change_the_machine(self):
        def cycles(*options):
            out, _ = self.tilewright("run", "gemm:64x64x64:int8", "--hw", "tiny_8x8", "--json", "-", *options)
            return json.loads(out)["total_cycles"]
        self.assertGreater(cycles("--set", "dram.latency_cycles=400"), cycles())
        overrides = ["--set", "dram.latency_cycles=400", "--set", "clock_mhz=100"]
        out, _ = self.tilewright("run", "gemm:8x8x8:int8", "--hw", "tiny_8x8", *overrides)
        self.assertIn("on tiny_8x8 (clock_mhz=100, dram.latency_cycles=400) (int8 8x8, 100 MHz)", out)

    def test_no_semaphore_counts_beyond_its_maximum(self):
        # DRAM is slow and posts are far ahead of their waits; the simulator stops where a count exceeds the maximum.
        for most in ["7", "63"]:
            self.tilewright("run", "conv:1x14x14x256:3x3x512:s2:p1:int8", "--hw", "vdla_16x16", "--schedule", "pipelined", "--check",
                            "--set", "dram.bytes_per_cycle=4", "--set", f"control.semaphore_max_count={most}")

    def test_bad_overrides(self):
        kernel = ["gemm:8x8x8:int8", "--hw", "tiny_8x8", "--set"]
        for command in ["run", "compile", "compare", "profile", "verify"]:
            self.fails(command, *kernel, "dram.latency_cycle=1",
                       message="unknown key 'dram.latency_cycle'; the nearest key is 'dram.latency_cycles'")
        self.fails("hw", "describe", "tiny_8x8", "--set", "aray.rows=8", message="the nearest key is 'array.rows'")
        self.fails("run", *kernel, "array.rows=7", message="array.rows is 7 but must be a power of two from 1 to 256")
        self.fails("compile", "gemm:8x8x8:int8", "--target", "cpu", "--set", "clock_mhz=1", message="give one with --hw")

    def test_results_are_the_same_whatever_happens_across_layers(self):
        self.image()
        cycles = {}
        for across in ["none", "prefetch", "all"]:
            out, _ = self.tilewright("run", NETWORK, "--hw", "gemmini_16x16_int8", "--schedule", "pipelined", "--across", across,
                                     "--input", "image.npy", "--output-dir", across, "--check", "--json", "-")
            cycles[across] = json.loads(out)["total_cycles"]
            self.assertEqual(json.loads(out)["schedule"], "pipelined" if across == "all" else f"pipelined (across {across})")
            logits = np.load(self.path / across / "logits.npy")
            np.testing.assert_array_equal(logits, np.load(self.path / "none/logits.npy"), across)
        self.assertGreater(cycles["none"], cycles["prefetch"])
        self.assertGreater(cycles["none"], cycles["all"])

    def test_nothing_of_a_layer_begins_before_the_last_one_ends(self):
        self.tilewright("run", NETWORK, "--hw", "tiny_8x8", "--schedule", "search", "--search-budget", "3", "--across", "none",
                        "--trace", "t.json")
        spans = {}
        for event in json.loads((self.path / "t.json").read_text())["traceEvents"]:
            if "retire" in event.get("args", {}):
                layer = event["args"]["layer"]
                first, last = spans.get(layer, (event["ts"], 0))
                spans[layer] = min(first, event["ts"]), max(last, event["args"]["retire"])
        ordered = sorted(spans.values())
        self.assertEqual(len(ordered), 7)
        for (_, end), (begin, _) in zip(ordered, ordered[1:]):
            self.assertLessEqual(end, begin)

    def test_across_is_for_schedules_that_overlap_layers(self):
        kernel = ["gemm:8x8x8:int8", "--hw", "tiny_8x8", "--across"]
        self.fails("run", *kernel, "none", "--schedule", "double_buffer", message="--across none is for the schedules pipelined and search, not double_buffer")
        self.fails("run", *kernel, "some", "--schedule", "pipelined", message=["--across", "some", "prefetch"])

    def test_what_the_array_cannot_multiply_falls_back_and_is_named(self):
        np.save(self.path / "image.npy", np.load(DIGITS / "images.npy")[:1])
        np.save(self.path / "logits.npy", np.load(DIGITS / "logits_fp32.npy")[:1])
        out, _ = self.tilewright("run", DIGITS / "digits_fp32.onnx", "--hw", "tiny_8x8", "--input", "image.npy", "--expect", "logits.npy",
                                 "--json", "r.json")
        self.assertIn("fallback on this CPU (not in the cycles above)", out)
        report = json.loads((self.path / "r.json").read_text())
        reasons = {entry["node"]: entry["reason"] for entry in report["offload"] if entry["target"] == "cpu"}
        self.assertIn("down", reasons)
        self.assertIn("int8", reasons["down"])
        self.assertGreater(report["fallback"]["host_link_bytes"], 0)
        self.assertLess(report["comparisons"][0]["max_error_of_range"], 1e-5)
        self.assertEqual(sum(entry["host_link_bytes"] for entry in report["offload"]), report["fallback"]["host_link_bytes"])
        self.fails("compile", DIGITS / "digits_fp32.onnx", "--hw", "tiny_8x8", message="it is no single program")

    def host_report(self, *arguments):
        self.write("host.mlir", HOST)
        out, _ = self.tilewright("run", "host.mlir", "--hw", "gemmini_16x16_fp32", "--json", "r.json", *arguments)
        return json.loads((self.path / "r.json").read_text()), out

    def test_host_and_link_are_estimated(self):
        report, out = self.host_report()
        fallback = report["fallback"]
        # The first product's result to the host, and the last one's operand back: 900 cycles and 16 KiB at 15.754 bytes a cycle each.
        self.assertEqual(fallback["crossings"], 2)
        self.assertEqual(fallback["host_link_bytes"], 2 * 64 * 64 * 4)
        self.assertEqual(fallback["estimated_link_cycles"], 2 * (900 + 1040))
        self.assertGreater(fallback["estimated_host_cycles"], 0)
        self.assertEqual(fallback["estimated_total_cycles"],
                         report["total_cycles"] + fallback["estimated_link_cycles"] + fallback["estimated_host_cycles"])
        self.assertIsNone(fallback["measured_seconds"])
        self.assertEqual(sorted(entry["host_link_bytes"] for entry in report["offload"])[-3:], [0, 16384, 16384])
        self.assertIn("host link (not in the cycles above): 2 tensors, 32.0 KiB, 3,880 cycles = 0.0039 ms estimated", out)
        self.assertIn("accelerator, link and host one after the other: ", out)
        self.assertNotIn("measured", out)
        again, _ = self.host_report()
        for one in (report, again):
            for key in ("compile_wall_seconds", "simulate_wall_seconds", "cycles_per_wall_second", "peak_memory_bytes"):
                del one[key]
        self.assertEqual(again, report)
        measured, out = self.host_report("--measure-host")
        self.assertGreater(measured["fallback"]["measured_seconds"], 0)
        self.assertEqual(measured["fallback"]["estimated_host_cycles"], fallback["estimated_host_cycles"])
        self.assertIn("host measured: ", out)

    def test_keys_of_host_and_link_change_estimates_alone(self):
        report, _ = self.host_report()
        slow, _ = self.host_report("--set", "host_link.latency_cycles=5000", "--set", "host_link.bytes_per_cycle=1/2", "--set", "host.operations_per_cycle=1/8")
        self.assertEqual(slow["fallback"]["estimated_link_cycles"], 2 * (5000 + 2 * 16384))
        self.assertGreater(slow["fallback"]["estimated_host_cycles"], report["fallback"]["estimated_host_cycles"])
        self.assertEqual(slow["fallback"]["host_link_bytes"], report["fallback"]["host_link_bytes"])
        self.assertEqual(slow["total_cycles"], report["total_cycles"])
        self.assertEqual(slow["layers"], report["layers"])

    def test_what_stands_between_nodes_on_the_host_stays_there(self):
        report, _ = self.host_report()
        self.assertEqual(report["programs"], 2)
        island = next(entry for entry in report["offload"] if entry["node"] == "island")
        self.assertEqual(island["target"], "cpu")
        self.assertIn("between nodes on the host: crossing would take 3880 cycles", island["reason"])
        # A host that is slow enough is worth two crossings.
        slow, _ = self.host_report("--set", "host.bytes_per_cycle=1")
        self.assertEqual(slow["programs"], 3)
        self.assertEqual(slow["fallback"]["crossings"], 4)
        self.assertEqual(next(entry["target"] for entry in slow["offload"] if entry["node"] == "island"), "accelerator")

    def test_host_and_link_are_tracks_of_the_timeline(self):
        report, _ = self.host_report("--trace", "t.json")
        events = json.loads((self.path / "t.json").read_text())["traceEvents"]
        tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        spans = collections.defaultdict(list)
        for event in events:
            if event["ph"] == "X":
                spans[tracks[event["tid"]]].append((event["ts"], event["ts"] + event["dur"]))
        fallback = report["fallback"]
        for track, cycles in [("host", fallback["estimated_host_cycles"]), ("link", fallback["estimated_link_cycles"])]:
            self.assertEqual(sum(end - begin for begin, end in spans[track]), cycles)
        # One after the other: the programs, and between them what link and host do.
        steps = sorted(spans["host"] + spans["link"])
        path = sorted(spans["critical path"])
        for (_, end), (begin, _) in zip(steps, steps[1:]):
            self.assertLessEqual(end, begin)
        for begin, end in path:
            self.assertTrue(end <= steps[0][0] or begin >= steps[-1][1], (begin, end))
        self.assertTrue(path[0][1] <= steps[0][0] and path[-1][0] >= steps[-1][1])
        self.assertLessEqual(max(end for _, end in path), fallback["estimated_total_cycles"])

    def test_fallback_can_be_refused(self):
        self.write("host.mlir", HOST)
        run = ["run", "host.mlir", "--hw", "gemmini_16x16_fp32", "--fallback"]
        self.fails(*run, "none", message=["accelerator does not take 4 nodes, and --fallback is none:", "  there: ", "  back: ", "  there2: ", "  back2: ",
                                          "the machine has no element type i64"])
        self.fails(*run, "gpu", message=["--fallback is gpu", "cpu or none"])
        self.fails(*run, "tpu", message="--fallback")
        self.tilewright("run", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "--fallback", "none")
        self.fails("run", DIGITS / "digits_fp32.onnx", "--hw", "tiny_8x8", "--fallback", "none", message=["  down: ", "int8"])

    def test_an_assembler_program(self):
        self.write("copy.tasm", COPY)
        data = np.arange(64, dtype=np.int8).reshape(1, 64)
        np.save(self.path / "x.npy", data)
        out, _ = self.tilewright("run", "copy.tasm", "--input", "x.npy", "--output-dir", "out", "--check")
        self.assertIn("copy", out)
        np.testing.assert_array_equal(np.load(self.path / "out/y.npy"), data)

    def test_a_compiled_program_runs_like_its_model(self):
        self.image()
        self.tilewright("compile", NETWORK, "--hw", "vdla_16x16", "-o", "net.twp")
        def total(*arguments):
            out, _ = self.tilewright("run", *arguments, "--input", "image.npy", "--json", "-")
            return json.loads(out)["total_cycles"]
        self.assertEqual(total("net.twp"), total(NETWORK, "--hw", "vdla_16x16"))

    def test_a_program_for_other_latencies_runs_with_a_note(self):
        self.tilewright("compile", "gemm:16x16x16:int8", "--hw", "tiny_8x8", "-o", "g.twp")
        _, err = self.tilewright("run", "g.twp", "--set", "dram.latency_cycles=100")
        self.assertIn("tilewright: note: the program was made for other latencies", err)


class CompileTest(CliTest):
    def test_every_phase(self):
        expected = {"import": "graph.conv", "graph": "call @stem", "linalg": "linalg.generic", "tiles": "tensor", "isa": "halt"}
        for phase, text in expected.items():
            out, _ = self.tilewright("compile", NETWORK, "--hw", "gemmini_16x16_int8", "--emit", phase)
            self.assertIn(text, out, phase)

    def test_assembler_text_of_a_network_assembles_to_its_image(self):
        self.tilewright("compile", NETWORK, "--hw", "gemmini_16x16_int8")
        self.tilewright("compile", NETWORK, "--hw", "gemmini_16x16_int8", "--emit", "isa", "-o", "net.tasm")
        self.tilewright("asm", "net.tasm")
        self.assertEqual((self.path / "digits_int8_qdq.twp").read_bytes(), (self.path / "net.twp").read_bytes())

    def test_compilation_is_deterministic(self):
        for name in ["a.twp", "b.twp"]:
            self.tilewright("compile", NETWORK, "--hw", "tiny_8x8", "-o", name)
        self.assertEqual((self.path / "a.twp").read_bytes(), (self.path / "b.twp").read_bytes())

    def test_an_input_of_the_arrays_type_is_read_where_it_is(self):
        """Without a kernel that copies it."""
        out, _ = self.tilewright("run", "gemm:64x64x64:bf16", "--hw", "edge_32x32_bf16", "--schedule", "pipelined", "--json", "-")
        report = json.loads(out)
        self.assertEqual([layer["name"] for layer in layers_of(report)], ["gemm"])
        self.assertEqual(report["dram_read_bytes"] + report["dram_write_bytes"], 3 * 64 * 64 * 2)

    def test_modulo_is_no_slower_than_double_buffer_where_code_counts(self):
        """Kernels of some hundred cycles, whose code takes as long to come from DRAM as their operands."""
        for kernel, machine in [("gemm:17x13x10:int8", "onnxim_16x16_4b"), ("gemm:55x6x143:int8", "onnxim_16x16_16b"),
                                ("gemm:16x7x66:int8", "vdla_16x16"), ("gemm:91x105x34:fp32", "gemmini_16x16_fp32"),
                                ("conv:1x6x6x8:1x1x29:s2:p0:int8", "tiny_8x8")]:
            cycles = {}
            for schedule in ["double_buffer", "pipelined"]:
                out, _ = self.tilewright("run", kernel, "--hw", machine, "--schedule", schedule, "--json", "-")
                cycles[schedule] = json.loads(out)["total_cycles"]
            self.assertLessEqual(cycles["pipelined"], cycles["double_buffer"], f"{kernel} on {machine}")

    def test_text_of_a_phase_is_a_model_too(self):
        np.save(self.path / "image.npy", np.load(DIGITS / "images.npy")[:1])
        for phase in ["import", "graph", "linalg"]:
            self.tilewright("compile", NETWORK, "--hw", "tiny_8x8", "--emit", phase, "-o", phase + ".mlir")
            self.tilewright("run", phase + ".mlir", "--hw", "tiny_8x8", "--input", "image.npy", "--output-dir", phase)
        self.tilewright("run", NETWORK, "--hw", "tiny_8x8", "--input", "image.npy", "--output-dir", "onnx")
        for phase in ["import", "graph", "linalg"]:
            np.testing.assert_array_equal(np.load(self.path / phase / "logits.npy"), np.load(self.path / "onnx/logits.npy"), phase)

    def test_hand_written_linalg(self):
        self.write("net.mlir", """func.func @main(%x: tensor<4x8xi8>, %w: tensor<8x4xi8>) -> tensor<4x4xi32> {
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4x4xi32>
  %z = linalg.fill ins(%c0 : i32) outs(%e : tensor<4x4xi32>) -> tensor<4x4xi32>
  %m = linalg.matmul ins(%x, %w : tensor<4x8xi8>, tensor<8x4xi8>) outs(%z : tensor<4x4xi32>) -> tensor<4x4xi32>
  %a = linalg.add ins(%m, %m : tensor<4x4xi32>, tensor<4x4xi32>) outs(%e : tensor<4x4xi32>) -> tensor<4x4xi32>
  return %a : tensor<4x4xi32>
}
""")
        x = np.arange(-16, 16, dtype=np.int8).reshape(4, 8)
        w = (np.arange(32, dtype=np.int8) * 7 - 100).astype(np.int8).reshape(8, 4)
        np.save(self.path / "x.npy", x)
        np.save(self.path / "w.npy", w)
        self.tilewright("run", "net.mlir", "--hw", "tiny_8x8", "--input", "x.npy", "--input", "w.npy", "--output-dir", "out", "--check")
        np.testing.assert_array_equal(np.load(self.path / "out/output0.npy"), 2 * (x.astype(np.int32) @ w.astype(np.int32)))
        self.tilewright("compare", "net.mlir", "--hw", "tiny_8x8", "--input", "x.npy", "--input", "w.npy")

    def test_what_no_kernel_is_made_of(self):
        self.write("net.mlir", """func.func @main(%x: tensor<4x8xi8>) -> tensor<8xi8> {
  %s = tensor.extract_slice %x[0, 0] [1, 8] [1, 1] : tensor<4x8xi8> to tensor<8xi8>
  return %s : tensor<8xi8>
}
""")
        self.fails("run", "net.mlir", "--hw", "tiny_8x8", message="net.mlir:2:8: @main holds 'tensor.extract_slice' but may hold linalg ops")

    def test_for_the_cpu(self):
        """tests/e2e/cpu/bundle_test.py uses what is written."""
        self.tilewright("compile", NETWORK, "--target", "cpu", "-o", "lib")
        self.assertEqual((self.path / "lib/libdigits_int8_qdq.a").read_bytes()[:8], b"!<arch>\n")
        pipe = self.path / "pipe"
        os.mkfifo(pipe)
        reader = subprocess.Popen(["head", "-c", "4", pipe], stdout=subprocess.PIPE)
        self.tilewright("compile", "gemm:8x8x8:int8", "--target", "cpu", "--emit", "obj", "-o", pipe)
        self.assertEqual(reader.communicate()[0], b"\x7fELF")
        self.assertTrue(pipe.is_fifo())


class CompareTest(CliTest):
    def test_accelerator_and_cpu_agree(self):
        np.save(self.path / "image.npy", np.load(DIGITS / "images.npy")[:1])
        out, _ = self.tilewright("compare", NETWORK, "--hw", "gemmini_16x16_int8", "--input", "image.npy", "--repeat", "3", "--threads", "1")
        for text in ["accel ", "simulated", "cpu ", "in 3 rounds, 1 thread", "the results agree", "tolerance"]:
            self.assertIn(text, out)

    def test_transposes_that_join_their_reader(self):
        self.write("attention.mlir", ATTENTION)
        for machine in ["tiny_8x8", "gemmini_16x16_int8"]:
            for schedule in ["serial", "double_buffer", "pipelined"]:
                out, _ = self.tilewright("compare", "attention.mlir", "--hw", machine, "--schedule", schedule, "--repeat", "1")
                self.assertEqual(out.count("values equal"), 2, out)
        layers = layers_of(json.loads(self.tilewright("run", "attention.mlir", "--hw", "tiny_8x8", "--json", "-")[0]))
        self.assertEqual({layer["name"] for layer in layers}, {"stem", "scores", "context"})

    def test_sums_that_overflow_in_one_order_only_are_named(self):
        # Pairs of neighbours overflow on the array, or one after the other on the CPU: each row has the signs in another order.
        rows = [[3e38 * sign for sign in signs] for signs in ([1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1], [-1, 1, 1, -1])]
        np.save(self.path / "x.npy", np.array(rows, np.float32))
        self.write("sums.mlir", """
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x3xf32> {
  %w = graph.constant dense<1.0> : tensor<4x3xf32>
  %0 = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
""")
        sums = ["compare", "sums.mlir", "--hw", "gemmini_16x16_fp32", "--repeat", "1"]
        self.fails(*sums, "--input", "x.npy", message="overflow: output 'output0' has")
        np.save(self.path / "x.npy", np.array(rows, np.float32) / 4)
        self.assertIn("the results agree", self.tilewright(*sums, "--input", "x.npy")[0])

    def test_a_program_has_no_cpu_side(self):
        self.write("copy.tasm", COPY)
        self.fails("compare", "copy.tasm", message="cannot run on the CPU")


class ProfileTest(CliTest):
    def profile(self, *arguments):
        """The JSON report, after the checks that hold for every one."""
        report = json.loads(self.tilewright("profile", *arguments, "--json", "-")[0])
        cycles = [loss["cycles"] for loss in report["losses"]]
        self.assertEqual(sum(cycles), report["total_cycles"] - report["tensor_busy_cycles"])
        self.assertEqual(cycles, sorted(cycles, reverse=True))
        return report, {change["name"]: change for change in report["what_if"]}

    def test_every_lost_cycle_has_a_row(self):
        out, err = self.tilewright("profile", NETWORK, "--hw", "gemmini_16x16_int8", "--top", "3")
        self.assertEqual(err, "")
        for text in ["by layer and cause", "by instruction", "smaller rows", "twice the DRAM bandwidth"]:
            self.assertIn(text, out)
        report, _ = self.profile(NETWORK, "--hw", "gemmini_16x16_int8", "--schedule", "pipelined")
        self.assertTrue({"depthwise", "stem"} <= {loss["layer"] for loss in report["losses"]})

    def test_the_plan_covers_what_is_executed(self):
        network = [NETWORK, "--hw", "gemmini_16x16_int8", "--schedule"]
        report, _ = self.profile(*network, "pipelined")
        run = json.loads(self.tilewright("run", *network, "pipelined", "--json", "-")[0])
        executed = {engine["name"]: engine["instructions"] for engine in run["engines"]}
        planned = {engine["engine"]: engine["instructions"] for engine in report["plan"]["engines"]}
        for name in ["preload", "sequencer"]:
            executed.pop(name, None)
        self.assertEqual(planned, {name: count for name, count in executed.items() if count})
        self.assertEqual({layer["layer"] for layer in report["plan"]["layers"]}, {layer["name"] for layer in layers_of(run)})
        self.assertIn("planned against simulated", self.tilewright("profile", *network, "pipelined")[0])
        # Only these schedules estimate starts.
        report, _ = self.profile(*network, "double_buffer")
        self.assertIsNone(report["plan"])
        self.assertNotIn("planned against simulated", self.tilewright("profile", *network, "double_buffer")[0])

    def test_changes_are_simulated(self):
        product = ["gemm:64x64x64:int8", "--hw", "tiny_8x8"]
        report, changes = self.profile(*product)
        self.assertEqual(set(changes), {"twice the DRAM bandwidth", "half the DRAM latency", "twice the banks", "no prologue"})
        out, _ = self.tilewright("run", *product, "--json", "-")
        self.assertEqual(json.loads(out)["total_cycles"], report["total_cycles"])
        # What the settings say is what was simulated.
        self.tilewright("compile", *product, "-o", "g.twp")
        for name in ["twice the DRAM bandwidth", "half the DRAM latency"]:
            out, _ = self.tilewright("run", "g.twp", "--json", "-", "--set", changes[name]["how"].split(";")[0])
            self.assertEqual(json.loads(out)["total_cycles"], changes[name]["cycles"])

    def test_no_change_goes_beyond_the_limits(self):
        most = ["--set", "dram.channels=256", "--set", "dram.grant_bursts=65536"]
        for machine, settings, refused in [
                ("gemmini_16x16_int8", most, "dram.channels=512 dram.grant_bursts=131072: "),
                ("tiny_8x8", ["--set", "dram.bytes_per_cycle=1000000"], "dram.bytes_per_cycle=2000000: ")]:
            _, changes = self.profile("gemm:16x16x16:int8", "--hw", machine, *settings)
            self.assertIsNone(changes["twice the DRAM bandwidth"]["cycles"])
            self.assertTrue(changes["twice the DRAM bandwidth"]["how"].startswith(refused), changes)

    def test_a_program_has_no_other_banks(self):
        self.tilewright("compile", "gemm:16x16x16:int8", "--hw", "tiny_8x8", "-o", "g.twp")
        _, changes = self.profile("g.twp")
        self.assertIsNone(changes["twice the banks"]["cycles"])

    def test_a_network_with_parts_on_the_cpu(self):
        self.fails("profile", DIGITS / "digits_fp32.onnx", "--hw", "tiny_8x8", message="profile needs a network")


class VerifyTest(CliTest):
    """All on tiny_8x8: the first that comes builds its RTL model."""

    def test_a_network(self):
        out, err = self.tilewright("verify", NETWORK, "--hw", "tiny_8x8", "--seed", "3")
        self.assertIn("SystemC and RTL agree", out)
        self.assertIn("seed 3", out)

    def test_a_plan_file(self):
        self.tilewright("compile", NETWORK, "--hw", "tiny_8x8", "--schedule", "pipelined", "--emit", "plan", "-o", "mine.mlir")
        out, _ = self.tilewright("verify", NETWORK, "--hw", "tiny_8x8", "--schedule", "mine.mlir")
        self.assertIn("SystemC and RTL agree", out)

    def test_a_program_with_inputs(self):
        program = self.write("copy.tasm", COPY)
        np.save(self.path / "x.npy", np.arange(64, dtype=np.int8).reshape(1, 64))
        out, _ = self.tilewright("verify", program, "--input", "x.npy")
        self.assertIn("SystemC and RTL agree", out)
        self.assertNotIn("seed", out)

    def test_a_fault_of_both(self):
        program = self.write("wait.tasm", COPY.replace("wait=[0:1]", "wait=[0:2]"))
        out, _ = self.tilewright("verify", program)
        self.assertIn("both models stop: deadlock in store0, word 3, layer 'copy', cycle ", out)
        self.assertIn("waits for 2 of semaphore 0, which is at 1", out)
        self.assertIn("SystemC and RTL agree", out)

    def test_a_limit_of_both(self):
        for limit in ["70", "219"]:
            out, _ = self.tilewright("verify", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "--max-cycles", limit)
            self.assertIn("both models stop: limit reached in sequencer", out)
            self.assertIn("cycle " + limit + ": the program is not finished", out)

    def test_run_on_the_rtl(self):
        np.save(self.path / "image.npy", np.load(DIGITS / "images.npy")[:1])
        cycles = set()
        for model in ["systemc", "rtl"]:
            self.tilewright("run", NETWORK, "--hw", "tiny_8x8", "--model", model, "--input", "image.npy", "--output-dir", model, "--json",
                            model + ".json")
            report = json.loads((self.path / (model + ".json")).read_text())
            self.assertEqual(report["simulator"], model)
            cycles.add(report["total_cycles"])
            for engine in report["engines"]:
                self.assertEqual(engine["busy_cycles"] + engine["idle_cycles"] + sum(engine["stalls"].values()), report["total_cycles"])
        self.assertEqual(len(cycles), 1)
        np.testing.assert_array_equal(np.load(self.path / "systemc/logits.npy"), np.load(self.path / "rtl/logits.npy"))

    def test_options_that_need_the_rtl(self):
        arguments = ["run", NETWORK, "--hw", "tiny_8x8"]
        self.fails(*arguments, "--fst", "w.fst", message="--fst needs --model rtl")
        self.fails(*arguments, "--model", "rtl", "--fst", "w.fst", "--batch", message="--fst needs a single run, without --batch")
        self.fails(*arguments, "--from", "3", message="--from requires --fst")
        self.fails(*arguments, "--model", "rtl", "--fst", "w.fst", "--from", "3", "--to", "3", message="--from 3 is not before --to 3")
        self.fails(*arguments, "--model", "rtl", "--fst", "missing/w.fst", message="cannot write 'missing/w.fst': No such file or directory")
        self.fails(*arguments, "--model", "rtl", "--fst", ".", message="cannot write '.': Is a directory")
        self.fails(*arguments, "--model", "rtl", "--trace", "t.json", message="--model systemc")
        self.fails(*arguments, "--model", "rtl", "--check", message="--check needs --model systemc or --model functional")

    def test_without_verilator(self):
        os.environ["PATH"], path = "/nowhere", os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        self.fails("verify", "gemm:8x8x8:int8", "--hw", "tiny_8x8", message="cannot run verilator, which the RTL model of tiny_8x8 needs")
        self.fails("run", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "--model", "rtl", message="cannot run verilator")


class TuneTest(CliTest):
    MODEL = ["gemm:40x48x56:int8", "--hw", "tiny_8x8"]

    def tune(self, *arguments, model=MODEL):
        """Returns how many of its programs it knew from earlier, and standard error."""
        out, err = self.tilewright("tune", *model, *arguments)
        return int(re.search(r"(\d+) of them earlier; 0 failed", out)[1]), err

    def records(self, folder):
        return sorted((self.path / folder).glob("*.search"))

    def test_the_first_program_is_that_of_pipelined(self):
        self.tune("--budget", 1, "-o", "first.twp")
        self.tilewright("compile", *self.MODEL, "--schedule", "pipelined", "-o", "pipelined.twp")
        self.assertEqual((self.path / "first.twp").read_bytes(), (self.path / "pipelined.twp").read_bytes())

    def test_the_first_program_of_a_network_takes_what_modulo_takes(self):
        self.tilewright("run", NETWORK, "--hw", "gemmini_16x16_int8", "--schedule", "pipelined", "--json", "pipelined.json")
        self.tilewright("run", NETWORK, "--hw", "gemmini_16x16_int8", "--schedule", "search", "--search-budget", "1", "--json", "first.json")
        first, pipelined = [json.loads((self.path / f"{name}.json").read_text())["total_cycles"] for name in ["first", "pipelined"]]
        self.assertEqual(first, pipelined)

    def test_equal_seeds_give_equal_programs(self):
        for name in ["a.twp", "b.twp"]:
            self.tune("--budget", 30, "--seed", 3, "-o", name, model=[NETWORK, "--hw", "tiny_8x8"])
        self.assertEqual((self.path / "a.twp").read_bytes(), (self.path / "b.twp").read_bytes())

    def test_any_number_of_processes_makes_the_same_search(self):
        network = [NETWORK, "--hw", "gemmini_16x16_int8", "--budget", 120]
        said = [re.sub(r"[\d.]+ s\b", "", self.tilewright("tune", *network, "--jobs", jobs, "-o", f"{jobs}.twp")[0]) for jobs in [1, 2, 5]]
        for other, jobs in zip(said[1:], [2, 5]):
            self.assertEqual(other, said[0])
            self.assertEqual((self.path / f"{jobs}.twp").read_bytes(), (self.path / "1.twp").read_bytes())
        self.tilewright("compile", *network[:3], "--schedule", "search", "--search-budget", 120, "--search-jobs", 3, "-o", "compiled.twp")
        self.assertEqual((self.path / "compiled.twp").read_bytes(), (self.path / "1.twp").read_bytes())

    def test_the_end_says_what_was_won(self):
        out, _ = self.tilewright("tune", *self.MODEL, "--budget", 9)
        self.assertRegex(out, r"(?s)^1 of 9: [\d,]+ cycles, best [\d,]+, [\d.]+ s, first tiles\n2 of 9: .*\n\n"
                              r"pipelined [\d,]+ cycles\nbest [\d,]+ cycles, [\d.]+ % of them\n"
                              r"9 programs compiled, verified and run, 0 of them earlier; 0 failed\n\d+ changes made one of them again, or changed no cycle\nsearched for [\d.]+ s\n$")
        cycles = [int(n.replace(",", "")) for n in re.findall(r"^(?:pipelined|best) ([\d,]+)", out, re.M)]
        self.assertLessEqual(cycles[1], cycles[0])

    def test_a_layer_alone_that_can_be_compiled_in_several_ways(self):
        """With pixels side by side and without, beside its tiles."""
        out, _ = self.tilewright("tune", "conv:1x12x12x64:3x3x64:s1:p1:int8", "--hw", "onnxim_128x128", "--budget", 9)
        self.assertIn("s, the whole network\n", out)
        self.assertIn("0 failed", out)

    def test_a_network_decides_more_than_tiles(self):
        out, _ = self.tilewright("tune", NETWORK, "--hw", "gemmini_16x16_int8", "--budget", 64)
        self.assertIn("s, place of ", out)
        self.assertIn("s, result of ", out)

    def test_a_network_decides_where_results_stay(self):
        """A file that says all else leaves nothing but that."""
        network = [NETWORK, "--hw", "gemmini_16x16_int8"]
        self.tilewright("compile", *network, "--schedule", "pipelined", "--emit", "plan", "-o", "pipelined.mlir")
        chosen = (self.path / "pipelined.mlir").read_text().replace('schedule = "pipelined"', 'schedule = "search"')
        given = self.write("given.mlir", re.sub(r", (on_chip|row_tile|on_chip_from|placed_first) = \w+", "", chosen))
        out, _ = self.tilewright("tune", *network, "--budget", 64, "--schedule", given)
        self.assertIn("s, result of ", out)
        for decision in "depth", "form":
            self.assertNotIn(f"s, {decision} of ", out)

    def test_a_killed_search_goes_on_and_ends_the_same(self):
        model = [NETWORK, "--hw", "tiny_8x8"]
        process = subprocess.Popen([BINARY, "tune", *map(str, model), "--budget", "40", "--cache", "killed"], cwd=self.path, stdout=subprocess.PIPE)
        for _ in range(10):
            process.stdout.readline()
        process.kill()
        process.stdout.close()
        process.wait()
        earlier, _ = self.tune("--budget", 40, "--cache", "killed", "-o", "resumed.twp", model=model)
        self.assertGreaterEqual(earlier, 10)
        self.tune("--budget", 40, "--cache", "whole", "-o", "whole.twp", model=model)
        self.assertEqual((self.path / "resumed.twp").read_bytes(), (self.path / "whole.twp").read_bytes())
        self.assertEqual(self.records("killed")[0].read_bytes(), self.records("whole")[0].read_bytes())

    def test_schedule_search_takes_what_was_tuned(self):
        self.tune("--budget", 20, "--seed", 5, "--cache", "cache", "-o", "tuned.twp")
        tuned = (self.path / "tuned.twp").read_bytes()
        search = ["compile", *self.MODEL, "--schedule", "search", "--search-budget", 20]
        self.tilewright(*search, "--cache", "cache", "-o", "option.twp")
        os.environ["TILEWRIGHT_CACHE"] = "cache"
        self.addCleanup(os.environ.pop, "TILEWRIGHT_CACHE")
        before = self.records("cache")[0].read_bytes()
        self.tilewright(*search, "-o", "environment.twp")
        self.assertEqual([(self.path / name).read_bytes() for name in ["option.twp", "environment.twp"]], [tuned, tuned])
        self.assertEqual(self.records("cache")[0].read_bytes(), before)

    def test_the_model_is_known_by_its_kernels(self):
        self.tune("--budget", 12, "--cache", "cache", model=[NETWORK, "--hw", "tiny_8x8"])
        other = self.write("other.onnx", NETWORK.read_bytes())
        self.assertEqual(self.tune("--budget", 12, "--cache", "cache", model=[other, "--hw", "tiny_8x8"])[0], 12)

    def test_other_machines_and_kernels_have_records_of_their_own(self):
        self.tune("--budget", 8, "--cache", "cache")
        for other in [[*self.MODEL, "--set", "dram.latency_cycles=77"], [*self.MODEL, "--set", "scratchpads.activation.banks=8"],
                      [*self.MODEL, "--set", "clock_mhz=500"], ["gemm:40x48x64:int8", "--hw", "tiny_8x8"]]:
            self.assertEqual(self.tune("--budget", 8, "--cache", "cache", model=other)[0], 0)
        self.assertEqual(len(self.records("cache")), 5)

    def test_files_that_cannot_be_used_are_named_and_replaced(self):
        self.tune("--budget", 8, "--cache", "cache", "-o", "good.twp")
        record = self.records("cache")[0]
        good = record.read_bytes()
        self.tune("--budget", 8, "--cache", "other", model=[*self.MODEL, "--set", "dram.latency_cycles=77"])
        for bad, why in [(b"", "no search record"), (b"\0\xff" * 99, "no search record"), (good[:-30], "damaged"),
                         (good.replace(b"program", b"Program", 1), "damaged"), (good.replace(b"record 2", b"record 0"), "another format"),
                         (self.records("other")[0].read_bytes(), "another problem, machine or version")]:
            record.write_bytes(bad)
            earlier, err = self.tune("--budget", 8, "--cache", "cache", "-o", "again.twp")
            self.assertRegex(err, f"note: cache file .* is ignored and will be replaced: .*{why}")
            self.assertEqual(earlier, 0)
            self.assertEqual(record.read_bytes(), good)
            self.assertEqual((self.path / "again.twp").read_bytes(), (self.path / "good.twp").read_bytes())

    def test_what_cannot_be_tuned(self):
        self.write("file", "")
        self.fails("tune", *self.MODEL, "--cache", "file", message="cannot use cache 'file': it must be a folder")
        self.fails("tune", *self.MODEL, "--budget", 0, message="--budget")
        self.fails("tune", *self.MODEL, "--jobs", -1, message="--jobs")
        self.fails("tune", *self.MODEL, "--jobs", 100000, message="--jobs")
        self.fails("tune", *self.MODEL, "--schedule", "serial", message="--schedule: 'serial' is no plan file")
        self.fails("tune", *self.MODEL, "--schedule", self.plan_file({}, schedule="pipelined"),
                   message="the schedule is pipelined, and only search can be tuned")

    def test_a_plan_file_leaves_the_rest_to_the_search(self):
        """All that pipelined chose, but for one layer."""
        network = [NETWORK, "--hw", "gemmini_16x16_int8"]
        self.tilewright("compile", *network, "--schedule", "pipelined", "--emit", "plan", "-o", "pipelined.mlir")
        chosen = (self.path / "pipelined.mlir").read_text().replace('schedule = "pipelined"', 'schedule = "search"')
        self.assertIn('plan.kernel "pointwise"', chosen)
        given = self.write("given.mlir", "\n".join(line for line in chosen.splitlines() if '"pointwise"' not in line))
        out, _ = self.tilewright("tune", *network, "--schedule", given, "--budget", 12, "-o", "tuned.twp")
        changed = re.findall(r"^\d+ of 12: .* s, (.*)$", out, re.M)
        self.assertIn("pointwise", changed)
        for what in changed[1:]:
            self.assertRegex(what, r"^(the whole network|((place|result|depth|form) of )?pointwise)$")
        self.tilewright("compile", *network, "--schedule", given, "--search-budget", 12, "-o", "compiled.twp")
        self.assertEqual((self.path / "tuned.twp").read_bytes(), (self.path / "compiled.twp").read_bytes())

    def test_what_a_walk_finds_is_a_plan_like_any_other(self):
        """With more than 64 programs. Its file makes the same program again, and the program the right values."""
        # In order, where the first 64 programs leave something to find.
        machine = ["--hw", "gemmini_16x16_int8", "--set", "dram.controller=in_order"]
        network = [NETWORK, *machine]
        best = lambda out: int(re.search(r"^best ([\d,]+)", out, re.M)[1].replace(",", ""))
        descent, _ = self.tilewright("tune", *network, "--budget", 64)
        walk, _ = self.tilewright("tune", *network, "--budget", 300, "--cache", "cache", "-o", "tuned.twp")
        self.assertLess(best(walk), best(descent))
        self.tilewright("compile", *network, "--schedule", "search", "--search-budget", 300, "--cache", "cache", "--emit", "plan", "-o", "found.mlir")
        self.tilewright("compile", *network, "--schedule", "found.mlir", "-o", "again.twp")
        self.assertEqual((self.path / "again.twp").read_bytes(), (self.path / "tuned.twp").read_bytes())
        out, _ = self.tilewright("run", "tuned.twp", *machine, "--input", DIGITS / "images.npy", "--batch", "--expect", DIGITS / "logits_int8_qdq.npy")
        self.assertIn("top-1 agrees on 360 of 360", out)

    def test_a_walk_keeps_what_a_plan_file_says(self):
        network = [NETWORK, "--hw", "gemmini_16x16_int8"]
        given = self.plan_file({"*": "depth = 2"}, schedule="search", priority="program_order")
        self.tilewright("compile", *network, "--schedule", given, "--search-budget", 300, "--emit", "plan", "-o", "found.mlir")
        found = (self.path / "found.mlir").read_text()
        self.assertIn('priority = "program_order"', found)
        self.assertEqual(set(re.findall(r"depth = (\d+)", found)), {"2"})

    def test_what_a_plan_file_has_decided_is_another_problem(self):
        """Even where the first program has it anyway."""
        network = [NETWORK, "--hw", "gemmini_16x16_int8"]
        self.tilewright("compile", *network, "--schedule", "pipelined", "--emit", "plan", "-o", "pipelined.mlir")
        head = (self.path / "pipelined.mlir").read_text().splitlines()[0].replace('schedule = "pipelined"', 'schedule = "search"')
        self.assertIn("priority = ", head)
        self.tune("--budget", 8, "--cache", "cache", model=network)
        given = ["--schedule", self.write("given.mlir", head + "}\n")]
        self.assertEqual(self.tune("--budget", 8, "--cache", "cache", *given, "-o", "cached.twp", model=network)[0], 0)
        self.tune("--budget", 8, *given, "-o", "alone.twp", model=network)
        self.assertEqual((self.path / "cached.twp").read_bytes(), (self.path / "alone.twp").read_bytes())
        self.fails("tune", "gemm:8x8x8:int8", message="give one with --hw")
        self.tilewright("compile", *self.MODEL, "-o", "program.twp")
        self.fails("tune", "program.twp", "--hw", "tiny_8x8", message="is a program already")
        self.fails("tune", DIGITS / "digits_fp32.onnx", "--hw", "tiny_8x8", "-o", "x.twp", message="it is no single program")


class BadMachineTest(CliTest):
    def test_every_mistake_is_reported_with_its_place(self):
        text = (SOURCE / "hw-configs/tiny_8x8.yaml").read_text()
        for old, new in [("rows: 8", "rowz: 8"), ("type: int8", "type: int4"), ("stages: 12", "stages: many"), ("banks: 4", "banks: 6"),
                         ("queue_depth_instructions: 8", "queue_depth_instructions: 0")]:
            self.assertIn(old, text)
            text = text.replace(old, new, 1)
        self.write("bad.yaml", text)
        err = self.fails("run", "gemm:8x8x8:int8", "--hw", "bad.yaml", message=["rows", "int4", "many", "6", "queue_depth_instructions"])
        self.assertGreaterEqual(err.count("bad.yaml:"), 5)

    def test_no_yaml_at_all(self):
        self.write("bad.yaml", "{[")
        self.fails("hw", "validate", "bad.yaml", message="bad.yaml:")

    def test_unknown_machines_and_keys(self):
        self.fails("run", "gemm:8x8x8:int8", "--hw", "tiny_8x9", message="tiny_8x9")
        self.fails("run", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "--set", "dram.latency_cycle=5", message=["dram.latency_cycle'", "dram.latency_cycles"])
        self.fails("run", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "--set", "clock_mhz", message="clock_mhz")

    def test_a_machine_too_small_for_any_tile(self):
        self.fails("compile", "gemm:64x64x64:int8", "--hw", "tiny_8x8", "-o", "x.twp", "--set", "scratchpads.activation.capacity_bytes=64", "--set",
                   "scratchpads.weight.capacity_bytes=64", "--set", "scratchpads.activation.banks=1", "--set", "scratchpads.weight.banks=1",
                   message="gemm")


class BadModelTest(CliTest):
    def test_files_that_are_no_models(self):
        self.fails("run", "none.onnx", "--hw", "tiny_8x8", message="cannot open 'none.onnx'")
        self.write("net.txt", "hello")
        self.fails("run", "net.txt", "--hw", "tiny_8x8", message="suffix '.txt'")
        self.fails("run", self.path, "--hw", "tiny_8x8", message="is a folder")
        self.write("net.onnx", "hello, this is no protobuf")
        self.fails("run", "net.onnx", "--hw", "tiny_8x8", message="net.onnx")
        self.write("net.mlir", "func.func @main(")
        self.fails("run", "net.mlir", "--hw", "tiny_8x8", message="net.mlir")

    def test_text_that_is_nested_too_deep(self):
        for deep in ["[" * 20000 + "]" * 20000, "affine_map<() -> (" + "-" * 20000 + "1)>"]:
            self.write("net.mlir", f"module attributes {{a.b = {deep}}} {{}}")
            for arguments in ["net.mlir"], [NETWORK, "--schedule", "net.mlir"]:
                self.fails("run", *arguments, "--hw", "tiny_8x8", message=["net.mlir:1:", "more than 1000 brackets within one another"])
        # Three brackets are open, and the 998th sign is one too many.
        self.write("net.mlir", "module attributes {a.b = affine_map<() -> (" + "-\n" * 20000 + "1)>} {}")
        self.fails("run", "net.mlir", "--hw", "tiny_8x8", message="net.mlir:998:1: more than 1000 brackets within one another")
        self.write("net.mlir", "module attributes {a.b = \"" + "[" * 20000 + "\"} {} // " + "[" * 20000)
        self.fails("run", "net.mlir", "--hw", "tiny_8x8", message="no function @main")

    def test_truncated_networks(self):
        data = NETWORK.read_bytes()
        for length in [0, 1, 100, len(data) // 2, len(data) - 1]:
            self.write("cut.onnx", data[:length])
            self.fails("compile", "cut.onnx", "--hw", "tiny_8x8", "-o", "cut.twp", message="cut.onnx")

    def test_shapes(self):
        self.fails("run", NETWORK, "--hw", "tiny_8x8", "--shape", "image=1,1,x,8", message="--shape is 'image=1,1,x,8'")
        self.fails("run", NETWORK, "--hw", "tiny_8x8", "--shape", "image=1,1,9,8", message="image")
        self.fails("run", NETWORK, "--hw", "tiny_8x8", "--shape", "picture=1,1,8,8", message="picture")

    def test_inline_kernels(self):
        self.fails("run", "gemm:8x8:int8", "--hw", "tiny_8x8", message="'8x8' must be MxNxK")
        self.fails("run", "gemm:8x8x8:fp32", "--hw", "tiny_8x8", message="multiplies int8")

    def test_tensors_that_nobody_can_hold(self):
        large = "net.mlir:1:1: 'func.func' has a shape of more than 2147483648 elements"
        for shape, message in [("4294967296x4294967296", large), ("9223372036854775807", large),
                               ("4x0", "'input0' of @main is tensor<4x0xf32> but must have 1 to 2147483648 elements")]:
            self.write("net.mlir", f"func.func @main(%x: tensor<{shape}xf32>) -> tensor<{shape}xf32> {{ return %x : tensor<{shape}xf32> }}")
            self.fails("run", "net.mlir", "--hw", "tiny_8x8", message=message)

    def test_two_outputs_in_one_file(self):
        self.fails("run", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "--json", "out", "--trace", "./out", message="cannot write './out': output 'out' goes there")

    def test_nothing_is_left_where_writing_fails(self):
        self.fails("compile", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "-o", "none/x.twp", message="cannot write 'none/x.twp'")


class BadProgramTest(CliTest):
    def setUp(self):
        super().setUp()
        self.tilewright("compile", "gemm:16x16x16:int8", "--hw", "tiny_8x8", "-o", "g.twp")
        self.image = (self.path / "g.twp").read_bytes()

    def test_for_another_machine(self):
        self.fails("run", "g.twp", "--hw", "vdla_16x16", message=["made for machine 'tiny_8x8'", "'vdla_16x16'"])

    def test_truncated(self):
        for length in list(range(0, len(self.image), len(self.image) // 20)) + [len(self.image) - 1]:
            self.write("bad.twp", self.image[:length])
            self.fails("run", "bad.twp", message="bad.twp")
        self.fails("disasm", "bad.twp", message="bad.twp")

    def test_a_flipped_bit(self):
        for position in range(0, len(self.image), len(self.image) // 25):
            damaged = bytearray(self.image)
            damaged[position] ^= 1 << position % 8
            self.write("bad.twp", bytes(damaged))
            self.fails("run", "bad.twp", message="bad.twp")

    def test_too_much_at_the_end(self):
        self.write("bad.twp", self.image + b"x")
        self.fails("run", "bad.twp", message="bad.twp")


class BadTensorTest(CliTest):
    def run_digits(self, *arguments, message):
        self.fails("run", NETWORK, "--hw", "tiny_8x8", "--output-dir", "out", "--json", "r.json", *arguments, message=message)

    def test_wrong_shape_type_or_number(self):
        np.save(self.path / "wide.npy", np.zeros((1, 1, 8, 9), np.float32))
        np.save(self.path / "double.npy", np.zeros((1, 1, 8, 8)))
        np.save(self.path / "good.npy", np.zeros((1, 1, 8, 8), np.float32))
        self.run_digits("--input", "wide.npy", message="input 'image' is float [1x1x8x9] but must be float [1x1x8x8]")
        self.run_digits("--input", "double.npy", message="input 'image' is double [1x1x8x8] but must be float [1x1x8x8]")
        self.run_digits("--input", "good.npy", "--input", "good.npy", message="2 input files given but the network has 1 inputs: image")
        self.run_digits("--input", "picture=good.npy", message="the network has no input 'picture', only: image")
        self.run_digits("--input", "none.npy", message="none.npy")
        self.run_digits("--input", "good.npy", "--expect", "good.npy", message="output 'logits' is float [1x10] but the expected one is float [1x1x8x8]")

    def test_damaged_files(self):
        np.save(self.path / "good.npy", np.zeros((1, 1, 8, 8), np.float32))
        data = (self.path / "good.npy").read_bytes()
        for length in [0, 5, 60, len(data) - 1]:
            self.write("cut.npy", data[:length])
            self.run_digits("--input", "cut.npy", message="cut.npy")

    def test_a_batch_that_is_none(self):
        np.save(self.path / "flat.npy", np.zeros((3, 8, 8), np.float32))
        self.run_digits("--batch", "--input", "flat.npy", message="batch for input 'image' is float [3x8x8]")
        self.run_digits("--batch", message="--batch needs --input")

    def test_folders_that_cannot_be_made(self):
        self.fails("run", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "--output-dir", "none/out", message="cannot make folder 'none/out'")
        # The outputs are written before the report, and must go with it.
        self.fails("run", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "--output-dir", "out", "--json", "none/r.json", message="cannot write 'none/r.json'")

    def test_a_timeline_needs_cycles(self):
        self.fails("run", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "--model", "functional", "--trace", "t.json", message="--trace needs")


class FaultTest(CliTest):
    """Programs that misbehave: exit 2, and the message names kind, engine, word and layer."""

    def faults(self, text, *options, message, models=("systemc", "functional")):
        self.write("p.tasm", text)
        for model in models:
            self.fails("run", "p.tasm", "--model", model, "--output-dir", "out", *options, status=FAULT, message=["tilewright: fault: ", *message])

    def test_deadlock(self):
        self.faults(COPY.replace("wait=[0:1]", "wait=[0:2]"), message=["deadlock", "store0", "word 3", "layer 'copy'"])

    def test_address_out_of_range(self):
        # The box begins 32 bytes before the end of a DRAM of 1 MiB.
        self.faults(COPY.replace("load dram_address=0", "load dram_address=0xfffe0"), "--set", "dram.capacity_bytes=1048576",
                    message=["address out of range", "load0", "word 0", "layer 'copy'"])

    def test_semaphore_overflow(self):
        loads = "".join("load dram_address=0 address=0 span=64 counts=[64,1,1,1,1] post=[1:15]\n" for _ in range(5))
        self.faults(COPY.replace("load dram", loads + "load dram"), message=["semaphore overflow", "load0"])

    def test_unordered_accesses_are_found_on_request(self):
        text = COPY.replace(" wait=[0:1]", "").replace(" post=[0:1]", "")
        self.faults(text, "--check", message=["unordered accesses", "store0", "word 3"])

    def test_a_read_of_an_unwritten_word(self):
        text = COPY.replace("store dram_address=0x400 address=0", "store dram_address=0x400 address=64")
        self.faults(text, "--check", message=["read of an unwritten word", "store0"])

    def test_a_run_that_takes_too_long(self):
        self.faults(COPY, "--max-cycles", "5", message=["limit"], models=["systemc"])


if __name__ == "__main__":
    unittest.main()
