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
        self.refused(r"edges\[0\]", self.file("g.json", {**RUN, "edges": [["a", "z"]]}))
        self.refused("cycle", self.file("g.json", {**RUN, "edges": [["a", "b"], ["b", "a"]]}))

    def test_template_of_another_version(self):
        with self.assertRaisesRegex(UserError, "another version"):
            page.filled("<html></html>", {"title": ""})

    def test_timeline(self):
        text = samples.timeline(2_000)
        entry = trace.read_trace(self.file("t.json", text))
        wanted = json.loads(text)["traceEvents"]
        slices = sum(len(track[kind]["gap"]) for track in entry["tracks"] for kind in ("work", "stalls"))
        self.assertEqual(slices, sum(event["ph"] == "X" for event in wanted))
        self.assertEqual(len(entry["arrows"]["gap"]), sum(event["ph"] == "s" for event in wanted))
        tensor = next(track for track in entry["tracks"] if track["name"] == "tensor")["work"]
        first = next(e for e in wanted if e["ph"] == "X" and e["name"] == "op_tensor" and e["tid"] == 9)
        self.assertEqual((tensor["gap"][0], tensor["duration"][0], tensor["detail"][0]), (first["ts"], first["dur"], first["args"]["word"]))
        self.assertEqual(entry["bucket"], 1)

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
        chain = graph.layout(list("abcdefgh"), None, "f")
        self.assertEqual(chain["places"][5:8], [(5, 0), (5, 1), (4, 1)])
        self.assertEqual(len(chain["edges"]), 7)
        branch = graph.layout(list("abcd"), [["a", "b"], ["a", "c"], ["b", "d"], {"from": "c", "to": "d"}], "f")
        self.assertEqual([place[1] for place in branch["places"]], [0, 1, 1, 2])
        self.assertEqual(sorted(place[0] for place in branch["places"]), [0.0, 0.5, 0.5, 1.0])

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
