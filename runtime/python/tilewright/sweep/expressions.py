# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arithmetic of studies: derived values, constraints and objectives. A small part of Python's expressions, walked as a tree:
nothing is executed, no attribute of an object is read, and numbers stay below 2^256."""

from __future__ import annotations

import ast
import math
import operator
from fractions import Fraction
from typing import Any, Callable, Dict, FrozenSet, List, Type, Union

Scalar = Union[int, float, str, bool]
Resolve = Callable[[str], Scalar]

MAX_NODES = 200
LARGEST = 1 << 256
FUNCTIONS: Dict[str, Callable[..., Any]] = {
    "min": min, "max": max, "abs": abs, "ceil": math.ceil, "floor": math.floor, "round": round, "int": int,
    "log2": math.log2, "sqrt": math.sqrt,
}
ALLOWED = ("numbers, texts, names such as array.rows or rows, + - * / // % **, comparisons, and, or, not, A if C else B, "
           + ", ".join(sorted(FUNCTIONS)))

_BINARY: Dict[Type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}
_COMPARE: Dict[Type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
}


class ExpressionError(ValueError):
    """An expression that cannot be read, or has no value."""


def number(value: Scalar) -> Scalar:
    """A ratio written as a text, such as "64/3", as a number; everything else as it is."""
    if isinstance(value, str):
        try:
            ratio = Fraction(value)
        except (ValueError, ZeroDivisionError):
            return value
        return ratio.numerator if ratio.denominator == 1 else float(ratio)
    return value


def _bounded(value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if isinstance(value, float) and not math.isfinite(value):
            raise ExpressionError("its value is not a finite number")
        if abs(value) >= LARGEST:
            raise ExpressionError("its value is 2^256 or more")
    return value


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    raise ExpressionError(f"{ast.unparse(node)!r} is not a name")


class Expression:
    """A parsed expression. `names`: the dotted names it reads."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        try:
            self._tree = ast.parse(self.text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            column = getattr(error, "offset", None)
            raise ExpressionError(f"{self.text!r} is not an expression" + (f", at column {column}" if column else "")) from None
        if sum(1 for _ in ast.walk(self._tree)) > MAX_NODES:
            raise ExpressionError(f"{self.text[:40]!r}... is longer than {MAX_NODES} terms")
        names: List[str] = []
        self._check(self._tree, names)
        self.names: FrozenSet[str] = frozenset(names)

    def _check(self, node: ast.expr, names: List[str]) -> None:
        parts: List[ast.expr] = []
        if isinstance(node, ast.Constant):
            if not isinstance(node.value, (int, float, str)):
                raise ExpressionError(f"{ast.unparse(node)!r} is not allowed")
            _bounded(node.value)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            names.append(_dotted(node))
        elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            parts = [node.left, node.right]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd, ast.Not)):
            parts = [node.operand]
        elif isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.BoolOp):
            parts = list(node.values)
        elif isinstance(node, ast.IfExp):
            parts = [node.test, node.body, node.orelse]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS and not node.keywords:
            parts = list(node.args)
        else:
            raise ExpressionError(f"{ast.unparse(node)!r} is not allowed")
        for part in parts:
            self._check(part, names)

    def evaluate(self, resolve: Resolve) -> Scalar:
        """The value, with `resolve` giving the values of names. Raises ExpressionError where there is none."""
        try:
            value = self._value(self._tree, resolve)
        except ExpressionError as error:
            raise ExpressionError(f"{self.text!r}: {error}") from None
        except (ArithmeticError, TypeError, ValueError) as error:
            raise ExpressionError(f"{self.text!r}: {error}") from None
        return int(value) if isinstance(value, float) and value.is_integer() else value

    def _value(self, node: ast.expr, resolve: Resolve) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.Name, ast.Attribute)):
            return number(resolve(_dotted(node)))
        if isinstance(node, ast.BinOp):
            left, right = self._value(node.left, resolve), self._value(node.right, resolve)
            for side in (left, right):
                if isinstance(side, str):
                    raise ExpressionError(f"{side!r} is a text, not a number")
            if isinstance(node.op, ast.Pow) and abs(right) > 256:
                raise ExpressionError(f"the exponent {right} is larger than 256")
            return _bounded(_BINARY[type(node.op)](left, right))
        if isinstance(node, ast.UnaryOp):
            value = self._value(node.operand, resolve)
            return not value if isinstance(node.op, ast.Not) else -value if isinstance(node.op, ast.USub) else +value
        if isinstance(node, ast.Compare):
            left = self._value(node.left, resolve)
            for op, part in zip(node.ops, node.comparators):
                right = self._value(part, resolve)
                if not _COMPARE[type(op)](left, right):
                    return False
                left = right
            return True
        if isinstance(node, ast.BoolOp):
            wanted = isinstance(node.op, ast.Or)
            return next((True for part in node.values if bool(self._value(part, resolve)) == wanted), False) == wanted
        if isinstance(node, ast.IfExp):
            return self._value(node.body if self._value(node.test, resolve) else node.orelse, resolve)
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        return _bounded(FUNCTIONS[node.func.id](*[self._value(part, resolve) for part in node.args]))

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"
