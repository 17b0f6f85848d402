#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Short files that would take all stack, memory or time: each ends with status 1 and a reason, in little of all three."""

import resource
import subprocess
import unittest

from cli_test import BINARY, COPY, NETWORK, OK, USER, CliTest

GIB = 1 << 30
STEP = ": (!transform.any_op) -> ()"


def has_sanitizer():
    """AddressSanitizer's shadow memory needs terabytes of address space."""
    with open(BINARY, "rb") as file:
        return b"__asan_init" in file.read()


class HostileTest(CliTest):
    ADDRESS_SPACE = 3 * GIB

    def limited(self, *arguments, status, message=""):
        """Runs under a limit of address space; returns standard error."""
        def limit():
            if not has_sanitizer():
                resource.setrlimit(resource.RLIMIT_AS, (self.ADDRESS_SPACE, self.ADDRESS_SPACE))

        result = subprocess.run([BINARY, *map(str, arguments)], cwd=self.path, capture_output=True, timeout=120, preexec_fn=limit)
        error = result.stderr.decode(errors="replace")
        self.assertEqual(result.returncode, status, error[-2000:])
        self.assertIn(message, error)
        self.assertLess(len(error), 20000, "the message itself is too large")
        return error

    def refused(self, text, message):
        """A model in text."""
        self.write("net.mlir", text)
        error = self.limited("compile", "net.mlir", "--hw", "tiny_8x8", "--emit", "graph", "-o", "out", status=USER, message=message)
        self.assertIn("net.mlir", error)
        self.assertNotIn("internal", error)


class MachineTest(HostileTest):
    def test_a_comma(self):
        self.write("m.yaml", ",")
        self.limited("hw", "validate", "m.yaml", status=USER, message="m.yaml:1:1: must be a block of keys")

    def test_many_problems_are_not_all_told(self):
        self.write("m.yaml", "".join(f"key{i}: 1\n" for i in range(4000)))
        self.limited("hw", "validate", "m.yaml", status=USER, message="more problems")


