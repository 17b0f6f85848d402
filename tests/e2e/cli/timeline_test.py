#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Timelines in Perfetto's format, read by a parser of their own, say what the same run's timeline in Chrome's format says."""
import collections
import json
import unittest
import zlib

from cli_test import DIGITS, CliTest

#===--- Perfetto's format from its bytes; field numbers are those of protos/perfetto/trace ---===#

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Damaged(Exception):
    pass


def varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Damaged("a varint does not end")
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """{number: [values]} of a message."""
    found, at = collections.defaultdict(list), 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == VARINT:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at) if kind == BYTES else ({FIXED64: 8, FIXED32: 4}[kind], at)
            if at + size > len(data):
                raise Damaged("a field does not end")
            value, at = data[at:at + size], at + size
            if kind != BYTES:
                value = int.from_bytes(value, "little")
        found[tag >> 3].append(value)
    return found


def packets_of(trace):
    """The packets of a Trace, those in compressed pieces too."""
    for data in fields(trace)[1]:
        packet = fields(data)
        if 50 in packet:
            assert len(packet[50][0]) < 512 * 1024
            yield from packets_of(zlib.decompress(packet[50][0]))
        else:
            yield packet


class Trace:
    """tracks {uuid: (name, parent, rank, unit of a counter)}, slices [(track, begin, end, name, arguments)], counters
    [(track, cycle, value)], flows {id: [slice of the post, slice of the wait]}."""

    def __init__(self, data):
        self.tracks, self.slices, self.counters, self.flows = {}, [], [], {}
        names, keys, texts = {}, {}, {}
        open_slices, now, has_state = collections.defaultdict(list), collections.defaultdict(int), False
        for packet in packets_of(data):
            assert packet[10] == [1]
            flags = (packet[13] or [0])[0]
            has_state = has_state or flags & 1
            for interned in map(fields, packet[12]):
                for number, table in [(2, names), (3, keys), (29, texts)]:
                    for entry in map(fields, interned[number]):
                        assert entry[1][0] not in table
                        table[entry[1][0]] = entry[2][0].decode()
            for track in map(fields, packet[60]):
                counter = fields(track[8][0])[6][0].decode() if track[8] else None
                assert track[1][0] not in self.tracks
                self.tracks[track[1][0]] = (track[2][0].decode(), (track[5] or [None])[0], (track[12] or [None])[0], counter)
            for event in map(fields, packet[11]):
                assert has_state and flags & 2
                kind, uuid, at = event[9][0], event[11][0], packet[8][0]
                assert uuid in self.tracks and at >= now[uuid]
                now[uuid] = at
                if kind == 1:
                    arguments = {keys[item[1][0]]: texts[item[17][0]] if item[17] else item[3][0] for item in map(fields, event[4])}
                    assert len(arguments) == len(event[4])
                    open_slices[uuid].append((at, names[event[10][0]], arguments, event[47], event[48]))
                elif kind == 2:
                    begin, name, arguments, posts, takes = open_slices[uuid].pop()
                    assert begin < at
                    one = (self.tracks[uuid][0], begin, at, name, arguments)
                    self.slices.append(one)
                    for flow in posts:
                        self.flows.setdefault(flow, [None, None])[0] = one
                    for flow in takes:
                        self.flows.setdefault(flow, [None, None])[1] = one
                else:
                    assert kind == 4
                    self.counters.append((self.tracks[uuid][0], self.tracks[uuid][3], at, event[30][0]))
        assert not any(open_slices.values())


