#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schedule files: what each directive does to the program, what is refused and where, and that written choices come back."""

import json
import re
import unittest

import numpy as np

from cli_test import DIGITS, NETWORK, OK, SOURCE, CliTest

HW = ["--hw", "gemmini_16x16_int8"]


class ScheduleFileTest(CliTest):
    def schedule(self, *directives, node="down", **attributes):
        return self.schedule_file({node: directives}, **attributes)

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

    def refused(self, *directives, message, **options):
        """The message begins with the place of the last directive."""
        self.schedule(*directives, **options)
        line = 3 + len(directives)
        return self.fails("compile", NETWORK, *HW, "--schedule", "schedule.mlir", message=[f"schedule.mlir:{line}:5: ", *message])


class DirectiveTest(ScheduleFileTest):
    def test_nothing_asked_is_the_base(self):
        for base in ["serial", "double_buffer", "pipelined"]:
            path = self.schedule_file({}, base=base)
            self.assertEqual(self.image(path), self.image(base), base)
        self.assertEqual(self.image(self.schedule_file({})), self.image("pipelined"))

    def test_sizes(self):
        choices, _ = self.layers(self.schedule("tile %k {sizes = [16, 3, 2, 0]}"))
        self.assertIn("tile 1 x 2 x 3 positions, 16 channels", choices["down"])

    def test_channels_are_cut_into_equal_parts(self):
        """200 channels are 13 vectors in four tiles of at most four: none has a single one and the inputs of all."""
        path = self.schedule("tile %k {sizes = [64, 16, 1, 1], ic = 16}", node="gemm")
        code, _ = self.tilewright("compile", "gemm:16x200x64:fp32", "--hw", "gemmini_16x16_fp32", "--schedule", path, "--emit", "isa")
        weights = {int(count) for count in re.findall(r"load unit=1 .*counts=\[(\d+),", code)}
        self.assertEqual(weights, {16 * 64, 16 * 48})

    def test_a_size_left_open_is_chosen(self):
        choices, _ = self.layers(self.schedule("tile %k {sizes = [0, 0, 1, 0]}"))
        self.assertRegex(choices["down"], r"tile 1 x 1 x [1-9]\d* positions, [1-9]\d* channels")

    def test_input_channels(self):
        choices, _ = self.layers(self.schedule("tile %k {ic = 32}", node="classifier"))
        self.assertIn("16 channels from 32,", choices["classifier"])

    def test_orders_are_different_programs(self):
        orders = ["positions_outer", "channels_outer", "inputs_outer", "inputs_channels_outer"]
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
            path = self.schedule(f'tile %k {{sizes = [16, 8, 1, 1], ic = 16, order = "{order}"}}', node="kernel0")
            images.add(self.image(path, model="net.mlir"))
            self.tilewright("run", "net.mlir", *HW, "--schedule", path, "--input", "x.npy", "--input", "w.npy", "--check",
                            "--output-dir", "out")
            np.testing.assert_array_equal(np.load(self.path / "out/output0.npy"), x.astype(np.int32) @ w.astype(np.int32), order)
        self.assertEqual(len(images), len(orders))

    def test_inputs_outermost_without_room_for_all_sums(self):
        """Eight channel blocks of 256 positions have two accumulators' worth of sums: half of the positions after the other."""
        def result(schedule):
            self.tilewright("run", "gemm:256x128x64:int8", *HW, "--schedule", schedule, "--check", "--output-dir", "out")
            value, = [np.load(file) for file in (self.path / "out").glob("*.npy")]
            return value
        expected = result("serial")
        for turns in ["false", "true"]:
            path = self.schedule('tile %k {sizes = [16, 64, 1, 1], ic = 16, order = "inputs_outer"}',
                                 f"buffers %k {{serpentine = {turns}}}", node="gemm")
            tiles, _ = self.tilewright("compile", "gemm:256x128x64:int8", *HW, "--schedule", path, "--emit", "tiles")
            self.assertIn("inputs outermost", tiles)
            np.testing.assert_array_equal(result(path), expected, turns)

    def test_depth(self):
        choices, _ = self.layers(self.schedule("buffers %k {depth = 3}"))
        self.assertIn("3 slots", choices["down"])

    def test_one_sum(self):
        choices, _ = self.layers(self.schedule('buffers %k {depth = 2, one_sum = true}'))
        self.assertIn("one sum", choices["down"])

    def test_panel(self):
        choices, _ = self.layers(self.schedule('buffers %k {panel = "two"}'))
        self.assertIn("two panels stay", choices["down"])
        choices, _ = self.layers(self.schedule('buffers %k {panel = "all"}'))
        self.assertIn("all weights stay", choices["down"])

    def test_overlap(self):
        choices, _ = self.layers(self.schedule("buffers %k {overlap = false}", base="double_buffer"))
        self.assertIn("serial", choices["down"])

    def test_banks(self):
        """The network's first scratchpad has 16 banks of 16 KiB."""
        for first, end in [(9, 11), (0, 2), (12, 14)]:
            path = self.schedule(f"buffers %k {{banks = [{first}, {end}]}}")
            out, _ = self.tilewright("compile", NETWORK, *HW, "--schedule", path, "--emit", "tiles")
            _, *layers = re.split(r"^# (.*?): .*\n", out, flags=re.M)
            loads = [line for name, code in zip(layers[::2], layers[1::2]) if name == "down"
                     for line in code.splitlines() if line.strip().startswith("load")]
            places = [int(re.search(r" address=(\w+)", line)[1], 16) if " address=" in line else 0 for line in loads]
            self.assertTrue(places)
            self.assertTrue(all(first * 16384 <= place < end * 16384 for place in places), (first, end, places))
            self.tilewright("run", NETWORK, *HW, "--schedule", path, "--input", DIGITS / "images.npy", "--batch", "--check")

    def test_behind(self):
        """Two kernels whose buffers begin at the bottom wait for each other."""
        def starts(behind):
            path = self.schedule(f"buffers %k {{behind = {behind}}}", "keep %k {on_chip = false}")
            choices, _ = self.tilewright("compile", NETWORK, *HW, "--schedule", path, "--emit", "tiles")
            return choices
        self.assertNotEqual(starts("true"), starts("false"))

    def test_keep(self):
        _, on_chip = self.layers(self.schedule("keep %k {on_chip = true}"))
        _, in_dram = self.layers(self.schedule("keep %k {on_chip = false}"))
        self.assertNotIn("store", on_chip["down"])
        self.assertIn("store", in_dram["down"])

    def test_engine(self):
        for engine, other in [("vector", "tensor"), ("tensor", "vector")]:
            path = self.schedule(f'assign %k {{engine = "{engine}"}}', node="depthwise")
            _, code = self.layers(path)
            self.assertEqual("tensor" in code["depthwise"], engine == "tensor")
            self.tilewright("run", NETWORK, *HW, "--schedule", path, "--input", DIGITS / "images.npy", "--batch",
                            "--output-dir", engine)
        np.testing.assert_array_equal(*(np.load(self.path / engine / "logits.npy") for engine in ["tensor", "vector"]))

    def test_a_ring_longer_than_its_loop(self):
        self.image(self.schedule("tile %k {sizes = [0, 2, 1, 1]}", "buffers %k {depth = 4}", node="depthwise"))

    def test_order_of_operations(self):
        def image(order):
            return self.image(self.schedule_file({}, order=order))
        self.assertNotEqual(image("steps"), image("deadlines"))
        self.assertNotEqual(image("steps"), image("interleaved"))
        self.assertIn(self.image("pipelined"), [image("steps"), image("deadlines"), image("interleaved")])

    def test_loads_and_stores_take_turns(self):
        def image(bus):
            path = self.schedule_file({}, bus=bus)
            self.tilewright("run", NETWORK, *HW, "--schedule", path, "--check")
            return self.image(path)
        self.assertNotEqual(image("shared"), image("turns"))
        self.assertIn(self.image("pipelined"), [image("shared"), image("turns")])

    def test_weights_by_the_engine_of_activations(self):
        def image(loaders):
            path = self.schedule_file({}, loaders=loaders)
            self.tilewright("run", NETWORK, *HW, "--schedule", path, "--check")
            code, _ = self.tilewright("compile", NETWORK, *HW, "--schedule", path, "--emit", "tiles")
            self.assertEqual("load unit=1" in code, loaders == "apart")
            return self.image(path)
        self.assertIn(self.image("pipelined"), [image("apart"), image("one")])

    def test_late_weights_come_early(self):
        hw = ["--hw", "tiny_8x8"]  # with a scratchpad for weights
        results = {}
        for weights in ["slots", "early"]:
            path = self.schedule_file({}, weights=weights)
            self.tilewright("run", NETWORK, *hw, "--schedule", path, "--check", "--output-dir", weights)
            results[weights] = {file.name: np.load(file) for file in (self.path / weights).glob("*.npy")}
            tiles, _ = self.tilewright("compile", NETWORK, *hw, "--schedule", path, "--emit", "tiles")
            elsewhere = [line for line in tiles.splitlines() if "preload " in line and "memory=scratchpad1" not in line]
            self.assertEqual(bool(elsewhere), weights == "early")
            self.tilewright("compile", NETWORK, *hw, "--schedule", path, "--emit", "schedule", "-o", "chosen.mlir")
            self.assertIn(f'tilewright.weights = "{weights}"', (self.path / "chosen.mlir").read_text())
            again, _ = self.tilewright("compile", NETWORK, *hw, "--schedule", "chosen.mlir", "--emit", "tiles")
            self.assertEqual(again, tiles)
        self.assertTrue(results["slots"])
        np.testing.assert_equal(results["early"], results["slots"])

    def test_every_command_takes_one(self):
        path = self.schedule("buffers %k {depth = 3}")
        for command in ["run", "profile", "compare"]:
            self.tilewright(command, NETWORK, *HW, "--schedule", path)

    def test_the_linalg_phase_keeps_what_was_asked(self):
        path = self.schedule("tile %k {sizes = [16, 2, 2, 1]}", "keep %k {on_chip = false}")
        self.tilewright("compile", NETWORK, *HW, "--schedule", path, "--emit", "linalg", "-o", "net.mlir")
        self.assertEqual(self.image("pipelined", model="net.mlir"), self.image(path))


