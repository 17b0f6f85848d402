#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random cells through gates.py, evaluated gate by gate, against Python's arithmetic."""
import random
import sys

import gates


def number(bits, signed=False):
    value = sum(bit << i for i, bit in enumerate(bits))
    return value - (1 << len(bits)) if signed and bits[-1] else value


def moved(value, distance):
    return value >> distance if distance >= 0 else value << -distance


# Of the operands as numbers (signed if the cell says so): a, b, place s of the one select, widths w of Y and n of A.
EXPECTED = {
    "$add": lambda a, b, s, w, n: a + b, "$sub": lambda a, b, s, w, n: a - b, "$neg": lambda a, b, s, w, n: -a,
    "$and": lambda a, b, s, w, n: a & b, "$or": lambda a, b, s, w, n: a | b, "$xor": lambda a, b, s, w, n: a ^ b,
    "$xnor": lambda a, b, s, w, n: ~(a ^ b), "$not": lambda a, b, s, w, n: ~a,
    "$mux": lambda a, b, s, w, n: a if s is None else b, "$pmux": lambda a, b, s, w, n: a if s is None else b >> s * w,
    "$shl": lambda a, b, s, w, n: a << b, "$shr": lambda a, b, s, w, n: (a & ((1 << max(w, n)) - 1)) >> b,
    "$sshr": lambda a, b, s, w, n: a >> b, "$shift": lambda a, b, s, w, n: moved(a, b),
    "$shiftx": lambda a, b, s, w, n: moved(a, b), "$mul": lambda a, b, s, w, n: a * b,
    "$div": lambda a, b, s, w, n: a // b, "$mod": lambda a, b, s, w, n: a % b, "$lt": lambda a, b, s, w, n: a < b,
    "$le": lambda a, b, s, w, n: a <= b, "$gt": lambda a, b, s, w, n: a > b, "$ge": lambda a, b, s, w, n: a >= b,
    "$eq": lambda a, b, s, w, n: a == b, "$ne": lambda a, b, s, w, n: a != b,
    "$reduce_and": lambda a, b, s, w, n: a == (1 << n) - 1, "$reduce_or": lambda a, b, s, w, n: a != 0,
    "$reduce_xor": lambda a, b, s, w, n: bin(a).count("1") % 2, "$logic_not": lambda a, b, s, w, n: a == 0,
    "$logic_and": lambda a, b, s, w, n: a != 0 and b != 0, "$logic_or": lambda a, b, s, w, n: a != 0 or b != 0,
}
SHIFTS = ("$shl", "$shr", "$sshr", "$shift", "$shiftx")


def evaluate(g, values):
    """Values of all gates; they are made after their inputs."""
    function = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "not": lambda a: 1 - a,
                "mux": lambda s, a, b: b if s else a}
    for i, (kind, *inputs) in enumerate(g.inputs):
        values[g.first + i] = function[kind](*(values[net] for net in inputs))


def main():
    random.seed(1)
    for _ in range(20000):
        kind = random.choice(list(EXPECTED))
        width_a, width_b, width, selects = *(random.randint(1, 10) for _ in range(3)), 1
        signed_a = signed_b = random.randint(0, 1)
        if kind in ("$mux", "$pmux"):
            selects = random.randint(1, 4) if kind == "$pmux" else 1
            width_a, width_b, signed_a, signed_b = width, width * selects, 0, 0
        if kind in SHIFTS:
            width_b = min(width_b, 5)
            signed_b = random.randint(0, 1) if kind in ("$shift", "$shiftx") else 0
        if kind in ("$shift", "$shiftx", "$div", "$mod") or kind.startswith(("$reduce", "$logic")):
            signed_a = 0
        if kind in ("$div", "$mod"):
            signed_b = 0
        nets = list(range(width_a + width_b + selects))
        # Constants, and copies of the neighbour as in sign extension.
        bits = []
        for net in nets[:-selects]:
            bits.append(random.choice([net] * 7 + ["0", "1"] + bits[-1:]))
        a, b, s = bits[:width_a], bits[width_a:], nets[-selects:]
        g = gates.Gates(len(nets))
        y = gates.map_cell(g, kind, a, b, s, width, signed_a, signed_b, None)
        assert len(y) == width
        for _ in range(4):
            values = {net: random.randint(0, 1) for net in nets} | {"0": 0, "1": 1} | {net: 0 for net in s}
            at = random.choice([None, *range(selects)])
            if at is not None:
                values[s[at]] = 1
            evaluate(g, values)
            operands = number([values[net] for net in a], signed_a), number([values[net] for net in b], signed_b)
            if kind in ("$div", "$mod") and operands[1] == 0:
                continue
            found = number([values[net] for net in y])
            expected = EXPECTED[kind](*operands, at, width, width_a) % (1 << width)
            if found != expected:
                sys.exit(f"{kind} a={a} b={b} width={width}, of {operands}: {found}, not {expected}")


if __name__ == "__main__":
    main()