class ModelTest(HostileTest):
    TOO_DEEP = "nested"

    def test_aliases_of_aliases(self):
        for length in (1500, 30000):
            with self.subTest(length=length):
                aliases = "#a0 = [1]\n" + "".join(f"#a{i} = [#a{i - 1}]\n" for i in range(1, length))
                self.refused(f"{aliases}module attributes {{a = #a{length - 1}}} {{}}\n", self.TOO_DEEP)
        aliases = "!t0 = tuple<i32>\n" + "".join(f"!t{i} = tuple<!t{i - 1}>\n" for i in range(1, 30000))
        self.refused(f"{aliases}func.func private @f(!t29999)\n", self.TOO_DEEP)

    def test_a_few_aliases_are_nothing_special(self):
        self.write("net.mlir", """#a0 = [1]
#a1 = [#a0, #a0]
!t = tensor<4x8xf32>
module attributes {tilewright.note = #a1} {
  func.func @main(%x: !t) -> !t {
    %0 = graph.relu %x : !t
    return %0 : !t
  }
}
""")
        self.limited("run", "net.mlir", "--hw", "gemmini_16x16_fp32", status=OK)

    def test_aliases_that_double(self):
        chain = "".join(f"!t{i} = tuple<!t{i - 1}, !t{i - 1}>\n" for i in range(1, 40))
        for use in ("func.func private @f(!t39)", "func.func @main(%x: !t39) -> !t39 { return %x : !t39 }",
                    '"graph.relu"() : () -> !t39'):
            with self.subTest(use=use):
                self.refused(f"!t0 = tuple<i32, i32>\n{chain}{use}\n", "net.mlir")
        chain = "".join(f"#a{i} = [#a{i - 1}, #a{i - 1}]\n" for i in range(1, 40))
        self.refused(f"#a0 = [1]\n{chain}func.func private @f() attributes {{a = #a39}}\n", "parts when written out")
        chain = "".join(f"#l{i} = loc(callsite(#l{i - 1} at #l{i - 1}))\n" for i in range(1, 40))
        self.refused(f'#l0 = loc("n")\n{chain}func.func private @f() loc(#l39)\n', "parts when written out")

    def test_affine_expressions(self):
        for terms in (3000, 200000):
            with self.subTest(terms=terms):
                sum = " + ".join(f"d0 floordiv {i + 2}" for i in range(terms))
                self.refused(f"#map = affine_map<(d0) -> ({sum})>\nfunc.func private @f() attributes {{m = #map}}\n", "nested")

    def test_shapes(self):
        shape = "1x" * 100000
        self.refused(f"func.func private @f(tensor<{shape}f32>)\n", "a shape of more than 64 dimensions")
        self.refused(f"func.func private @f(memref<{'?x' * 65}f32>)\n", "a shape of more than 64 dimensions")
        self.refused(f"func.func private @f(tensor<{'1 x' * 70}f32>)\n", "a shape of 70 dimensions where at most 64 are allowed")
        self.refused("func.func private @f(tensor<4000000000x4000000000x4000000000xf32>)\n", "elements")

    def test_nests_without_brackets_of_their_own(self):
        depth = 900
        self.refused("func.func private @f() attributes {a = " + "[" * depth + "]" * (depth - 1) + "\n", "net.mlir")
        self.refused("func.func @f() {\n" + "scf.execute_region {\n" * depth, "net.mlir")

    def test_functions_that_the_compiler_would_not_write(self):
        kernel = "func.func private @k(%x: tensor<4xf32>) -> tensor<4xf32> attributes {{{}}} {{ return %x : tensor<4xf32> }}\n"
        main = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @k(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
        for attributes, message in [('tilewright.target = "accel", tilewright.nodes = [7]', "tilewright.nodes of function 'k' must be a list of names"),
                                    ('tilewright.target = "accel", tilewright.nodes = "k"', "tilewright.nodes of function 'k' must be a list of names"),
                                    ("tilewright.target = 3", "tilewright.target of function 'k' must be one of \"accel\", \"cpu\", \"gpu\""),
                                    ('tilewright.target = "tpu"', "tilewright.target of function 'k' must be one of \"accel\", \"cpu\", \"gpu\"")]:
            self.refused(kernel.format(attributes) + main, message)
        self.refused('func.func private @k(tensor<4xf32>) -> tensor<4xf32> attributes {tilewright.target = "accel"}\n' + main,
                     "function 'k' has no body")
        self.refused('"builtin.module"() ({}) : () -> ()', "net.mlir:1:1")

    def test_bytecode(self):
        (self.path / "net.mlir").write_bytes(b"ML\xefR\x0dMLIR19.1.7\x00" + bytes(200))
        self.limited("compile", "net.mlir", "--hw", "tiny_8x8", "-o", "o.twp", status=USER, message="net.mlir: is MLIR bytecode, and only text is read")
        self.limited("compile", NETWORK, "--hw", "tiny_8x8", "--schedule", "net.mlir", "-o", "o.twp", status=USER, message="is MLIR bytecode")


class ScheduleTest(HostileTest):
    def sequence(self, name, body):
        return f"transform.named_sequence @{name}(%k: !transform.any_op {{transform.readonly}}) {{\n{body}\ntransform.yield\n}}\n"

    def refused(self, sequences, main, message):
        self.write("schedule.mlir", "module attributes {transform.with_named_sequence, tilewright.base = \"pipelined\"} {\n" + sequences +
                   f"transform.named_sequence @__transform_main(%m: !transform.any_op) {{\n{main}\ntransform.yield\n}}\n}}\n")
        error = self.limited("compile", NETWORK, "--hw", "tiny_8x8", "--schedule", "schedule.mlir", "-o", "o.twp", status=USER,
                             message=message)
        self.assertIn("schedule.mlir", error)

    def test_includes_that_double(self):
        include = "transform.include @s{} failures(propagate) (%k) " + STEP + "\n"
        sequences = "".join(self.sequence(f"s{i}", include.format(i + 1) * 2) for i in range(39)) + self.sequence("s39", "")
        self.refused(sequences, f"transform.include @s0 failures(propagate) (%m) {STEP}", "too many steps")

    def test_loops_in_loops(self):
        loops = "".join(f"transform.foreach %k : !transform.any_op {{\n^bb0(%z{i}: !transform.any_op):\n" for i in range(14))
        self.refused("", '%k = transform.tilewright.match_node "*"\n' + loops + "}\n" * 14, "too many steps")

    def test_handles_that_double(self):
        merges = "".join(f"%h{i + 1} = transform.merge_handles %h{i}, %h{i} : !transform.any_op\n" for i in range(40))
        self.refused("", '%h0 = transform.tilewright.match_node "*"\n' + merges, "too many steps")

    def test_matches_that_call_themselves(self):
        match = "transform.foreach_match in %k @is -> @s : (!transform.any_op) -> !transform.any_op"
        sequences = """transform.named_sequence @is(%k: !transform.any_op {transform.readonly}) -> !transform.any_op {
transform.yield %k : !transform.any_op
}
""" + self.sequence("s", match).replace("readonly", "consumed")
        self.refused(sequences, match.replace("%k", "%m"), "deep within one another")

    def test_long_chains(self):
        include = "transform.include @s{} failures(propagate) (%k) " + STEP
        for length, message in ((101, "more than 100 deep"), (20000, "schedule.mlir")):
            with self.subTest(length=length):
                sequences = "".join(self.sequence(f"s{i}", include.format(i + 1)) for i in range(length)) + self.sequence(f"s{length}", "")
                self.refused(sequences, f"transform.include @s0 failures(propagate) (%m) {STEP}", message)


class RunTest(HostileTest):
    def test_dram_costs_what_is_used(self):
        self.write("copy.tasm", COPY)
        # The machine's DRAM is larger than the address space.
        for model in ("functional", "systemc"):
            for options in ((), ("--check",)):
                self.limited("run", "copy.tasm", "--hw", "tiny_8x8", "--set", "dram.capacity_bytes=1099511627776", "--model", model,
                             *options, status=OK)

    @unittest.skipIf(has_sanitizer(), "no limit of address space")
    def test_dram_that_is_used_and_not_there(self):
        self.write("far.tasm", COPY.replace("store dram_address=0x400", "store dram_address=0x8000000000"))
        for model in ("functional", "systemc"):
            self.limited("run", "far.tasm", "--hw", "tiny_8x8", "--set", "dram.capacity_bytes=1099511627776", "--model", model,
                         status=USER, message="out of memory: the simulated DRAM needs an address space of 549")


if __name__ == "__main__":
    unittest.main()
