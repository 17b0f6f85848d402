#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The scripts that measure, run with a stand-in for `tilewright` that notes its calls and makes its numbers from its arguments.

Environment: TILEWRIGHT_SOURCE_DIR is the source tree.
"""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SOURCE = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])

# Cycles: 2000 under serial, 1000 under others, and LATENCY_COST (0 by default) more for every factor of path latency.
STAND_IN = r'''#!/usr/bin/python3
import json, os, re, sys
arguments = sys.argv[1:]
text = " ".join(arguments)
with open(os.environ["CALLS"], "a") as calls:
    calls.write(text + "\n")
if arguments[0] == "quantize":
    open(arguments[arguments.index("-o") + 1], "w").close()
    sys.exit()
if "TILEWRIGHT_CACHE" in os.environ:
    sys.exit("tilewright: a search would not begin with nothing")
if os.environ.get("FAIL_ON", "\n") in text:
    sys.exit("tilewright: told to")
if arguments[0] == "compare":
    if "--help" in arguments:
        sys.exit(print("--math" if "MATH" in os.environ else ""))
    # One thread: processor time is half that of the other side, wall time is the same; two threads are half as long.
    threads = int(arguments[arguments.index("--threads") + 1])
    def row(name, version, cpu, runs, mib):
        return {"name": name, "version": version, "runs": runs, "memory_bytes": mib << 20, "milliseconds": {"median": 8 / threads}, "cpu_milliseconds": {"median": cpu}}
    rows = [row("cpu", "", 4, 7, 130), row("ort", "Stand-in 1.0", 8, 9, 100)]
    pair = {"differing": int(os.environ.get("DIFFERING", 0)), "max_relative_error": 2e-6, "within_tolerance": "DISAGREE" not in os.environ}
    print(json.dumps({"threads": threads, "rows": rows, "agreement": [pair]}))
    sys.exit("DISAGREE" in os.environ)
if arguments[0] == "compile" and "fusion" in arguments: # an accelerator has half of the bytes
    small = 2 if "--hw" in arguments else 1
    for name, value in [("live_bytes_model_order", 4096), ("live_bytes_memory_order", 3072), ("live_bytes_lower_bound", int(os.environ.get("BOUND", 3072))),
                        ("dram_bytes_unfused", 8 << 20), ("dram_bytes_kernels", 4 << 20), ("dram_bytes_chosen", 2 << 20),
                        ("dram_bytes_all_fused", 3 << 20), ("dram_bytes_least", 1 << 20)]:
        print(name, value // small)
    print("\nkernel a on accel, DRAM 5 bytes, result on chip by row tiles of 2\n  conv 'a': complex_out_fusable, many_to_many\n  ends: it does")
    sys.exit()
if arguments[0] == "rules":
    print("| rule | class | m | applied by | meaning |\n|---|---|---|---|---|\n| `cse` | bit-exact | `strict` | cse | `x` |\n| `exact` | bit-exact | `strict` | rules | `x` |\n"
          "| `real` | real | `fast` | rules | `x` |\n| `never` | real | `fast` | rules | `x` |")
    sys.exit()
if arguments[0] == "compile" and "--explain-rules" in arguments:
    with open(arguments[arguments.index("--explain-rules") + 1], "w") as log:
        log.write('{"rule": "exact"}\n{"rule": "real"}\n{"rule": "real"}\n')
    sys.exit()
if arguments[0] == "verify":
    print("0         526,093         8,339  0  1,101  23777  6066  337  86")
    sys.exit()
machine = arguments[arguments.index("--hw") + 1] if "--hw" in arguments else ""
path = re.search(r"path_latency_cycles=(\d+)", text)
cycles = int(os.environ.get("CYCLES", 2000 if "serial" in text else 1000)) + int(os.environ.get("LATENCY_COST", 0)) * (int(path[1]) if path else 0)
# Of the outputs: in bf16 ERROR or 0.1, on the CPU in bf16 0.06, else ERROR or 0.
error = 0.06 if "/rounded/" in text else float(os.environ.get("ERROR", 0.1 if machine in ("edge_32x32_bf16", "cloud_128x128") else 0))
report = {
    "machine": {"name": "m", "array_type": "int8" if "int8" in machine or "onnxim" in machine else "fp32" if machine.endswith("fp32") else "bf16", "peak_macs_per_cycle": 256, "scratchpad_bytes": 65536, "outstanding_bursts": 16,
                "dram": {"ideal": False, "burst_bytes": 64, "peak_bytes_per_cycle": 8, "row_conflict_latency_cycles": 50}},
    "total_cycles": cycles, "lower_bound_cycles": int(os.environ.get("BOUND", 800)), "layer_serial_cycles": 900, "bound_by": os.environ.get("BOUND_BY", "array"), "macs": 128000,
    "utilisation": 128000 / (256 * cycles), "layers": [{"name": "n", "last_retirement_cycle": cycles, "alone_bound_cycles": 700, "members": [], "tile_bytes": int(os.environ.get("TILE", 4096))}],
    "dram_read_bytes": 2 << 20, "dram_write_bytes": 1 << 20, "schedule_reference_dram_bytes": int(os.environ.get("REFERENCE", 2 << 20)),
    "data_bus_busy": float(os.environ.get("BUS", 0.5)),
    "engines": [{"name": "tensor", "busy_cycles": 600}, {"name": "vector", "busy_cycles": 300}],
    "fallback": {"macs": int(os.environ.get("HOST_MACS", 0)), "kernels": 3, "crossings": 2, "estimated_total_cycles": 4 * cycles},
    "offload": [{"node": "product", "target": "cpu", "reason": "it is told to"}, {"node": "other", "target": "cpu", "reason": "it is another"}],
    "comparisons": [{"name": "y", "elements": 10, "differing": 4, "max_abs_error": error, "expected_range": 10.0, "max_error_of_range": error / 10,
                     "within_tolerance": error <= 0.001, "top1_agree": int({"accelerator": "/rounded/" in text}.get(os.environ.get("TOP1", 1), os.environ.get("TOP1", 1))), "top1_rows": 1}],
    "compile_wall_seconds": 1.25, "simulate_wall_seconds": 0.5, "peak_memory_bytes": 100 << 20}
target = arguments[arguments.index("--json") + 1] if "--json" in arguments else ""
if target == "-":
    print(json.dumps(report))
elif target:
    json.dump(report, open(target, "w"))
'''


class ScriptsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.binary = self.path / "tilewright"
        self.binary.write_text(STAND_IN)
        self.binary.chmod(0o755)
        (self.path / "calls").touch()
        # So that no script makes them; they are never read.
        (self.path / "build/networks/fp32").mkdir(parents=True)
        for name in ["resnet18", "resnet50", "mobilenetv2", "squeezenet", "shufflenetv2", "yolo", "ssd", "bert_block", "bert_block_decomposed"]:
            (self.path / "build/networks/fp32" / f"{name}.onnx").touch()

    def script(self, name, *arguments, status=0, **environment):
        """Runs it; returns standard output and standard error."""
        own = {"TILEWRIGHT": str(self.binary), "TILEWRIGHT_BUILD": str(self.path / "build"), "CALLS": str(self.path / "calls"),
               "TILEWRIGHT_CACHE": str(self.path)}
        result = subprocess.run([SOURCE / "scripts" / name, *map(str, arguments)], text=True, capture_output=True, timeout=200,
                                env={**os.environ, **own, **environment})
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stdout, result.stderr

    def calls(self):
        return (self.path / "calls").read_text().splitlines()


class AblationTest(ScriptsTest):
    def ablation(self, *arguments, **others):
        return self.script("ablation.py", "-o", self.path, *arguments, **others)

    def test_every_schedule_of_a_network_and_the_picture(self):
        self.ablation("--networks", "gemmini_16x16_int8:squeezenet", "--layers", "")
        runs = [call for call in self.calls() if call.startswith("run")]
        self.assertEqual(len(runs), 6)
        for options in ["serial", "double_buffer", "pipelined --across none", "search --across none", "search --across prefetch",
                        "search --across all"]:
            self.assertEqual(sum(f"--schedule {options}" in call for call in runs), 1, options)
        text = (self.path / "ablation.md").read_text()
        self.assertIn("| gemmini_16x16_int8 | squeezenet | 2,000 (25.0 %) | 1,000 (50.0 %) |", text)
        self.assertIn("| 800 (62.5 %) |", text)
        # A white ground, a bar and a mark in the legend for each schedule.
        picture = xml.etree.ElementTree.parse(self.path / "ablation.svg").getroot()
        self.assertEqual(len(picture.findall("{http://www.w3.org/2000/svg}rect")), 1 + 2 * 6)

    def test_the_sweep_covers_latencies_and_rates(self):
        self.ablation("--networks", "", "--layers", "C3,C5")
        self.assertEqual(len(self.calls()), 3 * 5 * 2 * 2)
        self.assertTrue(any("dram.bytes_per_cycle=4 --set dram.latency_cycles=512" in call for call in self.calls()))
        self.assertIn("| 16 | serial | 25.0 % (0.00) |", (self.path / "ablation.md").read_text())

    def test_what_was_measured_is_not_measured_again(self):
        arguments = ["--networks", "", "--layers", "C3"]
        self.ablation(*arguments)
        first, calls = (self.path / "ablation.md").read_bytes(), len(self.calls())
        self.ablation(*arguments)
        self.assertEqual(len(self.calls()), calls)
        self.assertEqual((self.path / "ablation.md").read_bytes(), first)
        self.binary.write_text(STAND_IN + "# another binary\n")
        self.ablation(*arguments)
        self.assertEqual(len(self.calls()), 2 * calls)

    def test_a_run_that_fails_is_shown_and_tried_again(self):
        arguments = ["--networks", "", "--layers", "C3"]
        _, err = self.ablation(*arguments, status=1, FAIL_ON="latency_cycles=512")
        self.assertIn("failed: tilewright run conv", err)
        self.assertIn("| failed |", (self.path / "ablation.md").read_text())
        self.ablation(*arguments)
        self.assertNotIn("failed", (self.path / "ablation.md").read_text())

    def test_bad_arguments(self):
        for arguments, message in [(["--networks", "vdla_16x16:vgg"], "--networks names 'vdla_16x16:vgg'"),
                                   (["--layers", "C1"], "--layers names 'C1' but has C2, C3"),
                                   (["--budget", "0"], "--budget is 0"), (["--budget", "x"], "--budget: invalid int"),
                                   (["--fast"], "unrecognized arguments: --fast"), (["--networks", "", "--layers", ""], "nothing to run"),
                                   (["--full", "--networks", ""], "not both")]:
            self.assertIn(message, self.ablation(*arguments, status=1)[1])
        self.assertIn("must be a folder", self.script("ablation.py", "-o", self.path / "none", status=1)[1])
        self.assertIn("is not there", self.ablation(status=1, TILEWRIGHT="/none")[1])
        self.assertEqual(self.calls(), [])


class LatencyTest(ScriptsTest):
    def latency(self, *arguments, **others):
        return self.script("bench-latency.py", "--cases", "vdla_16x16:C3", "-o", self.path, *arguments, **others)[0]

    def test_a_layer_that_hides_latency(self):
        out = self.latency()
        self.assertEqual(out, (self.path / "latency.md").read_text())
        grows = "+0.00 % (+0.00) | "
        self.assertIn(f"| vdla_16x16 | C3 | 4,096 + 3,200 | yes | 1,000 | {3 * grows}yes |", out)
        self.assertIn("1 of the 1 layers", out)
        # 8 B/cycle x 400 cycles are 50 bursts of 64 bytes.
        for k in [0, 50, 150, 350]:
            setting = f"path_latency_cycles={k} --set dma.outstanding_bursts=64 --set dram.write_buffer_bursts=64"
            self.assertTrue(any(setting in call for call in self.calls()), k)

    def test_a_layer_that_does_not(self):
        # 350 cycles more are 35 %.
        self.assertIn("+35.00 % (+0.00) | NO |", self.latency(status=1, LATENCY_COST="1"))

    def test_it_is_not_asked_of_a_layer_bound_by_dram(self):
        self.assertIn("not asked: bound by dram", self.latency(LATENCY_COST="1", BOUND_BY="dram"))

    def test_it_is_not_asked_of_a_layer_without_room(self):
        self.assertIn("not asked: too little scratchpad", self.latency(LATENCY_COST="1", TILE="30000"))

    def test_bad_arguments(self):
        for arguments, message in [(["--cases", "vdla_16x16:C1"], "--cases names 'vdla_16x16:C1'"),
                                   (["--cases", "C3"], "--cases names 'C3'"), (["--budget", "0"], "--budget is 0"),
                                   (["-o", "/none"], "must be a folder")]:
            self.assertIn(message, self.script("bench-latency.py", *arguments, status=1)[1])


class ComparePagesTest(unittest.TestCase):
    def test_cycles_stand_behind_what_they_are_of(self):
        path = pathlib.Path(__file__).resolve().parents[3] / "scripts" / "compare-pages.py"
        spec = importlib.util.spec_from_file_location("compare_pages", path)
        pages = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(pages)
        text = """text | with bars

