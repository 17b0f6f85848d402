#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every network of TILEWRIGHT_MODELS on a 16x16, a 32x32 and a 128x128 machine: whether its outputs are the stored ones, and what share of its
multiply-accumulates and of its time is the accelerator's. Exit status 1 if one fails or disagrees.

  scripts/model-coverage.py [--models NAME,...] [--machines NAME,...] [--limit SECONDS] [-o FILE.md]

Inputs and outputs are those of test_data_set_0. Runs are kept in build/measurements, one at a time. TILEWRIGHT names a tilewright that is built
already. Needs Debian's python3-onnx.
"""

import argparse
import collections
import json
import os
import pathlib

import measure
import numpy
import onnx
import round_model

# By what the network computes in: a machine of each size.
MACHINES = {"integers": ["gemmini_16x16_int8", "edge_32x32_int8", "onnxim_128x128"],
            "floats": ["gemmini_16x16_fp32", "edge_32x32_bf16", "cloud_128x128"]}
# Its array multiplies no floats: contractions of a float network run on the CPU.
NO_FLOATS = "gemmini_16x16_int8"
QUANTISED = {"QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "MatMulInteger", "ConvInteger"}
CONTRACTIONS = ("Conv", "MatMul", "Gemm", "LSTM", "GRU", "RNN", "Attention")
MOVES = {"Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity"}
GOAL = 0.95
TEXT = """# Coverage: networks on machines of three sizes

Made by `TILEWRIGHT_MODELS=FOLDER scripts/model-coverage.py -o FILE`; the same on every host, but for runs that it stopped.

