# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where tasks run: worker processes of this host, or a Dask cluster. A pool takes tasks and gives outcomes as they come."""

from __future__ import annotations

import concurrent.futures
import importlib
import json
import logging
import os
import pathlib
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from .errors import UserError
from .evaluate import Task, evaluate
from .store import CRASHED, TIMEOUT, Outcome

# Beyond a task's own timeout, which `process` keeps itself: then the worker is replaced.
GRACE_SECONDS = 5.0
GONE = "the cluster is gone; the rows are kept, and the same command goes on"


class Pool:
    """`capacity`: how many tasks to have under way."""

    capacity = 1

    def submit(self, task: Task) -> None:
        raise NotImplementedError

    def wait(self, seconds: float) -> List[Tuple[Task, Outcome]]:
        """What has come, waiting at most so long for the first."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class _Worker:
    process: "subprocess.Popen[bytes]"
    task: Optional[Task] = None
    since: float = 0.0
    text: bytes = b""


def package_root() -> str:
    """The folder that has the package tilewright in it."""
    # Not resolved: in a build tree the sources are links, and the native module lies beside the links.
    return str(pathlib.Path(os.path.abspath(__file__)).parents[2])


class LocalPool(Pool):
    """Worker processes of its own. One that ends or takes too long costs its point, and is replaced."""

    def __init__(self, jobs: int) -> None:
        self.capacity = jobs
        self._selector = selectors.DefaultSelector()
        self._idle: List[_Worker] = []
        self._busy: Dict[int, _Worker] = {}
        self._ready: List[Tuple[Task, Outcome]] = []

    def _start(self) -> _Worker:
        path = os.pathsep.join([package_root(), *filter(None, [os.environ.get("PYTHONPATH")])])
        # A session of its own: Ctrl-C is for the sweep, and a worker goes with its child.
        process = subprocess.Popen([sys.executable, "-m", "tilewright.sweep.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env={**os.environ, "PYTHONPATH": path}, start_new_session=True)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        return _Worker(process)

    def submit(self, task: Task) -> None:
        while True:
            worker = self._idle.pop() if self._idle else self._start()
            assert worker.process.stdin is not None and worker.process.stdout is not None
            try:
                worker.process.stdin.write(json.dumps(task._asdict()).encode() + b"\n")
                worker.process.stdin.flush()
                break
            except OSError:  # an idle worker that somebody ended
                self._end(worker)
        worker.task, worker.since = task, time.monotonic()
        self._busy[worker.process.stdout.fileno()] = worker
        self._selector.register(worker.process.stdout, selectors.EVENT_READ)

    def wait(self, seconds: float) -> List[Tuple[Task, Outcome]]:
        if self._busy:
            for key, _ in self._selector.select(seconds):
                self._read(self._busy[key.fd])
            now = time.monotonic()
            for worker in list(self._busy.values()):
                assert worker.task is not None
                if now - worker.since > worker.task.timeout_seconds + GRACE_SECONDS:
                    outcome = Outcome(TIMEOUT, f"no result after {worker.task.timeout_seconds:g} s", wall_seconds=now - worker.since)
                    self._lose(worker, outcome)
        ready, self._ready = self._ready, []
        return ready

    def _read(self, worker: _Worker) -> None:
        assert worker.process.stdout is not None and worker.task is not None
        try:
            part = os.read(worker.process.stdout.fileno(), 1 << 20)
        except BlockingIOError:
            return
        if part:
            worker.text += part
            if not worker.text.endswith(b"\n"):
                return
            outcome = Outcome(**json.loads(worker.text))
            self._ready.append((worker.task, outcome))
            self._forget(worker)
            worker.task, worker.text = None, b""
            self._idle.append(worker)
            return
        status = worker.process.wait()
        how = f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        self._lose(worker, Outcome(CRASHED, f"the worker {how}", wall_seconds=time.monotonic() - worker.since))

    def _forget(self, worker: _Worker) -> None:
        assert worker.process.stdout is not None
        self._selector.unregister(worker.process.stdout)
        del self._busy[worker.process.stdout.fileno()]

    def _lose(self, worker: _Worker, outcome: Outcome) -> None:
        assert worker.task is not None
        self._ready.append((worker.task, outcome))
        self._forget(worker)
        self._end(worker)

    def _end(self, worker: _Worker) -> None:
        try:
            os.killpg(worker.process.pid, signal.SIGKILL)
        except OSError:
            pass
        worker.process.wait()
        for stream in (worker.process.stdin, worker.process.stdout):
            try:
                if stream:
                    stream.close()
            except OSError:
                pass

    def close(self) -> None:
        for worker in [*self._idle, *self._busy.values()]:
            self._end(worker)
        self._idle, self._busy = [], {}
        self._selector.close()


class DaskPool(Pool):
    """A Dask cluster. Its workers need this package, the binary and the models under the same paths."""

    def __init__(self, address: str) -> None:
        try:
            distributed: Any = importlib.import_module("distributed")
        except ImportError:
            raise UserError("--cluster needs Dask: apt-get install python3-distributed") from None
        # What it says of lost connections is said here, in one line.
        for name in [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "distributed"]:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        try:
            self._client = distributed.Client(address, timeout=10)
        except (OSError, ValueError, TypeError) as error:
            raise UserError(f"--cluster {address}: cannot be reached: {str(error)[:200]}; allowed: tcp://HOST:PORT of a Dask scheduler"
                            ) from None
        self._wait = distributed.wait
        self._late = distributed.TimeoutError
        threads = sum(self._client.nthreads().values())
        if not threads:
            self._client.close()
            raise UserError(f"--cluster {address}: the cluster has no workers")
        self.capacity = 2 * threads  # a task waits at each worker while one runs
        self._tasks: Dict[Any, Task] = {}
        self._number = 0

    def submit(self, task: Task) -> None:
        self._number += 1
        future = self._client.submit(evaluate, task, pure=False, key=f"{task.kind}-{task.digest[:16]}-{self._number}")
        self._tasks[future] = task

    def wait(self, seconds: float) -> List[Tuple[Task, Outcome]]:
        if self._client.status != "running":
            raise UserError(GONE)
        if self._tasks:
            try:
                self._wait(list(self._tasks), timeout=seconds, return_when="FIRST_COMPLETED")
            except self._late:
                return []
            except concurrent.futures.CancelledError:
                raise UserError(GONE) from None
        ready = []
        for future in [f for f in self._tasks if f.done()]:
            task = self._tasks.pop(future)
            try:
                if future.cancelled():
                    raise UserError(GONE)
                outcome = future.result()
            except UserError:
                raise
            except Exception as error:  # noqa: BLE001: KilledWorker, or a worker without this package
                outcome = Outcome(CRASHED, f"{type(error).__name__}: {error}"[:2000])
            ready.append((task, outcome))
            future.release()
        return ready

    def close(self) -> None:
        if self._client.status == "running":
            for future in list(self._tasks):
                future.cancel()
        self._client.close()
