#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decoder layers of scripts/networks.py, small: their values are those of NumPy, the int8 forms equal the CPU, and a cache is updated in place.

Environment: TILEWRIGHT is the binary, TILEWRIGHT_SOURCE_DIR the source tree.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnx.numpy_helper

BINARY = os.environ["TILEWRIGHT"]
SOURCE = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "scripts"))
import networks  # noqa: E402

SIZES = {"hidden": 64, "heads": 4, "inner": 96}
CACHES = ("past_key", "past_value", "present_key", "present_value")
ALIASES = ("--alias", "present_key=past_key", "--alias", "present_value=past_value")


class DecodeCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def tilewright(self, *arguments, status=0):
        """Runs it in an empty folder. Returns standard output and standard error."""
        result = subprocess.run([BINARY, *map(str, arguments)], cwd=self.path, capture_output=True, timeout=300)
        out, err = result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace")
        self.assertEqual(result.returncode, status, f"{arguments}\n{out}\n{err}")
        return out, err

    def write(self, graph):
        (self.path / f"{graph.name}.onnx").write_bytes(graph.model())
        return f"{graph.name}.onnx"

    def layer(self, build, **parameters):
        graph = networks.Graph("layer", seed=1)
        build(graph, **SIZES, **parameters)
        return self.write(graph)

    def quantized(self, model):
        graph = onnx.load(str(self.path / model)).graph
        names = [value.name for value in (*graph.input, *graph.output)]
        eight_bit = [word for name in names if name in CACHES for word in ("--int8", name)]
        self.tilewright("quantize", model, "--calibration", "random:7", *eight_bit, "-o", "int8.onnx")
        return "int8.onnx"

    def outputs(self, model, machine, *options):
        folder = "out" + str(len(list(self.path.iterdir())))
        self.tilewright("run", model, "--hw", machine, *options, "--output-dir", folder)
        return {path.stem: np.load(path) for path in (self.path / folder).iterdir()}


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def reference(model, inputs, family, form, past):
    """The layer as its papers define it, in double precision."""
    w = {tensor.name: onnx.numpy_helper.to_array(tensor).astype(np.float64) for tensor in model.graph.initializer}
    x = inputs["hidden"].astype(np.float64)
    rows, hidden = x.shape[1:]
    size = hidden // SIZES["heads"]

    def dense(name, y):
        return y @ w[name + "_weights"] + w.get(name + "_bias", 0)

    def norm(name, y):
        if family == "llama":
            return y / np.sqrt((y * y).mean(-1, keepdims=True) + 1e-5) * w[name + "_scale"]
        y = y - y.mean(-1, keepdims=True)
        return y / np.sqrt((y * y).mean(-1, keepdims=True) + 1e-5) * w[name + "_scale"] + w[name + "_bias"]

    def heads(y):
        return y.reshape(1, rows, -1, size).transpose(0, 2, 1, 3)

    y = norm("attention_norm", x)
    query, key, value = (np.split(dense("qkv", y), 3, axis=-1) if form == "split" else
                         (dense(name, y) for name in ("query", "key", "value")))
    query, key, value = heads(query), heads(key), heads(value)
    if family == "llama":
        turn = [np.concatenate([-z[..., size // 2:], z[..., :size // 2]], -1) for z in (query, key)]
        query, key = (z * inputs["cosine"] + t * inputs["sine"] for z, t in zip((query, key), turn))
    new = key, value
    if past and form == "given":
        key, value = inputs["past_key"], inputs["past_value"]
    elif past:
        key, value = (np.concatenate([inputs["past_" + name][:, :, :past - rows], z], axis=2)
                      for name, z in (("key", key), ("value", value)))
    outputs = dict(zip(("new_key", "new_value"), new)) if form == "given" else {"present_key": key, "present_value": value}
    key, value = (np.repeat(z, SIZES["heads"] // z.shape[1], axis=1) for z in (key, value))
    scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(size)
    if rows > 1:
        scores = scores + np.triu(np.full((rows, rows), -np.inf), 1)
    y = (softmax(scores) @ value).transpose(0, 2, 1, 3).reshape(x.shape)
    x = x + dense("projection", y)
    y = norm("ffn_norm", x)
    if family == "llama":
        gate = dense("ffn_gate", y)
        y = gate / (1 + np.exp(-gate)) * dense("ffn_up", y)
    else:
        y = np.maximum(dense("ffn_inner", y), 0)
    outputs["output"] = x + dense("ffn_output", y)
    return outputs


FORMS = [("opt", form, past, 1) for form in ("given", "concat", "static", "split") for past in (16, 21)]
FORMS += [("llama", form, 16, 1) for form in ("concat", "static")]
FORMS += [("opt", "concat", 0, 8), ("llama", "concat", 0, 8)]


class DecodeTest(DecodeCase):
    def build(self, family, form, past, rows):
        if family == "opt":
            return self.layer(networks.opt_layer, rows=rows, past=past, form=form)
        return self.layer(networks.llama_layer, rows=rows, past=past, form=form, groups=2)

    def test_values_are_those_of_the_definition(self):
        for family, form, past, rows in FORMS:
            with self.subTest(family=family, form=form, past=past):
                name = self.build(family, form, past, rows)
                model = onnx.load(str(self.path / name))
                random = np.random.RandomState(3)
                inputs, options = {}, []
                for value in model.graph.input:
                    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
                    inputs[value.name] = random.uniform(-1, 1, shape).astype(np.float32)
                    np.save(self.path / f"{value.name}.npy", inputs[value.name])
                    options += ["--input", f"{value.name}={value.name}.npy"]
                found = self.outputs(name, "gemmini_16x16_fp32", "--model", "functional", *options)
                expected = reference(model, inputs, family, form, past)
                self.assertEqual(found.keys(), expected.keys())
                for key, values in expected.items():
                    # Sums of at most 96 products of numbers below 4, each rounded to 24 bits.
                    np.testing.assert_allclose(found[key], values, rtol=0, atol=1e-4, err_msg=key)

    def test_the_int8_forms_equal_the_cpu(self):
        for family, form, past, rows in FORMS:
            with self.subTest(family=family, form=form, past=past):
                model = self.quantized(self.build(family, form, past, rows))
                out, _ = self.tilewright("compare", model, "--hw", "onnxim_16x16_16b", "--repeat", "1", "--threads", "1")
                self.assertIn("the results agree", out)

    def test_caches_are_int8_from_end_to_end(self):
        model = onnx.load(str(self.path / self.quantized(self.build("opt", "concat", 16, 1))))
        types = {value.name: value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)}
        self.assertEqual({name for name, kind in types.items() if kind == onnx.TensorProto.INT8}, set(CACHES))
        scales = {name: node.input[1] for node in model.graph.node for name in (*node.input[:1], *node.output)
                  if node.op_type in ("QuantizeLinear", "DequantizeLinear") and name in CACHES}
        self.assertEqual(scales["past_key"], scales["present_key"], "a Concat moves bytes")


class ConcatTest(DecodeCase):
    def loads_from(self, model, machine, name, *options):
        """Instructions that load from the place of an output."""
        text, _ = self.tilewright("compile", model, "--hw", machine, *options, "--emit", "isa")
        shape, address = re.search(rf'^\.output "{name}" \w+ \[([\d,]+)\] (0x\w+)$', text, re.M).groups()
        begin = int(address, 16)
        end = begin + int(np.prod([int(extent) for extent in shape.split(",")]))  # bytes, at least
        loads = re.findall(r"^\s*load .*?dram_address=(0x\w+)", text, re.M)
        self.assertTrue(loads)
        return [load for load in loads if begin <= int(load, 16) < end]

    def test_caches_that_grow_are_read_where_their_parts_lie(self):
        for build in (networks.opt_layer, networks.llama_layer):
            for schedule in ("serial", "pipelined"):
                with self.subTest(build=build.__name__, schedule=schedule):
                    model = self.quantized(self.layer(build, past=21, form="concat"))
                    for name in ("present_key", "present_value"):
                        self.assertEqual(self.loads_from(model, "onnxim_16x16_16b", name, "--schedule", schedule), [])

    def test_parts_along_any_axis(self):
        whole = (1, 4, 21, 16)
        for axis, extents in ((1, (1, 3)), (2, (5, 15, 1)), (2, (20, 1)), (3, (8, 8)), (3, (3, 12, 1))):
            with self.subTest(axis=axis, extents=extents):
                graph = networks.Graph("parts", seed=1)
                random = np.random.RandomState(5)
                inputs = {"x": random.uniform(-1, 1, (1, 4, 2, 21)).astype(np.float32)}
                x = graph.input("x", inputs["x"].shape)
                parts = []
                for i, extent in enumerate(extents):
                    shape = whole[:axis] + (extent,) + whole[axis + 1:]
                    inputs[f"part{i}"] = random.uniform(-1, 1, shape).astype(np.float32)
                    parts.append(graph.input(f"part{i}", shape))
                joined = graph.output(networks.concat(graph, "joined", parts, axis=axis), "whole")
                graph.output(graph.node("MatMul", "product", [x, joined], (1, 4, 2, 16)), "y")
                model, options = self.write(graph), []
                for name, values in inputs.items():
                    np.save(self.path / f"{name}.npy", values)
                    options += ["--input", f"{name}={name}.npy"]
                found = self.outputs(model, "gemmini_16x16_fp32", *options)
                expected = np.concatenate([inputs[f"part{i}"] for i in range(len(extents))], axis)
                np.testing.assert_array_equal(found["whole"], expected)
                # 21 products of numbers up to 1, each rounded to 24 bits.
                np.testing.assert_allclose(found["y"], inputs["x"] @ expected, rtol=0, atol=1e-5)
                self.assertEqual(self.loads_from(model, "gemmini_16x16_fp32", "whole"), [])


class AliasTest(DecodeCase):
    def program(self, model, *options):
        """Addresses of inputs and outputs in the program, by name."""
        text, _ = self.tilewright("compile", model, "--hw", "onnxim_16x16_16b", *options, "--emit", "isa")
        return {name: address for name, address in re.findall(r'^\.(?:in|out)put "(\w+)" .* (0x\w+)$', text, re.M)}

    def test_a_cache_is_updated_where_it_lies(self):
        for family, build in (("opt", networks.opt_layer), ("llama", networks.llama_layer)):
            for schedule in ("serial", "double_buffer", "pipelined"):
                with self.subTest(family=family, schedule=schedule):
                    model = self.quantized(self.layer(build, past=16, form="static"))
                    options = ("--schedule", schedule)
                    places = self.program(model, *ALIASES, *options)
                    for name in ("key", "value"):
                        self.assertEqual(places["present_" + name], places["past_" + name])
                    apart = self.outputs(model, "onnxim_16x16_16b", *options)
                    for key, values in self.outputs(model, "onnxim_16x16_16b", *ALIASES, *options).items():
                        np.testing.assert_array_equal(values, apart[key], err_msg=key)

    def test_the_report_names_the_input(self):
        model = self.quantized(self.layer(networks.opt_layer, past=16, form="static"))
        self.tilewright("run", model, "--hw", "onnxim_16x16_16b", *ALIASES, "--json", "run.json")
        outputs = json.loads((self.path / "run.json").read_text())["outputs"]
        self.assertEqual({output["name"]: output["alias"] for output in outputs},
                         {"present_key": "past_key", "present_value": "past_value", "output": None})

    def test_rows_that_stay_are_not_moved(self):
        model = self.quantized(self.layer(networks.opt_layer, past=64, form="static"))
        kib = [float(re.search(r"DRAM ([\d.]+) KiB; at least", self.tilewright("run", model, "--hw", "onnxim_16x16_16b", "--schedule",
                                                                               "serial", *options)[0]).group(1))
               for options in ((), ALIASES)]
        # Both caches of 64 rows of 64 bytes are neither copied out nor in; the code of the copies goes, too.
        self.assertGreater(kib[0] - kib[1], 2 * 2 * 63 * 64 / 1024)

    def test_the_model_may_say_so(self):
        name = self.quantized(self.layer(networks.opt_layer, past=16, form="static"))
        model = onnx.load(str(self.path / name))
        onnx.helper.set_model_props(model, {"tilewright.alias": "present_key=past_key, present_value=past_value"})
        onnx.save(model, str(self.path / "props.onnx"))
        places = self.program("props.onnx")
        self.assertEqual(places["present_key"], places["past_key"])
        self.assertEqual(places["present_value"], places["past_value"])
        self.assertEqual(places, self.program(name, *ALIASES))

    def test_a_state_that_nothing_else_reads(self):
        graph = networks.Graph("state", seed=1)
        x = graph.input("x", (4, 16))
        graph.input("old", (4, 16))
        graph.output(graph.relu(x), "new")
        places = self.program(self.write(graph), "--alias", "new=old")
        self.assertEqual(places["new"], places["old"])


class BadAliasTest(DecodeCase):
    def refused(self, model, *texts):
        _, err = self.tilewright("run", model, "--hw", "onnxim_16x16_16b", *texts[:-1], status=1)
        self.assertIn(texts[-1], err)

    def slices(self, name, kept_first, reads_late=False):
        """A cache of 4 rows of which three are kept and one is new."""
        graph = networks.Graph(name, seed=1)
        new, past = graph.input("new", (1, 16)), graph.input("past", (4, 16))
        new = graph.relu(new)
        kept = networks.channels_from(graph, "kept", past, kept_first, 3, axis=0)
        present = graph.output(networks.concat(graph, "joined", [kept, new], axis=0), "present")
        y = graph.node("Add", "sum", [present, past], (4, 16)) if reads_late else graph.relu(present)
        graph.output(y, "y")
        return self.write(graph)

    def test_names(self):
        model = self.slices("kept", 0)
        self.refused(model, "--alias", "future=past", "an alias names output 'future', but the network has only 'present', 'y'")
        self.refused(model, "--alias", "present=future", "an alias names input 'future', but the network has only 'new', 'past'")
        self.refused(model, "--alias", "present", "--alias is 'present' but must be OUT=IN")
        self.refused(model, "--alias", "present=past", "--alias", "y=past", "are to lie at the place of one input, 'past'")
        self.refused(model, "--alias", "present=new", "output 'present' is of tensor<4x16xf32>")

    def test_an_input_that_is_read_too_late(self):
        self.refused(self.slices("late", 0, reads_late=True), "--alias", "present=past",
                     "reads the input when the output has been written")

    def test_rows_that_move(self):
        self.refused(self.slices("moved", 1), "--alias", "present=past", "what it keeps of the input has another place in the result")

    def test_a_kernel_that_computes_what_it_reads(self):
        graph = networks.Graph("computed", seed=1)
        graph.output(graph.relu(graph.input("past", (4, 16))), "present")
        self.refused(self.write(graph), "--alias", "present=past", "it computes")

    def test_metadata(self):
        model = onnx.load(str(self.path / self.slices("kept", 0)))
        onnx.helper.set_model_props(model, {"tilewright.alias": "present"})
        onnx.save(model, str(self.path / "props.onnx"))
        self.refused("props.onnx", 'metadata "tilewright.alias" is "present" but must be OUTPUT=INPUT')


if __name__ == "__main__":
    unittest.main()
