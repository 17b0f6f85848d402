# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The commands `tilewright report` and `tilewright view`."""
from __future__ import annotations

import argparse
import http.server
import pathlib
import sys
from typing import Any, Callable, Optional, Sequence, Tuple

from ..sweep.errors import UserError
from .page import make

USER_ERROR = 1
_FILES = "documents of run, profile and compare --json, a file of run --trace, files of results of a sweep"


class _Parser(argparse.ArgumentParser):
    """Mistakes in options end with the status of user errors."""

    def error(self, message: str) -> Any:
        raise UserError(f"{message}; see {self.prog} --help")


def _guarded(command: Callable[[Sequence[str]], None], arguments: Sequence[str]) -> int:
    try:
        command(arguments)
        return 0
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return USER_ERROR
    except KeyboardInterrupt:
        return 130


def report(arguments: Sequence[str]) -> int:
    """Writes a page. Returns the exit status."""
    return _guarded(_report, arguments)


def _report(arguments: Sequence[str]) -> None:
    parser = _Parser("tilewright report", description="One HTML page, without any other file, from results (docs/report.md).")
    parser.add_argument("files", nargs="+", metavar="FILE", help=_FILES)
    parser.add_argument("-o", "--output", required=True, metavar="PAGE", help="the HTML file to write")
    parser.add_argument("--title", help="title of the page; default: models and machines of the files")
    parser.add_argument("--cycles", metavar="FIRST:LAST", help="of timelines, only these cycles, in full")
    options = parser.parse_args(arguments)
    page = make(options.files, options.title, _window(options.cycles) if options.cycles else None)
    try:
        pathlib.Path(options.output).write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{options.output}: cannot be written: {error.strerror or error}") from None
    print(f"{options.output}: {len(page) / 1e6:.2f} MB")


def _window(text: str) -> Tuple[int, int]:
    first, _, last = text.partition(":")
    if not first.isdecimal() or not last.isdecimal() or int(first) >= int(last):
        raise UserError(f"--cycles: found {text!r}; allowed: FIRST:LAST, two cycles")
    return int(first), int(last)


def view(arguments: Sequence[str]) -> int:
    """Serves a page until it is interrupted. Returns the exit status."""
    return _guarded(_view, arguments)


def server_of(page: bytes, port: int) -> http.server.ThreadingHTTPServer:
    """A server of one page on 127.0.0.1; port 0 takes a free one. Raises UserError where the port is taken."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.split("?")[0] == "/"
            body = page if found else b"not found\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8" if found else "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """No line for each request."""

    try:
        return http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except (OSError, OverflowError) as error:
        raise UserError(f"port {port} of 127.0.0.1 cannot be used: {getattr(error, 'strerror', None) or error}") from None


def _view(arguments: Sequence[str]) -> None:
    parser = _Parser("tilewright view", description="Serves a page of `tilewright report`, or one made of results, on 127.0.0.1.")
    parser.add_argument("files", nargs="+", metavar="FILE", help=f"one HTML page, or {_FILES}")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    options = parser.parse_args(arguments)
    server = server_of(_page_of(options.files).encode(), options.port)
    print(f"http://127.0.0.1:{server.server_address[1]}/ (Ctrl-C ends)", flush=True)
    with server:
        server.serve_forever()


def _page_of(files: Sequence[str]) -> str:
    if len(files) > 1 or pathlib.Path(files[0]).suffix not in (".html", ".htm"):
        return make(files)
    try:
        return pathlib.Path(files[0]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason: Optional[str] = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"{files[0]}: cannot be read: {reason}") from None
