# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Studies from YAML files and from the command line. Every mistake is a StudyError with file, line and key."""

from __future__ import annotations

import math
import os
import pathlib
import re
from fractions import Fraction
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import machines
from .errors import StudyError, UserError, sentence
from .expressions import ALLOWED, Expression, ExpressionError, Scalar
from .study import AXES, NAMED, Axis, Objective, Sampler, Space, Study, is_inline, is_machine_key

SAMPLERS = ("grid", "random", "tpe", "nsga2")
ROOT_KEYS = ("name", "models", "machines", "schedules", "batch", "parameters", "derived", "constraints", "objectives", "sampler",
             "options", "timeout_seconds", "prune", "fixed_program")
OPTIONS = ("across", "priority", "math", "rules", "disable_rule", "search_budget", "seed", "shape", "max_cycles", "technology", "cost_model")
GOALS = {"minimise": False, "maximise": True}
MAX_VALUES = 100_000


class Node:
    """A value of a YAML file with its place."""

    def __init__(self, value: Any, place: str, key: str) -> None:
        self.value, self.place, self.key = value, place, key

    def error(self, allowed: str, found: Optional[object] = None) -> StudyError:
        return StudyError(self.place, self.key, self.plain() if found is None else found, allowed)

    def plain(self) -> Any:
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def items(self, allowed: str, keys: Optional[Sequence[str]] = None) -> Dict[str, "Node"]:
        if not isinstance(self.value, dict):
            raise self.error(allowed)
        if keys is not None:
            for key, node in self.value.items():
                if key not in keys:
                    raise StudyError(node.place, self.key, sentence(f"unknown key {key!r}"), ", ".join(keys))
        return self.value

    def list(self, allowed: str) -> List["Node"]:
        """The entries of a list; a single value counts as a list of one."""
        if isinstance(self.value, dict) or self.value is None:
            raise self.error(allowed)
        nodes = self.value if isinstance(self.value, list) else [self]
        if not nodes:
            raise self.error(allowed)
        return nodes

    def text(self, allowed: str) -> str:
        if not isinstance(self.value, str) or not self.value:
            raise self.error(allowed)
        return self.value

    def integer(self, low: int, high: int = 1 << 62) -> int:
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not low <= self.value <= high:
            raise self.error(f"an integer from {low}" + (f" to {high}" if high < 1 << 62 else ""))
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.error("true or false")
        return self.value


def parse_yaml(text: str, name: str) -> Node:
    """A YAML document with the line of every value."""
    yaml = machines.yaml_module()
    loader = yaml.SafeLoader(text)

    def convert(node: Any, key: str) -> Node:
        place = f"{name}:{node.start_mark.line + 1}"
        if isinstance(node, yaml.MappingNode):
            out: Dict[str, Node] = {}
            for key_node, value_node in node.value:
                word = key_node.value
                if not isinstance(word, str):
                    raise StudyError(f"{name}:{key_node.start_mark.line + 1}", key, sentence("a key that is no word"), "words")
                path = f"{key}.{word}" if key else word
                if word in out:
                    raise StudyError(f"{name}:{key_node.start_mark.line + 1}", path, sentence("a second value of this key"), "one")
                out[word] = convert(value_node, path)
            return Node(out, place, key)
        if isinstance(node, yaml.SequenceNode):
            return Node([convert(part, f"{key}[{i}]") for i, part in enumerate(node.value)], place, key)
        return Node(loader.construct_object(node), place, key)

    try:
        root = loader.get_single_node()
        if root is None:
            raise StudyError(name, "", sentence("an empty file"), "a study (docs/sweep.md)")
        return convert(root, "")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise StudyError(place, "", sentence(str(getattr(error, "problem", None) or error)), "YAML") from None
    except RecursionError:
        raise StudyError(name, "", sentence("values nested too deeply"), "a study (docs/sweep.md)") from None
    finally:
        loader.dispose()


_VALUES = "a list of values, or a range: {from: A, to: B, step: S} or {from: A, to: B, log2_step: S}"


