# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How far a sweep is: one line that is rewritten on a terminal, elsewhere a line every ten seconds."""

from __future__ import annotations

import sys
import time
from typing import TextIO

LINE_SECONDS = 10.0
TERMINAL_SECONDS = 0.2


def duration(seconds: float) -> str:
    whole = int(round(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress:
    """Counts rows. Rate and remaining time are of the rows that ran here, not of those that were there."""

    def __init__(self, total: int, quiet: bool = False, stream: TextIO = sys.stderr) -> None:
        self.total, self.done, self.known, self.without_report, self.pruned = total, 0, 0, 0, 0
        self._stream, self._quiet, self._terminal = stream, quiet, stream.isatty()
        self._begin = self._shown = time.monotonic()
        self._width = 0

    def row(self, status: str, ran_here: bool) -> None:
        self.done += 1
        self.known += not ran_here
        self.pruned += status == "pruned"
        self.without_report += status not in ("ok", "pruned")
        self.show()

    def text(self) -> str:
        elapsed = time.monotonic() - self._begin
        ran = self.done - self.known
        parts = [f"{self.done} of {self.total} points"]
        if self.known:
            parts.append(f"{self.known} were there")
        if self.pruned:
            parts.append(f"{self.pruned} pruned")
        if self.without_report:
            parts.append(f"{self.without_report} without a report")
        if ran and elapsed > 0:
            rate = ran / elapsed
            parts.append(f"{rate:.2f} points/s")
            if self.done < self.total:
                parts.append(f"{duration((self.total - self.done) / rate)} left")
        return ", ".join(parts)

    def show(self, last: bool = False) -> None:
        if self._quiet:
            return
        now = time.monotonic()
        if not last and now - self._shown < (TERMINAL_SECONDS if self._terminal else LINE_SECONDS):
            return
        self._shown = now
        text = self.text()
        if self._terminal:
            self._stream.write("\r" + text.ljust(self._width) + ("\n" if last else ""))
            self._width = len(text)
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def clear(self) -> None:
        """Leaves the line, for a message."""
        if self._terminal and self._width:
            self._stream.write("\n")
            self._width = 0