class PerfettoTest(CliTest):
    def both(self, *arguments):
        """The events of the file in Chrome's format, and the Trace of the same run's file in Perfetto's."""
        self.tilewright("run", *arguments, "--trace", "t.json")
        self.tilewright("run", *arguments, "--trace", "t.pftrace")
        return json.loads((self.path / "t.json").read_text())["traceEvents"], Trace((self.path / "t.pftrace").read_bytes())

    def same(self, *arguments):
        events, trace = self.both(*arguments)
        tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        machine = next(event["args"]["name"] for event in events if event["name"] == "process_name")
        # One root, and under it the tracks in Chrome's order.
        roots = [uuid for uuid, track in trace.tracks.items() if track[1] is None]
        self.assertEqual([trace.tracks[root][0] for root in roots], [machine.replace("1 us", "1 ns")])
        self.assertTrue(all(track[1] == roots[0] for uuid, track in trace.tracks.items() if uuid != roots[0]))
        ranked = sorted((track[2], track[0]) for track in trace.tracks.values() if track[1] is not None and track[3] is None)
        self.assertEqual([name for _, name in ranked], [tracks[tid] for tid in sorted(tracks)])

        def ordered(slices):
            return sorted((track, begin, end, name, sorted(arguments.items())) for track, begin, end, name, arguments in slices)

        def plain(one):
            return *one[:4], {key: value for key, value in one[4].items() if key not in ("posts", "takes")}

        slices = [(tracks[event["tid"]], event["ts"], event["ts"] + event["dur"], event["name"], event["args"])
                  for event in events if event["ph"] == "X"]
        self.assertTrue(any("cause" in one[4] for one in slices))
        self.assertEqual(ordered(map(plain, trace.slices)), ordered(slices))
        counters = [(event["name"], *next(iter(event["args"].items()))) + (event["ts"],) for event in events if event["ph"] == "C"]
        self.assertTrue(counters)
        self.assertEqual(sorted((name, unit, value, at) for name, unit, at, value in trace.counters), sorted(counters))
        self.flows(events, tracks, trace)
        return trace

    def flows(self, events, tracks, trace):
        ends = collections.defaultdict(dict)
        for event in events:
            if event["ph"] in "sf":
                ends[event["id"]][event["ph"]] = event
        self.assertEqual(len(ends), len(trace.flows))
        semaphores = collections.defaultdict(list)
        for number, both in ends.items():
            start, end = trace.flows[number + 1]
            # The instructions of the arrow, not stalls inside of them.
            self.assertTrue("retire" in start[4] and "retire" in end[4])
            self.assertEqual((start[0], end[0]), (tracks[both["s"]["tid"]], tracks[both["f"]["tid"]]))
            self.assertTrue(start[1] <= both["s"]["ts"] < start[2])
            self.assertEqual(end[1], both["f"]["ts"])
            semaphores[start[:2], "posts"].append(both["s"]["name"].split()[1])
            semaphores[end[:2], "takes"].append(both["s"]["name"].split()[1])
        written = {(one[:2], key): one[4][key] for one in trace.slices for key in ("posts", "takes") if key in one[4]}
        self.assertEqual(written, {place: "semaphore " + ", ".join(numbers) for place, numbers in semaphores.items()})

    def test_a_kernel(self):
        trace = self.same("gemm:64x64x64:int8", "--hw", "tiny_8x8")
        self.assertGreater(len(trace.flows), 0)

    def test_a_network(self):
        self.same(DIGITS / "digits_int8_qdq.onnx", "--hw", "gemmini_16x16_int8")

    def test_names_of_layers(self):
        text, _ = self.tilewright("compile", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "--emit", "isa", "-o", "-")
        self.write("m.tasm", text.replace('.layer "gemm"', '.layer "gr\u00f6\u00dfer"'))
        trace = self.same("m.tasm", "--hw", "tiny_8x8")
        self.assertIn("gr\u00f6\u00dfer", {one[4].get("layer") for one in trace.slices})

    def test_both_suffixes_and_the_same_bytes_again(self):
        for name in ["a.pftrace", "b.perfetto-trace", "c.d/e.pftrace"]:
            (self.path / name).parent.mkdir(exist_ok=True)
            self.tilewright("run", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "--trace", name)
        self.assertEqual(*[(self.path / name).read_bytes() for name in ["a.pftrace", "b.perfetto-trace"]])

    def test_it_is_small(self):
        _, trace = self.both("gemm:512x512x512:int8", "--hw", "gemmini_16x16_int8")
        self.assertGreater(len(trace.slices), 5000)
        self.assertLess((self.path / "t.pftrace").stat().st_size * 10, (self.path / "t.json").stat().st_size)

    def test_bad_files(self):
        run = ["run", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "--trace"]
        self.fails(*run, "none/t.pftrace", message="cannot write 'none/t.pftrace': No such file or directory")
        for name in ["t.txt", "t.pftrace.gz", "t.PFTRACE"]:
            self.fails(*run, name, message=[f"--trace '{name}'", ".json", ".pftrace"])
        self.fails(*run, "t.pftrace", "--model", "functional", message="--trace needs")
        self.fails(*run, "t.pftrace", "--json", "./t.pftrace", message="goes there")

    def test_the_parser_sees_damage(self):
        self.tilewright("run", "gemm:8x8x8:int8", "--hw", "tiny_8x8", "--trace", "t.pftrace")
        data = (self.path / "t.pftrace").read_bytes()
        Trace(data)
        for damaged in [data[:-1], data[:len(data) // 2]]:
            self.assertRaises(Damaged, Trace, damaged)


if __name__ == "__main__":
    unittest.main()