def _range(node: Node) -> Tuple[Scalar, ...]:
    keys = node.items(_VALUES, ("from", "to", "step", "log2_step"))
    if "from" not in keys or "to" not in keys or ("step" in keys) == ("log2_step" in keys):
        raise node.error(_VALUES)
    numbers = {}
    for key, part in keys.items():
        if not isinstance(part.value, (int, float)) or isinstance(part.value, bool) or not math.isfinite(part.value):
            raise part.error("a number")
        numbers[key] = Fraction(str(part.value))
    low, high = numbers["from"], numbers["to"]
    step = numbers.get("step", numbers.get("log2_step", Fraction(0)))
    if step <= 0:
        raise node.error("a step larger than 0")
    if low > high:
        raise node.error("from at most to")
    values: List[Scalar] = []
    if "step" in keys:
        if (high - low) / step >= MAX_VALUES:
            raise node.error(f"at most {MAX_VALUES} values")
        current = low
        while current <= high:
            values.append(_scalar(current))
            current += step
    else:
        if low <= 0:
            raise keys["from"].error("a number larger than 0, for log2_step")
        factor = 2 ** float(step)
        exact = low
        count = 0
        while exact <= high * Fraction(1 + 1e-12):
            values.append(_scalar(exact))
            count += 1
            if count > MAX_VALUES:
                raise node.error(f"at most {MAX_VALUES} values")
            exact = low * 2 ** int(step * count) if (step * count).denominator == 1 else low * Fraction(factor ** count)
    return tuple(values)


def _scalar(value: Fraction) -> Scalar:
    return value.numerator if value.denominator == 1 else float(value)


def _axis_values(node: Node) -> Tuple[Scalar, ...]:
    if isinstance(node.value, dict):
        return _range(node)
    values: List[Scalar] = []
    for part in node.list(_VALUES):
        if not isinstance(part.value, (int, float, str, bool)) or part.value == "":
            raise part.error("a number, a text, true or false")
        if part.value in values and type(part.value) is type(values[values.index(part.value)]):
            raise part.error("every value once")
        values.append(part.value)
    return tuple(values)


def _expression(node: Node) -> Expression:
    if isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return Expression(repr(node.value))
    try:
        return Expression(node.text("an expression"))
    except ExpressionError as error:
        raise StudyError(node.place, node.key, sentence(str(error)), ALLOWED) from None


def _objective(node: Node) -> Objective:
    allowed = (f"a name ({', '.join(NAMED)}), or {{minimise: FIELD}} or {{maximise: FIELD}} with such a name, a field of the report "
               "such as engines.tensor.busy_cycles, or = and an expression over parameters")
    if isinstance(node.value, str):
        if node.value not in NAMED:
            raise node.error(allowed)
        return Objective(node.value, *NAMED[node.value])
    entries = node.items(allowed)
    if len(entries) != 1 or next(iter(entries)) not in GOALS:
        raise node.error(allowed)
    (goal, what), = entries.items()
    text = what.text(allowed)
    if text in NAMED:
        return Objective(text, NAMED[text][0], GOALS[goal])
    if text.startswith("="):
        try:
            return Objective(text[1:].strip(), "", GOALS[goal], Expression(text[1:]))
        except ExpressionError as error:
            raise StudyError(what.place, what.key, sentence(str(error)), ALLOWED) from None
    if not re.fullmatch(r"[A-Za-z_][\w.-]*", text):
        raise what.error(allowed)
    return Objective(text, text, GOALS[goal])


def _sampler(node: Node) -> Sampler:
    if isinstance(node.value, str):
        if node.value not in SAMPLERS:
            raise node.error(" or ".join(SAMPLERS))
        if node.value != "grid":
            raise node.error(f"{{name: {node.value}, points: N}}")
        return Sampler(node.value)
    entries = node.items("a sampler's name, or {name: NAME, points: N, seed: N}", ("name", "points", "seed", "population", "batch"))
    if "name" not in entries:
        raise node.error("name: " + " or ".join(SAMPLERS), sentence("no name"))
    name = entries["name"].text(" or ".join(SAMPLERS))
    if name not in SAMPLERS:
        raise entries["name"].error(" or ".join(SAMPLERS))
    if name == "grid" and len(entries) > 1:
        raise node.error("name alone, with sampler grid")
    if name != "grid" and "points" not in entries:
        raise node.error("points: an integer from 1", sentence("no points"))
    if "population" in entries and name != "nsga2":
        raise entries["population"].error("population with sampler nsga2", sentence(f"population with sampler {name}"))
    return Sampler(name, entries["points"].integer(1) if "points" in entries else None,
                   entries["seed"].integer(0, 2**32 - 1) if "seed" in entries else 1,
                   entries["population"].integer(2, 10_000) if "population" in entries else None,
                   entries["batch"].integer(1, 10_000) if "batch" in entries else 8)


