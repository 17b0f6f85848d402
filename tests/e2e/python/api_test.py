#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python package as its users call it: machines, models, programs, runs, errors, threads."""
import concurrent.futures
import gc
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy

import tilewright as tw

SOURCES = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])
DIGITS = SOURCES / "tests/data/digits/digits_int8_qdq.onnx"
GEMM = "gemm:24x40x33:int8"


class MachineTest(unittest.TestCase):
    def test_shipped_machines_load(self):
        names = tw.machines()
        self.assertIn("tiny_8x8", names)
        for name in names:
            self.assertEqual(tw.Machine.load(name).name, name)

    def test_settings_change_parameters_and_leave_the_machine(self):
        machine = tw.Machine.load("tiny_8x8")
        before = machine.parameters
        changed = machine.with_({"array.rows": 16}, dram__interleave_bank_groups=False)
        self.assertEqual(changed["array.rows"], 16)
        self.assertIs(changed["dram.interleave_bank_groups"], False)
        self.assertEqual(machine.parameters, before)
        self.assertNotEqual(machine, changed)
        self.assertEqual(changed.with_(array__rows=before["array.rows"], dram__interleave_bank_groups=True), machine)

    def test_parameters_of_a_machine_make_it_again(self):
        machine = tw.Machine.load("gemmini_16x16_int8")
        self.assertEqual(machine.with_(machine.parameters), machine)

    def test_a_wrong_setting_says_what_is_allowed(self):
        with self.assertRaises(tw.UserError) as caught:
            tw.Machine.load("tiny_8x8", array__rows=12)
        self.assertIn("a power of two", caught.exception.message)
        with self.assertRaises(tw.UserError) as caught:
            tw.Machine.load("tiny_8x8", array__rowz=16)
        self.assertIn("array.rows", caught.exception.message)

    def test_a_wrong_file_names_the_place(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "bad.yaml"
            file.write_text((SOURCES / "hw-configs/tiny_8x8.yaml").read_text().replace("clock_mhz: ", "clock_mhz: x"))
            with self.assertRaises(tw.UserError) as caught:
                tw.Machine.load(file)
            self.assertTrue(caught.exception.place.startswith(str(file) + ":"), caught.exception.place)


class ProgramTest(unittest.TestCase):
    def test_a_product_is_exact(self):
        program = tw.compile(tw.Model.inline(GEMM), "tiny_8x8")
        reference = program.run(model="functional")
        result = program.run()
        for name, value in result.outputs.items():
            numpy.testing.assert_array_equal(value, reference.outputs[name])

    def test_logits_of_digits_are_those_of_onnx_runtime(self):
        data = SOURCES / "tests/data/digits"
        images, expected = numpy.load(data / "images.npy"), numpy.load(data / "logits_int8_qdq.npy")
        program = tw.compile(DIGITS, "tiny_8x8")
        for image, logits in zip(images[:4], expected[:4]):
            output = program.run([image[None]]).outputs[program.outputs[0].name]
            numpy.testing.assert_allclose(output[0], logits, atol=0.02 * (expected.max() - expected.min()))

    def test_the_report_is_that_of_the_command_line(self):
        command = [os.environ["TILEWRIGHT"], "run", str(DIGITS), "--hw", "tiny_8x8", "--set", "array.rows=16", "--json", "-"]
        expected = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        report = tw.compile(DIGITS, tw.Machine.load("tiny_8x8", array__rows=16)).run().report.to_dict()
        for changing in ("compile_wall_seconds", "simulate_wall_seconds", "cycles_per_wall_second", "peak_memory_bytes"):
            expected.pop(changing), report.pop(changing)
        self.assertEqual(report, expected)

    def test_inputs_by_order_and_by_name_are_the_same(self):
        program = tw.compile(DIGITS, "tiny_8x8")
        spec = program.inputs[0]
        value = numpy.random.default_rng(1).uniform(-1, 1, spec.shape).astype(spec.dtype)
        name = program.outputs[0].name
        first, second = program.run([value]).outputs[name], program.run({spec.name: value}).outputs[name]
        numpy.testing.assert_array_equal(first, second)

    def test_a_strided_array_is_read_as_numpy_reads_it(self):
        program = tw.compile(DIGITS, "tiny_8x8")
        spec = program.inputs[0]
        wide = numpy.random.default_rng(2).uniform(-1, 1, (*spec.shape[:-1], 2 * spec.shape[-1])).astype(spec.dtype)
        name = program.outputs[0].name
        strided, dense = wide[..., ::2], numpy.ascontiguousarray(wide[..., ::2])
        numpy.testing.assert_array_equal(program.run([strided]).outputs[name], program.run([dense]).outputs[name])

    def test_outputs_share_the_memory_of_the_result_and_keep_it(self):
        output = next(iter(tw.compile(GEMM, "tiny_8x8").run().outputs.values()))
        self.assertFalse(output.flags.owndata)
        self.assertFalse(output.flags.writeable)
        copy = output.copy()
        gc.collect()
        numpy.testing.assert_array_equal(output, copy)

    def test_a_plan_read_back_makes_the_same_program(self):
        program = tw.compile(DIGITS, "tiny_8x8")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "plan.mlir"
            file.write_text(program.plan)
            self.assertEqual(tw.compile(DIGITS, "tiny_8x8", schedule=file).image, program.image)

    def test_a_saved_program_runs_the_same(self):
        program = tw.compile(DIGITS, "tiny_8x8")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "digits.twp"
            program.save(file)
            loaded = tw.Program.load(file)
            self.assertEqual(loaded.run().report.total_cycles, program.run().report.total_cycles)
            with self.assertRaisesRegex(tw.UserError, "no plan"):
                loaded.plan
            with self.assertRaisesRegex(tw.UserError, "architecture differs"):
                tw.Program.load(file, tw.Machine.load("tiny_8x8", array__rows=16))

    def test_rules_are_switched_and_explained(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "net.mlir"
            file.write_text("""func.func @main(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c = graph.constant dense<0.1> : tensor<f32>
  %0 = graph.div %a, %c : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32> loc("quotient")
  %1 = graph.neg %b : tensor<4x8xf32>
  %2 = graph.neg %1 : tensor<4x8xf32> loc("back")
  %3 = graph.add %0, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}
""")

            def rules(**options):
                return [(entry["rule"], entry["class"], entry["nodes"]) for entry in
                        tw.compile(file, "gemmini_16x16_fp32", math="reassociate", **options).rules]
            exact, real = ("neg-of-neg", "bit-exact", ["back"]), ("divide-by-constant", "real", ["quotient"])
            self.assertCountEqual(rules(), [exact, real])
            self.assertEqual(rules(rules="bit-exact"), [exact])
            self.assertEqual(rules(rules="none"), [])
            self.assertEqual(rules(disable_rules=["neg-of-neg"]), [real])
            self.assertEqual(tw.compile(file, "gemmini_16x16_fp32").rules[0].keys(), {"rule", "class", "nodes", "before", "after"})

    def test_bytes_compile_like_their_file(self):
        model = tw.Model.from_onnx_bytes(DIGITS.read_bytes(), "digits")
        self.assertEqual(tw.compile(model, "tiny_8x8").image, tw.compile(DIGITS, "tiny_8x8").image)

    def test_a_timeline_has_events_of_every_engine(self):
        program = tw.compile(GEMM, "tiny_8x8")
        result = program.run(trace=True)
        self.assertTrue(result.timeline["traceEvents"])
        # The command writes the same bytes.
        with tempfile.TemporaryDirectory() as folder:
            program.save(pathlib.Path(folder) / "m.twp")
            subprocess.run([os.environ["TILEWRIGHT"], "run", "m.twp", "--trace", "t.pftrace"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            self.assertEqual(result.perfetto, (pathlib.Path(folder) / "t.pftrace").read_bytes())
        for timeline in ["timeline", "perfetto"]:
            with self.assertRaisesRegex(tw.UserError, "trace"):
                getattr(program.run(), timeline)

    def test_layers_as_a_frame(self):
        report = tw.compile(DIGITS, "tiny_8x8").run().report
        frame = report.to_pandas()
        self.assertEqual(list(frame["name"]), [layer.name for layer in report.layers])
        self.assertEqual(int(frame["critical_cycles"].sum()), report.total_cycles)


class ReadmeTest(unittest.TestCase):
    def test_the_script_of_the_readme_draws_its_picture(self):
        text = (SOURCES / "README.md").read_text()
        script = text.split("```python\n", 1)[1].split("```", 1)[0]
        with tempfile.TemporaryDirectory() as folder:
            for entry in ("tests", "hw-configs"):
                (pathlib.Path(folder) / entry).symlink_to(SOURCES / entry)
            done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, env={**os.environ, "MPLBACKEND": "agg"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("<svg", (pathlib.Path(folder) / "cycles.svg").read_text())


    def test_its_first_steps(self):
        text = (SOURCES / "README.md").read_text().split("## First steps\n```sh\n", 1)[1]
        commands, shown = text.split("```", 1)[0], text.split("```\n", 3)[2]
        commands = commands[commands.index("digits="):].split("tilewright view")[0]
        if not (pathlib.Path(tw.__file__).parents[2] / "share/tilewright/report/template.html").exists():
            commands = commands.split("tilewright report")[0]
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "tests").symlink_to(SOURCES / "tests")
            path = f"{pathlib.Path(os.environ['TILEWRIGHT']).parent}:{os.environ['PATH']}"
            done = subprocess.run(["bash", "-ec", commands], cwd=folder, capture_output=True, text=True, env={**os.environ, "PATH": path})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(shown, done.stdout)


class ErrorTest(unittest.TestCase):
    def assertUserError(self, text, call, *arguments, **options):
        with self.assertRaises(tw.UserError) as caught:
            call(*arguments, **options)
        self.assertIn(text, caught.exception.message)

    def test_models(self):
        self.assertUserError("no such file", tw.Model.load, "nothing.onnx")
        self.assertUserError("gemm:", tw.Model.load, "gemn:1x2x3:int8")
        self.assertUserError("broken", tw.compile, tw.Model.from_onnx_bytes(b"\x08", "broken"), "tiny_8x8")

    def test_options(self):
        self.assertUserError("pipelined", tw.compile, GEMM, "tiny_8x8", schedule="fastest")
        self.assertUserError("none, prefetch, all", tw.compile, GEMM, "tiny_8x8", across="some")
        self.assertUserError("none, bit-exact, real, all", tw.compile, GEMM, "tiny_8x8", rules="some")
        self.assertUserError("'factor-in', which is no rule", tw.compile, GEMM, "tiny_8x8", disable_rules=["factor-in"])
        self.assertUserError("from 1 to", tw.compile, GEMM, "tiny_8x8", search_budget=0)
        self.assertUserError("int8", tw.compile, GEMM, "gemmini_16x16_fp32")

    def test_inputs(self):
        program = tw.compile(DIGITS, "tiny_8x8")
        spec = program.inputs[0]
        right = numpy.zeros(spec.shape, spec.dtype)
        self.assertUserError("takes 1", program.run, [])
        self.assertUserError(spec.name, program.run, {"other": right})
        self.assertUserError("complex64", program.run, [right.astype("complex64")])
        self.assertUserError(spec.name, program.run, [right[..., 1:]])

    def test_a_run_that_takes_too_long_is_a_fault(self):
        with self.assertRaises(tw.Fault):
            tw.compile(GEMM, "tiny_8x8").run(max_cycles=10)

    def test_the_command_line_raises_the_same_exceptions(self):
        self.assertUserError("no such file", tw.profile, "nothing.onnx", "tiny_8x8")
        profile = tw.profile(tw.Model.from_onnx_bytes(DIGITS.read_bytes()), tw.Machine.load("tiny_8x8", array__rows=16))
        self.assertIn("array.rows=16", profile["machine"])


class ThreadTest(unittest.TestCase):
    def test_eight_threads_give_equal_results(self):
        machine = tw.Machine.load("tiny_8x8")
        shared = tw.compile(DIGITS, machine)
        spec = shared.inputs[0]
        value = numpy.random.default_rng(3).uniform(-1, 1, spec.shape).astype(spec.dtype)

        def work(i):
            program = shared if i % 2 else tw.compile(DIGITS, machine)
            result = program.run([value])
            return program.image, result.report.total_cycles, [array.tobytes() for array in result.outputs.values()]

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            results = list(pool.map(work, range(24)))
        self.assertTrue(all(result == results[0] for result in results))


if __name__ == "__main__":
    unittest.main()
