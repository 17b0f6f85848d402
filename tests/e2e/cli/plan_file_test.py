#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plan files: what each knob does to the program, what is refused and where, and that written plans come back."""

import json
import re
import unittest

import numpy as np

from cli_test import DIGITS, NETWORK, OK, SOURCE, CliTest

HW = ["--hw", "gemmini_16x16_int8"]


class PlanFileTest(CliTest):
    def plan(self, knobs, kernel="down", **network):
        return self.plan_file({kernel: knobs}, **network)

    def image(self, schedule, *options, model=NETWORK):
        self.tilewright("compile", model, *HW, "--schedule", schedule, "-o", "image.twp", *options)
        return (self.path / "image.twp").read_bytes()

    def layers(self, schedule):
        """Per layer: the tile that was chosen, and its instructions."""
        out, _ = self.tilewright("compile", NETWORK, *HW, "--schedule", schedule, "--emit", "tiles")
        choices, code, name = {}, {}, None
        for line in out.splitlines():
            if line.startswith("# "):
                name, choices[name] = line[2:].split(": ", 1)
            else:
                code.setdefault(name, []).append(line.split()[0])
        return choices, code

    def refused(self, knobs, message, **options):
        """The message begins with the place of the op that sets them."""
        self.plan(knobs, **options)
        return self.fails("compile", NETWORK, *HW, "--schedule", "plan.mlir", message=["plan.mlir:2:3: ", *message])


