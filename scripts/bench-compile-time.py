#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Seconds that `tilewright compile` takes for deep networks: chains of equal layers, whose compile time should be linear in their depth.

  scripts/bench-compile-time.py [--hw MACHINE] [--schedule NAME] [--layers N,...] [--keep FOLDER] [NETWORK...]

NETWORK is one of
  convs    N convolutions 3x3 of 4x8x8
  blocks   N times (MatMul, Add, Add, LayerNormalization) of 7x16, a deep transformer without attention
  tfbert   the 24 layers of TILEWRIGHT_MODELS/ort_tfbert_qa behind its embedding lookups, which take indices at run time
Default: convs and blocks, and tfbert where TILEWRIGHT_MODELS is set. Processor time, as other processes do not count; TILEWRIGHT names a
tilewright that is built already. --keep keeps the networks, NETWORK-N.onnx, and their programs, NETWORK-N.twp.
"""

import os
import pathlib
import resource
import subprocess
import tempfile

import measure
import networks

TFBERT_LAYERS, SEQUENCE, HIDDEN = 24, 7, 16


def convs(layers):
    graph = networks.Graph(f"convs_{layers}", seed=1)
    x = graph.input("x", (1, 4, 8, 8))
    for i in range(layers):
        x = graph.conv(f"conv{i}", x, 4, 3, gain=1.0)
    graph.output(x, "y")
    return graph.model()


def blocks(layers):
    graph = networks.Graph(f"blocks_{layers}", seed=1)
    x = graph.input("x", (1, SEQUENCE, HIDDEN))
    for i in range(layers):
        y = graph.dense(f"dense{i}", x, HIDDEN)
        y = graph.node("Add", f"residual{i}", [y, x], x[1])
        x = networks.layer_norm(graph, f"norm{i}", y, decomposed=False)
    graph.output(x, "y")
    return graph.model()


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """(number, contents, the bytes of all of it) of each field of a message that has no fixed-width ones."""
    at = 0
    while at < len(data):
        begin = at
        key, at = read_varint(data, at)
        if key & 7 == 0:
            value, at = read_varint(data, at)
        else:
            size, at = read_varint(data, at)
            value = data[at:at + size]
            at += size
        yield key >> 3, value, data[begin:at]


def without_lookups(model):
    """The model with an input in place of each Gather of rows of a constant by an input of the model."""
    graph = next(value for number, value, _ in fields(model) if number == 7)
    inputs, tables = set(), {}  # names, and the length of a row by the initializer's name
    for number, value, _ in fields(graph):
        if number == 5:
            parts = [(inner, part) for inner, part, _ in fields(value)]
            name = next(bytes(part).decode() for inner, part in parts if inner == 8)
            tables[name] = [part for inner, part in parts if inner == 1][-1:]
        elif number == 11:
            inputs |= {bytes(name).decode() for inner, name, _ in fields(value) if inner == 1}
    kept, added = [], []
    for number, value, whole in fields(graph):
        # Attributes, which may have fixed-width fields, stay closed.
        node = [(inner, bytes(name).decode()) for inner, name, _ in fields(value) if inner in (1, 2, 4)] if number == 1 else []
        operands = [name for inner, name in node if inner == 1]
        if (4, "Gather") in node and operands[0] in tables and operands[1] in inputs:
            output = next(name for inner, name in node if inner == 2)
            added.append(networks.tensor_info(11, output, (1, SEQUENCE, *tables[operands[0]]), networks.FLOAT))
        else:
            kept.append(whole)
    return b"".join(networks.message(7, *kept, *added) if number == 7 else whole for number, _, whole in fields(model))


def seconds(binary, model, program, options):
    """Of processor time of a compilation; None if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [binary, "compile", model, "-o", program, *options]
    result = subprocess.run(command, stdout=subprocess.DEVNULL, env=measure.ENVIRONMENT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode:
        return None
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = measure.Parser(description=__doc__, formatter_class=measure.argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NETWORK")
    parser.add_argument("--hw", default="gemmini_16x16_fp32", metavar="MACHINE")
    parser.add_argument("--schedule", default="pipelined", metavar="NAME")
    parser.add_argument("--layers", default="100,300,1000", metavar="N,...")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER")
    arguments = parser.parse_args()
    models = os.environ.get("TILEWRIGHT_MODELS")
    chains = {"convs": convs, "blocks": blocks}
    for name in arguments.names:
        if name not in [*chains, "tfbert"]:
            measure.fail(f"'{name}' is not one of {', '.join(chains)}, tfbert")
    if "tfbert" in arguments.names and not models:
        measure.fail("TILEWRIGHT_MODELS is not set; it must name the folder of the networks")
    try:
        depths = [int(depth) for depth in arguments.layers.split(",")]
    except ValueError:
        measure.fail(f"--layers is '{arguments.layers}' but must be numbers, such as 100,1000")
    measure.need_binary()
    names = arguments.names or [*chains, *(["tfbert"] if models else [])]
    rows, failed = [], False
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            for depth in depths if name in chains else [TFBERT_LAYERS]:
                model = folder / f"{name}-{depth}.onnx"
                shipped = pathlib.Path(models or "", "ort_tfbert_qa", "model.onnx")
                model.write_bytes(chains[name](depth) if name in chains else without_lookups(shipped.read_bytes()))
                options = ["--hw", arguments.hw, "--schedule", arguments.schedule]
                if name not in chains:
                    options += [o for i in ("attention_mask", "input_ids", "token_type_ids") for o in ("--shape", f"{i}=1,{SEQUENCE}")]
                taken = seconds(measure.BINARY, model, model.with_suffix(".twp"), options)
                failed |= taken is None
                if taken is not None:
                    rows.append([name, depth, f"{taken:.2f}", f"{1000 * taken / depth:.1f}"])
    print(measure.markdown(["network", "layers", "seconds", "ms per layer"], rows), end="")
    if failed:
        measure.fail("some networks failed")


if __name__ == "__main__":
    main()