| machine | network | cycles | bound |
|---|---|---:|---:|
| small | net | 1,234 | 99 |
| small | other | - | 99 |

| no | such column |
|---|---|
| small | 7 |
"""
        self.assertEqual(pages.rows(text), {"small net": 1234})


class NetworksTest(ScriptsTest):
    def test_a_machine(self):
        out, _ = self.script("bench-networks.sh", "--schedule", "serial", "onnxim_128x128")
        numbers = "2,000 | 800 | 0.400 | array | 900 | 30 % | 15 % | 25.0 % | 3.00 | 1.50 | 50.0 % | 1.2 | 0.5 | 100 | bus 85 %, 1.15: no"
        self.assertIn(f"| onnxim_128x128 | squeezenet | int8 | {numbers} |", out)
        self.assertFalse(any(call.startswith("compare") for call in self.calls()))

    def test_a_network_of_a_machine(self):
        out, _ = self.script("bench-networks.sh", "onnxim_128x128/resnet18", "vdla_16x16/bert_block")
        self.assertEqual([line.split(" | ")[:2] for line in out.splitlines()[2:]],
                         [["| vdla_16x16", "bert_block"], ["| onnxim_128x128", "resnet18"]])

    def test_finite_math_is_for_every_run(self):
        self.script("bench-networks.sh", "--math", "finite", "cloud_128x128/resnet18")
        self.assertTrue(any(call.startswith("run ") and "resnet18" in call and "--math finite" in call for call in self.calls()))

    def test_what_a_network_must_reach(self):
        # 800 of 1,000 cycles, by an engine: enough for a large array only.
        out, _ = self.script("bench-networks.sh", "onnxim_128x128", "vdla_16x16", REFERENCE="4096")
        self.assertIn("| 0.80: met |", out)
        self.assertIn("| 0.95: no |", out)
        self.assertIn("| 0.85: no |", out)
        out, _ = self.script("bench-networks.sh", "vdla_16x16", BUS="0.9", REFERENCE=str(3 << 20))
        self.assertIn("| bus 85 %, 1.15: met |", out)

    def test_a_network_that_fails(self):
        out, _ = self.script("bench-networks.sh", "onnxim_128x128", status=1, FAIL_ON="resnet18")
        self.assertIn("| onnxim_128x128 | resnet18 | int8 | failed |", out)
        self.assertIn("| onnxim_128x128 | squeezenet | int8 | 1,000 |", out)

    def test_bad_arguments(self):
        for arguments, message in [(["nosuch"], "'nosuch' is not in scripts/networks.txt"),
                                   (["vdla_16x16/resnet"], "'vdla_16x16/resnet' is not in scripts/networks.txt"),
                                   (["--fast"], "unknown option '--fast'"), (["--schedule"], "--schedule needs a value"),
                                   (["--math", "finite"], "--math finite needs machines or networks"), (["--math", "fast"], "--math is 'fast' but must be finite")]:
            self.assertIn(message, self.script("bench-networks.sh", *arguments, status=1)[1])


class VerifyNetworksTest(ScriptsTest):
    def test_a_machine(self):
        out, _ = self.script("verify-networks.py", "onnxim_16x16_4b")
        self.assertRegex(out, r"\| onnxim_16x16_4b \| gemm 512 \| 526,093 \| 8,339 \| \d+ \| equal \|")
        self.assertEqual(len(self.calls()), 2)

    def test_a_difference(self):
        out, _ = self.script("verify-networks.py", "onnxim_16x16_4b", status=1, FAIL_ON="gemm:1024")
        self.assertRegex(out, r"gemm 512 .* equal")
        self.assertRegex(out, r"gemm 1024 .* DIFFER")

    def test_a_machine_without_programs(self):
        self.assertIn("machine 'nosuch' is neither", self.script("verify-networks.py", "nosuch", status=1)[1])


class OwnModelsTest(ScriptsTest):
    """A folder of two networks, for the scripts that read TILEWRIGHT_MODELS."""

    def setUp(self):
        super().setUp()
        for name in ["net", "net_int8"]:
            data = self.path / "models" / name / "test_data_set_0"
            data.mkdir(parents=True)
            (data.parent / "model.onnx").write_text(name)
            (data / "inputs.json").write_text('[{"name": "x", "file": "input_0.npy"}]')
            np.save(data / "input_0.npy", np.zeros((1, 3, 8)))


class ModelsTest(OwnModelsTest):
    def models(self, *arguments, **environment):
        return self.script("bench-models.py", *arguments, TILEWRIGHT_MODELS=str(self.path / "models"), **environment)

    def test_networks_are_on_the_machines_of_their_type(self):
        out, _ = self.models("-o", self.path / "page.md")
        self.assertIn("| net | cloud_128x128 | 1,000 | 800 | 0.800 | array | 0.90 | n: 1,000 of 700 |\n", out)
        self.assertNotRegex(out, r"net_int8 \| (cloud|gemmini_16x16_fp32)")
        self.assertEqual(len(self.calls()), 7)
        self.assertTrue(all("--schedule pipelined --shape x=1,3,8" in call for call in self.calls()))
        self.assertTrue((self.path / "page.md").read_text().endswith(out))

    def test_the_mean_of_large_bounds(self):
        out, _ = self.models(BOUND="100000", CYCLES="125000")
        self.assertNotIn("geometric mean", out)
        out, _ = self.models("net_int8", "net", "--schedule", "search", BOUND="100001", CYCLES="150000")
        self.assertIn("geometric mean of cycles / bound 1.500 over 3 rows", out)
        self.assertIn("| net | gemmini_16x16_fp32 | 1.50 | n: 150,000 of 700 |\n", out)
        self.assertNotRegex(out, r"edge_32x32_bf16 \| 1.50")

    def test_machines_and_generated_networks(self):
        out, _ = self.models("--machines", "16x16_int8", "--generated", "-o", self.path / "page.md")
        self.assertRegex(out, r"\| bert_block int8 \| gemmini_16x16_int8 \|")
        self.assertNotRegex(out, r"bf16|fp32|edge")
        self.assertIn("bench-models.py --machines 16x16_int8 --generated -o FILE", (self.path / "page.md").read_text())
        self.assertIn("no machine of these networks has 'nosuch'", self.models("--machines", "nosuch", status=1)[1])

    def test_some_networks(self):
        self.assertEqual(self.models("net_int8", "--schedule", "serial")[0].count("2,000"), 2 * 3)
        self.assertIn("'nosuch' is not in", self.models("nosuch", status=1)[1])

    def test_a_network_that_fails_is_named(self):
        out, error = self.models(FAIL_ON="onnxim_128x128", status=1)
        self.assertIn("some networks failed", error)
        self.assertIn("edge_32x32_int8", out)

    def test_without_networks(self):
        self.assertIn("TILEWRIGHT_MODELS is not set", self.script("bench-models.py", TILEWRIGHT_MODELS="", status=1)[1])


class FusionTest(ScriptsTest):
    """bench-memory.py and bench-fusion.py read what --emit fusion prints."""

    def test_peaks_in_two_orders(self):
        out, _ = self.script("bench-memory.py", "resnet18", TILEWRIGHT_MODELS="")
        self.assertIn("| resnet18 | CPU | 4.0 | 3.0 | 3.0 | 25.0 % | yes |\n", out)
        self.assertIn("| resnet18 | gemmini_16x16_bf16 | 2.0 | 1.5 | 1.5 | 25.0 % | yes |\n", out)
        out, _ = self.script("bench-memory.py", "resnet18", TILEWRIGHT_MODELS="", BOUND="2048")
        self.assertIn("| 25.0 % | 50.0 % above |\n", out)

    def test_a_network_that_fails_is_named(self):
        out, error = self.script("bench-memory.py", "resnet18", TILEWRIGHT_MODELS="", FAIL_ON="--target cpu", status=1)
        self.assertIn("told to", error)
        self.assertIn("gemmini_16x16_bf16", out)

    def test_unknown_networks_are_refused(self):
        self.assertIn("'nosuch' is none of resnet18", self.script("bench-memory.py", "nosuch", TILEWRIGHT_MODELS="", status=1)[1])
        self.assertIn("'nosuch'", self.script("bench-fusion.py", "nosuch", status=1)[1])

    def test_bytes_of_fusion_plans(self):
        page = self.path / "page.md"
        page.write_text("text\n<!-- scripts/bench-fusion.py writes from here -->\nold\n")
        self.script("bench-fusion.py", "mobilenetv2", "-o", page)
        text = page.read_text()
        self.assertTrue(text.startswith("text\n"))
        self.assertNotIn("old", text)
        self.assertIn("| mobilenetv2 | cloud_128x128 | 1 | 1 | 4.00 | 2.00 | 1.00 | 1.50 | 0.50 |\n", text)
        self.assertIn("conv 'a'", text)


class RulesTest(OwnModelsTest):
    def models(self, *arguments, **environment):
        return self.script("bench-rules.py", *arguments, TILEWRIGHT_MODELS=str(self.path / "models"), **environment)

    def test_networks_are_on_the_machines_of_their_type(self):
        out, _ = self.models("-o", self.path / "page.md")
        self.assertIn("| net | gemmini_16x16_fp32 | MACs | 128,000 | 128,000 | 128,000 | 128,000 | `exact` 1, `real` 2 |\n", out)
        self.assertIn("| `real` | 4 |\n", out)
        self.assertIn("Never on these networks: `never`.\n", out)
        runs = [call for call in self.calls() if call.startswith("run ")]
        # Approximations do not fire, so that three sets make three programs of each network.
        self.assertEqual(len(runs), 6)
        self.assertTrue(all("--math fast --shape x=1,3,8" in call and "--rules" in call for call in runs))
        self.assertTrue((self.path / "page.md").read_text().endswith(out))

    def test_some_networks(self):
        self.assertNotIn("net_int8", self.models("net")[0])
        self.assertIn("'nosuch' is not in", self.models("nosuch", status=1)[1])

    def test_a_network_that_fails_is_named(self):
        out, error = self.models(FAIL_ON="--rules real", status=1)
        self.assertIn("failed with rules alone", error)
        self.assertIn("- net (", out)

    def test_without_networks(self):
        self.assertIn("TILEWRIGHT_MODELS is not set", self.script("bench-rules.py", TILEWRIGHT_MODELS="", status=1)[1])


class CoverageTest(ScriptsTest):
    def setUp(self):
        super().setUp()
        self.network("net", [helper.make_node("MatMul", ["x", "w"], ["m"], "product"), helper.make_node("Relu", ["m"], ["y"], "other")])
        self.network("quantised", [helper.make_node("QuantizeLinear", ["x", "s"], ["q"]), helper.make_node("DequantizeLinear", ["q", "s"], ["y"])])
        (self.path / "models/absent/test_data_set_0").mkdir(parents=True)

    def network(self, name, nodes):
        data = self.path / "models" / name / "test_data_set_0"
        data.mkdir(parents=True)
        values = [helper.make_tensor_value_info(each, TensorProto.FLOAT, [2, 2]) for each in "xy"]
        constants = [numpy_helper.from_array(np.full([2, 2], 1.01, np.float32), "w"), numpy_helper.from_array(np.array(0.5, np.float32), "s")]
        onnx.save(helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:], constants)), str(data.parent / "model.onnx"))
        for what, tensor in [("inputs", "x"), ("outputs", "y")]:
            (data / f"{what}.json").write_text(f'[{{"name": "{tensor}", "file": "{tensor}.npy"}}]')
            np.save(data / f"{tensor}.npy", np.zeros((2, 2), np.float32))

    def coverage(self, *arguments, **environment):
        return self.script("model-coverage.py", "-o", self.path / "page.md", *arguments, TILEWRIGHT_MODELS=str(self.path / "models"), **environment)[0]

    def test_a_machine_of_each_size(self):
        out = self.coverage()
        self.assertIn("| net | gemmini_16x16_fp32 | agrees | 0.0e+00 | 1 of 1 | 128,000 | 100.0 % | 25.0 % | 3 | 2 | 1,000 |", out)
        self.assertIn("| net | cloud_128x128 | agrees | 1.0e-02 (6.0e-03) |", out)
        self.assertIn("| quantised | onnxim_128x128 | agrees |", out)
        self.assertIn("2 networks, 6 runs: 6 agree, 0 disagree, 0 fail.", out)
        self.assertIn("have no `model.onnx`: absent.", out)
        page = (self.path / "page.md").read_text()
        self.assertTrue(page.endswith(out))
        self.assertEqual(self.coverage(), out)  # from what was kept
        # The CPU's weights are what bfloat16 has for 1.01.
        rounded = onnx.load(str(self.path / "build/measurements/rounded/net.onnx"))
        self.assertEqual(numpy_helper.to_array(rounded.graph.initializer[0])[0, 0], 1.0078125)
        self.assertEqual([node.op_type for node in rounded.graph.node], ["Cast", "Cast", "MatMul", "Cast", "Cast", "Relu", "Cast", "Cast"])

    def test_what_falls_short_is_told(self):
        out = self.coverage("--models", "net", HOST_MACS="128000")
        self.assertIn("- net on edge_32x32_bf16, 50.0 %: 1 MatMul: it is told to", out)
        self.assertIn("accelerator's in 0 of 3.", out)

    def test_what_is_too_far_off(self):
        for error, runs in [("0.002", ["net gemmini_16x16_fp32"]), ("0.13", ["net gemmini_16x16_fp32", "net edge_32x32_bf16", "net cloud_128x128"]),
                            ("0.6", ["net gemmini_16x16_fp32", "net edge_32x32_bf16", "net cloud_128x128", "quantised gemmini_16x16_int8",
                                     "quantised edge_32x32_int8", "quantised onnxim_128x128"])]:
            shutil.rmtree(self.path / "build/measurements", ignore_errors=True)
            out = self.coverage(status=1, ERROR=error)
            self.assertEqual([" ".join(line.split(" | ")[:2])[2:] for line in out.splitlines() if "**disagrees**" in line], runs)
            self.assertIn(f"- net on gemmini_16x16_fp32: `y` is off by {error} of 10", out)

    def test_another_largest_element(self):
        # Of the CPU too.
        self.assertIn("| net | cloud_128x128 | agrees |", self.coverage("--models", "net", TOP1="0"))
        # Of the accelerator alone: the CPU's error is 0.06.
        for largest, status in [(0.05, "agrees"), (0.07, "**disagrees**")]:
            shutil.rmtree(self.path / "build/measurements")
            np.save(self.path / "models/net/test_data_set_0/y.npy", np.array([[0, largest], [0, 0]], np.float32))
            out = self.coverage("--models", "net", "--machines", "cloud_128x128", status=int("dis" in status), TOP1="accelerator")
            self.assertIn(f"| net | cloud_128x128 | {status} |", out)

    def test_a_run_that_fails_or_takes_too_long(self):
        out = self.coverage("--machines", "onnxim_128x128,cloud_128x128", status=1, FAIL_ON="onnxim_128x128")
        self.assertIn("| quantised | onnxim_128x128 | **failed** |", out)
        self.assertIn("- quantised on onnxim_128x128: told to", out)
        self.binary.write_text("#!/bin/sh\nexec sleep 60\n")
        self.assertIn("- net on cloud_128x128: stopped after 1 s", self.coverage("--models", "net", "--machines", "cloud_128x128", "--limit", 1, status=1))

    def test_bad_arguments(self):
        for arguments, message in [(["--models", "nosuch"], "--models names 'nosuch' but has net, quantised"),
                                   (["--machines", "tiny_8x8"], "--machines names 'tiny_8x8' but has gemmini_16x16_int8"), (["--limit", "x"], "--limit: invalid int")]:
            self.assertIn(message, self.script("model-coverage.py", *arguments, status=1, TILEWRIGHT_MODELS=str(self.path / "models"))[1])
        self.assertIn("TILEWRIGHT_MODELS is not set", self.script("model-coverage.py", TILEWRIGHT_MODELS="", status=1)[1])


class CompileTimeTest(ScriptsTest):
    def test_chains_of_each_depth(self):
        out, _ = self.script("bench-compile-time.py", "--layers", "2,3", "--keep", self.path / "kept", "convs", "blocks")
        self.assertEqual([line.split(" | ")[:2] for line in out.splitlines()[2:]],
                         [["| convs", "2"], ["| convs", "3"], ["| blocks", "2"], ["| blocks", "3"]])
        self.assertTrue(all(call.startswith("compile ") and "--schedule pipelined" in call for call in self.calls()))
        # Two layers, and a network that is larger by a layer of the same size.
        sizes = [(self.path / f"kept/convs-{depth}.onnx").stat().st_size for depth in (2, 3)]
        self.assertAlmostEqual(sizes[1] / sizes[0], 1.5, delta=0.1)

    def test_embedding_lookups_become_inputs(self):
        """A model of a Gather of rows by an input, and a Relu."""
        def message(field, *parts):
            body = b"".join(parts)
            return bytes([field << 3 | 2, len(body)]) + body
        table = message(5, bytes([1 << 3, 20, 1 << 3, 8]), message(8, b"table"))
        gather = message(1, message(1, b"table"), message(1, b"ids"), message(2, b"rows"), message(4, b"Gather"))
        relu = message(1, message(1, b"rows"), message(2, b"y"), message(4, b"Relu"))
        folder = self.path / "ort_tfbert_qa"
        folder.mkdir()
        (folder / "model.onnx").write_bytes(message(7, gather, relu, table, message(11, message(1, b"ids"))))
        self.script("bench-compile-time.py", "--keep", self.path / "kept", "tfbert", TILEWRIGHT_MODELS=str(self.path))
        model = (self.path / "kept/tfbert-24.onnx").read_bytes()
        self.assertNotIn(b"Gather", model)
        self.assertEqual(model.count(b"rows"), 2)  # the Relu's operand, and the input

    def test_bad_arguments(self):
        for arguments, message in [(["deep"], "'deep' is not one of convs, blocks, tfbert"), (["--layers", "x"], "--layers is 'x'"),
                                   (["tfbert"], "TILEWRIGHT_MODELS is not set")]:
            self.assertIn(message, self.script("bench-compile-time.py", *arguments, status=1, TILEWRIGHT_MODELS="")[1])

    def test_a_network_that_fails(self):
        self.script("bench-compile-time.py", "--layers", "2", "convs", FAIL_ON="convs-2", status=1)


class CpuTest(ScriptsTest):
    """bench-cpu.py"""

    def bench(self, *arguments, **others):
        return self.script("bench-cpu.py", "--quick", *arguments, **{"TILEWRIGHT_ORT": "", "TILEWRIGHT_DNNL": "", "TILEWRIGHT_MODELS": "", **others})

    def compared(self):
        return [call for call in self.calls() if call.startswith("compare") and "--help" not in call]

    def test_a_ratio_is_of_processor_time_with_one_thread(self):
        out, _ = self.bench("--only", "products")
        self.assertIn("| gemm:256x256x256:fp32 | 4.000 | 8.000 | 0.50 | 1.00 | 7 + 9 | equal |\n", out)
        self.assertIn("| gemm:8x4096x4096:int8 |", out)
        for call in self.compared():
            self.assertIn("--targets cpu --threads 1 --repeat 3 --json - --external ort", call)

    def test_how_far_values_lie_apart(self):
        self.assertIn("| within 2.0e-06 of the range |", self.bench("--only", "products", DIFFERING="3")[0])

    def test_a_page_of_all_sections(self):
        out, _ = self.bench("-o", self.path / "page.md", "--rounds", 2, "--ort", "ort.so", "--dnnl", "dnnl.so")
        page = (self.path / "page.md").read_text()
        self.assertTrue(page.endswith(out))
        self.assertIn("with --quick. Both sides take turns in one process, in 2 rounds", page)
        self.assertRegex(page, r"Host: .+, \d+ cores\. Stand-in 1\.0\.\n")
        for title in ["Matrix products", "Networks", "Convolutions with NCHW in and out", "Functions", "Real networks", "Two threads", "bf16 beside oneDNN",
                      "Peak memory", "Our quantised networks in ONNX Runtime"]:
            self.assertEqual(page.count(f"\n## {title}\n"), 1, title)
        self.assertIn("TILEWRIGHT_MODELS was not set", page)
        self.assertIn("| resnet18 | 8.00 | 4.00 | 2.00 | 8.00 | 4.00 | 2.00 | 1.00 | 0.95 | 42 + 54 |\n", page)
        self.assertIn("| squeezenet fp32 | 130 | 100 | 1.30 | 1.30 |\n", page)
        self.assertIn("| 1024x1024x1024 | 4.000 | 8.000 | 2.00 | 0.85 |", page)
        for call in self.compared():
            self.assertTrue("--external ort --ort ort.so" in call or "--external dnnl --dnnl dnnl.so" in call, call)
        self.assertTrue(any(call.startswith("quantize") and "--form portable" in call for call in self.calls()))

    def test_bf16_is_measured_under_fast_math_where_there_is_such(self):
        self.bench("--only", "bf16", MATH="1")
        self.assertIn("--math fast", self.compared()[0])

    def test_real_networks(self):
        for name in ["first", "second"]:
            data = self.path / "models" / name / "test_data_set_0"
            data.mkdir(parents=True)
            (data.parent / "model.onnx").touch()
            (data / "inputs.json").write_text('[{"name": "x", "file": "input_0.npy"}]')
        out, _ = self.bench("--only", "real", TILEWRIGHT_MODELS=str(self.path / "models"), FAIL_ON="second/model.onnx")
        self.assertIn("| first | 4.000 | 8.000 | 0.50 |", out)
        self.assertIn("Geometric mean of 1: 0.50, goal 0.75.", out)
        self.assertIn("Not run: second (told to).", out)
        self.assertIn("--input x=", self.compared()[0])

    def test_what_goes_wrong(self):
        out, err = self.bench("--only", "products", status=1, FAIL_ON="gemm:512x512x512:int8")
        self.assertIn("| gemm:512x512x512:int8 | - | - | failed |", out)
        self.assertIn("failed: compare gemm:512x512x512:int8", err)
        self.assertIn("| **disagree** |", self.bench("--only", "products", status=1, DISAGREE="1")[0])
        self.assertIn("'speed' is none of products,", self.bench("--only", "speed", status=1)[1])
        self.assertIn("--rounds must be 1 or more", self.bench("--rounds", "0", status=1)[1])


class SmallKernelsTest(ScriptsTest):
    def test_schedules_are_parts_of_double_buffer(self):
        out, _ = self.script("bench-small.py", "--kernels", 3, "--schedules", "serial,pipelined", "--budget", 4)
        self.assertIn("serial: geometric mean 2.0000, largest 2.000, more than 1 in 3 of 3\n", out)
        self.assertIn("pipelined: geometric mean 1.0000, largest 1.000, more than 1 in 0 of 3\n", out)
        self.assertEqual(len(self.calls()), 9)
        self.assertEqual(out, self.script("bench-small.py", "--kernels", 3, "--schedules", "serial,pipelined", "--budget", 4)[0])
        self.assertNotEqual(out, self.script("bench-small.py", "--kernels", 3, "--seed", 6, "--schedules", "serial,pipelined")[0])

    def test_a_kernel_that_fails_is_named(self):
        _, error = self.script("bench-small.py", "--kernels", 3, FAIL_ON="vdla_16x16", status=1)
        self.assertRegex(error, "failed: tilewright run .* --hw vdla_16x16 --schedule pipelined")


class WebSetupTest(unittest.TestCase):
    """scripts/setup.sh and scripts/report-page.sh on hosts that are made of stand-ins; nothing is installed."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bin = pathlib.Path(folder.name)
        for tool in ["bash", "awk", "sed", "paste", "dirname", "cat", "cp", "cmp", "timeout", "touch", "chmod"]:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.program("id", "echo 0")
        self.program("dpkg-query", "exit 1")
        # nodejs is Debian's, unless NODE_WITH_NPM is set.
        self.program("apt-get", """echo "$*" >>"$LOG"
case "$*" in *install*nodejs*)
  for name in node ${NODE_WITH_NPM:+npm}; do touch "$BIN/$name"; chmod 755 "$BIN/$name"; done ;;
esac""")

    def program(self, name, text):
        (self.bin / name).write_text("#!/bin/bash\n" + text + "\n")
        (self.bin / name).chmod(0o755)

    def run_script(self, *command, **environment):
        return subprocess.run([shutil.which("bash"), SOURCE / "scripts" / command[0], *command[1:]], capture_output=True, text=True, timeout=60,
                              env={"PATH": str(self.bin), "BIN": str(self.bin), "LOG": str(self.bin / "log"), **environment})

    def installed(self, **environment):
        done = self.run_script("setup.sh", "web", **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line.split("--no-install-recommends ")[1] for line in (self.bin / "log").read_text().splitlines() if "install" in line]

    def test_node_of_debian(self):
        self.assertEqual(self.installed(), ["nodejs", "npm chromium"])

    def test_node_that_comes_with_npm(self):
        self.assertEqual(self.installed(NODE_WITH_NPM="1"), ["nodejs", "chromium"])

    def test_node_that_is_there(self):
        self.program("node", "")
        self.program("npm", "")
        self.assertEqual(self.installed(), ["chromium"])

    def test_the_page_cannot_be_built(self):
        done = self.run_script("report-page.sh")
        self.assertEqual((done.returncode, done.stderr), (77, "report-page: needs node: scripts/setup.sh web\n"))
        self.program("npm", "exit 1")
        self.program("node", '[ "$1" = --version ] && echo v16.1.0 || exit 1')
        done = self.run_script("report-page.sh")
        self.assertEqual((done.returncode, done.stderr), (77, "report-page: found node v16.1.0; needs 18 or newer\n"))


if __name__ == "__main__":
    unittest.main()
