#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The CPU's code beside ONNX Runtime and oneDNN: the tables of docs/cpu-performance.md. Each figure comes from `tilewright compare`, where both sides
take turns in one process. Exit status 1 if a side fails or their results disagree.

  scripts/bench-cpu.py [--ort FILE] [--dnnl FILE] [--quick] [--rounds N] [--only SECTION,...] [--write]

With one thread a figure is processor time, which another process on the host disturbs least; with two it is wall time. --quick takes fewer rounds and
leaves the longest rows out. Real networks are those of TILEWRIGHT_MODELS, if it is set. TILEWRIGHT_ORT and TILEWRIGHT_DNNL name the libraries as --ort
and --dnnl do. TILEWRIGHT names a tilewright that is built already.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

import measure
import networks

NAMES = ["resnet18", "resnet50", "mobilenetv2", "squeezenet", "bert_block"]
PAGE = measure.ROOT / "docs/cpu-performance.md"
HEAD = """# CPU code beside other runtimes

Made by `scripts/bench-cpu.py --write`{options}. Both sides take turns in one process, in {rounds} rounds of about 20 ms each
([compare.md](compare.md)); a ratio is ours / theirs, so less is better, and *runs* counts both. One thread: median processor time. Two threads: median
wall time. Values agree within the tolerances of [files.md](files.md), or the row says so.

Host: {host}. {versions}
"""