def _options(node: Node) -> Tuple[Tuple[str, str], ...]:
    out: List[Tuple[str, str]] = []
    for key, part in node.items("options of tilewright run", OPTIONS).items():
        for entry in part.list("a value"):
            if isinstance(entry.value, bool) or not isinstance(entry.value, (int, str)):
                raise entry.error("a number or a text")
            out.append((key, str(entry.value)))
    return tuple(out)


def study_from(root: Node, name: str, folder: pathlib.Path, binary: str) -> Study:
    """The study a document describes. Model and machine files are looked for beside the study, then in this folder."""
    entries = root.items("a study (docs/sweep.md)", ROOT_KEYS)

    def located(node: Node, must_exist: bool) -> str:
        text = node.text("a file or a name")
        for candidate in (folder / text, pathlib.Path(text)):
            if candidate.is_file():
                return os.path.relpath(candidate) if not os.path.isabs(text) else text
        if must_exist:
            raise node.error("a model file, or an inline kernel such as gemm:64x64x64:int8",
                             sentence(f"no file {text!r} in {folder} or in this folder"))
        return text

    axes: List[Axis] = []
    for singular, default in (("model", None), ("machine", None), ("schedule", "pipelined"), ("batch", 1)):
        key = singular if singular == "batch" else singular + "s"
        node = entries.get(key)
        if node is None:
            if default is None:
                raise StudyError(root.place, "", sentence(f"no {key}"), f"{key}: a list")
            axes.append(Axis(singular, (default,), root.place))
            continue
        parts = node.list(f"a list of {key}")
        if singular == "batch":
            axes.append(Axis(singular, tuple(part.integer(1, 1_000_000) for part in parts), node.place))
        elif singular == "model":
            texts = tuple(part.value if isinstance(part.value, str) and is_inline(part.value) else located(part, True) for part in parts)
            axes.append(Axis(singular, texts, node.place))
        elif singular == "machine":
            names = []
            for part in parts:
                names.append(located(part, False) if str(part.value).endswith((".yaml", ".yml")) else part.text("a machine"))
                try:
                    machines.find(names[-1], binary)
                except UserError as error:
                    raise part.error("a machine file, or a name of `tilewright hw list`", sentence(str(error))) from None
            axes.append(Axis(singular, tuple(names), node.place))
        else:
            axes.append(Axis(singular, tuple(located(part, False) if str(part.value).endswith(".mlir") else
                                             part.text("a schedule or a plan file") for part in parts), node.place))
        if len(set(axes[-1].values)) < len(axes[-1].values):
            raise node.error("every value once")

    if "parameters" in entries:
        for key, node in entries["parameters"].items("keys of the machine with their values").items():
            if key in AXES:
                raise node.error("keys of the machine and variables", sentence(f"the key {key!r}"))
            if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", key):
                raise StudyError(node.place, "parameters", sentence(f"the key {key!r}"), "a key of the machine, or a name of your own")
            axes.append(Axis(key, _axis_values(node), node.place))
    names = [axis.name for axis in axes]
    derived = []
    if "derived" in entries:
        for key, node in entries["derived"].items("keys of the machine with expressions").items():
            if key in names:
                raise node.error("a key that parameters do not set", sentence(f"{key} in parameters and in derived"))
            derived.append((key, _expression(node), node.place))
    constraints = [(_expression(node), node.place) for node in entries["constraints"].list("a list of expressions")] \
        if "constraints" in entries else []
    objectives = [_objective(node) for node in entries["objectives"].list("a list of objectives")] \
        if "objectives" in entries and isinstance(entries["objectives"].value, (list, str)) else \
        [_objective(entries["objectives"])] if "objectives" in entries else [Objective("cycles", *NAMED["cycles"])]
    if len({o.name for o in objectives}) < len(objectives):
        raise entries["objectives"].error("every objective once")
    sampler = _sampler(entries["sampler"]) if "sampler" in entries else Sampler()
    timeout = entries["timeout_seconds"].integer(1) if "timeout_seconds" in entries else 600
    prune = entries["prune"].flag() if "prune" in entries else False

    # What is not of the machine must serve an expression, or it is a misspelt key.
    read = set().union(*[e.names for _, e, _ in derived], *[e.names for e, _ in constraints],
                       *[o.expression.names for o in objectives if o.expression])
    for axis in axes:
        if axis.name not in AXES and not is_machine_key(axis.name) and axis.name not in read:
            raise StudyError(axis.place, f"parameters.{axis.name}", sentence("a variable that no expression reads"),
                             "a key of the machine such as array.rows, or a variable that derived, constraints or objectives read")
    for key, _, place in derived:
        if not is_machine_key(key) and key not in read:
            raise StudyError(place, f"derived.{key}", sentence("a variable that no expression reads"),
                             "a key of the machine, or a variable that another expression reads")
    if sampler.name in ("tpe", "nsga2") and len(axes[0].values) > 1:
        raise StudyError(axes[0].place, "models", f"{len(axes[0].values)} models",
                         f"one model with sampler {sampler.name}; run a study for each, into one file")
    if prune and sampler.name in ("tpe", "nsga2"):
        raise entries["prune"].error("prune with samplers grid and random", sentence(f"prune with sampler {sampler.name}"))
    study = Study(entries["name"].text("a name") if "name" in entries else name, tuple(axes), tuple(derived), tuple(constraints),
                  tuple(objectives), sampler, _options(entries["options"]) if "options" in entries else (), timeout, prune,
                  entries["fixed_program"].flag() if "fixed_program" in entries else False, binary)
    _try_expressions(study)
    return study