class KnobTest(PlanFileTest):
    def test_an_empty_plan_is_its_schedule(self):
        for schedule in ["serial", "double_buffer", "pipelined"]:
            path = self.plan_file({}, schedule=schedule)
            self.assertEqual(self.image(path), self.image(schedule), schedule)
        self.assertEqual(self.image(self.plan_file({})), self.image("pipelined"))

    def test_tile(self):
        choices, _ = self.layers(self.plan("tile = [16, 3, 2, 0]"))
        self.assertIn("tile 1 x 2 x 3 positions, 16 channels", choices["down"])

    def test_channels_are_cut_into_equal_parts(self):
        """200 channels are 13 vectors in four tiles of at most four: none has a single one and the inputs of all."""
        path = self.plan("tile = [64, 16, 1, 1], tile_k = 16", kernel="gemm")
        code, _ = self.tilewright("compile", "gemm:16x200x64:fp32", "--hw", "gemmini_16x16_fp32", "--schedule", path, "--emit", "isa")
        weights = {int(count) for count in re.findall(r"load unit=1 .*counts=\[(\d+),", code)}
        self.assertEqual(weights, {16 * 64, 16 * 48})

    def test_a_size_left_open_is_chosen(self):
        choices, _ = self.layers(self.plan("tile = [0, 0, 1, 0]"))
        self.assertRegex(choices["down"], r"tile 1 x 1 x [1-9]\d* positions, [1-9]\d* channels")

    def test_tile_k(self):
        choices, _ = self.layers(self.plan("tile_k = 32", kernel="classifier"))
        self.assertIn("16 channels from 32,", choices["classifier"])

    def test_orders_are_different_programs(self):
        orders = ["positions_outer", "channels_outer", "k_outer", "k_channels_outer"]
        self.write("net.mlir", """func.func @main(%x: tensor<32x64xi8>, %w: tensor<64x64xi8>) -> tensor<32x64xi32> {
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<32x64xi32>
  %z = linalg.fill ins(%c0 : i32) outs(%e : tensor<32x64xi32>) -> tensor<32x64xi32>
  %m = linalg.matmul ins(%x, %w : tensor<32x64xi8>, tensor<64x64xi8>) outs(%z : tensor<32x64xi32>) -> tensor<32x64xi32>
  return %m : tensor<32x64xi32>
}
""")
        x = np.random.default_rng(1).integers(-128, 128, (32, 64), np.int8)
        w = np.random.default_rng(2).integers(-128, 128, (64, 64), np.int8)
        np.save(self.path / "x.npy", x)
        np.save(self.path / "w.npy", w)
        images = set()
        for order in orders:
            path = self.plan(f'tile = [16, 8, 1, 1], tile_k = 16, loop_order = "{order}"', kernel="kernel0")
            images.add(self.image(path, model="net.mlir"))
            self.tilewright("run", "net.mlir", *HW, "--schedule", path, "--input", "x.npy", "--input", "w.npy", "--check",
                            "--output-dir", "out")
            np.testing.assert_array_equal(np.load(self.path / "out/output0.npy"), x.astype(np.int32) @ w.astype(np.int32), order)
        self.assertEqual(len(images), len(orders))

    def test_k_outer_order_without_room_for_all_sums(self):
        """Eight channel blocks of 256 positions have two accumulators' worth of sums: half of the positions after the other."""
        def result(schedule):
            self.tilewright("run", "gemm:256x128x64:int8", *HW, "--schedule", schedule, "--check", "--output-dir", "out")
            value, = [np.load(file) for file in (self.path / "out").glob("*.npy")]
            return value
        expected = result("serial")
        for turns in ["false", "true"]:
            path = self.plan(f'tile = [16, 64, 1, 1], tile_k = 16, loop_order = "k_outer", serpentine = {turns}', kernel="gemm")
            tiles, _ = self.tilewright("compile", "gemm:256x128x64:int8", *HW, "--schedule", path, "--emit", "tiles")
            self.assertIn("k outer", tiles)
            np.testing.assert_array_equal(result(path), expected, turns)

    def test_depth(self):
        choices, _ = self.layers(self.plan("depth = 3"))
        self.assertIn("depth 3", choices["down"])

    def test_single_accumulator(self):
        choices, _ = self.layers(self.plan("depth = 2, single_accumulator = true"))
        self.assertIn("single accumulator", choices["down"])

    def test_stationary(self):
        choices, _ = self.layers(self.plan('stationary = "double"'))
        self.assertIn("stationary double", choices["down"])
        choices, _ = self.layers(self.plan('stationary = "resident"'))
        self.assertIn("stationary resident", choices["down"])

    def test_overlap(self):
        choices, _ = self.layers(self.plan("overlap = false", schedule="double_buffer"))
        self.assertIn("no overlap", choices["down"])

    def test_banks(self):
        """The network's first scratchpad has 16 banks of 16 KiB."""
        for first, end in [(9, 11), (0, 2), (12, 14)]:
            path = self.plan(f"banks = [{first}, {end}]")
            out, _ = self.tilewright("compile", NETWORK, *HW, "--schedule", path, "--emit", "tiles")
            _, *layers = re.split(r"^# (.*?): .*\n", out, flags=re.M)
            loads = [line for name, code in zip(layers[::2], layers[1::2]) if name == "down"
                     for line in code.splitlines() if line.strip().startswith("load")]
            places = [int(re.search(r" address=(\w+)", line)[1], 16) if " address=" in line else 0 for line in loads]
            self.assertTrue(places)
            self.assertTrue(all(first * 16384 <= place < end * 16384 for place in places), (first, end, places))
            self.tilewright("run", NETWORK, *HW, "--schedule", path, "--input", DIGITS / "images.npy", "--batch", "--check")

    def test_after_previous(self):
        """Two kernels whose buffers begin at the bottom wait for each other."""
        def starts(after):
            path = self.plan(f"after_previous = {after}, on_chip = false")
            choices, _ = self.tilewright("compile", NETWORK, *HW, "--schedule", path, "--emit", "tiles")
            return choices
        self.assertNotEqual(starts("true"), starts("false"))

    def test_on_chip(self):
        _, on_chip = self.layers(self.plan("on_chip = true"))
        _, in_dram = self.layers(self.plan("on_chip = false"))
        self.assertNotIn("store", on_chip["down"])
        self.assertIn("store", in_dram["down"])

    def test_engine(self):
        for engine, other in [("vector", "tensor"), ("tensor", "vector")]:
            path = self.plan(f'engine = "{engine}"', kernel="depthwise")
            _, code = self.layers(path)
            self.assertEqual("tensor" in code["depthwise"], engine == "tensor")
            self.tilewright("run", NETWORK, *HW, "--schedule", path, "--input", DIGITS / "images.npy", "--batch",
                            "--output-dir", engine)
        np.testing.assert_array_equal(*(np.load(self.path / engine / "logits.npy") for engine in ["tensor", "vector"]))

    def test_a_ring_longer_than_its_loop(self):
        self.image(self.plan("tile = [0, 2, 1, 1], depth = 4", kernel="depthwise"))

    def test_priority(self):
        def image(priority):
            return self.image(self.plan_file({}, priority=priority))
        self.assertNotEqual(image("program_order"), image("alap"))
        self.assertNotEqual(image("program_order"), image("interleaved"))
        self.assertIn(self.image("pipelined"), [image("program_order"), image("alap"), image("interleaved")])

    def test_loads_and_stores_alternate_on_the_bus(self):
        def image(bus):
            path = self.plan_file({}, bus=bus)
            self.tilewright("run", NETWORK, *HW, "--schedule", path, "--check")
            return self.image(path)
        self.assertNotEqual(image("shared"), image("alternating"))
        self.assertIn(self.image("pipelined"), [image("shared"), image("alternating")])

    def test_weights_by_the_engine_of_activations(self):
        def image(loader):
            path = self.plan_file({}, weight_loader=loader)
            self.tilewright("run", NETWORK, *HW, "--schedule", path, "--check")
            code, _ = self.tilewright("compile", NETWORK, *HW, "--schedule", path, "--emit", "tiles")
            self.assertEqual("load unit=1" in code, loader == "second")
            return self.image(path)
        self.assertNotEqual(image("second"), image("first"))

    def test_weights_of_one_kernel_by_the_engine_of_activations(self):
        def loads(knobs, loader):
            """Loads by the second engine."""
            path = self.plan_file({"down": knobs} if knobs else {}, weight_loader=loader)
            self.tilewright("run", NETWORK, *HW, "--schedule", path, "--check")
            code, _ = self.tilewright("compile", NETWORK, *HW, "--schedule", path, "--emit", "tiles")
            return code.count("load unit=1")
        every, without, alone = loads("", "second"), loads("first_loader = true", "second"), loads("first_loader = false", "first")
        self.assertTrue(0 < without < every and 0 < alone < every, (without, alone, every))

    def test_late_weights_come_early(self):
        hw = ["--hw", "tiny_8x8"]  # with a scratchpad for weights
        results = {}
        for weights in ["slots", "early"]:
            path = self.plan_file({}, weight_prefetch=weights)
            self.tilewright("run", NETWORK, *hw, "--schedule", path, "--check", "--output-dir", weights)
            results[weights] = {file.name: np.load(file) for file in (self.path / weights).glob("*.npy")}
            tiles, _ = self.tilewright("compile", NETWORK, *hw, "--schedule", path, "--emit", "tiles")
            elsewhere = [line for line in tiles.splitlines() if "preload " in line and "memory=scratchpad1" not in line]
            self.assertEqual(bool(elsewhere), weights == "early")
            self.tilewright("compile", NETWORK, *hw, "--schedule", path, "--emit", "plan", "-o", "chosen.mlir")
            self.assertIn(f'weight_prefetch = "{weights}"', (self.path / "chosen.mlir").read_text())
            again, _ = self.tilewright("compile", NETWORK, *hw, "--schedule", "chosen.mlir", "--emit", "tiles")
            self.assertEqual(again, tiles)
        self.assertTrue(results["slots"])
        np.testing.assert_equal(results["early"], results["slots"])

    def test_a_pattern_stands_for_all_kernels_that_match(self):
        choices, _ = self.layers(self.plan("depth = 3", kernel="*wise"))
        self.assertEqual({name for name, choice in choices.items() if "depth 3" in choice}, {"depthwise", "pointwise"})

    def test_a_later_op_replaces_what_earlier_ones_say_of_the_same_knob(self):
        path = self.plan_file({"*": "depth = 4, on_chip = false", "*wise": "depth = 3", "pointwise": "on_chip = true"})
        choices, code = self.layers(path)
        self.assertIn("depth 4", choices["down"])
        self.assertIn("depth 3", choices["pointwise"])
        self.assertIn("store", code["depthwise"])
        self.assertNotIn("store", code["pointwise"])

    def test_every_command_takes_one(self):
        path = self.plan("depth = 3")
        for command in ["run", "profile", "compare"]:
            self.tilewright(command, NETWORK, *HW, "--schedule", path)

    def test_the_linalg_phase_keeps_what_was_asked(self):
        path = self.plan("tile = [16, 2, 2, 1], on_chip = false")
        self.tilewright("compile", NETWORK, *HW, "--schedule", path, "--emit", "linalg", "-o", "net.mlir")
        self.assertEqual(self.image("pipelined", model="net.mlir"), self.image(path))


