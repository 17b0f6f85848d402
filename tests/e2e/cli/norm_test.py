#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layer normalisation behind a product: passes over its rows, what it loads, and how much of it hides."""

import json
import re
import unittest

import numpy as np

from cli_test import CliTest, layers_of

ROWS, DEPTH, WIDTH = 128, 768, 384


class NormTest(CliTest):
    def setUp(self):
        super().setUp()
        self.network(DEPTH)

    def network(self, depth):
        rows, row = f"tensor<{ROWS}x{WIDTH}xf32>", f"tensor<{WIDTH}xf32>"
        self.write("net.mlir", f"""func.func @main(%x: tensor<{ROWS}x{depth}xf32>, %w: tensor<{depth}x{WIDTH}xf32>) -> {rows} {{
  %p = graph.matmul %x, %w : (tensor<{ROWS}x{depth}xf32>, tensor<{depth}x{WIDTH}xf32>) -> {rows} loc("product")
  %n = graph.layer_norm %p {{axis = 1 : i64, epsilon = 1.0e-05 : f32}} : {rows} loc("norm")
  %g = graph.constant dense<2.0> : {row}
  %s = graph.mul %n, %g : ({rows}, {row}) -> {rows} loc("gamma")
  %b = graph.constant dense<0.5> : {row}
  %y = graph.add %s, %b : ({rows}, {row}) -> {rows} loc("beta")
  return %y : {rows}
}}
""")
        random = np.random.default_rng(1)
        self.x, self.w = (random.normal(size=shape).astype(np.float32) for shape in [(ROWS, depth), (depth, WIDTH)])
        np.save(self.path / "x.npy", self.x)
        np.save(self.path / "w.npy", self.w)

    def run_on(self, *options, tolerance=1e-4): # fp32 sums of up to 3,072 products, then of a row
        self.tilewright("run", "net.mlir", *options, "--input", "x.npy", "--input", "w.npy", "--check", "--output-dir", "out",
                        "--json", "report.json")
        p = self.x.astype(np.float64) @ self.w
        centred = p - p.mean(axis=1, keepdims=True)
        expected = centred / np.sqrt((centred ** 2).mean(axis=1, keepdims=True) + 1e-5) * 2 + 0.5
        np.testing.assert_allclose(np.load(self.path / "out/output0.npy"), expected, rtol=0, atol=tolerance)
        return json.loads((self.path / "report.json").read_text())

    def compiled(self, phase, *options):
        return self.tilewright("compile", "net.mlir", "--hw", "gemmini_16x16_fp32", "--schedule", "pipelined", *options, "--emit", phase,
                               "-o", "-")[0]

    def test_scale_and_shift_are_no_passes_of_their_own(self):
        self.assertRegex(self.compiled("tiles"), r"fsqrt:none,frdiv:saved,fmul:\w+,fadd:\w+\]")

    def test_squares_are_summed_as_they_are_read(self):
        text = self.compiled("tiles")
        self.assertIn("window_op=sum_squares lane_reduce=1", text)
        self.assertNotIn("[fmul:saved]", text)

    def test_rows_are_loaded_once(self):
        report = self.run_on("--hw", "gemmini_16x16_fp32", "--schedule", "pipelined", "--across", "prefetch")
        norm = next(layer for layer in layers_of(report) if layer["name"] == "norm")
        self.assertEqual(norm["dram_read_bytes"], ROWS * WIDTH * 4)

    def test_the_product_is_in_serpentine_order_where_its_inputs_do_not_stay(self):
        # 384 KiB of them for each block of channels; DRAM that has no time for that.
        slow = ["--set", "dram.clock_mhz=600"]
        self.assertIn("serpentine = true", self.compiled("plan", *slow))
        self.run_on("--hw", "gemmini_16x16_fp32", "--schedule", "pipelined", *slow)

    def test_begins_with_half_of_the_rows(self):
        # DRAM, and engines, with time to load the weights twice.
        fast = ["--set", "dram.channels=4", "--set", "dma.outstanding_bursts=64"]
        text = self.compiled("plan", *fast)
        self.assertRegex(text, rf"tile = \[\d+, {ROWS // 2}, 1, 1\], tile_k = \d+, loop_order = \"positions_outer\"")
        product, norm = ([int(bank) for bank in banks] for banks in re.findall(r"banks = \[(\d+), (\d+)\]", text))
        self.assertEqual(product[1], norm[0])
        self.assertIn("spread_second_half = true", text)
        self.choice_comes_back("spread_second_half = true", "net.mlir", "--hw", "gemmini_16x16_fp32", *fast)

    def test_the_second_half_of_the_rows_has_all_banks(self):
        # When the product beside which the first half runs has come to its end.
        def schedule(keys):
            return self.plan_file({"product": "on_chip = false", "norm": f"banks = [11, 16]{keys}"})

        hw, bank = ["--hw", "gemmini_16x16_fp32"], 262144 // 16

        def banks_of_loads(path):
            text, _ = self.tilewright("compile", "net.mlir", *hw, "--schedule", path, "--emit", "tiles", "-o", "-")
            norm = "".join(part for part in text.split("\n# ") if part.startswith("norm:"))
            return {int(address, 16) // bank for address in re.findall(r"\bload .*?\baddress=(0x[0-9a-f]+)", norm)}

        self.assertGreaterEqual(min(banks_of_loads(schedule(""))), 11)
        self.assertLess(min(banks_of_loads(schedule(", spread_second_half = true"))), 11)
        self.run_on(*hw, "--schedule", schedule(", spread_second_half = true"))

    def test_both_halves_of_the_rows_have_the_tiles_that_are_asked_for(self):
        path = self.plan_file({"product": "on_chip = false",
                               "norm": f"tile = [{WIDTH}, 8, 1, 1], banks = [11, 16], depth = 2, spread_second_half = true"})
        text, _ = self.tilewright("compile", "net.mlir", "--hw", "gemmini_16x16_fp32", "--schedule", path, "--emit", "tiles", "-o", "-")
        norm = "".join(part for part in text.split("\n# ") if part.startswith("norm:"))
        rows = [int(bytes_, 16) // (WIDTH * 4) for bytes_ in re.findall(r"\nstore .*?\bspan=(0x[0-9a-f]+)", norm)]
        self.assertEqual(set(rows), {8})

    def test_search_decides_what_it_runs_beside(self):
        out, _ = self.tilewright("tune", "net.mlir", "--hw", "edge_32x32_bf16", "--budget", 24)
        self.assertIn("s, neighbours of norm\n", out)

    def test_search_lets_rows_through_its_last_tiles_in_parts(self):
        # Of any tiles that hold all rows; pipelined does that on no machine with one scratchpad for all operands.
        machine = ["--hw", "gemmini_16x16_fp32", "--search-budget", 48]
        self.choice_comes_back("last_split = [", "net.mlir", *machine, schedule="search")
        self.run_on(*machine, "--schedule", "chosen.mlir")

    def kept(self, keys):
        return self.plan_file({"product": keys})

    def test_only_some_rows_go_to_dram(self):
        for first in [ROWS // 2, 40, ROWS - 1]:
            report = self.run_on("--hw", "gemmini_16x16_fp32", "--schedule", self.kept(f"on_chip = true, on_chip_from = {first}"))
            product, norm = layers_of(report)
            self.assertEqual(product["dram_write_bytes"], first * WIDTH * 4)
            self.assertEqual(norm["dram_read_bytes"], first * WIDTH * 4)

    def test_half_of_the_rows_stay_where_there_is_no_room_for_all(self):
        # DRAM that has time for weights twice, or for all rows both ways.
        self.network(4 * DEPTH)
        machine = ["--hw", "gemmini_16x16_fp32", "--set", "dram.channels=2", "--set", "dram.controller=in_order"]
        self.choice_comes_back(f"on_chip = true, on_chip_from = {ROWS // 2}", "net.mlir", *machine)
        self.run_on(*machine, "--schedule", "pipelined")

    def test_the_last_tiles_take_some_rows_at_a_time(self):
        def cut(keys):
            return self.plan_file({"product": f"tile = [16, {ROWS}, 1, 1], tile_k = 256{keys}"})

        self.network(256) # so few inputs that they stay
        hw = ["--hw", "gemmini_16x16_fp32"]
        whole = layers_of(self.run_on(*hw, "--schedule", cut("")))[0]["dram_read_bytes"]
        for keys in [", last_split = [2, 40]", ", first_split = [1, 64]", ", first_split = [1, 128], last_split = [3, 17]"]:
            # Each operand comes once, as ever.
            self.assertEqual(layers_of(self.run_on(*hw, "--schedule", cut(keys)))[0]["dram_read_bytes"], whole, keys)
        text, _ = self.tilewright("compile", "net.mlir", *hw, "--schedule", cut(", last_split = [2, 40]"), "--emit", "tiles", "-o", "-")
        rows = [int(count) for count in re.findall(r"tensor .*?counts=\[(\d+),", text)]
        self.assertEqual(set(rows), {ROWS, 40, ROWS % 40})

    def test_of_blocks_of_inputs_the_last_ones_stay(self):
        # 8 KiB of weights for each: all six of four tiles have no room beside the inputs.
        def cut(keys):
            return self.plan_file({"product": f'tile = [16, {ROWS}, 1, 1], tile_k = 128, loop_order = "k_channels_outer"{keys}, depth = 2'})

        hw = ["--hw", "gemmini_16x16_fp32"]
        whole, some = (layers_of(self.run_on(*hw, "--schedule", cut(keys)))[0]["dram_read_bytes"] for keys in ["", ", last_split = [4, 40]"])
        self.assertEqual(some, whole)

    def test_a_product_begins_with_the_rows_that_are_normalised(self):
        matrix = "tensor<{}x{}xf32>".format
        x, rows, y = matrix(ROWS, 3072), matrix(ROWS, 768), matrix(ROWS, 1536)
        self.write("net.mlir", f"""func.func @main(%x: {x}, %w: {matrix(3072, 768)}, %v: {matrix(768, 1536)}) -> {y} {{
  %p = graph.matmul %x, %w : ({x}, {matrix(3072, 768)}) -> {rows} loc("product")
  %n = graph.layer_norm %p {{axis = 1 : i64, epsilon = 1.0e-05 : f32}} : {rows} loc("norm")
  %y = graph.matmul %n, %v : ({rows}, {matrix(768, 1536)}) -> {y} loc("next")
  return %y : {y}
}}
""")
        self.choice_comes_back("first_split = [", "net.mlir", "--hw", "edge_32x32_bf16")
        text = (self.path / "chosen.mlir").read_text()
        columns, inputs = map(int, re.search(r"tile = \[(\d+), \d+, 1, 1\], tile_k = (\d+), .*first_split = ", text).groups())
        # So many weights that they have a bank of 32 KiB to themselves, of bf16.
        self.assertGreater(columns, 32)
        self.assertLessEqual(2 * columns * inputs, 32768)

    def test_some_rows_cannot_stay(self):
        for keys, message in [(f"on_chip = true, on_chip_from = {ROWS}", "do not make and read so many positions of it one by one"),
                              ("on_chip = false, on_chip_from = 64", "'on_chip_from' is 64 but on_chip is not true"),
                              ("on_chip = true, row_tile = 2, on_chip_from = 64", "'on_chip_from' is 64 but there is a row_tile"),
                              ("on_chip = true, on_chip_from = 0", "'on_chip_from' is 0 but must be a positive number")]:
            self.fails("compile", "net.mlir", "--hw", "gemmini_16x16_fp32", "--schedule", self.kept(keys),
                       message=["plan.mlir:2:3: ", message])

    def test_what_a_kernel_reads_and_writes_stays_from_one_position_on(self):
        rows = f"tensor<{ROWS}x{WIDTH}xf32>"
        again = f'  %z = graph.layer_norm %y {{axis = 1 : i64, epsilon = 1.0e-05 : f32}} : {rows} loc("again")\n  return %z'
        self.write("net.mlir", (self.path / "net.mlir").read_text().replace("  return %y", again))
        command = ["compile", "net.mlir", "--hw", "gemmini_16x16_fp32", "--schedule"]

        def schedule(second):
            return self.plan_file({"product": "on_chip = true, on_chip_from = 90",
                                   "norm": f"on_chip = true, on_chip_from = {second}"})
        self.tilewright(*command, schedule(90))
        self.fails(*command, schedule(110),
                   message="plan.mlir:3:3: kernel 'norm' reads and writes tensors that stay on chip from different positions on")

    def test_the_product_behind_begins_with_half_of_the_rows(self):
        rows = f"tensor<{ROWS}x{WIDTH}xf32>"
        self.write("net.mlir", f"""func.func @main(%p: {rows}) -> tensor<{ROWS}x{DEPTH}xf32> {{
  %w = graph.constant dense<0.01> : tensor<{WIDTH}x{DEPTH}xf32>
  %n = graph.layer_norm %p {{axis = 1 : i64, epsilon = 1.0e-05 : f32}} : {rows} loc("norm")
  %y = graph.matmul %n, %w : ({rows}, tensor<{WIDTH}x{DEPTH}xf32>) -> tensor<{ROWS}x{DEPTH}xf32> loc("product")
  return %y : tensor<{ROWS}x{DEPTH}xf32>
}}
""")
        text = self.tilewright("compile", "net.mlir", "--hw", "cloud_128x128", "--schedule", "pipelined", "--emit", "plan",
                               "-o", "-")[0]
        self.assertRegex(text, rf"tile = \[\d+, {ROWS // 2}, 1, 1\], tile_k = \d+, loop_order = \"positions_outer\"")

    def test_sums_need_no_bank_of_their_own(self):
        # Rows as they come, centred and normalised fill a part of all four banks.
        self.write("norm.mlir", f"""func.func @main(%x: tensor<{ROWS}x{WIDTH}xf32>) -> tensor<{ROWS}x{WIDTH}xf32> {{
  %y = graph.layer_norm %x {{axis = 1 : i64, epsilon = 1.0e-05 : f32}} : tensor<{ROWS}x{WIDTH}xf32> loc("norm")
  return %y : tensor<{ROWS}x{WIDTH}xf32>
}}
""")
        self.plan_file({"norm": f"tile = [{WIDTH}, 32, 1, 1], depth = 1"}, "rows.mlir")
        x = np.random.default_rng(2).normal(size=(ROWS, WIDTH)).astype(np.float32)
        np.save(self.path / "rows.npy", x)
        self.tilewright("run", "norm.mlir", "--hw", "gemmini_16x16_fp32", "--set", "scratchpads.unified.banks=4", "--schedule",
                        "rows.mlir", "--input", "rows.npy", "--check", "--output-dir", "out", "--json", "report.json")
        x = x.astype(np.float64)
        x -= x.mean(axis=1, keepdims=True)
        # fp32 sums of a row.
        np.testing.assert_allclose(np.load(self.path / "out/output0.npy"),
                                   x / np.sqrt((x ** 2).mean(axis=1, keepdims=True) + 1e-5), rtol=0, atol=1e-5)
        engines = json.loads((self.path / "report.json").read_text())["engines"]
        vector = next(engine for engine in engines if engine["name"] == "vector")
        self.assertEqual(vector["stalls"]["bank_conflict_cycles"], 0)

    def test_the_product_behind_a_cast_takes_channels_as_they_come(self):
        """The sums of some results wait side by side, so that each channel that has come is work for the array."""
        rows, x = 64, self.x[:64]
        np.save(self.path / "rows.npy", x)
        self.write("net.mlir", f"""func.func @main(%x: tensor<{rows}x{DEPTH}xf32>) -> tensor<{rows}x{DEPTH}xf32> {{
  %w = graph.constant dense<0.5> : tensor<{DEPTH}x{DEPTH}xf32>
  %y = graph.matmul %x, %w : (tensor<{rows}x{DEPTH}xf32>, tensor<{DEPTH}x{DEPTH}xf32>) -> tensor<{rows}x{DEPTH}xf32> loc("product")
  return %y : tensor<{rows}x{DEPTH}xf32>
}}
""")
        machine = ["--hw", "edge_32x32_bf16", "--set", "dram.controller=in_order", "--schedule", "pipelined"]
        text = self.tilewright("compile", "net.mlir", *machine, "--emit", "plan", "-o", "-")[0]
        channels = int(re.search(r'tile_k = (\d+), loop_order = "k_channels_outer"', text).group(1))
        self.assertIn(f"tile = [{channels}, {rows}, 1, 1]", text)  # of the cast
        self.tilewright("run", "net.mlir", *machine, "--input", "rows.npy", "--check", "--output-dir", "out")
        expected = np.repeat(x.astype(np.float64).sum(axis=1, keepdims=True) / 2, DEPTH, axis=1)
        # bf16 has 8 bits: of 768 inputs of about 1, each off by 2^-9 of itself at most, and of the result.
        bound = np.abs(x).sum(axis=1, keepdims=True) / 2 * 2 ** -9 + np.abs(expected) * 2 ** -8 + 1e-3
        self.assertTrue((np.abs(np.load(self.path / "out/output0.npy") - expected) <= bound).all())

    def test_so_does_one_behind_a_quantisation_whose_rows_have_no_room(self):
        # 40 KiB of floats and bytes for a burst of channels of all rows, and a scratchpad of 32 KiB.
        x, w = f"tensor<{ROWS}x{DEPTH}x{{}}>".format, f"tensor<{DEPTH}x{DEPTH}xi8>"
        self.write("net.mlir", f"""func.func @main(%x: {x("f32")}, %w: {w}) -> {x("i8")} {{
  %q = graph.quantize %x {{scales = array<f32: 0.5>, zero_points = array<i32: 0>, axis = 0 : i64}} : ({x("f32")}) -> {x("i8")} loc("rows")
  %p = graph.matmul_integer %q, %w {{a_zero_point = 0 : i32, b_zero_points = array<i32: 0>}} : ({x("i8")}, {w}) -> {x("i32")} loc("product")
  %y = graph.requantize %p {{multipliers = array<f32: 0.0009765625>, axis = 1 : i64, zero_point = 0 : i32}} : ({x("i32")}) -> {x("i8")}
  return %y : {x("i8")}
}}
""")
        machine = ["--hw", "vdla_16x16"]
        self.choice_comes_back('tile_k = 64, loop_order = "k_channels_outer"', "net.mlir", *machine)
        channels, rows = re.search(r"tile = \[(\d+), (\d+), 1, 1\](?!, tile_k)", (self.path / "chosen.mlir").read_text()).groups()
        self.assertEqual(int(channels), 64)
        self.assertLess(int(rows), ROWS)
        random = np.random.default_rng(3)
        np.save(self.path / "w.npy", w := random.integers(-128, 128, (DEPTH, DEPTH), dtype=np.int8))
        self.tilewright("run", "net.mlir", *machine, "--schedule", "pipelined", "--input", "x.npy", "--input", "w.npy", "--check",
                        "--output-dir", "out")
        sums = np.rint(self.x / 0.5).astype(np.int64) @ w # of so small values that none saturates
        expected = np.clip(np.rint(sums / 1024), -128, 127)
        np.testing.assert_array_equal(np.load(self.path / "out/output0.npy"), expected)

    def test_few_rows_fit(self):
        self.run_on("--hw", "gemmini_16x16_fp32", "--schedule", "pipelined", "--set", "scratchpads.unified.capacity_bytes=16384")

    def test_parts_that_come_to_their_sums_too_soon_are_refused(self):
        """A block of input channels is added to both rows at once, and the last one to each row alone."""
        self.write("net.mlir", """func.func @main(%x: tensor<2x1116xf32>, %w: tensor<1116x53xf32>) -> tensor<2x53xf32> {
  %p = graph.matmul %x, %w : (tensor<2x1116xf32>, tensor<1116x53xf32>) -> tensor<2x53xf32> loc("product")
  %y = graph.layer_norm %p {axis = 1 : i64, epsilon = 1.0e-05 : f32} : tensor<2x53xf32> loc("norm")
  return %y : tensor<2x53xf32>
}
""")
        def cut(last):
            return self.plan_file(
                {"product": f'tile = [16, 2, 1, 1], tile_k = 160, loop_order = "k_outer", last_split = [2, {last}]'}, schedule="pipelined")
        command = ["compile", "net.mlir", "--hw", "gemmini_16x16_fp32", "-o", "net.twp", "--schedule"]
        self.fails(*command, cut(1), message="parts of so few would come to their sums too soon")
        self.tilewright(*command, cut(2))


if __name__ == "__main__":
    unittest.main()