class ProductTest(ScheduleFileTest):
    """Of a kernel that has its program to itself: how it begins, and which engine loads what."""
    PRODUCT = ["gemm:72x96x200:int8", "--hw", "onnxim_16x16_4b"]
    TILE = 'tile %k {sizes = [32, 16, 1, 1], ic = 128, order = "channels_outer"}'

    def result(self, schedule):
        self.tilewright("run", *self.PRODUCT, "--schedule", schedule, "--check", "--output-dir", "out")
        return np.load(self.path / "out/y.npy")

    def test_starts_and_loaders_change_the_program_only(self):
        expected = self.result("serial")
        seen = set()
        for small in ["false", "true"]:
            for wide in ["false", "true"]:
                for one in ["false", "true"]:
                    keys = f"one_sum = false, begins_small = {small}, ends_small = true, begins_wide = {wide}, one_loader = {one}"
                    path = self.schedule(self.TILE, f'buffers %k {{depth = 3, panel = "two", {keys}}}', node="gemm")
                    np.testing.assert_array_equal(self.result(path), expected, keys)
                    tiles, _ = self.tilewright("compile", *self.PRODUCT, "--schedule", path, "--emit", "tiles")
                    self.assertEqual("load unit=1" in tiles, one == "false", keys)
                    seen.add(tiles)
                    self.tilewright("compile", *self.PRODUCT, "--schedule", path, "--emit", "schedule", "-o", "chosen.mlir")
                    self.assertIn(keys, (self.path / "chosen.mlir").read_text())
                    again, _ = self.tilewright("compile", *self.PRODUCT, "--schedule", "chosen.mlir", "--emit", "tiles")
                    self.assertEqual(again, tiles, keys)
        self.assertEqual(len(seen), 8)

    def test_a_small_end_takes_more_code_and_fewer_cycles(self):
        product = ["gemm:256x64x64:int8", "--hw", "vdla_16x16"]
        lines, cycles, values = {}, {}, []
        for ends in ["false", "true"]:
            path = self.schedule("tile %k {sizes = [64, 256, 1, 1], ic = 64}", f"buffers %k {{depth = 2, ends_small = {ends}}}",
                                 node="gemm")
            out, _ = self.tilewright("run", *product, "--schedule", path, "--output-dir", "out", "--json", "-")
            cycles[ends] = json.loads(out)["total_cycles"]
            values.append(np.load(self.path / "out/y.npy"))
            tiles, _ = self.tilewright("compile", *product, "--schedule", path, "--emit", "tiles")
            lines[ends] = len(tiles.splitlines())
            self.tilewright("compile", *product, "--schedule", path, "--emit", "schedule", "-o", "chosen.mlir")
            self.assertIn(f"ends_small = {ends}", (self.path / "chosen.mlir").read_text())
            again, _ = self.tilewright("compile", *product, "--schedule", "chosen.mlir", "--emit", "tiles")
            self.assertEqual(again, tiles)
        np.testing.assert_array_equal(*values)
        self.assertLess(lines["false"], lines["true"])
        self.assertLess(cycles["true"], cycles["false"])

    def test_a_wide_start_needs_less_bandwidth(self):
        def cycles(wide):
            path = self.schedule('tile %k {sizes = [128, 32, 1, 1], ic = 128, order = "channels_outer"}',
                                 f'buffers %k {{depth = 4, panel = "two", begins_wide = {wide}, one_loader = true}}', node="gemm")
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
            path = self.schedule('tile %k {sizes = [32, 32, 1, 1], ic = 32, order = "positions_outer"}',
                                 f"buffers %k {{depth = 4, one_sum = false, begins_wide = {wide}}}", node="first")
            self.tilewright("run", "net.mlir", *machine, "--schedule", path, "--input", "x.npy", "--input", "w.npy", "--check",
                            "--output-dir", "out")
            np.testing.assert_array_equal(np.load(self.path / "out/output0.npy"), x @ w @ w)
            tiles, _ = self.tilewright("compile", "net.mlir", *machine, "--schedule", path, "--emit", "tiles")
            images.add(tiles)
            self.tilewright("compile", "net.mlir", *machine, "--schedule", path, "--emit", "schedule", "-o", "chosen.mlir")
            self.assertIn(f"begins_wide = {wide}", (self.path / "chosen.mlir").read_text())
            again, _ = self.tilewright("compile", "net.mlir", *machine, "--schedule", "chosen.mlir", "--emit", "tiles")
            self.assertEqual(again, tiles)
        self.assertEqual(len(images), 2)

    def test_what_cannot_begin_wide(self):
        for tile, keys, message in [
                (self.TILE, "depth = 1", "depth 1"), (self.TILE, "depth = 2, one_sum = true", "one sum"),
                ("tile %k {ic = 208}", "depth = 2", "no more tiles of input channels"),
                ('tile %k {ic = 64, order = "inputs_outer"}', "depth = 2", "a sum for every tile")]:
            self.schedule(tile, f"buffers %k {{{keys}, begins_wide = true}}", node="gemm")
            self.fails("compile", *self.PRODUCT, "--schedule", "schedule.mlir",
                       message=["schedule.mlir:5:5: begins_wide is true", message])

    def test_tiles_in_serpentine_order_find_weights_on_chip(self):
        """Five tiles of positions take the same four tiles of input channels, the last of 8; two of them stay for the next one."""
        read, values = {}, {}
        for turns in ["false", "true"]:
            path = self.schedule('tile %k {sizes = [32, 16, 1, 1], ic = 64, order = "channels_outer"}',
                                 'buffers %k {depth = 2, panel = "none", begins_wide = false, begins_small = false, '
                                 f"serpentine = {turns}}}", node="gemm")
            values[turns] = self.result(path)
            out, _ = self.tilewright("run", *self.PRODUCT, "--schedule", path, "--json", "-")
            read[turns] = json.loads(out)["dram_read_bytes"]
        np.testing.assert_array_equal(values["true"], values["false"])
        tiles = [64 * 32] * 3 + [16 * 32] # whole rows of the array
        again = 2 * (sum(tiles[:2]) + sum(tiles[2:])) # downwards and upwards, twice
        self.assertEqual(read["false"] - read["true"], 96 // 32 * (5 * sum(tiles) - (sum(tiles) + again)))

    def test_one_loader_of_one(self):
        self.schedule("buffers %k {one_loader = true}", node="gemm")
        self.fails("compile", *self.PRODUCT, "--set", "dma.load_engines=1", "--schedule", "schedule.mlir",
                   message=["schedule.mlir:4:5: one_loader is true", "one load engine anyway"])


class RoundTripTest(ScheduleFileTest):
    def round_trip(self, schedule, *options):
        self.tilewright("compile", NETWORK, *HW, "--schedule", schedule, *options, "--emit", "schedule", "-o", "chosen.mlir")
        self.assertEqual(self.image(schedule, *options), self.image("chosen.mlir"), schedule)

    def test_written_choices_give_the_same_program(self):
        for schedule in ["serial", "double_buffer", "pipelined"]:
            self.round_trip(schedule)
        self.round_trip("search", "--search-budget", "60")

    def test_of_a_file(self):
        self.round_trip(self.schedule("tile %k {sizes = [0, 0, 1, 1]}", "buffers %k {depth = 3}"))
        self.round_trip(self.schedule("buffers %k {banks = [3, 9]}"))
        self.round_trip(self.schedule("buffers %k {behind = false}"))
        self.round_trip(self.schedule("buffers %k {whole_banks = true}"))
        for turns in ["false", "true"]:
            self.round_trip(self.schedule("tile %k {ic = 16}", f"buffers %k {{serpentine = {turns}}}", node="classifier"))
        self.round_trip(self.schedule("keep %k {on_chip = true, placed_first = true}"))
        self.round_trip(self.schedule('assign %k {engine = "tensor"}', "keep %k {on_chip = false}", node="depthwise"))


class RefusalTest(ScheduleFileTest):
    def test_unknown_names(self):
        self.schedule("tile %k {ic = 16}", node="dwn")
        self.fails("compile", NETWORK, *HW, "--schedule", "schedule.mlir",
                   message="schedule.mlir:3:10: no kernel is named 'dwn' or has a node of that name; the nearest is 'down'")
        self.refused('tile %k {order = "rows"}', message=['"rows"', "positions_outer, channels_outer"])
        self.refused("tile %k {size = [1]}", message=["has no 'size'"])
        self.refused("tiles %k {ic = 16}", message=["transform.tilewright.tiles"])

    def test_tiles_that_are_none(self):
        self.refused("tile %k {sizes = [16, 2]}", message=["[16, 2]", "four sizes"])
        self.refused("tile %k {sizes = [64, 0, 0, 0]}", message=["channels is 64", "multiples of 16 up to 32"])
        self.refused("tile %k {sizes = [8, 0, 0, 0]}", message=["channels is 8", "multiples of 16"])
        self.refused("tile %k {sizes = [0, 5, 0, 0]}", message=["along x is 5", "has 4 there"])
        self.refused("tile %k {ic = 24}", message=["ic is 24", "multiples of 16 up to 16"])
        self.refused("tile %k {ic = 16}", node="stem", message=["ic is 16", "packs the channels of all its taps and needs 9"])
        self.refused("tile %k {ic = 16}", node="pool", message=["ic is 16", "no contraction"])
        self.refused('tile %k {order = "inputs_outer"}', message=["order is inputs_outer", "no more tiles of input channels (16"])
        for key in ["first", "last"]:
            self.refused(f"tile %k {{{key} = [2]}}", message=[f"'{key}' is [2]", "two positive numbers"])
            self.refused(f"tile %k {{{key} = [0, 8]}}", message=[f"'{key}' is [0, 8]", "two positive numbers"])
            self.refused(f"tile %k {{{key} = [1, 2]}}", message=[f"{key} is [1, 2]", "is no product"])

    def test_buffers_that_are_none(self):
        self.refused("buffers %k {depth = 0}", message=["'depth' is 0", "positive"])
        for key in ["begins_small", "ends_small", "one_loader"]:
            self.refused(f"buffers %k {{{key} = true}}", message=[f"{key} is true", "to itself"])
        self.refused("buffers %k {begins_wide = true}", node="classifier", message=["begins_wide is true", "not the first contraction"])
        self.refused("buffers %k {by_block = true}", node="pool", message=["by_block is true", "no contraction"])
        self.refused('buffers %k {depth = 1, one_sum = true}', message=["depth is 1", "one sum and needs 2 or more"])
        self.refused('buffers %k {by_block = true}', message=["by_block is true", "is not asked to have one_sum"])
        self.refused('buffers %k {one_sum = true}', base="double_buffer", message=["one_sum is true", "only pipelined and search"])
        self.refused('buffers %k {depth = 1, panel = "two"}', message=["depth is 1", "needs 2 or more"])
        self.refused("buffers %k {depth = 2}", base="serial", message=["depth is 2", "base serial"])
        self.refused('buffers %k {panel = "one"}', base="double_buffer", message=["panel is one", "only pipelined and search"])
        self.refused("buffers %k {serpentine = true}", base="double_buffer", message=["serpentine is true", "only pipelined and search"])
        self.refused("buffers %k {serpentine = true}", node="pool", message=["serpentine is true", "no contraction"])
        self.refused("buffers %k {keeps_sums = true}", message=["keeps_sums is true", "whole windows that share rows"])
        self.refused('buffers %k {panel = "three"}', message=['"three"', "none, one, and_tile, two or all"])
        self.refused("buffers %k {overlap = false}", message=["overlap is false", "base pipelined"])
        self.refused("buffers %k {banks = [3]}", message=["'banks' is [3]", "two numbers"])
        self.refused("buffers %k {banks = [3, 3]}", message=["'banks' is [3, 3]", "the first less than the end"])
        self.refused("buffers %k {banks = [3, 17]}", message=["the end of banks is 17", "has 16 of them in unified"])
        self.refused("buffers %k {banks = [3, 5], behind = true}", message=["behind is true", "banks of its own"])
        for base in ["serial", "double_buffer"]:
            self.refused("buffers %k {behind = true}", base=base, message=["behind is true", f"base {base}"])
            self.refused("buffers %k {whole_banks = true}", base=base, message=["whole_banks is true", f"base {base}"])
            self.refused("buffers %k {banks = [3, 9], spreads = true}", base=base, message=["spreads is true", "only with base pipelined"])
        self.refused("buffers %k {spreads = true}", message=["spreads is true", "no banks of its own"])
        self.refused("buffers %k {banks = [3, 9], spreads = true}", message=["spreads is true", "does not run row by row"])

    def test_what_does_not_fit_the_memory(self):
        path = self.schedule("tile %k {sizes = [512, 512, 1, 1], ic = 512}", node="gemm")
        error = self.fails("compile", "gemm:512x512x512:int8", *HW, "--schedule", path,
                           message="schedule.mlir:4:5: kernel 'gemm'")
        self.assertRegex(error, r"needs .* 1048576 bytes of accumulator \(the machine has \d+\)")

    def test_results_that_cannot_stay(self):
        self.refused("keep %k {on_chip = true}", node="classifier", message=["'classifier' cannot stay", "no other kernel"])
        self.refused("keep %k {on_chip = true}", node="pool", message=["'pool' cannot stay", "'classifier' cannot use it there"])
        self.refused("keep %k {on_chip = true}", base="double_buffer", message=["only bases pipelined and search"])
        self.refused("keep %k {on_chip = false, placed_first = true}", message=["'placed_first' is true but on_chip is not true"])
        self.refused("keep %k {on_chip = true, bands = 2, placed_first = true}", message=["'placed_first' is true but there are bands"])

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
        for node, sizes, message in [
                ("kernel0", "[0, 0, 2, 0]", "along y is 2 but kernel 'kernel0' has weights of its own for each"),
                ("kernel1", "[16, 0, 0, 0]", "channels is 16 but kernel 'kernel1' reduces over all")]:
            self.schedule(f"tile %k {{sizes = {sizes}}}", node=node)
            self.fails("compile", "net.mlir", *HW, "--schedule", "schedule.mlir", message=["schedule.mlir:4:5: ", message])

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
        for nodes, message in [
                ({"transpose": ["buffers %k {depth = 2}"]}, "4:5: kernel 'transpose' only moves data and has no tiles to choose"),
                ({"transpose": ['assign %k {engine = "vector"}']},
                 "4:5: engine is vector but kernel 'transpose' must be on load and store"),
                ({"join": ["keep %k {on_chip = false}"]}, "4:5: kernel 'join' has no code of its own"),
                ({"left": ["keep %k {on_chip = true}"], "right": ["keep %k {on_chip = false}"]},
                 "6:5: kernels 'left' and 'right' write parts of one tensor and must agree on on_chip")]:
            path = self.schedule_file(nodes)
            self.fails("compile", "net.mlir", *hw, "--schedule", path, message="schedule.mlir:" + message)

    def test_engines_that_cannot(self):
        self.refused('assign %k {engine = "vector"}', message=["engine is vector", "must be on tensor: it sums over channels"])
        self.refused('assign %k {engine = "tensor"}', node="pool", message=["engine is tensor", "must be on vector"])

    def test_files_that_are_no_schedules(self):
        self.fails("run", NETWORK, *HW, "--schedule", "none.mlir", message="none.mlir: cannot read the file: No such file")
        self.write("schedule.mlir", "module {")
        self.fails("run", NETWORK, *HW, "--schedule", "schedule.mlir", message="schedule.mlir:1:7: ")
        self.write("schedule.mlir", "module {\n}\n")
        self.fails("run", NETWORK, *HW, "--schedule", "schedule.mlir", message="schedule.mlir:1:1: a schedule file needs")
        self.schedule("buffers %k {depth = 2}", base="fast")
        self.fails("run", NETWORK, *HW, "--schedule", "schedule.mlir",
                   message='schedule.mlir:1:1: tilewright.base is "fast" but must be serial, double_buffer, pipelined or search')
        for attributes, message in [(dict(order="rows"), 'tilewright.order is "rows" but must be steps, deadlines or interleaved'),
                                    (dict(order="steps", base="serial"), "only pipelined and search have one"),
                                    (dict(bus="both"), 'tilewright.bus is "both" but must be shared or turns'),
                                    (dict(bus="turns", base="serial"), "only pipelined and search have one"),
                                    (dict(loaders="two"), 'tilewright.loaders is "two" but must be apart or one'),
                                    (dict(weights="late"), 'tilewright.weights is "late" but must be slots or early'),
                                    (dict(places="none"), 'tilewright.places is "none" but must be own or shared')]:
            self.schedule_file({}, **attributes)
            self.fails("run", NETWORK, *HW, "--schedule", "schedule.mlir", message=["schedule.mlir:1:1: ", message])


    def test_directives_that_do_not_go_together(self):
        self.schedule_file({"stem": ["keep %k {on_chip = true, bands = 8}", "keep %k {on_chip = false}"]})
        self.fails("run", NETWORK, *HW, "--schedule", "schedule.mlir",
                   message=["schedule.mlir:5:5: ", "'bands' is 8 but on_chip is not true"])

    def test_attributes_and_ops_that_are_not_for_schedules(self):
        self.schedule_file({}, bass="serial")
        self.fails("run", NETWORK, *HW, "--schedule", "schedule.mlir", message=["schedule.mlir:1:1: the module has no attribute tilewright.bass: expected "
                                                                                 "tilewright.base, tilewright.order"])
        self.write("schedule.mlir", """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    transform.alternatives %model : !transform.any_op {
    ^bb0(%one: !transform.any_op):
      transform.yield
    }
    transform.yield
  }
}
""")
        self.fails("run", NETWORK, *HW, "--schedule", "schedule.mlir",
                   message="schedule.mlir:3:5: a schedule file cannot have this op: allowed are transform.tilewright ops and transform.named_sequence")

    def test_what_fails_while_it_is_applied_is_said_in_a_line(self):
        self.write("schedule.mlir", """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    %c = transform.cast %model : !transform.any_op to !transform.op<"func.func">
    transform.yield
  }
}
""")
        text = self.fails("run", NETWORK, *HW, "--schedule", "schedule.mlir", message="schedule.mlir:3:10: incompatible payload operation name")
        self.assertEqual(len(text.strip().splitlines()), 1, text)

    def test_what_has_no_schedule(self):
        path = self.schedule("buffers %k {depth = 3}")
        self.image(path)
        self.fails("run", "image.twp", "--schedule", path, message="is a program already")
        self.fails("compile", NETWORK, "--target", "cpu", "--schedule", path, message="is for --target accel")


class DocumentTest(ScheduleFileTest):
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
