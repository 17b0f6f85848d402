# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which points run, and in which order. A sampler depends on the study and its seed alone, never on how many jobs run or in which
order they end: a stopped sweep goes on with the same points."""

from __future__ import annotations

import random
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from .errors import UserError
from .expressions import Scalar
from .study import Point, Space, Study

# Draws one after the other that constraints exclude, or that are known already, before a sampler gives up.
MAX_MISSES = 10_000
MAX_OPTUNA_MISSES = 500
# Grids up to this size are counted out, so that no sampler looks for more points than there are.
COUNTED = 20_000


class Sampler:
    """Gives points until it has no more. `total`: how many at most."""

    total = 0

    def ask(self) -> Optional[Point]:
        """The next point; none if it waits for values, or is at its end."""
        raise NotImplementedError

    def tell(self, point: Point, values: Optional[Sequence[float]]) -> None:
        """The objectives of a point, less is better; none if it has no report."""

    @property
    def done(self) -> bool:
        raise NotImplementedError


class _Ordered(Sampler):
    def __init__(self, points: Iterator[Point], total: int) -> None:
        self._points, self.total, self._done = points, total, False

    def ask(self) -> Optional[Point]:
        point = next(self._points, None)
        self._done = point is None
        return point

    @property
    def done(self) -> bool:
        return self._done


class GridSampler(_Ordered):
    """Every point that the constraints allow."""

    def __init__(self, study: Study, space: Space) -> None:
        points = list(space.all_points())
        super().__init__(iter(points), len(points))


class RandomSampler(_Ordered):
    """So many different points, each as likely as any other."""

    def __init__(self, study: Study, space: Space) -> None:
        assert study.sampler.points is not None
        points = list(_random_points(study, space, study.sampler.points))
        super().__init__(iter(points), len(points))


def _random_points(study: Study, space: Space, count: int) -> Iterator[Point]:
    draw = random.Random(study.sampler.seed)
    if study.size <= 100_000:
        order = list(range(study.size))
        draw.shuffle(order)
        numbers: Iterator[int] = iter(order)
    else:
        numbers = iter(lambda: draw.randrange(study.size), -1)
    seen: Set[Tuple[object, ...]] = set()
    misses = 0
    for number in numbers:
        if len(seen) == count or misses == MAX_MISSES:
            return
        point = space.point(space.coordinates(space.indices(number)))
        key = identity(point) if point else None
        if point is None or key in seen:
            misses += 1
            continue
        misses = 0
        assert key is not None
        seen.add(key)
        yield point


def identity(point: Point) -> Tuple[object, ...]:
    return point.model, point.machine, point.schedule, point.batch, point.overrides


class OptunaSampler(Sampler):
    """Optuna's TPE or NSGA-II, asked for a batch of points at a time and told their values in the order of the batch. Points that
    constraints exclude fail before they run; a point met again counts once and is told its values."""

    def __init__(self, study: Study, space: Space) -> None:
        try:
            import optuna
        except ImportError:
            raise UserError(f"sampler {study.sampler.name} needs Optuna: apt-get install python3-optuna") from None
        assert study.sampler.points is not None
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._failed = optuna.trial.TrialState.FAIL
        self._space, self._axes = space, study.axes
        self.total = study.sampler.points
        if study.size <= COUNTED:
            self.total = min(self.total, sum(1 for _ in space.all_points()))
        seed = study.sampler.seed
        if study.sampler.name == "nsga2":
            self._batch = study.sampler.population or max(4, min(50, self.total // 8))
            sampler: Any = optuna.samplers.NSGAIISampler(seed=seed, population_size=self._batch)
        else:
            self._batch = study.sampler.batch
            sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True,
                                                 n_startup_trials=max(10, min(self._batch, self.total // 4)))
        self._study = optuna.create_study(directions=["minimize"] * len(study.objectives), sampler=sampler)
        self._points: Dict[Tuple[object, ...], Point] = {}
        self._values: Dict[Tuple[object, ...], Optional[Tuple[float, ...]]] = {}
        self._waiting: List[Tuple[Any, Tuple[object, ...]]] = []
        self._queue: List[Point] = []
        self._misses = 0
        self._exhausted = False
        # Ways to write an axis: an index, ordered where its values are.
        self._ordered = [axis.ordered for axis in study.axes]

    def _suggest(self, trial: Any) -> Dict[str, Scalar]:
        indices = []
        for axis, ordered in zip(self._axes, self._ordered):
            last = len(axis.values) - 1
            if last == 0:
                indices.append(0)
            elif ordered:
                indices.append(trial.suggest_int(axis.name, 0, last))
            else:
                indices.append(trial.suggest_categorical(axis.name, list(range(last + 1))))
        return self._space.coordinates(indices)

    def _fill(self) -> None:
        """Asks for the next batch: as many feasible trials as a batch has, known points among them."""
        while len(self._waiting) < self._batch and len(self._points) < self.total:
            if self._misses == MAX_OPTUNA_MISSES:
                self._exhausted = True
                return
            trial = self._study.ask()
            point = self._space.point(self._suggest(trial))
            if point is None:
                self._study.tell(trial, state=self._failed)
                self._misses += 1
                continue
            key = identity(point)
            if key in self._points:
                self._misses += 1
            else:
                self._misses = 0
                self._points[key] = point
                self._queue.append(point)
            self._waiting.append((trial, key))

    def ask(self) -> Optional[Point]:
        if not self._queue:
            self._settle()
        while not self._queue and not self.done and not self._waiting:
            self._fill()
            if not self._queue:
                self._settle()
        return self._queue.pop(0) if self._queue else None

    def _settle(self) -> None:
        """Tells a batch, once all of it is known."""
        if any(key not in self._values for _, key in self._waiting):
            return
        for trial, key in self._waiting:
            values = self._values[key]
            if values is None:
                self._study.tell(trial, state=self._failed)
            else:
                self._study.tell(trial, list(values))
        self._waiting = []

    def tell(self, point: Point, values: Optional[Sequence[float]]) -> None:
        self._values[identity(point)] = None if values is None else tuple(values)

    @property
    def done(self) -> bool:
        return not self._queue and (self._exhausted or len(self._points) >= self.total)


def make_sampler(study: Study, space: Space) -> Sampler:
    kinds: Dict[str, Callable[[Study, Space], Sampler]] = {"grid": GridSampler, "random": RandomSampler, "tpe": OptunaSampler,
                                                           "nsga2": OptunaSampler}
    return kinds[study.sampler.name](study, space)
