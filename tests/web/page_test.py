#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes pages of real runs and opens them in Chromium (browser.mjs): page_test.py [SHOTS]. Status 77: node, node_modules, Chromium or
the template is missing. SHOTS: a folder for a picture of every section."""
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MODULES = ROOT / "runtime/report/node_modules"
PROGRAM = os.environ.get("TILEWRIGHT", str(ROOT / "build/release/bin/tilewright"))
RUN = ["summary", "roofline", "stalls", "layers", "memory-map", "network", "energy", "dram-traffic", "dram-channels"]
NETWORK = "tests/data/digits/digits_int8_qdq.onnx"
MAX_BYTES = 5_000_000


def tilewright(*words):
    subprocess.run([PROGRAM, *map(str, words)], check=True, stdout=subprocess.DEVNULL, cwd=ROOT)


def residual(file):
    """A residual network of three stages."""
    spec = importlib.util.spec_from_file_location("networks", ROOT / "scripts/networks.py")
    networks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(networks)
    graph = networks.Graph("residual", 1)
    networks.resnet(graph, networks.basic_block, [2, 2, 2], image=32, width=16)
    file.write_bytes(graph.model())


def results(folder):
    """Files of every kind."""
    residual(folder / "residual.onnx")
    tilewright("run", folder / "residual.onnx", "--hw", "gemmini_16x16_fp32", "--json", folder / "residual.json", "--trace",
               folder / "residual.trace.json")
    machine = ("--hw", "gemmini_16x16_int8")
    tilewright("run", NETWORK, *machine, "--json", folder / "a.json", "--trace", folder / "a.trace.json")
    tilewright("run", NETWORK, *machine, "--schedule", "serial", "--json", folder / "b.json")
    tilewright("profile", NETWORK, *machine, "--json", folder / "profile.json")
    tilewright("compare", NETWORK, *machine, "--layers", "--repeat", "1", "--json", folder / "compare.json")
    subprocess.run([sys.executable, "-m", "tilewright.sweep", "--model", "gemm:64x64x64:int8", *machine, "--set", "array.rows=8,16", "--derive",
                    "array.cols=rows", "--derive", "vector.lanes=rows", "--set", "clock_mhz=500,1000", "--minimise", "latency",
                    "--minimise", "area", "--jobs", "1", "--store", str(folder / "edge.sqlite")], check=True, stdout=subprocess.DEVNULL)


def main():
    browser, node = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("node")
    from tilewright.report import find_template, make
    from tilewright.sweep.errors import UserError
    missing = "Chromium" if not browser else "node" if not node else "" if (MODULES / "playwright-core").is_dir() else "node_modules"
    try:
        find_template()
    except UserError:
        missing = missing or "the template"
    if missing:
        print(f"no {missing}: scripts/setup.sh web, then scripts/report-page.sh")
        return 77
    import samples
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        results(folder)
        (folder / "long.trace.json").write_text(samples.timeline(100_000))
        pages = []

        def page(title, files, sections, events, shortcuts=0):
            file = folder / f"{title}.html"
            file.write_text(make([str(folder / f) for f in files]), encoding="utf-8")
            print(f"{title}: {file.stat().st_size / 1e6:.2f} MB")
            assert file.stat().st_size <= MAX_BYTES, title
            pages.append({"file": str(file), "sections": sections, "events": events, "shortcuts": shortcuts})

        page("report", ["a.json", "b.json", "profile.json", "compare.json", "edge.sqlite", "a.trace.json"],
             [*RUN, "timeline", "a-against-b", "profile-profile-json", "comparison-compare-json", "sweep-edge"], 0)
        page("residual", ["residual.json", "residual.trace.json"], [*RUN, "timeline"], 0, shortcuts=6)
        page("long", ["a.json", "long.trace.json"], [*RUN, "timeline"], 100_000)
        (folder / "pages.json").write_text(json.dumps(pages))
        return subprocess.run([node, str(HERE / "browser.mjs"), browser, str(MODULES), str(folder / "pages.json"), *sys.argv[1:2]]).returncode


sys.exit(main())
