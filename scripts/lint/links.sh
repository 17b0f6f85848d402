#!/usr/bin/env bash
# Checks that every relative link of the documentation leads to a file that git knows, or to a folder of such files, and every anchor to a heading.
set -euo pipefail
cd "$(dirname "$0")/../.."
python3 - <<'PYTHON'
import pathlib
import re
import subprocess
import sys

listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True, text=True).stdout
tracked = {pathlib.Path(path) for path in listed.splitlines() if pathlib.Path(path).exists()}
known = tracked | {folder for path in tracked for folder in path.parents}


def prose(page):
    """The text of a page without its code."""
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    """What GitHub makes of the headings of a page, and anchors that stand there themselves."""
    text = page.read_text()
    headings = re.findall(r"^#+ +(.*?) *$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return made | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


broken = []
for page in sorted(path for path in tracked if path.suffix == ".md"):
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        parts = []
        for part in (page.parent / path).parts if path else page.parts:
            parts = parts[:-1] if part == ".." else parts + [part]
        target = pathlib.Path(*parts)
        if target not in known:
            broken.append(f"{page}: '{link}' leads nowhere")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            broken.append(f"{page}: '{link}' has no such heading")
print("\n".join(broken), end="\n" if broken else "")
sys.exit(bool(broken))
PYTHON
