#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Short files that would take all stack, memory or time: each ends with status 1 and a reason, in little of all three."""

import resource
import subprocess
import unittest

from cli_test import BINARY, COPY, NETWORK, OK, USER, CliTest

GIB = 1 << 30


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


class PlanTest(HostileTest):
    def refused(self, text, message):
        self.write("plan.mlir", text)
        error = self.limited("compile", NETWORK, "--hw", "tiny_8x8", "--schedule", "plan.mlir", "-o", "o.twp", status=USER, message=message)
        self.assertIn("plan.mlir:", error)
        self.assertNotIn("internal", error)

    def test_nests(self):
        for depth in (40, 2000):
            with self.subTest(depth=depth):
                is_deep = depth == 2000
                self.refused("plan.network {\n" * depth + "}\n" * depth, "within one another" if is_deep else "has plan.kernel ops and no others")
                self.refused(f'plan.network {{\n  plan.kernel "down" {{tile = {"[" * depth}{"]" * depth}}}\n}}\n',
                             "within one another" if is_deep else "must be four sizes")

    def test_aliases_that_double(self):
        chain = "".join(f"#a{i} = [#a{i - 1}, #a{i - 1}]\n" for i in range(1, 40))
        self.refused(f'#a0 = [1, 2]\n{chain}plan.network {{\n  plan.kernel "down" {{tile = #a39}}\n}}\n', "parts when written out")

    def test_a_list_of_a_million(self):
        self.refused(f'plan.network {{\n  plan.kernel "down" {{tile = [{"1, " * 1000000}1]}}\n}}\n', "parts when written out")

    def test_names_and_patterns(self):
        self.refused('plan.network {\n  plan.kernel "' + "*a" * 4000 + '" {depth = 2}\n}\n', "no kernel is named '*a*a")
        self.refused('plan.network {\n  plan.kernel "[" {depth = 2}\n}\n', "plan.mlir:2:3: 'plan.kernel' op '[': invalid glob pattern, unmatched '['")

    def test_too_many_patterns(self):
        self.refused("plan.network {\n" + '  plan.kernel "dow?" {depth = 2}\n' * 600000 + "}\n",
                     "the file has too many patterns: more than 4194304 comparisons with names")


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
