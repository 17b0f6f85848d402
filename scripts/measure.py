# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs of `tilewright` for the scripts beside this one: two at a time, each kept in build/measurements, so that a script that
was stopped goes on where it was. A run is known by its arguments and the contents of its model, the machine files and the
binary. TILEWRIGHT names the binary, TILEWRIGHT_BUILD the build folder."""

import argparse
import concurrent.futures
import hashlib
import json
import math
import os
import pathlib
import subprocess
import sys
import threading

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("TILEWRIGHT_BUILD", ROOT / "build")).resolve()
BINARY = pathlib.Path(os.environ.get("TILEWRIGHT", BUILD / "release/bin/tilewright")).resolve()
KEPT = BUILD / "measurements"
# Every search begins with nothing.
ENVIRONMENT = {**{key: value for key, value in os.environ.items() if key != "TILEWRIGHT_CACHE"},
               "SYSTEMC_DISABLE_COPYRIGHT_MESSAGE": "1"}
NETWORKS = BUILD / "networks"
# The convolutions of ResNet-18 in TVM's table (OSDI'18, table 2): C2 to C12.
RESNET18 = {
    "C2": "56x56x64:3x3x64:s1:p1", "C3": "56x56x64:1x1x64:s1:p0", "C4": "56x56x64:3x3x128:s2:p1",
    "C5": "56x56x64:1x1x128:s2:p0", "C6": "28x28x128:3x3x128:s1:p1", "C7": "28x28x128:3x3x256:s2:p1",
    "C8": "28x28x128:1x1x256:s2:p0", "C9": "14x14x256:3x3x256:s1:p1", "C10": "14x14x256:3x3x512:s2:p1",
    "C11": "14x14x256:1x1x512:s2:p0", "C12": "7x7x512:3x3x512:s1:p1",
}

# The machines of tables of networks, by the type that a network is in.
MACHINES = {"int8": ["gemmini_16x16_int8", "edge_32x32_int8", "onnxim_128x128"],
            "float": ["gemmini_16x16_bf16", "gemmini_16x16_fp32", "edge_32x32_bf16", "cloud_128x128"]}

_digests = {}
_digest_lock = threading.Lock()


def fail(message):
    sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {message}")


class Parser(argparse.ArgumentParser):
    def error(self, message):
        fail(message)


def need_binary():
    if not BINARY.exists():
        fail(f"{BINARY} is not there: build it with scripts/build.sh release tilewright, or name one in TILEWRIGHT")


def digest(path):
    with _digest_lock:
        if path not in _digests:
            _digests[path] = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
        return _digests[path]


def conv(layer):
    return f"conv:1x{RESNET18[layer]}:int8"


def in_flight(bursts):
    """Options that let so many bursts be under way in each direction: reads of one engine, and writes, which the buffer holds
    until the DRAM has them."""
    return ["--set", f"dma.outstanding_bursts={bursts}", "--set", f"dram.write_buffer_bursts={bursts}"]


def table():
    """scripts/networks.txt as (machine, form, network)."""
    rows = []
    for line in (ROOT / "scripts/networks.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            machine, form, *names = line.split()
            rows += [(machine, form, name) for name in names]
    return rows


def network(name, form):
    """The file of a network; made if it is not there."""
    need_binary()
    plain, file = NETWORKS / "fp32" / f"{name}.onnx", NETWORKS / form / f"{name}.onnx"
    if not plain.exists():
        subprocess.run([ROOT / "scripts/networks.py", NETWORKS / "fp32", name], check=True, stdout=sys.stderr)
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([BINARY, "quantize", plain, "--calibration", "random:1", "-o", file], check=True, stdout=sys.stderr)
    return os.path.relpath(file, ROOT)


def machines_for(name):
    """The machines that compute in the type of a network of TILEWRIGHT_MODELS, which its name tells."""
    return MACHINES["int8" if "int8" in name else "float"]


def shape_options(folder):
    """Options that fix the dims of inputs. Integers without dims, a sampling rate for example, choose the network: they are constants."""
    data = folder / "test_data_set_0"
    options = []
    for entry in json.loads((data / "inputs.json").read_text()):
        tensor = numpy.load(data / entry["file"], mmap_mode="r")
        if tensor.shape:
            options += ["--shape", f"{entry['name']}={','.join(map(str, tensor.shape))}"]
        elif tensor.dtype.kind == "i":
            options += ["--const", f"{entry['name']}={data / entry['file']}"]
    return options


def kept_file(arguments):
    """Where the report of a run is kept."""
    paths = [a.split("=", 1)[-1] for a in arguments if a.endswith((".onnx", ".mlir", ".npy", ".pb"))]
    files = [ROOT / path for path in paths] + sorted((ROOT / "hw-configs").rglob("*.yaml")) + [BINARY]
    return KEPT / (hashlib.sha256(json.dumps([arguments, [digest(file) for file in files]]).encode()).hexdigest() + ".json")


def keep(kept, arguments, report):
    KEPT.mkdir(parents=True, exist_ok=True)
    # Renamed when complete: a run that was stopped leaves nothing.
    partial = kept.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    partial.write_text(json.dumps({"arguments": arguments, **report}))
    partial.rename(kept)


def run(arguments, may_fail=False):
    """The report of `tilewright run ARGUMENTS` as JSON; None if it fails, which standard error tells unless it `may_fail`."""
    kept = kept_file(arguments)
    if kept.exists():
        return json.loads(kept.read_text())
    result = subprocess.run([BINARY, "run", *arguments, "--json", "-"], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                            stderr=subprocess.DEVNULL if may_fail else None, env=ENVIRONMENT)
    if result.returncode:
        if not may_fail:
            print("failed: tilewright run " + " ".join(arguments), file=sys.stderr)
        return None
    report = json.loads(result.stdout)
    keep(kept, arguments, report)
    return report


def attempt(arguments, limit):
    """The report of a run within `limit` seconds and "", also where outputs are not as expected; else None and why."""
    kept = kept_file(arguments)
    if kept.exists():
        return json.loads(kept.read_text()), ""
    try:
        result = subprocess.run([BINARY, "run", *arguments, "--json", "-"], cwd=ROOT, capture_output=True, text=True, env=ENVIRONMENT, timeout=limit)
    except subprocess.TimeoutExpired:
        return None, f"stopped after {limit} s"
    if result.returncode < 0:
        return None, f"ended by signal {-result.returncode}"
    if not result.stdout:
        errors = [line for line in result.stderr.splitlines() if line.startswith("tilewright: ") and " note: " not in line]
        return None, (errors or ["no report"])[0].removeprefix("tilewright: ")
    report = json.loads(result.stdout)
    keep(kept, arguments, report)
    return report, ""


def note(columns):
    """A row of a table that takes long to make, on standard error."""
    print(" | ".join(map(str, columns)), file=sys.stderr, flush=True)


def run_all(jobs, may_fail=False):
    """Reports of a list of argument lists, in their order; None for those that fail."""
    need_binary()
    done = 0
    lock = threading.Lock()

    def one(arguments):
        nonlocal done
        report = run(arguments, may_fail)
        with lock:
            done += 1
            print(f"{done}/{len(jobs)} {' '.join(arguments)}", file=sys.stderr)
        return report

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, jobs))


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def markdown(head, rows, left=1):
    """A Markdown table; the first `left` columns to the left."""
    lines = ["| " + " | ".join(map(str, line)) + " |" for line in [head, *rows]]
    lines.insert(1, "|" + "|".join("---" if i < left else "---:" for i in range(len(head))) + "|")
    return "\n".join(lines) + "\n"