class ProductTest(PlanFileTest):
    """Of a kernel that has its program to itself: how it begins, and which engine loads what."""
    PRODUCT = ["gemm:72x96x200:int8", "--hw", "onnxim_16x16_4b"]
    TILE = 'tile = [32, 16, 1, 1], tile_k = 128, loop_order = "channels_outer"'

    def result(self, schedule):
        self.tilewright("run", *self.PRODUCT, "--schedule", schedule, "--check", "--output-dir", "out")
        return np.load(self.path / "out/y.npy")

    def test_starts_and_loaders_change_the_program_only(self):
        expected = self.result("serial")
        seen = set()
        for small in ["false", "true"]:
            for wide in ["false", "true"]:
                for one in ["false", "true"]:
                    knobs = (f"single_accumulator = false, small_first_tile = {small}, small_last_tile = true, wide_start = {wide}, "
                             f"single_loader = {one}")
                    path = self.plan(f'{self.TILE}, depth = 3, stationary = "double", {knobs}', kernel="gemm")
                    np.testing.assert_array_equal(self.result(path), expected, knobs)
                    tiles, _ = self.tilewright("compile", *self.PRODUCT, "--schedule", path, "--emit", "tiles")
                    self.assertEqual("load unit=1" in tiles, one == "false", knobs)
                    seen.add(tiles)
                    self.tilewright("compile", *self.PRODUCT, "--schedule", path, "--emit", "plan", "-o", "chosen.mlir")
                    self.assertIn(knobs, (self.path / "chosen.mlir").read_text())
                    again, _ = self.tilewright("compile", *self.PRODUCT, "--schedule", "chosen.mlir", "--emit", "tiles")
                    self.assertEqual(again, tiles, knobs)
        self.assertEqual(len(seen), 8)

    def test_a_small_end_takes_more_code_and_fewer_cycles(self):
        product = ["gemm:256x64x64:int8", "--hw", "vdla_16x16"]
        lines, cycles, values = {}, {}, []
        for ends in ["false", "true"]:
            path = self.plan(f"tile = [64, 256, 1, 1], tile_k = 64, depth = 2, small_last_tile = {ends}", kernel="gemm")
            out, _ = self.tilewright("run", *product, "--schedule", path, "--output-dir", "out", "--json", "-")
            cycles[ends] = json.loads(out)["total_cycles"]
            values.append(np.load(self.path / "out/y.npy"))
            tiles, _ = self.tilewright("compile", *product, "--schedule", path, "--emit", "tiles")
            lines[ends] = len(tiles.splitlines())
            self.tilewright("compile", *product, "--schedule", path, "--emit", "plan", "-o", "chosen.mlir")
            self.assertIn(f"small_last_tile = {ends}", (self.path / "chosen.mlir").read_text())
            again, _ = self.tilewright("compile", *product, "--schedule", "chosen.mlir", "--emit", "tiles")
            self.assertEqual(again, tiles)
        np.testing.assert_array_equal(*values)
        self.assertLess(lines["false"], lines["true"])
        self.assertLess(cycles["true"], cycles["false"])

    def test_a_wide_start_needs_less_bandwidth(self):
        def cycles(wide):
            path = self.plan('tile = [128, 32, 1, 1], tile_k = 128, loop_order = "channels_outer", depth = 4, stationary = "double", '
                             f"wide_start = {wide}, single_loader = true", kernel="gemm")
            out, _ = self.tilewright("run", "gemm:128x128x512:int8", "--hw", "onnxim_16x16_4b", "--schedule", path, "--json", "-")
            return json.loads(out)["total_cycles"]
        self.assertLess(cycles("true"), cycles("false"))

    def test_the_first_of_several_may_begin_wide(self):
        shapes = "(tensor<32x128xf32>, tensor<128x128xf32>) -> tensor<32x128xf32>"
        self.write("net.mlir", f"""func.func @main(%x: tensor<32x128xf32>, %w: tensor<128x128xf32>) -> tensor<32x128xf32> {{
  %y = graph.matmul %x, %w : {shapes} loc("first")
  %z = graph.matmul %y, %w : {shapes} loc("second")
  return %z : tensor<32x128xf32>
}}
""")
        x, w = (np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32) for seed, shape in [(1, (32, 128)), (2, (128, 128))])
        np.save(self.path / "x.npy", x)
        np.save(self.path / "w.npy", w)
        machine, images = ["--hw", "gemmini_16x16_fp32"], set()
        for wide in ["false", "true"]:
            path = self.plan('tile = [32, 32, 1, 1], tile_k = 32, loop_order = "positions_outer", depth = 4, single_accumulator = false, '
                             f"wide_start = {wide}", kernel="first")
            self.tilewright("run", "net.mlir", *machine, "--schedule", path, "--input", "x.npy", "--input", "w.npy", "--check",
                            "--output-dir", "out")
            np.testing.assert_array_equal(np.load(self.path / "out/output0.npy"), x @ w @ w)
            tiles, _ = self.tilewright("compile", "net.mlir", *machine, "--schedule", path, "--emit", "tiles")
            images.add(tiles)
            self.tilewright("compile", "net.mlir", *machine, "--schedule", path, "--emit", "plan", "-o", "chosen.mlir")
            self.assertIn(f"wide_start = {wide}", (self.path / "chosen.mlir").read_text())
            again, _ = self.tilewright("compile", "net.mlir", *machine, "--schedule", "chosen.mlir", "--emit", "tiles")
            self.assertEqual(again, tiles)
        self.assertEqual(len(images), 2)

    def test_what_cannot_begin_wide(self):
        for tile, knobs, message in [
                (self.TILE, "depth = 1", "depth 1"), (self.TILE, "depth = 2, single_accumulator = true", "has a single accumulator"),
                ("tile_k = 208", "depth = 2", "no more tiles of input channels"),
                ('tile_k = 64, loop_order = "k_outer"', "depth = 2", "an accumulator for every tile")]:
            self.plan(f"{tile}, {knobs}, wide_start = true", kernel="gemm")
            self.fails("compile", *self.PRODUCT, "--schedule", "plan.mlir",
                       message=["plan.mlir:2:3: wide_start is true", message])

    def test_tiles_in_serpentine_order_find_weights_on_chip(self):
        """Five tiles of positions take the same four tiles of input channels, the last of 8; two of them stay for the next one."""
        read, values = {}, {}
        for turns in ["false", "true"]:
            path = self.plan('tile = [32, 16, 1, 1], tile_k = 64, loop_order = "channels_outer", depth = 2, stationary = "none", '
                             f"wide_start = false, small_first_tile = false, serpentine = {turns}", kernel="gemm")
            values[turns] = self.result(path)
            out, _ = self.tilewright("run", *self.PRODUCT, "--schedule", path, "--json", "-")
            read[turns] = json.loads(out)["dram_read_bytes"]
        np.testing.assert_array_equal(values["true"], values["false"])
        tiles = [64 * 32] * 3 + [16 * 32] # whole rows of the array
        again = 2 * (sum(tiles[:2]) + sum(tiles[2:])) # downwards and upwards, twice
        self.assertEqual(read["false"] - read["true"], 96 // 32 * (5 * sum(tiles) - (sum(tiles) + again)))

    def test_a_single_loader_of_one(self):
        self.plan("single_loader = true", kernel="gemm")
        self.fails("compile", *self.PRODUCT, "--set", "dma.load_engines=1", "--schedule", "plan.mlir",
                   message=["plan.mlir:2:3: single_loader is true", "one load engine anyway"])


class RoundTripTest(PlanFileTest):
    def round_trip(self, schedule, *options):
        self.tilewright("compile", NETWORK, *HW, "--schedule", schedule, *options, "--emit", "plan", "-o", "chosen.mlir")
        self.assertEqual(self.image(schedule, *options), self.image("chosen.mlir"), schedule)

    def test_written_choices_give_the_same_program(self):
        for schedule in ["serial", "double_buffer", "pipelined"]:
            self.round_trip(schedule)
        self.round_trip("search", "--search-budget", "60")

    def test_of_a_file(self):
        self.round_trip(self.plan("tile = [0, 0, 1, 1], depth = 3"))
        self.round_trip(self.plan("banks = [3, 9]"))
        self.round_trip(self.plan("after_previous = false"))
        self.round_trip(self.plan("bank_exclusive = true"))
        for turns in ["false", "true"]:
            self.round_trip(self.plan(f"tile_k = 16, serpentine = {turns}", kernel="classifier"))
        self.round_trip(self.plan("on_chip = true, placed_first = true"))
        self.round_trip(self.plan('engine = "tensor", on_chip = false', kernel="depthwise"))


class RefusalTest(PlanFileTest):
    def test_unknown_names(self):
        self.plan("tile_k = 16", kernel="dwn")
        self.fails("compile", NETWORK, *HW, "--schedule", "plan.mlir",
                   message="plan.mlir:2:3: 'plan.kernel' op no kernel is named 'dwn' or has a node of that name; the nearest is 'down'")
        self.refused('loop_order = "rows"', message=['"rows"', "positions_outer, channels_outer"])
        self.refused("size = [1]", message=["unknown knob 'size', expected one of tile, tile_k, loop_order"])

    def test_tiles_that_are_none(self):
        self.refused("tile = [16, 2]", message=["[16, 2]", "four sizes"])
        self.refused("tile = [64, 0, 0, 0]", message=["channels is 64", "multiples of 16 up to 32"])
        self.refused("tile = [8, 0, 0, 0]", message=["channels is 8", "multiples of 16"])
        self.refused("tile = [0, 5, 0, 0]", message=["along x is 5", "has 4 there"])
        self.refused("tile_k = 24", message=["tile_k is 24", "multiples of 16 up to 16"])
        self.refused("tile_k = 16", kernel="stem", message=["tile_k is 16", "packs the channels of all its taps and needs 9"])
        self.refused("tile_k = 16", kernel="pool", message=["tile_k is 16", "no contraction"])
        self.refused('loop_order = "k_outer"', message=["loop_order is k_outer", "no more tiles of input channels (16"])
        for knob in ["first_split", "last_split"]:
            self.refused(f"{knob} = [2]", message=[f"'{knob}' is [2]", "two positive numbers"])
            self.refused(f"{knob} = [0, 8]", message=[f"'{knob}' is [0, 8]", "two positive numbers"])
            self.refused(f"{knob} = [1, 2]", message=[f"{knob} is [1, 2]", "is no product"])

    def test_buffers_that_are_none(self):
        self.refused("depth = 0", message=["'depth' is 0", "positive"])
        for knob in ["small_first_tile", "small_last_tile", "single_loader"]:
            self.refused(f"{knob} = true", message=[f"{knob} is true", "to itself"])
        self.refused("wide_start = true", kernel="classifier", message=["wide_start is true", "not the first contraction"])
        self.refused("drain_by_block = true", kernel="pool", message=["drain_by_block is true", "no contraction"])
        self.refused("depth = 1, single_accumulator = true", message=["depth is 1", "single accumulator and needs 2 or more"])
        self.refused("drain_by_block = true", message=["drain_by_block is true", "has no single_accumulator"])
        self.refused("single_accumulator = true", schedule="double_buffer", message=["single_accumulator is true", "only pipelined and search"])
        self.refused('depth = 1, stationary = "double"', message=["depth is 1", "needs 2 or more"])
        self.refused("depth = 2", schedule="serial", message=["depth is 2", "schedule serial"])
        self.refused('stationary = "single"', schedule="double_buffer", message=["stationary is single", "only pipelined and search"])
        self.refused("serpentine = true", schedule="double_buffer", message=["serpentine is true", "only pipelined and search"])
        self.refused("serpentine = true", kernel="pool", message=["serpentine is true", "no contraction"])
        self.refused("sum_line_buffer = true", message=["sum_line_buffer is true", "whole windows that share rows"])
        self.refused('stationary = "three"', message=['"three"', "none, single, prefetch, double or resident"])
        self.refused("overlap = false", message=["overlap is false", "schedule pipelined"])
        self.refused("banks = [3]", message=["'banks' is [3]", "two numbers"])
        self.refused("banks = [3, 3]", message=["'banks' is [3, 3]", "the first less than the end"])
        self.refused("banks = [3, 17]", message=["the end of banks is 17", "has 16 of them in unified"])
        self.refused("banks = [3, 5], after_previous = true", message=["after_previous is true", "banks of its own"])
        for schedule in ["serial", "double_buffer"]:
            self.refused("after_previous = true", schedule=schedule, message=["after_previous is true", f"schedule {schedule}"])
            self.refused("bank_exclusive = true", schedule=schedule, message=["bank_exclusive is true", f"schedule {schedule}"])
            self.refused("banks = [3, 9], spread_second_half = true", schedule=schedule,
                         message=["spread_second_half is true", "runs beside no other"])
        self.refused("spread_second_half = true", message=["spread_second_half is true", "no banks of its own"])
        self.refused("banks = [3, 9], spread_second_half = true", message=["spread_second_half is true", "does not run row by row"])

    def test_what_does_not_fit_the_memory(self):
        path = self.plan("tile = [512, 512, 1, 1], tile_k = 512", kernel="gemm")
        error = self.fails("compile", "gemm:512x512x512:int8", *HW, "--schedule", path,
                           message="plan.mlir:2:3: kernel 'gemm'")
        self.assertRegex(error, r"needs .* 1048576 bytes of accumulator \(the machine has \d+\)")

    def test_results_that_cannot_stay(self):
        self.refused("on_chip = true", kernel="classifier", message=["'classifier' cannot stay", "no other kernel"])
        self.refused("on_chip = true", kernel="pool", message=["'pool' cannot stay", "'classifier' cannot use it there"])
        self.refused("on_chip = true", schedule="double_buffer", message=["only schedules pipelined and search"])
        self.refused("on_chip = false, placed_first = true", message=["'placed_first' is true but on_chip is not true"])
        self.refused("on_chip = true, row_tile = 2, placed_first = true", message=["'placed_first' is true but there is a row_tile"])

    def test_batches_and_reductions(self):
        self.write("net.mlir", """func.func @main(%x: tensor<4x8x32xi8>, %w: tensor<4x32x16xi8>, %f: tensor<8x32xf32>)
    -> (tensor<4x8x16xi32>, tensor<8xf32>) {
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4x8x16xi32>
  %z = linalg.fill ins(%c0 : i32) outs(%e : tensor<4x8x16xi32>) -> tensor<4x8x16xi32>
  %m = linalg.batch_matmul ins(%x, %w : tensor<4x8x32xi8>, tensor<4x32x16xi8>) outs(%z : tensor<4x8x16xi32>) -> tensor<4x8x16xi32>
  %f0 = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<8xf32>
  %z1 = linalg.fill ins(%f0 : f32) outs(%e1 : tensor<8xf32>) -> tensor<8xf32>
  %r = linalg.reduce { arith.addf } ins(%f : tensor<8x32xf32>) outs(%z1 : tensor<8xf32>) dimensions = [1]
  return %m, %r : tensor<4x8x16xi32>, tensor<8xf32>
}
""")
        for kernel, sizes, message in [
                ("kernel0", "[0, 0, 2, 0]", "along y is 2 but kernel 'kernel0' has weights of its own for each"),
                ("kernel1", "[16, 0, 0, 0]", "channels is 16 but kernel 'kernel1' reduces over all")]:
            self.plan(f"tile = {sizes}", kernel=kernel)
            self.fails("compile", "net.mlir", *HW, "--schedule", "plan.mlir", message=["plan.mlir:2:3: ", message])

    def test_kernels_without_tiles(self):
        """Two convolutions write the parts of a concatenation, behind a change of layout."""
        def conv(result, x, name, value, channels):
            types = f"(tensor<1x{channels}x8x8xf32>, tensor<16x{channels}x1x1xf32>) -> tensor<1x16x8x8xf32>"
            return f"""  %w{value} = graph.constant dense<{value}.0> : tensor<16x{channels}x1x1xf32>
  {result} = graph.conv {x}, %w{value} {{dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw",
    pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>}} : {types} loc("{name}")
"""
        self.write("net.mlir", "func.func @main(%x: tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32> {\n"
                   + conv("%a", "%x", "left", 1, 16) + conv("%b", "%x", "right", 2, 16)
                   + """  %c = graph.concat %a, %b {axis = 1 : i64}
    : (tensor<1x16x8x8xf32>, tensor<1x16x8x8xf32>) -> tensor<1x32x8x8xf32> loc("join")
""" + conv("%y", "%c", "last", 3, 32) + "  return %y : tensor<1x16x8x8xf32>\n}\n")
        hw = ["--hw", "gemmini_16x16_fp32"]
        for kernels, message in [
                ({"transpose": "depth = 2"}, "2:3: kernel 'transpose' only moves data and has no tiles to choose"),
                ({"transpose": 'engine = "vector"'},
                 "2:3: engine is vector but kernel 'transpose' must be on load and store"),
                ({"join": "on_chip = false"}, "2:3: kernel 'join' has no code of its own"),
                ({"left": "on_chip = true", "right": "on_chip = false"},
                 "3:3: kernels 'left' and 'right' write parts of one tensor and must agree on on_chip")]:
            path = self.plan_file(kernels)
            self.fails("compile", "net.mlir", *hw, "--schedule", path, message="plan.mlir:" + message)

    def test_engines_that_cannot(self):
        self.refused('engine = "vector"', message=["engine is vector", "must be on tensor: it sums over channels"])
        self.refused('engine = "tensor"', kernel="pool", message=["engine is tensor", "must be on vector"])

    def test_files_that_are_no_plans(self):
        self.fails("run", NETWORK, *HW, "--schedule", "none.mlir", message="none.mlir: cannot read the file: No such file")
        for text, message in [("plan.network {", "1:13: "),
                              ("module {\n}\n", "1:1: a plan file needs a plan.network op"),
                              ("plan.network {\n}\nplan.network {\n}\n", "3:1: a plan file has one plan.network op and no other"),
                              ("func.func private @f()\n", "1:1: a plan file has one plan.network op and no other"),
                              ('plan.kernel "down" {depth = 2}\n', "1:1: 'plan.kernel' op expects parent op 'plan.network'")]:
            self.write("plan.mlir", text)
            self.fails("run", NETWORK, *HW, "--schedule", "plan.mlir", message="plan.mlir:" + message)

    def test_knobs_of_the_network(self):
        for network, message in [
                (dict(schedule="fast"), "'schedule' is \"fast\" but must be serial, double_buffer, pipelined or search"),
                (dict(priority="rows"), "'priority' is \"rows\" but must be program_order, alap or interleaved"),
                (dict(bus="both"), "'bus' is \"both\" but must be shared or alternating"),
                (dict(weight_loader="third"), "'weight_loader' is \"third\" but must be second or first"),
                (dict(weight_prefetch="late"), "'weight_prefetch' is \"late\" but must be slots or early"),
                (dict(result_places="none"), "'result_places' is \"none\" but must be own or reused"),
                (dict(planned_tiles="yes"), "'planned_tiles' is \"yes\" but must be true or false"),
                (dict(bus="alternating", schedule="serial"),
                 "'bus' is \"alternating\" but the schedule is serial, and only pipelined and search have network knobs"),
                (dict(residence="all"), "unknown knob 'residence', expected one of priority, bus, ")]:
            self.plan_file({}, **network)
            self.fails("run", NETWORK, *HW, "--schedule", "plan.mlir", message="plan.mlir:1:1: 'plan.network' op " + message)

    def test_knobs_of_two_ops_that_do_not_go_together(self):
        """The place is that of the op that sets the last one."""
        self.plan_file({"*": "on_chip = true, row_tile = 8", "stem": "on_chip = false"})
        self.fails("run", NETWORK, *HW, "--schedule", "plan.mlir", message="plan.mlir:3:3: 'plan.kernel' op 'row_tile' is 8 but on_chip is not true")

    def test_what_has_no_plan(self):
        path = self.plan("depth = 3")
        self.image(path)
        self.fails("run", "image.twp", "--schedule", path, message="is a program already")
        self.fails("compile", NETWORK, "--target", "cpu", "--schedule", path, message="is for --target accel")


class DocumentTest(PlanFileTest):
    def test_the_example(self):
        """docs/schedule-file.md: the commands run, and give the lines shown."""
        text = (SOURCE / "docs/schedule-file.md").read_text()
        self.write("mine.mlir", re.search(r"```mlir\n(.*?)```", text, re.S)[1])
        block = re.search(r"```\n(\$ .*?)```", text, re.S)[1]
        out = ""
        for line in block.splitlines():
            if line.startswith("$ tilewright "):
                arguments = line.split()[2:]
                out, _ = self.tilewright(*(SOURCE / a if a.startswith("tests/") else a for a in arguments), status=OK)
            elif line.strip() != "...":
                self.assertIn(line.removesuffix(" ..."), out)


if __name__ == "__main__":
    unittest.main()
