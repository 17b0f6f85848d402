# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Design-space sweeps: many machines, one file of results. `python3 -m tilewright.sweep --help`; docs/sweep.md."""

from .errors import StudyError, UserError
from .front import dominated_share, dominates, front, hypervolume
from .reading import load
from .store import Row, Store
from .study import Objective, Point, Space, Study

__all__ = ["Objective", "Point", "Row", "Space", "Store", "Study", "StudyError", "UserError", "dominated_share", "dominates", "front",
           "hypervolume", "load"]
