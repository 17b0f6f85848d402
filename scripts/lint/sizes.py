#!/usr/bin/env python3
"""Checks that functions and classes of the planning half of the compiler stay small.

Functions have at most 100 lines, classes at most 30 member functions. The check reads text as
clang-format leaves it (scripts/lint/format.sh): the closing brace of a definition stands in the
column of its first line, and members are indented by two more.
Usage: scripts/lint/sizes.py [FOLDER...]"""
import pathlib
import re
import sys

FOLDERS = ["compiler/pipeline", "compiler/plan", "compiler/explore"]
MAX_LINES = 100
MAX_MEMBERS = 30

CLASS = re.compile(r"^( *)(?:class|struct)(?: \w+)* (\w+)(?: final)?(?: :[^;]*)?\s*\{$")
NOT_A_FUNCTION = re.compile(r"^\s*(?:namespace|class|struct|enum|union|extern)\b|=\s*\{$|^\s*\}")


def end_of(lines, start, indent):
    """The line of the closing brace in column `indent` behind line `start`."""
    for i in range(start + 1, len(lines)):
        if lines[i].startswith(" " * indent + "}"):
            return i
    return len(lines) - 1


def long_functions(lines):
    """Pairs of first line and number of lines; definitions at the level of a namespace or of a class."""
    first = None  # of the declaration at hand
    inside = -1  # last line of the definition at hand
    for i, line in enumerate(lines):
        if i <= inside:
            continue
        indent = len(line) - len(line.lstrip())
        if not line.strip() or line.lstrip().startswith(("//", "#")):
            first = None
            continue
        if first is None or indent <= len(lines[first]) - len(lines[first].lstrip()):
            first = i
        start = lines[first]
        if line.endswith("{") and "(" in "".join(lines[first : i + 1]) and not NOT_A_FUNCTION.match(start):
            column = len(start) - len(start.lstrip())
            if column <= 2:
                inside = end_of(lines, i, column)
                count = inside - first + 1
                if count > MAX_LINES:
                    yield first, count
        if line.endswith((";", "{", "}")) or i == inside:
            first = None


def members_of(lines, start, indent):
    """Names of the member functions that the class of line `start` declares."""
    statement = ""
    for line in lines[start + 1 : end_of(lines, start, indent)]:
        column = len(line) - len(line.lstrip())
        text = line.split("//")[0].strip()
        if not text or text.startswith("#") or text in ("public:", "protected:", "private:"):
            continue
        if column == indent + 2:
            statement = ""
        elif column < indent + 2 or statement is None:
            continue
        statement += " " + text
        if not text.endswith((";", "{", "}")):
            continue
        head = re.sub(r"=\s*(default|delete|0)\s*;", ";", statement)
        match = re.match(r"^[^={]*?(~?\w+|operator\S+)\s*\(", head)
        isType = re.match(r"^ (?:class|struct|enum|union|using|typedef|friend|static_assert|template <.*> (?:class|struct))\b", head)
        if match and not isType and not re.search(r"std::function<|function_ref<", head.split("(")[0]):
            yield match.group(1)
        statement = None


def main():
    status = 0
    for folder in sys.argv[1:] or FOLDERS:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.suffix not in (".h", ".cpp"):
                continue
            lines = path.read_text().splitlines()
            for first, count in long_functions(lines):
                print(f"{path}:{first + 1}: a function of {count} lines; at most {MAX_LINES}")
                status = 1
            for i, line in enumerate(lines):
                match = CLASS.match(line)
                if not match:
                    continue
                members = list(members_of(lines, i, len(match.group(1))))
                if len(members) > MAX_MEMBERS:
                    print(f"{path}:{i + 1}: class {match.group(2)} has {len(members)} member functions; at most {MAX_MEMBERS}")
                    status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