def _try_expressions(study: Study) -> None:
    """Names that nothing defines show at the first point already, objectives included."""
    space = Space(study)
    coordinates = space.coordinates([0] * len(study.axes))
    space.point(coordinates)
    values: Dict[str, Scalar] = dict(coordinates)
    for key, expression, _ in study.derived:
        values[key] = expression.evaluate(space.resolver(values))
    for expression, place in study.constraints:
        space._evaluate(expression, values, place, "constraints")
    for objective in study.objectives:
        if objective.expression:
            space._evaluate(objective.expression, values, study.name, "objectives")


def parse_file(file: str) -> Node:
    """The document in a file. Raises UserError."""
    try:
        return parse_yaml(pathlib.Path(file).read_text(encoding="utf-8"), file)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"{file}: cannot be read: {reason}") from None


def load(file: str, binary: str) -> Study:
    """The study in a file. Raises UserError."""
    path = pathlib.Path(file)
    return study_from(parse_file(file), path.stem, path.resolve().parent, binary)


def values_of_flag(text: str) -> Union[List[Scalar], Dict[str, Scalar]]:
    """The values of a --set flag: "8,16,32", "8..64*2" (each twice the one before) or "8..64+8"."""
    match = re.fullmatch(r"([\d.]+?)\.\.([\d.]+)([*+])([\d.]+)", text)
    if not match:
        return [_word(word) for word in text.split(",")]
    low, high, kind, step = match.groups()
    if kind == "+":
        return {"from": _word(low), "to": _word(high), "step": _word(step)}
    factor = _word(step)
    if isinstance(factor, str) or factor <= 1:
        raise UserError(f"--set: found {text!r}; allowed: a factor larger than 1 after *")
    exponent = math.log2(factor)
    return {"from": _word(low), "to": _word(high), "log2_step": int(exponent) if exponent.is_integer() else exponent}


def _word(word: str) -> Scalar:
    word = word.strip()
    if word in ("true", "false"):
        return word == "true"
    try:
        return int(word)
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError:
        return word


def study_from_mapping(document: Mapping[str, Any], binary: str, name: str = "sweep", place: str = "command line") -> Study:
    """A study from plain values, as the command line and programs give them."""
    return study_from(_plain_node(document, place, ""), name, pathlib.Path.cwd(), binary)


def merged(root: Node, overrides: Mapping[str, Any], place: str = "command line") -> Node:
    """A document with values of the command line in place of its own; `parameters` and `derived` key by key."""
    entries = dict(root.items("a study (docs/sweep.md)"))
    for key, value in overrides.items():
        plain = _plain_node(value, place, key)
        if key in ("parameters", "derived", "options") and key in entries:
            plain = Node({**entries[key].items(f"{key}: keys with values"), **plain.value}, entries[key].place, key)
        if key == "constraints" and key in entries:
            plain = Node([*entries[key].list("a list of expressions"), *plain.value], entries[key].place, key)
        entries[key] = plain
    return Node(entries, root.place, "")


def _plain_node(value: Any, place: str, key: str) -> Node:
    if isinstance(value, Mapping):
        return Node({k: _plain_node(v, place, f"{key}.{k}" if key else k) for k, v in value.items()}, place, key)
    if isinstance(value, (list, tuple)):
        return Node([_plain_node(v, place, f"{key}[{i}]") for i, v in enumerate(value)], place, key)
    return Node(value, place, key)
