# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Errors a user can cause. The command line prints their text and ends with status 1."""

from __future__ import annotations


class UserError(Exception):
    """A mistake in a study, an option or a file; the text says what was found and what is allowed."""


class StudyError(UserError):
    """A mistake at one place of a study."""

    def __init__(self, place: str, key: str, found: object, allowed: str) -> None:
        self.place, self.key, self.found, self.allowed = place, key, found, allowed
        text = found if isinstance(found, _Sentence) else f"found {found!r}"
        super().__init__(f"{place}: {key + ': ' if key else ''}{text}; allowed: {allowed}")


class _Sentence(str):
    """A text that already says what was found."""


def sentence(text: str) -> str:
    """`text` as what was found, without "found" and quotes around it."""
    return _Sentence(text)
