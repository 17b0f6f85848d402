# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pareto fronts and hypervolumes. Every value is to be made small: negate what is to be made large."""

from __future__ import annotations

from typing import List, Sequence, Tuple

Vector = Tuple[float, ...]


def dominates(a: Sequence[float], b: Sequence[float]) -> bool:
    """`a` is nowhere larger than `b`, and somewhere smaller."""
    return all(x <= y for x, y in zip(a, b)) and any(x < y for x, y in zip(a, b))


def front(vectors: Sequence[Sequence[float]]) -> List[int]:
    """Indices of the vectors that no other one dominates, in their order; equal ones are all in it."""
    best: List[int] = []
    # What dominates a vector stands before it in this order, so only the front so far can.
    for index in sorted(range(len(vectors)), key=lambda i: tuple(vectors[i])):
        if not any(dominates(vectors[other], vectors[index]) for other in best):
            best.append(index)
    return sorted(best)


def hypervolume(vectors: Sequence[Sequence[float]], reference: Sequence[float]) -> float:
    """The volume that the vectors dominate below `reference`: sweeps the last objective and measures slices of the others."""
    inside = [tuple(v) for v in vectors if all(x < r for x, r in zip(v, reference))]
    return _volume([inside[i] for i in front(inside)], tuple(reference))


def _volume(points: List[Vector], reference: Vector) -> float:
    if not points:
        return 0.0
    if len(reference) == 1:
        return reference[0] - min(p[0] for p in points)
    points = sorted(points, key=lambda p: p[-1])
    total = 0.0
    for i, point in enumerate(points):
        height = (points[i + 1][-1] if i + 1 < len(points) else reference[-1]) - point[-1]
        if height > 0:
            slices = [p[:-1] for p in points[: i + 1]]
            total += height * _volume([slices[j] for j in front(slices)], reference[:-1])
    return total


def dominated_share(by: Sequence[Sequence[float]], vectors: Sequence[Sequence[float]]) -> float:
    """The part of `vectors` of which one of `by` is nowhere larger (equal ones count), 0 to 1."""
    if not vectors:
        return 0.0
    return sum(any(all(x <= y for x, y in zip(a, v)) for a in by) for v in vectors) / len(vectors)
