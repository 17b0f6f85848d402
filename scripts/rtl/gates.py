# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gates of a module: maps Yosys' word-level cells (a module of write_json) to two-input gates.

Constants are folded, equal gates are shared, gates that nothing needs do not count. AND, OR, XOR and inverter count 1,
a multiplexer 3. Adders ripple (5 gates a bit), multipliers are arrays of full adders, dividers restore, shifters have
one level per bit of distance.
"""
import graphlib

WEIGHT = {"and": 1, "or": 1, "xor": 1, "not": 1, "mux": 3}


class Gates:
    """A net is an int (that of a gate from `first` on), a constant "0" or "1", or "x" where a choice is free."""

    def __init__(self, first):
        self.first = first
        self.made = {}
        self.inputs = []

    def gate(self, *key):
        if key not in self.made:
            self.made[key] = self.first + len(self.inputs)
            self.inputs.append(key)
        return self.made[key]

    def inverse(self, a):
        if isinstance(a, str):
            return "10"[int(a)]
        if a >= self.first and self.inputs[a - self.first][0] == "not":
            return self.inputs[a - self.first][1]
        return self.gate("not", a)

    def conj(self, a, b):
        if a == "0" or b == "0":
            return "0"
        if a == "1" or a == b:
            return b
        return a if b == "1" else self.gate("and", *sorted((a, b)))

    def disj(self, a, b):
        if a == "1" or b == "1":
            return "1"
        if a == "0" or a == b:
            return b
        return a if b == "0" else self.gate("or", *sorted((a, b)))

    def differ(self, a, b):
        if a == b:
            return "0"
        if isinstance(b, str):
            a, b = b, a
        if isinstance(a, str):
            return b if a == "0" else self.inverse(b)
        return self.gate("xor", *sorted((a, b)))

    def choose(self, s, a, b):
        """s ? b : a"""
        if a == b or s == "0" or b == "x":
            return a
        if s == "1" or a == "x":
            return b
        # What the same select chose before.
        a, b = (self.inputs[n - self.first][at] if isinstance(n, int) and n >= self.first and
                self.inputs[n - self.first][:2] == ("mux", s) else n for n, at in ((a, 2), (b, 3)))
        if a == b:
            return a
        if a == "0":
            return self.conj(s, b)
        if b == "1":
            return self.disj(s, a)
        if a == "1":
            return self.disj(self.inverse(s), b)
        if b == "0":
            return self.conj(self.inverse(s), a)
        return self.gate("mux", s, a, b)

    def tree(self, function, bits, empty):
        bits = list(bits)
        while len(bits) > 1:
            bits = [function(*bits[i:i + 2]) if i + 1 < len(bits) else bits[i] for i in range(0, len(bits), 2)]
        return bits[0] if bits else empty

    def any(self, bits):
        return self.tree(self.disj, bits, "0")

    def full(self, a, b, c):
        """Sum and carry."""
        half = self.differ(a, b)
        return self.differ(half, c), self.disj(self.conj(a, b), self.conj(half, c))

    def add(self, a, b, carry="0"):
        result = []
        for x, y in zip(a, b):
            s, carry = self.full(x, y, carry)
            result.append(s)
        return result, carry

    def invert(self, bits):
        return [self.inverse(bit) for bit in bits]

    def less(self, a, b):
        """Unsigned a < b, of equal width."""
        return self.inverse(self.add(a, self.invert(b), "1")[1])

    def multiply(self, a, b, width, signed):
        if signed:
            a, b = one_sign(a), one_sign(b)
        n, m = len(a), len(b)
        columns = [[] for _ in range(max(width, n + m) + 1)]
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                product = self.conj(x, y)
                # Products with one sign count negatively: Baugh and Wooley.
                columns[i + j].append(self.inverse(product) if signed and (i == n - 1) != (j == m - 1) else product)
        if signed:
            for at in (n - 1, m - 1, n + m - 1):
                columns[at].append("1")
        result = []
        for at in range(min(width, n + m)):
            column = [bit for bit in columns[at] if bit != "0"]
            while len(column) > 1:
                s, carry = self.full(column[0], column[1], column[2] if len(column) > 2 else "0")
                column = column[3:] + [s]
                columns[at + 1].append(carry)
            result += column or ["0"]
        return result + [result[-1] if signed else "0"] * (width - len(result))

    def divide(self, a, b):
        """Quotient and remainder, unsigned."""
        rest, quotient = ["0"] * len(b), []
        for bit in reversed(a):
            rest = [bit] + rest
            difference, fits = self.add(rest, self.invert(b) + ["1"], "1")
            rest = [self.choose(fits, x, y) for x, y in zip(rest, difference)][:len(b)]
            quotient.append(fits)
        return quotient[::-1], rest

    def shift(self, a, distance, left, fill, width):
        a = list(a) + [fill] * (width - len(a))
        small = [k for k in range(len(distance)) if 2**k < len(a)]
        # The order in which fewer bits pass: a field is moved to its place, or a place's field is taken.
        for k in small if left else reversed(small):
            moved = ["0"] * 2**k + a[:-2**k] if left else a[2**k:] + [fill] * 2**k
            a = [self.choose(distance[k], x, y) for x, y in zip(a, moved)]
        far = self.any(distance[len(small):])
        return [self.choose(far, bit, fill) for bit in a[:width]]

    def needed(self, roots):
        """Weight of the gates that `roots` depend on."""
        seen, todo, weight = set(), list(roots), 0
        while todo:
            net = todo.pop()
            if isinstance(net, str) or net < self.first or net in seen:
                continue
            seen.add(net)
            kind, *inputs = self.inputs[net - self.first]
            weight += WEIGHT[kind]
            todo += inputs
        return weight


def one_sign(bits):
    """A signed number without copies of its sign."""
    bits = list(bits)
    while len(bits) > 1 and bits[-1] == bits[-2]:
        bits.pop()
    return bits


def extended(bits, width, signed):
    return list(bits[:width]) + [bits[-1] if signed and bits else "0"] * (width - len(bits))


def map_cell(g, kind, a, b, s, width, signed_a, signed_b, negated):
    """The nets of output Y. `negated`: what B is the negative of, if it is."""
    if kind not in ("$mux", "$pmux"):
        a, b = (["0" if bit == "x" else bit for bit in bits] for bits in (a, b))
    s = ["0" if bit == "x" else bit for bit in s]
    signed = signed_a and (signed_b or kind == "$neg")
    wide = max(len(a), len(b))
    if kind in ("$add", "$sub", "$and", "$or", "$xor", "$xnor"):
        a, b = extended(a, width, signed), extended(b, width, signed)
        if kind in ("$add", "$sub"):
            return g.add(a, b)[0] if kind == "$add" else g.add(a, g.invert(b), "1")[0]
        function = {"$and": g.conj, "$or": g.disj}.get(kind, g.differ)
        y = [function(*pair) for pair in zip(a, b)]
        return g.invert(y) if kind == "$xnor" else y
    if kind in ("$not", "$neg", "$pos"):
        a = extended(a, width, signed_a)
        return a if kind == "$pos" else g.invert(a) if kind == "$not" else g.add(["0"] * width, g.invert(a), "1")[0]
    if kind == "$mux":
        return [g.choose(s[0], x, y) for x, y in zip(a, b)]
    if kind == "$pmux":
        none = g.inverse(g.any(s))
        y = []
        for at, x in enumerate(a):
            cases = [(t, b[i * width + at]) for i, t in enumerate(s)] + [(none, x)]
            cases = [case for case in cases if case[1] != "x"]
            same = len({bit for _, bit in cases}) == 1
            y.append(cases[0][1] if same else g.any(g.conj(*case) for case in cases))
        return y
    if kind in ("$shl", "$sshl", "$shr", "$sshr", "$shift", "$shiftx"):
        left = kind in ("$shl", "$sshl")
        a = extended(a, max(len(a), width), signed_a)
        if kind in ("$shift", "$shiftx") and signed_b:
            # Writing a field at a variable place shifts by a negated index, which is never above 0.
            if negated is not None:
                return g.shift(a, negated, True, "0", width)
            sign = b[-1]
            back = g.add(["0"] * len(b), g.invert(b), "1")[0]
            return [g.choose(sign, x, y) for x, y in
                    zip(g.shift(a, b[:-1], False, "0", width), g.shift(a, back, True, "0", width))]
        return g.shift(a, b, left, a[-1] if kind == "$sshr" and signed_a else "0", width)
    if kind == "$mul":
        return g.multiply(a, b, width, signed)
    if kind in ("$div", "$mod") and not signed:
        return extended(g.divide(a, b)[kind == "$mod"], width, False)
    # One bit from here on.
    if kind in ("$lt", "$le", "$gt", "$ge"):
        a, b = extended(a, wide, signed), extended(b, wide, signed)
        if signed:
            a[-1], b[-1] = g.inverse(a[-1]), g.inverse(b[-1])
        y = g.less(a, b) if kind in ("$lt", "$ge") else g.less(b, a)
        y = g.inverse(y) if kind in ("$le", "$ge") else y
    elif kind in ("$eq", "$ne", "$eqx", "$nex"):
        y = g.any(g.differ(*pair) for pair in zip(extended(a, wide, signed), extended(b, wide, signed)))
        y = g.inverse(y) if kind in ("$eq", "$eqx") else y
    elif kind == "$reduce_and":
        y = g.tree(g.conj, a, "1")
    elif kind in ("$reduce_or", "$reduce_bool"):
        y = g.any(a)
    elif kind in ("$reduce_xor", "$reduce_xnor"):
        y = g.tree(g.differ, a, "0")
        y = g.inverse(y) if kind == "$reduce_xnor" else y
    elif kind == "$logic_not":
        y = g.inverse(g.any(a))
    elif kind in ("$logic_and", "$logic_or"):
        y = (g.conj if kind == "$logic_and" else g.disj)(g.any(a), g.any(b))
    else:
        raise ValueError(f"cannot map a cell {kind}")
    return [y] + ["0"] * (width - 1)


def count(module):
    """Gates of a module, without those of its instances."""
    cells = module["cells"]
    # Flip-flops, memories and instances (a $pow is one, to area.py) are borders: what they give comes from outside,
    # what they take is needed.
    borders = ("tw_", "$paramod", "$dff", "$mem", "$pow")
    logic = {n for n, c in cells.items() if not c["type"].startswith(borders)}
    driver = {bit: n for n in logic for bit in cells[n]["connections"]["Y"]}
    roots = [bit for port in module["ports"].values() if port["direction"] == "output" for bit in port["bits"]]
    roots += [bit for n in cells if n not in logic for bits in cells[n]["connections"].values() for bit in bits]
    inputs = {n: {driver[bit] for p in "ABS" for bit in cells[n]["connections"].get(p, ()) if bit in driver}
              for n in logic}
    nets = roots + list(driver) + [bit for port in module["ports"].values() for bit in port["bits"]]
    g = Gates(max((net for net in nets if isinstance(net, int)), default=0) + 1)
    value = {"z": "x"}

    def resolved(n, port):
        return [value.get(bit, bit) for bit in cells[n]["connections"].get(port, ())]

    for n in graphlib.TopologicalSorter(inputs).static_order():
        cell = cells[n]
        y = cell["connections"]["Y"]
        signed = [int(cell["parameters"].get(f"{port}_SIGNED", "0"), 2) for port in "AB"]
        negated = None
        if cell["type"] in ("$shift", "$shiftx") and signed[1]:
            source = cells.get(driver.get(cell["connections"]["B"][-1]))
            if source and source["type"] == "$neg" and source["connections"]["Y"] == cell["connections"]["B"]:
                negated = resolved(driver[cell["connections"]["B"][-1]], "A")
        bits = map_cell(g, cell["type"], *(resolved(n, port) for port in "ABS"), len(y), *signed, negated)
        value.update(zip(y, bits))
    return g.needed(value.get(bit, bit) for bit in roots)
