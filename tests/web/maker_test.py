#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of tilewright.report without a browser: PYTHONPATH=build/release/python python3 tests/web/maker_test.py."""
import base64
import contextlib
import io
import json
import pathlib
import re
import sqlite3
import tempfile
import threading
import unittest
import urllib.error
import urllib.request
import zlib
from unittest import mock

import samples
from tilewright.report import cli, documents, graph, page, trace
from tilewright.sweep.errors import UserError

TEMPLATE = f"<html><head>{page.TITLE}{page.DATA}</head></html>"
RUN = {"schema": "tilewright.run/1", "model": "m.onnx", "machine": {"name": "tiny"},
       "layers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}
TENSOR = 1 + 3 * samples.ENGINES.index("tensor")
TENSOR_PLAN = TENSOR + 1


def data_of(text):
    found = re.search(r'id="data"( data-encoding="deflate")?>(.*?)</script>', text, re.S)
    return json.loads(zlib.decompress(base64.b64decode(found[2])) if found[1] else found[2])


class Maker(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        template = self.folder / "template.html"
        template.write_text(TEMPLATE)
        patch = mock.patch.object(page, "find_template", lambda: template)
        patch.start()
        self.addCleanup(patch.stop)

    def file(self, name, text):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else (text if isinstance(text, str) else json.dumps(text)).encode())
        return str(path)

    def refused(self, pattern, *files, **options):
        with self.assertRaises(UserError) as caught:
            page.make(list(files), **options)
        self.assertRegex(str(caught.exception), pattern)

    def test_page(self):
        text = page.make([self.file("r.json", {**RUN, "note": "</script><b>"})])
        self.assertEqual(text.count("</script>"), 1)
        data = data_of(text)
        self.assertEqual(data["title"], "m.onnx on tiny")
        self.assertEqual(data["documents"][0]["document"]["note"], "</script><b>")
        self.assertIn("<title>m.onnx on tiny</title>", text)

    def test_large_data_are_deflated(self):
        text = page.make([self.file("r.json", {**RUN, "filler": "x" * 100_000})])
        self.assertLess(len(text), 5_000)
        self.assertEqual(len(data_of(text)["documents"][0]["document"]["filler"]), 100_000)

    def test_title_is_escaped(self):
        self.assertIn("<title>&lt;i&gt;</title>", page.make([self.file("r.json", RUN)], "<i>"))

    def test_refused_documents(self):
        self.refused("nowhere.json: cannot be read: No such file", str(self.folder / "nowhere.json"))
        self.refused(r"b.json:2:3: broken JSON", self.file("b.json", '{"schema":\n  }'))
        self.refused("n.json: broken JSON: NaN", self.file("n.json", '{"a": NaN}'))
        self.refused("l.json: found no JSON object", self.file("l.json", "[1]"))
        self.refused("u.json: found byte 0", self.file("u.json", b"\xff\xfe"))
        self.refused("e.json:1:1: broken JSON", self.file("e.json", ""))
        self.refused("deep.json: broken JSON", self.file("deep.json", "[" * 100_000))
        self.refused("s.json: found no \"schema\"; allowed: tilewright.run/1", self.file("s.json", {"a": 1}))
        self.refused("s.json: found schema 'tilewright.run/9'", self.file("s.json", {"schema": "tilewright.run/9"}))
        self.refused("s.json: found schema \\['x'\\]", self.file("s.json", {"schema": ["x"]}))
        self.refused("m.json: run: found no 'machine'", self.file("m.json", {"schema": "tilewright.run/1", "model": "m"}))
        self.refused("y.json: layers: found no list", self.file("y.json", {**RUN, "layers": 3}))
        self.refused(r"y.json: layers\[1\]: found no name", self.file("y.json", {**RUN, "layers": [{"name": "a"}, {}]}))
        self.refused("is a directory|Is a directory", str(self.folder))

    def test_refused_stores(self):
        self.refused("q.sqlite", self.file("q.sqlite", b"SQLite format 3\0 and nothing else"))
        with contextlib.closing(sqlite3.connect(self.folder / "o.sqlite")) as database:
            database.execute("CREATE TABLE t (a)")
            database.commit()
        self.refused("o.sqlite", str(self.folder / "o.sqlite"))

    def test_refused_edges(self):
        layers = lambda *reads: [{"name": name, "number": i, "reads": read} for i, (name, read) in enumerate(zip("ab", reads))]
        self.refused("layer 'b' reads 7; allowed: numbers of layers", self.file("g.json", {**RUN, "layers": layers([], [7])}))
        self.refused(r"layers\[1\]: reads: found no list of numbers", self.file("g.json", {**RUN, "layers": layers([], ["a"])}))
        self.refused(r"layers\[0\]: reads: found no list of numbers", self.file("g.json", {**RUN, "layers": layers(3, [])}))
        self.refused("in a cycle", self.file("g.json", {**RUN, "layers": layers([1], [0])}))
        self.refused(r"fallback.calls\[0\]: found no name", self.file("g.json", {**RUN, "layers": layers([], [0]), "fallback": {"calls": [{}]}}))
        page.make([self.file("g.json", {**RUN, "layers": layers([], [0]), "fallback": 3, "offload": 3, "targets": 3})])

    def test_template_of_another_version(self):
        with self.assertRaisesRegex(UserError, "another version"):
            page.filled("<html></html>", {"title": ""})

    def test_timeline(self):
        text = samples.timeline(2_000)
        entry = trace.read_trace(self.file("t.json", text))
        wanted = json.loads(text)["traceEvents"]
        slices = sum(len(track[kind]["gap"]) for track in entry["tracks"] for kind in ("work", "stalls", "planned") if kind in track)
        self.assertEqual(slices, sum(event["ph"] == "X" for event in wanted))
        self.assertEqual(len(entry["arrows"]["gap"]), sum(event["ph"] == "s" for event in wanted))
        tensor = next(track for track in entry["tracks"] if track["name"] == "tensor")["work"]
        first = next(e for e in wanted if e["ph"] == "X" and e["name"] == "op_tensor" and e["tid"] == TENSOR)
        self.assertEqual((tensor["gap"][0], tensor["duration"][0], tensor["detail"][0]), (first["ts"], first["dur"], first["args"]["word"]))
        self.assertEqual(entry["bucket"], 1)
        planned = next(track for track in entry["tracks"] if track["name"] == "tensor")["planned"]
        first = next(e for e in wanted if e["ph"] == "X" and "simulated" in e["args"] and e["tid"] == TENSOR_PLAN)
        self.assertEqual((planned["gap"][0], planned["duration"][0], planned["detail"][0]), (first["ts"], first["dur"], first["args"]["simulated"]))
        self.assertFalse(any(track["name"].endswith("planned") for track in entry["tracks"]))

    def test_long_timeline_keeps_its_sums(self):
        file = self.file("t.json", samples.timeline(60_000))
        whole = trace.read_trace(file)
        with mock.patch.object(trace, "WHOLE_BYTES", 1000), mock.patch.object(trace, "BUCKETS", 100):
            short = trace.read_trace(file)
        self.assertGreater(short["bucket"], 1)
        for one, other in zip(whole["tracks"], short["tracks"]):
            for kind in ("work", "stalls"):
                self.assertEqual(sum(one[kind]["duration"]), sum(other[kind]["duration"]))
                self.assertTrue(all(gap >= 0 for gap in other[kind]["gap"]), (one["name"], kind))
            self.assertLessEqual(len(other["work"]["gap"]), 102)

    def test_window(self):
        file = self.file("t.json", samples.timeline(2_000))
        entry = trace.read_trace(file, (100, 200))
        self.assertEqual((entry["first"], entry["last"]), (100, 200))
        self.assertLess(sum(len(track["work"]["gap"]) for track in entry["tracks"]), 100)
        self.refused("found cycles", file, window=(10**9, 10**9 + 1))

    def test_refused_timelines(self):
        lines = samples.timeline(100).splitlines()
        self.refused("t.json:1: found no total_cycles", self.file("t.json", '{"traceEvents":[\n]}\n'))
        self.refused("t.json:3:1: broken JSON", self.file("t.json", "\n".join(lines[:2] + ["?"] + lines[2:])))
        self.refused("t.json:3: found an event without 'ph'", self.file("t.json", "\n".join(lines[:2] + ["{},"] + lines[2:])))
        self.refused("t.json:3: found an event without", self.file("t.json", "\n".join(lines[:2] + ["7,"] + lines[2:])))
        self.refused("file ends before", self.file("t.json", "\n".join(lines[:-1])))
        self.refused("not UTF-8", self.file("t.json", "\n".join(lines[:2]).encode() + b'\n{"\xff"}\n]}\n'))

    def test_graph(self):
        chain = graph.graph_of({"layers": [{"name": name} for name in "abcd"]}, "f")
        self.assertTrue(chain["chain"])
        self.assertEqual([(edge["from"], edge["to"]) for edge in chain["edges"]], [(0, 1), (1, 2), (2, 3)])
        self.assertEqual(len({node["x"] for node in chain["nodes"]}), 1)

    def test_branches_stand_side_by_side(self):
        drawn = graph.layout([{"name": name} for name in "abcd"], [(0, 1), (0, 2), (1, 3), (2, 3)], "f")
        x, y = ([node[key] for node in drawn["nodes"]] for key in "xy")
        self.assertTrue(y[0] < y[1] == y[2] < y[3])
        self.assertGreaterEqual(abs(x[1] - x[2]), drawn["node_width"])
        self.assertEqual(x[0], x[3])

    def test_shortcuts_go_round_what_they_pass(self):
        """A residual network: blocks of two layers, and an edge past them."""
        edges = [(i, i + 1) for i in range(40)] + [(i, i + 3) for i in range(0, 38, 3)]
        drawn = graph.layout([{"name": str(i)} for i in range(41)], sorted(edges), "f")
        self.assertEqual(len(drawn["edges"]), len(edges))
        self.assertGreater(len({node["x"] for node in drawn["nodes"]}), 1, "long networks are folded into strips")
        boxes = [(node["x"], node["y"], node["x"] + drawn["node_width"], node["y"] + drawn["node_height"]) for node in drawn["nodes"]]
        for one, box in enumerate(boxes):
            self.assertTrue(all(box[2] <= other[0] or other[2] <= box[0] or box[3] <= other[1] or other[3] <= box[1] for other in boxes[one + 1:]))
            self.assertTrue(box[0] >= 0 and box[1] >= 0 and box[2] <= drawn["width"] and box[3] <= drawn["height"])
        short = next(edge for edge in drawn["edges"] if (edge["from"], edge["to"]) == (3, 6))
        passed = boxes[4]
        turns = [float(x) for x in re.findall(r"C[-\d. ]* ([-\d.]+) [-\d.]+V", short["path"])]
        self.assertTrue(turns and all(x > passed[2] or x < passed[0] for x in turns), short)

    def test_graph_of_groups_and_kernels(self):
        document = {"targets": ["accelerator", "cpu"], "offload": [{"node": "n", "target": "accelerator"}, {"node": "f", "target": "folded"}],
                    "layers": [{"name": "a", "number": 0, "reads": [], "nodes": ["f", "n"]},
                               {"name": "b + c", "number": None, "reads": [0], "nodes": [],
                                "members": [{"name": "b", "number": 1, "reads": [0]}, {"name": "c", "number": 2, "reads": [1]}]},
                               {"name": "d", "number": 3, "reads": [4, 2], "nodes": []},
                               {"name": "(no layer)", "number": None, "reads": None, "nodes": []}],
                    "fallback": {"calls": [{"name": "k", "number": 4, "reads": [2], "target": "cpu"}]}}
        drawn = graph.graph_of(document, "f")
        self.assertFalse(drawn["chain"])
        self.assertEqual([(node["name"], node["layer"], node["target"]) for node in drawn["nodes"]],
                         [("a", 0, "accelerator"), ("b + c", 1, "accelerator"), ("d", 2, "accelerator"), ("k", None, "cpu")])
        self.assertEqual([(edge["from"], edge["to"]) for edge in drawn["edges"]], [(0, 1), (1, 2), (1, 3), (3, 2)])

    def test_command(self):
        out, err = io.StringIO(), io.StringIO()
        file, target = self.file("r.json", RUN), str(self.folder / "page.html")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.assertEqual(cli.report([file, "-o", target]), 0)
            self.assertEqual(cli.report([file]), 1)
            self.assertEqual(cli.report([file, "-o", str(self.folder / "no/page.html")]), 1)
            self.assertEqual(cli.report([file, "-o", target, "--cycles", "9"]), 1)
            self.assertEqual(cli.view([str(self.folder / "no.html")]), 1)
        self.assertIn("page.html", out.getvalue())
        self.assertEqual(err.getvalue().count("error: "), 4)

    def test_missing_template(self):
        mock.patch.stopall()
        with mock.patch.object(pathlib.Path, "is_file", lambda _: False), self.assertRaisesRegex(UserError, "scripts/setup.sh web"):
            page.find_template()

    def test_server(self):
        server = cli.server_of(b"page", 0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        self.assertEqual(urllib.request.urlopen(address).read(), b"page")
        with self.assertRaises(urllib.error.HTTPError):
            urllib.request.urlopen(address + "../etc/passwd")
        with self.assertRaisesRegex(UserError, "cannot be used"):
            cli.server_of(b"", server.server_address[1])

    def test_kinds(self):
        for kind, needed in documents.NEEDED.items():
            document = {"schema": f"tilewright.{kind}/1", **{key: [] if key == "rows" else "x" for key in needed}}
            [(place, entry)] = documents.read(self.file("k.json", document))
            self.assertEqual((place, entry["kind"]), ("documents", kind))


if __name__ == "__main__":
    unittest.main()