Each network runs on a machine of 16x16, of 32x32 and of 128x128 that multiplies its type, and its outputs are compared with stored ones, which
ONNX Runtime computed node by node. They **agree**:
- in fp32, where no output is further off than `run --expect` allows ([files.md](files.md#expected-values)): 0.0001 of its range, 0.004 with float16.
  The Softmax of numbers beyond 2^24, whose last bit is 2, shows in which order sums were taken: where such an output is further off, the operand
  of the Softmax is compared with the one that this CPU computes;
- in bf16, where the error is at most twice the one in brackets, of this CPU with every tensor rounded to bfloat16. The largest element of a row
  must be the same, unless this CPU finds another one too, or the two largest differ by less than this CPU's error;
- in integers, where no dequantised output is off by more than one step, or than ONNX Runtime's own integer kernels are, if `info.json` says how far;
  other outputs within what `run --expect` allows.

Inputs that are one integer are constants (`--const`): the sampling rate of silero_v5 chooses one of two networks.

**error** is the largest of any output, as a part of its range. **MACs** are those of all contractions; **on accelerator** is its part of them, and of
the estimated time, in which accelerator, link and host take turns ([targets](targets.md#host-and-link)). **host** counts kernels and nodes there.

"""


def nodes_of(graph):
    """All nodes, those of graphs in nodes included."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == attribute.GRAPH:
                yield from nodes_of(attribute.g)


class Network:
    def __init__(self, folder):
        self.name, self.folder, self.data = folder.name, folder, folder / "test_data_set_0"
        self.model = onnx.load(str(folder / "model.onnx"), load_external_data=False)
        self.operators = {node.name or node.output[0]: node.op_type for node in nodes_of(self.model.graph) if node.output}
        for function in getattr(self.model, "functions", []):
            self.operators.update({node.name or node.output[0]: node.op_type for node in function.node if node.output})
        self.kind = "integers" if QUANTISED.intersection(self.operators.values()) else "floats"

    def files(self, what, option):
        """Options that name the tensors of inputs.json or outputs.json; `option`: the one for a file."""
        entries = json.loads((self.data / f"{what}.json").read_text())
        return [word for entry in entries for word in (option(self.data / entry["file"]), f"{entry['name']}={self.data / entry['file']}")]

    def inputs(self):
        """Integers without dims, a sampling rate for example, choose the network: they are constants."""
        def option(file):
            tensor = numpy.load(file, mmap_mode="r")
            return "--const" if tensor.shape == () and tensor.dtype.kind == "i" else "--input"
        return self.files("inputs", option)

    def arguments(self, machine, model=None):
        return [str(model or self.folder / "model.onnx"), "--hw", machine, *self.inputs(), *self.files("outputs", lambda file: "--expect")]

    def operator(self, node):
        """The operator of a node of a report; a node of a branch has the name of the one around it in front."""
        while node not in self.operators and "/" in node:
            node = node.split("/", 1)[1]
        return self.operators.get(node, "")

    def step(self, output):
        """The size of an output's least significant bit: the scale of the DequantizeLinear that makes it, None if none does."""
        graph = self.model.graph
        makers = {name: node for node in graph.node for name in node.output}
        constants = {tensor.name: tensor for tensor in graph.initializer}
        while output in makers and makers[output].op_type in MOVES:
            output = makers[output].input[0]
        maker = makers.get(output)
        if maker is None or maker.op_type != "DequantizeLinear" or maker.input[1] not in constants:
            return None
        scale = onnx.numpy_helper.to_array(constants[maker.input[1]])
        return float(scale) if scale.size == 1 else None

    def margin(self, output):
        """By how much the largest of the stored values exceeds the second."""
        entry = next(each for each in json.loads((self.data / "outputs.json").read_text()) if each["name"] == output)
        values = numpy.sort(numpy.load(self.data / entry["file"]).astype(numpy.float64), axis=None)
        return values[-1] - values[-2]

    def runtime_error(self):
        """How far ONNX Runtime's optimised kernels are from the stored outputs; 0 if nobody says."""
        info = self.folder / "info.json"
        tests = json.loads(info.read_text()).get("tests", []) if info.exists() else []
        return tests[0].get("max_abs_diff_ort_all_vs_noopt") or 0.0 if tests else 0.0

    def in_bfloat(self, limit):
        """The comparisons of the CPU's run with every tensor rounded to bfloat16, by output, and why there are none."""
        file = measure.KEPT / "rounded" / f"{self.name}.onnx"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(round_model.rounded(self.folder / "model.onnx"))
        report, error = measure.attempt(self.arguments(NO_FLOATS, file), limit)
        return {c["name"]: c for c in report["comparisons"]} if report else {}, error


    def before_softmax(self, machine, limit):
        """Whether what the outputs' Softmax nodes read is as on the CPU, and is of numbers that are too large for a Softmax."""
        model = onnx.load(str(self.folder / "model.onnx"))
        ends = [node for node in model.graph.node if node.op_type == "Softmax" and node.output[0] in [output.name for output in model.graph.output]]
        if not ends:
            return False
        del model.graph.output[:]
        for node in ends:
            model.graph.node.remove(node)
            model.graph.output.add().name = node.input[0]
        folder = measure.KEPT / "before_softmax" / self.name
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "model.onnx"
        onnx.save(model, str(file))
        inputs = self.inputs()
        report, _ = measure.attempt([str(file), "--hw", NO_FLOATS, *inputs, "--output-dir", str(folder)], limit)
        if not report or any(numpy.abs(numpy.load(output["file"])).max() < 2 ** 24 for output in report["outputs"]):
            return False
        expected = [word for output in report["outputs"] for word in ("--expect", f"{output['name']}={output['file']}")]
        report, _ = measure.attempt([str(file), "--hw", machine, *inputs, *expected], limit)
        return report is not None and all(c["within_tolerance"] for c in report["comparisons"])


def within_bfloat(network, comparison, reference):
    keeps_top1 = comparison["top1_rows"] != 1 or comparison["top1_agree"] >= reference["top1_agree"]
    keeps_top1 = keeps_top1 or network.margin(comparison["name"]) < float(reference["max_abs_error"])
    return keeps_top1 and float(comparison["max_abs_error"]) <= 2 * float(reference["max_abs_error"])


def agrees(network, machine, report, limit):
    """How the outputs do, or "" if they do not; the CPU's largest error in bf16 if that was asked, and why it cannot be said."""
    comparisons = report["comparisons"]
    if report["machine"]["array_type"] == "bf16":
        reference, error = network.in_bfloat(limit)
        if error:
            return "", None, f"the CPU in bf16: {error}"
        worst = max(float(c["max_error_of_range"]) for c in reference.values())
        return "agrees" if all(within_bfloat(network, c, reference[c["name"]]) for c in comparisons) else "", worst, ""
    if network.kind == "floats":
        if all(c["within_tolerance"] for c in comparisons):
            return "agrees", None, ""
        return "agrees before Softmax" if network.before_softmax(machine, limit) else "", None, ""
    steps = {c["name"]: network.step(c["name"]) for c in comparisons}
    # Steps are multiples of a float scale, which rounding moves.
    near = all(c["within_tolerance"] if steps[c["name"]] is None else
               float(c["max_abs_error"]) <= 1.001 * max(steps[c["name"]], network.runtime_error()) for c in comparisons)
    return "agrees" if near else "", None, ""


def percent(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def reasons(network, report):
    """Why contractions, else any nodes, are not on the accelerator: the commonest reasons with their counts."""
    away = [entry for entry in report["offload"] if entry["target"] not in ("accelerator", "folded")]
    multiply = [entry for entry in away if any(word in network.operator(entry["node"]) for word in CONTRACTIONS)]
    counts = collections.Counter((network.operator(entry["node"]), entry["reason"]) for entry in multiply or away)
    return "; ".join(f"{count} {operator}: {reason}" for (operator, reason), count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:3])


def names(parser, option, given, known):
    for name in given:
        if name not in known:
            parser.error(f"{option} names '{name}' but has {', '.join(known)}")


def main():
    parser = measure.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    listed = lambda text: [name for name in text.split(",") if name]
    parser.add_argument("--models", metavar="NAME,...", type=listed, default=[])
    parser.add_argument("--machines", metavar="NAME,...", type=listed, default=[])
    parser.add_argument("--limit", metavar="SECONDS", type=int, default=1200, help="of a run; default: %(default)s")
    parser.add_argument("-o", metavar="FILE.md", type=pathlib.Path)
    arguments = parser.parse_args()
    if not os.environ.get("TILEWRIGHT_MODELS"):
        measure.fail("TILEWRIGHT_MODELS is not set; it must name the folder of the networks")
    measure.need_binary()
    root = pathlib.Path(os.environ["TILEWRIGHT_MODELS"]).resolve()
    there = sorted(path.parent.name for path in root.glob("*/model.onnx"))
    absent = sorted(path.parent.name for path in root.glob("*/test_data_set_0") if path.parent.name not in there)
    machines = [machine for kind in MACHINES.values() for machine in kind]
    names(parser, "--models", arguments.models, there)
    names(parser, "--machines", arguments.machines, machines)
    chosen = [name for name in there if name in (arguments.models or there)]

    lines, failures, shares, counts = [], [], [], collections.Counter()
    for name in chosen:
        network = Network(root / name)
        for machine in MACHINES[network.kind]:
            if machine not in (arguments.machines or machines):
                continue
            report, error = measure.attempt(network.arguments(machine), arguments.limit)
            if not report:
                counts["failed"] += 1
                failures.append(f"- {name} on {machine}: {error}")
                lines.append([name, machine, "**failed**", *["-"] * 8])
                measure.note(lines[-1])
                continue
            comparisons, fallback = report["comparisons"], report["fallback"]
            how, reference, why = agrees(network, machine, report, arguments.limit)
            status = how or "**disagrees**"
            counts["agrees" if how else "disagrees"] += 1
            if not how:
                failures.append(f"- {name} on {machine}: " + (why or "; ".join(
                    f"`{c['name']}` is off by {float(c['max_abs_error']):.3g} of {float(c['expected_range']):.3g}" for c in comparisons if c["differing"])))
            worst = max(float(c["max_error_of_range"]) for c in comparisons)
            macs, cycles = report["macs"] + fallback["macs"], report.get("total_cycles", 0)
            if report["macs"] < GOAL * macs:
                shares.append(f"- {name} on {machine}, {percent(report['macs'], macs)}: {reasons(network, report)}")
            counts["reached"] += report["macs"] >= GOAL * macs
            everything = fallback["estimated_total_cycles"] or 0
            lines.append([name, machine, status, f"{worst:.1e}" + (f" ({reference:.1e})" if reference is not None else ""),
                          f"{sum(c['top1_agree'] for c in comparisons)} of {sum(c['top1_rows'] for c in comparisons)}", f"{macs:,}",
                          percent(report["macs"], macs), percent(cycles, everything), fallback["kernels"], fallback["crossings"], f"{cycles:,}"])
            measure.note(lines[-1])

    table = measure.markdown(["network", "machine", "outputs", "error", "top-1", "MACs", "on accelerator", "time on accelerator", "host", "crossings",
                              "cycles"], lines, 3)
    ran = len(lines) - counts["failed"]
    text = f"{len(chosen)} networks, {len(lines)} runs: {counts['agrees']} agree, {counts['disagrees']} disagree, {counts['failed']} fail. "
    text += f"At least {100 * GOAL:.0f} % of the multiply-accumulates are the accelerator's in {counts['reached']} of {ran}.\n\n{table}"
    for title, rows in [("Failures and disagreements", failures), (f"Less than {100 * GOAL:.0f} % of the multiply-accumulates", shares)]:
        if rows:
            text += f"\n## {title}\n\n" + "\n".join(rows) + "\n"
    if absent and not arguments.models:
        text += f"\nNot run, since their folders have no `model.onnx`: {', '.join(absent)}.\n"
    print(text, end="")
    if arguments.o:
        arguments.o.write_text(TEXT + text)
    if failures:
        measure.fail(f"{len(failures)} of {len(lines)} runs fail or disagree")


if __name__ == "__main__":
    main()
