# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A worker process of the local pool: a task as one line of JSON in, its outcome as one line out. Ends with its standard input,
and ends the run under way then."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import Optional

from .evaluate import Child, Task, evaluate


def main() -> int:
    # What a library prints must not come between the outcomes.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lines: "queue.Queue[Optional[str]]" = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        child = Child.running
        if child:
            child.kill()
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        line = lines.get()
        assert line is not None
        values = json.loads(line)
        values["sets"], values["options"] = tuple(values["sets"]), tuple(values["options"])
        outcome = evaluate(Task(**values))
        out.write(json.dumps(vars(outcome), separators=(",", ":")) + "\n")
        out.flush()


if __name__ == "__main__":
    sys.exit(main())
