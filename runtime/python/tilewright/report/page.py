# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page: the template with the data of the files in it."""
from __future__ import annotations

import base64
import html
import json
import os
import pathlib
import zlib
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..sweep.errors import UserError
from .documents import read

# The only places of the template that change.
DATA = '<script type="application/json" id="data">null</script>'
TITLE = "<title>Tilewright report</title>"
# Longer data are deflated.
PLAIN_BYTES = 32 << 10


def find_template() -> pathlib.Path:
    """The page without data, of a build tree, an installed tree or a wheel. Raises UserError."""
    package = pathlib.Path(__file__).absolute().parents[1]
    roots = [package, package.parents[1]] + list(package.parents[3:4])
    program = os.environ.get("TILEWRIGHT")
    if program:
        roots.insert(0, pathlib.Path(program).absolute().parents[1])
    for root in roots:
        template = root / "share/tilewright/report/template.html"
        if template.is_file():
            return template
    raise UserError("the page's template is not built: install node and npm (scripts/setup.sh web), then scripts/report-page.sh")


def make(files: Sequence[str], title: Optional[str] = None, window: Optional[Tuple[int, int]] = None) -> str:
    """The HTML text of a page. `window`: of timelines, only these cycles.

    Raises UserError: a file is missing, is no document of Tilewright or is broken; or the template is missing.
    """
    template = find_template()
    data: Dict[str, Any] = {"documents": [], "traces": [], "sweeps": []}
    for file in files:
        for kind, entry in read(file, window):
            data[kind].append(entry)
    data["title"] = title or _title(data)
    return filled(template.read_text(encoding="utf-8"), data)


def filled(template: str, data: Dict[str, Any]) -> str:
    """The template with the data in it. Raises UserError where it has no place for them."""
    if template.count(DATA) != 1 or template.count(TITLE) != 1:
        raise UserError("the page's template is of another version: run scripts/report-page.sh")
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    if len(text) <= PLAIN_BYTES:
        # No "</script>" may stand in it.
        script = DATA.replace("null", text.replace("<", "\\u003c"))
    else:
        packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
        script = DATA.replace('id="data">null', f'id="data" data-encoding="deflate">{packed}')
    return template.replace(TITLE, f"<title>{html.escape(data['title'])}</title>").replace(DATA, script)


def _title(data: Dict[str, Any]) -> str:
    names: List[str] = []
    for entry in data["documents"]:
        document = entry["document"]
        machine = document.get("machine")
        model = pathlib.PurePath(str(document.get("model", ""))).name
        if model == "model.onnx":
            model = pathlib.PurePath(str(document["model"])).parent.name
        name = machine.get("name") if isinstance(machine, dict) else machine
        names.append(f"{model} on {name}" if name else model)
    names += [sweep["name"] for sweep in data["sweeps"]] or ([] if names else [trace["machine"] for trace in data["traces"]])
    return ", ".join(dict.fromkeys(names)) or "Tilewright report"