class Bench:
    def __init__(self, arguments):
        self.rounds = arguments.rounds or (3 if arguments.quick else 15)
        self.quick = arguments.quick
        self.libraries = {"ort": arguments.ort, "dnnl": arguments.dnnl}
        self.folder = measure.BUILD / "bench-cpu"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.versions, self.failed, self.error = set(), False, ""
        options = subprocess.run([measure.BINARY, "compare", "--help"], capture_output=True, text=True, env=measure.ENVIRONMENT, check=False).stdout
        self.has_math = "--math" in options

    def compare(self, model, *options, threads=1, external="ort", rounds=None):
        """The document of `tilewright compare`; None if there is none, which standard error tells."""
        command = [measure.BINARY, "compare", model, "--targets", "cpu", "--threads", threads, "--repeat", rounds or self.rounds, *options, "--json", "-"]
        if external:
            command += ["--external", external]
            if self.libraries[external]:
                command += [f"--{external}", self.libraries[external]]
        result = subprocess.run([str(word) for word in command], cwd=measure.ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=measure.ENVIRONMENT, check=False)
        print(".", end="", file=sys.stderr, flush=True)
        # A disagreement has a document, too.
        if not result.stdout:
            self.error = result.stderr.splitlines()[0] if result.stderr else f"exit status {result.returncode}"
            print(f"\nfailed: {' '.join(map(str, command[1:]))}\n{self.error}", file=sys.stderr)
            self.failed = True
            return None
        report = json.loads(result.stdout)
        self.versions |= {row["version"] for row in report["rows"][1:]}
        return report

    def ratio(self, model, *options, goal=None, label=None, **others):
        """A row: model, milliseconds of both, ratio, goal, runs, agreement."""
        report = self.compare(model, *options, **others)
        label = label or (model if isinstance(model, str) else model.stem)
        if report is None:
            return [label, "-", "-", "failed", goal or "-", "-", "-"], None
        ours, theirs = report["rows"]
        times = [row["cpu_milliseconds" if report["threads"] == 1 else "milliseconds"]["median"] for row in (ours, theirs)]
        part = times[0] / times[1]
        return [label, *(f"{time:.3f}" for time in times), f"{part:.2f}", f"{goal:.2f}" if goal else "-", f"{ours['runs']} + {theirs['runs']}",
                self.agreement(report)], part

    def agreement(self, report):
        pairs = report["agreement"]
        if not all(pair["within_tolerance"] for pair in pairs):
            self.failed = True
            return "**disagree**"
        if not any(pair["differing"] for pair in pairs):
            return "equal"
        return f"within {max(pair['max_relative_error'] for pair in pairs):.1e} of the range"

    def one_node(self, name, shape, build):
        """A model with what `build` makes of an input."""
        graph = networks.Graph(name, seed=1)
        graph.output(build(graph, graph.input("x", shape)), "y")
        file = self.folder / f"{name}.onnx"
        file.write_bytes(graph.model())
        return file

    def network(self, name):
        return measure.ROOT / measure.network(name, "fp32")

    def quantised(self, name):
        """The form that `quantize` writes for other runtimes."""
        file = self.folder / f"{name}_uint8.onnx"
        plain = self.network(name)
        if not file.exists() or file.stat().st_mtime < max(plain.stat().st_mtime, measure.BINARY.stat().st_mtime):
            subprocess.run([measure.BINARY, "quantize", plain, "--calibration", "random:1", "--samples", "2", "--form", "portable",
                            "-o", file], check=True, stdout=subprocess.DEVNULL)
        return file

    # ------------------------------------------------------------------------------------------ sections

    HEAD = ["work", "ours ms", "ORT ms", "ratio", "goal", "runs", "values"]

    def products(self):
        """Matrix products"""
        sizes = ["256x256x256", "512x512x512", "1024x1024x1024", "2048x2048x2048", "1x4096x4096", "8x4096x4096"]
        shapes = [(size, element) for element in ("fp32", "int8") for size in sizes] + [("128x3072x768", "fp32"), ("128x768x3072", "fp32")]
        shapes = [(size, element) for size, element in shapes if not (self.quick and size.startswith("2048"))]
        return measure.markdown(self.HEAD, [self.ratio(f"gemm:{size}:{element}", goal=1.0)[0] for size, element in shapes])

    def whole(self):
        """Networks"""
        rows = []
        for name in NAMES[:1] + NAMES[3:] if self.quick else NAMES:
            rows.append(self.ratio(self.network(name), goal=1.0, label=f"{name} fp32")[0])
            rows.append(self.ratio(self.quantised(name), goal=0.9, label=f"{name} int8")[0])
        return measure.markdown(self.HEAD, rows)

    def convolutions(self):
        """Convolutions with NCHW in and out"""
        rows = []
        for channels, size, out, kernel, stride, group in [(64, 56, 64, 3, 1, 1), (128, 28, 128, 3, 1, 1), (128, 56, 128, 3, 2, 1), (256, 14, 256, 3, 1, 1),
                                                           (64, 56, 256, 1, 1, 1), (256, 56, 64, 1, 1, 1), (512, 7, 2048, 1, 1, 1), (3, 224, 64, 7, 2, 1),
                                                           (144, 56, 144, 3, 1, 144), (144, 56, 144, 3, 2, 144), (576, 14, 576, 3, 1, 576)]:
            kind = f"{'depthwise ' if group > 1 else ''}{kernel}x{kernel} s{stride}, {channels}x{size}x{size} to {out}"
            file = self.one_node(f"conv_{channels}_{size}_{out}_{kernel}_{stride}_{group}", (1, channels, size, size),
                                 lambda graph, x: graph.conv("conv", x, out, kernel, stride=stride, group=group))
            rows.append(self.ratio(file, goal=1.0, label=kind)[0])
        return measure.markdown(self.HEAD, rows)

    def functions(self):
        """Functions"""
        rows = []
        for kind, shape, attributes in [("Exp", (1024, 1024), {}), ("Softmax", (12, 128, 128), {"axis": -1}), ("Softmax", (64, 1000), {"axis": -1}),
                                        ("Erf", (128, 3072), {}), ("Tanh", (128, 3072), {}), ("Sigmoid", (128, 3072), {})]:
            size = "x".join(map(str, shape))
            file = self.one_node(f"{kind.lower()}_{size}", shape, lambda graph, x: graph.node(kind, "function", [x], x[1], **attributes))
            rows.append(self.ratio(file, goal=1.0 if kind in ("Exp", "Softmax") else None, label=f"{kind} {size}")[0])
        return measure.markdown(self.HEAD, rows)

    def real(self):
        """Real networks"""
        if not os.environ.get("TILEWRIGHT_MODELS"):
            return "Not measured: TILEWRIGHT_MODELS was not set.\n"
        rows, parts, refused, failed = [], [], [], self.failed
        for model in sorted(pathlib.Path(os.environ["TILEWRIGHT_MODELS"]).resolve().glob("*/model.onnx"))[:6 if self.quick else None]:
            data = model.parent / "test_data_set_0"
            inputs = json.loads((data / "inputs.json").read_text())
            options = [option for entry in inputs for option in ("--input", f"{entry['name']}={data / entry['file']}")]
            row, part = self.ratio(model, *options, label=model.parent.name)
            if part is None:
                refused.append(f"{model.parent.name} ({self.error.removeprefix('tilewright: ').replace(str(model) + ': ', '')})")
            else:
                rows.append(row)
                parts.append(part)
        # What our importer does not take is no failure of the bench.
        self.failed = failed
        text = measure.markdown(self.HEAD, rows)
        if parts:
            text += f"\nGeometric mean of {len(parts)}: {measure.geometric_mean(parts):.2f}, goal 0.75.\n"
        if refused:
            text += "\nNot run: " + "; ".join(refused) + ".\n"
        return text

    def threads(self):
        """Two threads"""
        model = self.network("resnet18" if self.quick else "resnet50")
        turns = [(threads, self.compare(model, threads=threads, rounds=max(1, self.rounds // 3))) for _ in range(3) for threads in (1, 2)]
        if any(report is None for _, report in turns):
            return "failed\n"
        median = {(threads, side): statistics.median(report["rows"][side]["milliseconds"]["median"] for count, report in turns if count == threads)
                  for threads in (1, 2) for side in (0, 1)}
        runs = {side: sum(report["rows"][side]["runs"] for _, report in turns) for side in (0, 1)}
        speed = [median[1, side] / median[2, side] for side in (0, 1)]
        rows = [[model.stem, f"{median[1, 0]:.2f}", f"{median[2, 0]:.2f}", f"{speed[0]:.2f}", f"{median[1, 1]:.2f}", f"{median[2, 1]:.2f}", f"{speed[1]:.2f}",
                 f"{speed[0] / speed[1]:.2f}", "0.95", f"{runs[0]} + {runs[1]}"]]
        text = measure.markdown(["network", "ours 1", "ours 2", "speed-up", "ORT 1", "ORT 2", "speed-up", "ours / ORT's, more is better", "goal", "runs"], rows)
        rows = []
        for name in ["squeezenet"] if self.quick else ["mobilenetv2", "squeezenet", "resnet50"]:
            rows.append(self.ratio(self.network(name), threads=2, label=f"{name}, two threads")[0])
            busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            try:
                rows.append(self.ratio(self.network(name), threads=2, goal=1.5, label=f"{name}, two threads, beside a busy process")[0])
            finally:
                busy.kill()
                busy.wait()
        return text + "\n" + measure.markdown(self.HEAD, rows)

    def bf16(self):
        """bf16 beside oneDNN"""
        row, _ = self.ratio("gemm:1024x1024x1024:bf16", *(["--math", "fast"] if self.has_math else []), external="dnnl",
                            label="1024x1024x1024" + (", --math fast" if self.has_math else ""))
        speed = [f"{float(row[2]) / float(row[1]):.2f}" if row[3] != "failed" else "-", "0.85"]
        return measure.markdown(["work", "ours ms", "oneDNN ms", "speed ours / oneDNN's, more is better", "goal", "runs", "values"], [row[:3] + speed + row[5:]])

    def memory(self):
        """Peak memory"""
        rows = []
        for name in ["squeezenet"] if self.quick else ["resnet50"]:
            report = self.compare(self.network(name), rounds=1)
            if report:
                ours, theirs = (row["memory_bytes"] / (1 << 20) for row in report["rows"])
                rows.append([f"{name} fp32", f"{ours:.0f}", f"{theirs:.0f}", f"{ours / theirs:.2f}", "1.30"])
        return measure.markdown(["network", "ours MiB", "ORT MiB", "ratio", "goal"], rows) + (
            "\nGrowth of the process while the network is loaded, compiled and run once; what ours freed is given back before.\n")

    def quantize(self):
        """Our quantised networks in ONNX Runtime"""
        rows = []
        for name in ["squeezenet"] if self.quick else NAMES:
            reports = [self.compare(file) for file in (self.network(name), self.quantised(name))]
            if None not in reports:
                plain, integers = (report["rows"][1]["cpu_milliseconds"]["median"] for report in reports)
                rows.append([name, f"{plain:.3f}", f"{integers:.3f}", f"{integers / plain:.2f}", "1.00", " + ".join(str(r["rows"][1]["runs"]) for r in reports)])
        return measure.markdown(["network", "ORT fp32 ms", "ORT int8 ms", "int8 / fp32", "goal", "runs"], rows)


SECTIONS = ["products", "whole", "convolutions", "functions", "real", "threads", "bf16", "memory", "quantize"]


def host():
    name = platform.processor() or platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            name = line.split(":", 1)[1].strip()
            break
    return f"{name}, {os.cpu_count()} cores"


def main():
    parser = measure.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ort", metavar="FILE", default=os.environ.get("TILEWRIGHT_ORT"))
    parser.add_argument("--dnnl", metavar="FILE", default=os.environ.get("TILEWRIGHT_DNNL"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, metavar="N")
    parser.add_argument("--only", default=",".join(SECTIONS), metavar="SECTION,...", help=f"some of {', '.join(SECTIONS)}")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(measure.ROOT)}")
    parser.add_argument("-o", metavar="FILE.md", type=pathlib.Path, help="write this page")
    arguments = parser.parse_args()
    for section in arguments.only.split(","):
        if section not in SECTIONS:
            measure.fail(f"'{section}' is none of {', '.join(SECTIONS)}")
    if arguments.rounds is not None and arguments.rounds < 1:
        measure.fail("--rounds must be 1 or more")
    measure.need_binary()
    bench = Bench(arguments)
    text = ""
    for section in arguments.only.split(","):
        make = getattr(bench, section)
        part = f"\n## {make.__doc__}\n{make()}"
        print(part, end="", flush=True)
        text += part
    options = "".join(f" {option}" for option, given in (("--quick", arguments.quick),) if given)
    versions = ", ".join(sorted(bench.versions))
    page = HEAD.format(options=f" with{options}" if options else "", rounds=bench.rounds, host=host(), versions=f"{versions}." if versions else "") + text
    for file in [PAGE] * arguments.write + [arguments.o] * bool(arguments.o):
        file.write_text(page)
    if bench.failed:
        measure.fail("a side failed, or results disagree")


if __name__ == "__main__":
    main()
