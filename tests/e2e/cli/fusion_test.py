#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels side by side: chains of convolutions whose tensors are too large for the scratchpad pass through it in bands of rows."""

import json
import re
import unittest

import numpy as np

from cli_test import CliTest

HW = ["--hw", "gemmini_16x16_fp32", "--set", "scratchpads.unified.capacity_bytes=65536", "--schedule"]
ROOM = ["--set", "scratchpads.unified.capacity_bytes=131072"]


def conv(result, x, name, inputs, outputs, kernel=1, groups=1, stride=1, rows=24):
    """A convolution of a square image that keeps its size, but for the stride; and the type of its result."""
    filters = f"tensor<{outputs}x{inputs // groups}x{kernel}x{kernel}xf32>"
    values = np.random.default_rng(outputs + kernel).integers(-2, 3, (outputs, inputs // groups, kernel, kernel))
    to = f"tensor<1x{outputs}x{rows // stride}x{rows // stride}xf32>"
    return f"""  %w_{name} = graph.constant dense<"0x{values.astype(np.float32).tobytes().hex()}"> : {filters}
  {result} = graph.conv {x}, %w_{name} {{dilations = array<i64: 1, 1>, group = {groups} : i64, layout = "nchw",
    pads = array<i64: {", ".join([str(kernel // 2)] * 4)}>, strides = array<i64: {stride}, {stride}>}}
    : (tensor<1x{inputs}x{rows}x{rows}xf32>, {filters}) -> {to} loc("{name}")
""", to


class FusionTest(CliTest):
    def chain(self, **middle):
        """Expand, look around, project: as net.mlir."""
        first, _ = conv("%a", "%x", "expand", 16, 64)
        second, _ = conv("%b", "%a", "middle", 64, 64, **middle)
        third, result = conv("%c", "%b", "project", 64, 16, rows=24 // middle.get("stride", 1))
        self.write("net.mlir", f"func.func @main(%x: tensor<1x16x24x24xf32>) -> {result} {{\n{first}{second}{third}  return %c : {result}\n}}\n")
        np.save(self.path / "x.npy", np.random.default_rng(1).integers(-4, 5, (1, 16, 24, 24)).astype(np.float32))

    def bands(self, *, expand, middle="false"):
        """A plan file; `expand` and `middle` are what follows on_chip."""
        return self.plan_file({"expand": f"on_chip = {expand}", "middle": f"on_chip = {middle}"})

    def results(self, *options):
        self.tilewright("run", "net.mlir", *HW, *options, "--input", "x.npy", "--output-dir", "out", "--json", "report.json")
        report = json.loads((self.path / "report.json").read_text())
        return np.load(self.path / "out/output0.npy"), report["dram_read_bytes"] + report["dram_write_bytes"]

    def bands_change_no_value(self, middle, rows, capacity):
        """The chain in bands of so many rows, with so many bytes of scratchpad, gives what its kernels give apart."""
        self.chain(**{"kernel": 3, **middle})
        expected, _ = self.results("pipelined", "--across", "prefetch")
        path = self.bands(expand=f"true, row_tile = {rows}", middle=f"true, row_tile = {rows}")
        values, _ = self.results(path, "--check", "--set", f"scratchpads.unified.capacity_bytes={capacity}")
        np.testing.assert_array_equal(values, expected, f"{middle} {rows} {capacity}")

    def test_a_chain_that_does_not_fit_is_fused(self):
        self.chain(kernel=3, groups=64, stride=2)
        expected, apart = self.results("pipelined", "--across", "prefetch")
        values, fused = self.results("pipelined", "--check")
        np.testing.assert_array_equal(values, expected)
        self.assertLess(fused, 0.5 * apart)

    def test_windows_and_last_bands(self):
        """Padding, rows of two bands, strides, and a last band of fewer rows, of a window and of a contraction."""
        for middle in [dict(kernel=3, groups=64, stride=2), dict(kernel=3, groups=64), dict(kernel=3, stride=2)]:
            self.bands_change_no_value(middle, 5 if middle.get("stride") else 7, 524288)

    def test_runs_of_bands(self):
        """Runs that end several times, within a window's reach of another, and where there is room for short ones or none."""
        for middle, rows, capacity in [(dict(stride=2), 1, 131072), (dict(stride=2), 2, 131072), (dict(), 1, 131072), (dict(), 2, 131072),
                                       (dict(), 1, 262144), (dict(), 5, 262144), (dict(kernel=5), 1, 262144)]:
            self.bands_change_no_value({"groups": 64, **middle}, rows, capacity)

    def test_rows_of_two_bands_are_written_once(self):
        """Of three rows that a band reads, two are in the next band as well: each would be written three times."""
        self.chain(kernel=3, groups=64)
        room = ["--set", "scratchpads.unified.capacity_bytes=131072"]
        busy = {}
        for name, schedule in [("apart", self.bands(expand="false")), ("bands", self.bands(expand="true, row_tile = 1"))]:
            self.results(schedule, *room)
            report = json.loads((self.path / "report.json").read_text())
            busy[name] = next(engine["busy_cycles"] for engine in report["engines"] if engine["name"] == "vector")
        expand = 24 * 24 * 64 // 16  # vectors of its result
        self.assertLess(busy["bands"], busy["apart"] + expand)

    def test_rings_of_rows(self):
        """Bands of one row: windows whose taps go round with the rows, rows of padding at both ends, and strides."""
        for middle in [dict(), dict(stride=2), dict(kernel=5), dict(kernel=5, stride=2)]:
            for capacity in [131072, 262144]:
                self.bands_change_no_value({"groups": 64, **middle}, 1, capacity)

    def test_rows_of_a_ring_are_written_once(self):
        """The vector engine writes each row of what a window looks through once, as it does if all of it goes to DRAM."""
        self.chain(kernel=5, groups=64)
        room = ["--set", "scratchpads.unified.capacity_bytes=131072"]
        written = {}
        for name, schedule in [("apart", self.bands(expand="false")), ("ring", self.bands(expand="true, row_tile = 1"))]:
            self.results(schedule, *room, "--trace", "trace.json")
            events = json.loads((self.path / "trace.json").read_text())["traceEvents"]
            tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
            written[name] = sum(event["dur"] for event in events if event["ph"] == "X" and tracks[event["tid"]] == "vector"
                                and event["args"].get("layer") == "expand" and "retire" in event["args"])
        row = 24 * 64 // 16  # vectors
        self.assertLess(written["ring"], written["apart"] + row)

    def fire(self, left=1, right=3, **reader):
        """Two convolutions of one image, the concatenation of what they make, and what reads that: as net.mlir."""
        first, half = conv("%a", "%x", "left", 16, 32, kernel=left)
        second, _ = conv("%b", "%x", "right", 16, 32, kernel=right)
        whole = "tensor<1x64x24x24xf32>"
        third, result = conv("%d", "%c", "reader", 64, reader.get("groups", 16), **reader)
        self.write("net.mlir", f"func.func @main(%x: tensor<1x16x24x24xf32>) -> {result} {{\n{first}{second}"
                   f"  %c = graph.concat %a, %b {{axis = 1 : i64}} : ({half}, {half}) -> {whole}\n{third}  return %d : {result}\n}}\n")
        np.save(self.path / "x.npy", np.random.default_rng(1).integers(-4, 5, (1, 16, 24, 24)).astype(np.float32))

    def fire_bands(self, rows, other=None):
        """A plan file: both halves in row tiles of so many rows, or the second in `other`."""
        return self.plan_file({name: f"on_chip = true, row_tile = {count}"
                               for name, count in [("left", rows), ("right", other or rows)]})

    def test_parts_of_a_concatenation_are_fused_with_its_reader(self):
        """What two kernels write side by side never goes to DRAM."""
        self.fire()
        expected, apart = self.results("pipelined", "--across", "prefetch", *ROOM)
        values, fused = self.results("pipelined", "--check", *ROOM)
        np.testing.assert_array_equal(values, expected)
        whole = 24 * 24 * 64 * 4
        self.assertLess(fused, apart - 1.5 * whole)  # it is written and read

    def test_bands_of_two_writers(self):
        """Readers of one row and of several, runs of bands and rings, whichever half needs more rows of the image."""
        for reader, rows, capacity in [(dict(), 1, 131072), (dict(), 5, 262144), (dict(kernel=3), 4, 524288), (dict(kernel=3, stride=2), 5, 524288),
                                       (dict(kernel=3, groups=64), 1, 131072), (dict(kernel=3, groups=64), 2, 262144),
                                       (dict(kernel=5, groups=64, stride=2), 1, 262144)]:
            for left, right in [(1, 3), (3, 1)]:
                self.fire(left, right, **reader)
                expected, _ = self.results("pipelined", "--across", "prefetch")
                values, _ = self.results(self.fire_bands(rows), "--check", "--set", f"scratchpads.unified.capacity_bytes={capacity}")
                np.testing.assert_array_equal(values, expected, f"{left} {right} {reader} {rows} {capacity}")

    def test_writers_of_one_tensor_agree_on_bands(self):
        self.fire()
        self.fails("compile", "net.mlir", *HW, self.fire_bands(2, 1),
                   message="plan.mlir:3:3: kernels 'left' and 'right' write parts of one tensor and must agree on row_tile")

    def residual(self, shortcut=dict(), last=dict(), reader=None, channels=64, also=False):
        """Two convolutions on the way to a sum, a shortcut beside them, and what reads the sum; `also`: and what reads the shortcut alone: as
        net.mlir."""
        rows = 24 // shortcut.get("stride", 1)
        first, _ = conv("%a", "%x", "first", 16, 16)
        second, whole = conv("%b", "%a", "last", 16, channels, **last)
        beside, _ = conv("%s", "%x", "shortcut", 16, channels, **shortcut)
        third, result = conv("%d", "%c", "reader", channels, reader.get("groups", 16), rows=rows, **reader) if reader else ("", whole)
        value = "%d" if reader else "%c"
        results, values = (f"({result}, {whole})", f"{value}, %e : {result}, {whole}") if also else (result, f"{value} : {result}")
        more = f'  %e = graph.neg %s : {whole} loc("also")\n' if also else ""
        self.write("net.mlir", f"func.func @main(%x: tensor<1x16x24x24xf32>) -> {results} {{\n{first}{second}{beside}"
                   f"  %c = graph.add %b, %s : ({whole}, {whole}) -> {whole}\n{more}{third}  return {values}\n}}\n")
        np.save(self.path / "x.npy", np.random.default_rng(1).integers(-4, 5, (1, 16, 24, 24)).astype(np.float32))

    def test_what_is_added_is_fused_with_the_sum(self):
        """The other way into a sum never goes to DRAM, although the kernel that adds it reads something else with its anchor."""
        self.residual()
        expected, apart = self.results("pipelined", "--across", "prefetch")
        values, fused = self.results("pipelined", "--check")
        np.testing.assert_array_equal(values, expected)
        whole = 24 * 24 * 64 * 4
        self.assertLess(fused, apart - 1.5 * whole)  # it is written and read

    def shortcut_bands(self, rows, *names):
        """A plan file: what is added, and what else is named, in row tiles of so many rows."""
        return self.plan_file({name: f"on_chip = true, row_tile = {rows}" for name in ["shortcut", *names]})

    def test_bands_of_what_is_added(self):
        """Sums behind products and behind windows, last bands of fewer rows, channels that fill no vector, and a sum that goes on in bands,
        of which some rows are written twice, in runs and in a ring."""
        for net, rows, names in [
                (dict(), 1, []), (dict(), 7, []), (dict(channels=40), 5, []),
                (dict(shortcut=dict(stride=2), last=dict(kernel=3, stride=2)), 5, []),
                (dict(channels=16, shortcut=dict(kernel=3), last=dict(kernel=3, groups=16)), 2, []),
                (dict(channels=16, shortcut=dict(kernel=5, groups=16), last=dict(kernel=3, groups=16)), 3, []),
                (dict(last=dict(kernel=3), reader=dict(kernel=3)), 5, ["last"]),
                (dict(last=dict(kernel=3), reader=dict(kernel=3, groups=64)), 2, ["last"]),
                (dict(last=dict(kernel=3), reader=dict(kernel=3, groups=64, stride=2)), 1, ["last"])]:
            self.residual(**net)
            expected, _ = self.results("pipelined", "--across", "prefetch")
            values, _ = self.results(self.shortcut_bands(rows, *names), "--check", "--set", "scratchpads.unified.capacity_bytes=524288")
            np.testing.assert_array_equal(values, expected, f"{net} {rows}")

    def test_rows_of_matrices_that_are_added(self):
        """Parts of a matrix, a whole one, and several."""
        rng = np.random.default_rng(3)
        half, whole = "tensor<4x24x32xf32>", "tensor<4x24x64xf32>"
        lines = ""
        for name, x, columns, to in [("first", "%x", 32, half), ("last", "%ramp", 64, whole), ("shortcut", "%x", 64, whole)]:
            weights = f"tensor<4x32x{columns}xf32>"
            values = rng.integers(-2, 3, (4, 32, columns)).astype(np.float32)
            lines += f'''  %w_{name} = graph.constant dense<"0x{values.tobytes().hex()}"> : {weights}
  %{name} = graph.matmul {x}, %w_{name} : ({half}, {weights}) -> {to} loc("{name}")
'''
            lines += f"  %ramp = graph.relu %first : {half}\n" if name == "first" else ""
        self.write("net.mlir", f"func.func @main(%x: {half}) -> {whole} {{\n{lines}"
                   f"  %sum = graph.add %last, %shortcut : ({whole}, {whole}) -> {whole}\n  return %sum : {whole}\n}}\n")
        np.save(self.path / "x.npy", rng.integers(-4, 5, (4, 24, 32)).astype(np.float32))
        expected, _ = self.results("pipelined", "--across", "prefetch")
        for rows in [8, 24, 48]:
            values, _ = self.results(self.shortcut_bands(rows), "--check", "--set", "scratchpads.unified.capacity_bytes=262144")
            np.testing.assert_array_equal(values, expected, f"{rows}")

    def test_what_others_read_as_well_is_no_addend_in_bands(self):
        self.residual(also=True)
        self.fails("compile", "net.mlir", *HW, self.shortcut_bands(2),
                   message="the result of kernel 'shortcut' cannot stay on chip: it is not read by the next kernel alone, row by row")

    def test_the_choice_comes_back(self):
        self.chain(kernel=3, groups=64, stride=2)
        self.choice_comes_back("row_tile = ", "net.mlir", *HW[:-1])
        self.fire()
        self.choice_comes_back("row_tile = ", "net.mlir", *HW[:2], *ROOM)
        self.residual()
        self.choice_comes_back("row_tile = ", "net.mlir", *HW[:-1])

    def test_a_file_may_forbid_it(self):
        self.chain(kernel=3, groups=64, stride=2)
        path = self.bands(expand="false")
        self.tilewright("compile", "net.mlir", *HW, path, "--emit", "plan", "-o", "chosen.mlir")
        self.assertNotIn("row_tile = ", (self.path / "chosen.mlir").read_text())

    def test_bands_that_cannot_be(self):
        self.chain(kernel=3, groups=64, stride=2)
        for keys, message in [
                (dict(expand="true, row_tile = 0"), "plan.mlir:2:3: 'plan.kernel' op 'row_tile' is 0 but must be a positive number"),
                (dict(expand="false, row_tile = 2"), "plan.mlir:2:3: 'plan.kernel' op 'row_tile' is 2 but on_chip is not true"),
                (dict(expand="true, row_tile = 12"), "row tiles of 12 rows are not two or more"),
                (dict(expand="true, row_tile = 6"), "which has 61440 for them"),
                (dict(expand="true, row_tile = 2", middle="true, row_tile = 1"), "kernel 'middle' beside it has row tiles of 1 rows")]:
            path = self.bands(**keys)
            self.fails("compile", "net.mlir", *HW, path, message=message)

    def test_a_kernel_between_their_steps_has_banks_of_its_own(self):
        """Engines that use one bank wait for each other: what loads, computes and stores beside a chain needs three."""
        self.chain(kernel=3, groups=64, stride=2)
        net = (self.path / "net.mlir").read_text()
        net = net.replace("{\n", '{\n  %y = graph.relu %x : tensor<1x16x24x24xf32> loc("before")\n', 1)
        self.write("net.mlir", net.replace("graph.conv %x", "graph.conv %y"))
        path = self.plan_file({}, priority="interleaved")
        self.tilewright("compile", "net.mlir", *HW, path, "--emit", "plan", "-o", "chosen.mlir")
        chosen = (self.path / "chosen.mlir").read_text()
        self.assertIn("row_tile = ", chosen)
        first, end = re.search(r'plan.kernel "before" .*banks = \[(\d+), (\d+)\]', chosen).groups()
        self.assertGreaterEqual(int(end) - int(first), 3)


if __name__ == "__main__":
    unittest.main()
