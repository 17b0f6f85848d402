#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a sweep costs and what it keeps, on docs/sweeps/machines-1000.yaml (1,000 machines, MobileNetV2 int8). Writes Markdown to
standard output; exit status 1 if a check fails.

  rate    points per second of `tilewright sweep` against a shell loop over `tilewright run` with some of the points
  equal   rows drawn by seed against `tilewright run`
  dask    the same study on a Dask scheduler with four workers: the same rows
  kill    a sweep that is killed five times at random moments and goes on: the same rows, each once
  nsga2   NSGA-II with 200 evaluations, seeds 1 to 5: what part of 1,000 random points its front dominates, hypervolumes

Rows are kept in build/sweeps. TILEWRIGHT names a tilewright that is built already; the package is runtime/python or PYTHONPATH."""

import argparse
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import measure

STUDY = measure.ROOT / "docs/sweeps/machines-1000.yaml"
KEPT = measure.BUILD / "sweeps"
PARTS = ("rate", "equal", "dask", "kill", "nsga2")
built = measure.BUILD / "release/python"
PACKAGE = str(built if built.is_dir() else measure.ROOT / "runtime/python")
PATH = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), PACKAGE]))
sys.path[:0] = PATH.split(os.pathsep)
ENVIRONMENT = {**os.environ, "TILEWRIGHT": str(measure.BINARY), "PYTHONPATH": PATH}
SWEEP = [sys.executable, "-m", "tilewright.sweep"]

failed = []


def processor_seconds():
    """Of processes that have ended: what other work on the machine does not change much."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def check(what, holds):
    print(f"- {what}: {'yes' if holds else '**no**'}", flush=True)
    if not holds:
        failed.append(what)


def rows_of(file, study=None):
    from tilewright.sweep import Store

    with Store(str(file), create=False) as store:
        return store.rows(store.study(study)[0], details=True)


def report_of(row):
    from tilewright.sweep.results import comparable

    return None if row.report is None else comparable(row.report)


def run_command(row):
    return [str(measure.BINARY), "run", row.model, "--hw", row.machine,
            *[word for key, value in sorted(row.overrides.items()) for word in ("--set", f"{key}={value}")],
            "--schedule", row.schedule, "--json", "-"]


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        KEPT.mkdir(parents=True, exist_ok=True)
        # All of the grid, or points drawn from it.
        self.flags = [str(STUDY), "--model", arguments.model]
        if arguments.points:
            self.flags += ["--sampler", "random", "--points", str(arguments.points), "--seed", "1"]
        self.count = arguments.points or 1000
        self.tag = f"{pathlib.Path(arguments.model).stem}-{self.count}".replace(":", "_")
        self.store = KEPT / f"{self.tag}.sqlite"
        self.jobs = str(arguments.jobs)

    def sweep(self, *flags, **options):
        return subprocess.run([*SWEEP, *self.flags, *flags], env=ENVIRONMENT, cwd=measure.ROOT, check=True, stdout=subprocess.PIPE, text=True,
                              **options).stdout

    def rate(self):
        if self.store.exists() and not self.arguments.resume:
            for suffix in ("", "-wal", "-shm"):
                pathlib.Path(f"{self.store}{suffix}").unlink(missing_ok=True)
        begin, processor = time.monotonic(), processor_seconds()
        out = self.sweep("--jobs", self.jobs, "--evaluator", self.arguments.evaluator, "--store", str(self.store))
        seconds, processor = time.monotonic() - begin, processor_seconds() - processor
        ran = int(out.split(" ran now")[0].rsplit(" ", 1)[1])
        rows = rows_of(self.store)
        drawn = random.Random(1).sample(rows, min(self.arguments.sampled, len(rows)))
        begin, loop_processor = time.monotonic(), processor_seconds()
        script = "\n".join(" ".join(map(json.dumps, run_command(row))) + " > /dev/null 2>&1" for row in drawn)
        subprocess.run(["sh", "-c", script], env=measure.ENVIRONMENT, cwd=measure.ROOT, check=False)
        loop, loop_processor = time.monotonic() - begin, processor_seconds() - loop_processor
        statuses = {status: sum(r.status == status for r in rows) for status in sorted({r.status for r in rows})}
        print(f"- sweep, {self.jobs} jobs: {ran} points in {seconds:.0f} s, **{ran / seconds:.3f} points/s**, "
              f"{processor / max(ran, 1):.3f} s of processor a point ({statuses})")
        print(f"- shell loop: {len(drawn)} points in {loop:.0f} s, {len(drawn) / loop:.3f} points/s, {loop_processor / len(drawn):.3f} s of "
              "processor a point")
        if ran:
            print(f"- ratio: {ran / seconds * loop / len(drawn):.2f}")
        check("as many rows as points", len(rows) == self.count)

    def equal(self):
        rows = [row for row in rows_of(self.store) if row.status == "ok"]
        drawn = random.Random(2).sample(rows, min(20, len(rows)))
        same = 0
        for row in drawn:
            said = json.loads(subprocess.run(run_command(row), env=measure.ENVIRONMENT, cwd=measure.ROOT, check=True,
                                             capture_output=True).stdout)
            from tilewright.sweep.results import comparable

            same += comparable(said) == report_of(row)
        check(f"{same} of {len(drawn)} rows equal `tilewright run`", same == len(drawn))

    def same_rows(self, file, what):
        rows, wanted = rows_of(file), rows_of(self.store)
        key = lambda row: (row.digest, row.status, report_of(row))  # noqa: E731
        check(f"{what}: {len(rows)} rows, none lost, doubled or different", [key(r) for r in rows] == [key(r) for r in wanted])

    def dask(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": ENVIRONMENT, "cwd": measure.ROOT}
        module = [sys.executable, "-W", "ignore", "-m"]
        processes = [subprocess.Popen([*module, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", address.rsplit(":", 1)[1],
                                       "--no-dashboard"], **quiet)]
        time.sleep(3)
        processes += [subprocess.Popen([*module, "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard"], **quiet)
                      for _ in range(4)]
        time.sleep(5)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "rows.sqlite"
            try:
                self.sweep("--cluster", address, "--store", str(file))
            finally:
                for process in processes:
                    process.terminate()
                for process in processes:
                    process.wait()
            self.same_rows(file, "Dask, 4 workers")

    def kill(self):
        from tilewright.sweep import UserError

        draw = random.Random(3)
        # A sweep is killed while it runs, not after it.
        whole = self.arguments.kill_seconds
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "rows.sqlite"
            done = []
            for _ in range(5):
                process = subprocess.Popen([*SWEEP, *self.flags, "--jobs", self.jobs, "--store", str(file), "--quiet"], env=ENVIRONMENT,
                                           cwd=measure.ROOT, stdout=subprocess.DEVNULL)
                time.sleep(draw.uniform(2, whole))
                process.send_signal(signal.SIGKILL)
                process.wait()
                try:
                    done.append(sum(row.final for row in rows_of(file)))
                except UserError:  # killed before it made the file, or noted the study
                    done.append(0)
            self.sweep("--jobs", self.jobs, "--store", str(file))
            self.same_rows(file, f"killed after {', '.join(map(str, done))} rows, and resumed")

    def nsga2(self):
        from tilewright.sweep import dominated_share, front, hypervolume
        from tilewright.sweep.results import vector

        file = KEPT / f"{self.tag}-search.sqlite"
        if self.store.exists() and not file.exists():
            shutil.copy(self.store, file)  # a row is a row, whoever asked for it

        def values(*flags):
            subprocess.run([*SWEEP, str(STUDY), "--model", self.arguments.model, "--jobs", self.jobs, "--store", str(file), "--quiet", *flags],
                           env=ENVIRONMENT, cwd=measure.ROOT, check=True, stdout=subprocess.DEVNULL)
            from tilewright.sweep import Store
            from tilewright.sweep.study import objectives_of

            with Store(str(file)) as store:
                digest, _, document = store.study(None)
                return [vector(objectives_of(document), row) for row in store.rows(digest) if row.status == "ok"]

        evaluations, randoms = self.arguments.evaluations, self.arguments.randoms
        points = values("--sampler", "random", "--points", str(randoms), "--seed", "1")
        reference = tuple(max(p[i] for p in points) * 1.1 for i in range(2))
        best = hypervolume(points, reference)
        print(f"- {len(points)} random points: front of {len(front(points))}, hypervolume {best:.6g} below {reference[0]:.6g}, {reference[1]:.6g}")
        shares = []
        for seed in range(1, 6):
            found = values("--sampler", "nsga2", "--points", str(evaluations), "--seed", str(seed))
            own = [found[i] for i in front(found)]
            shares.append(dominated_share(own, points))
            print(f"- NSGA-II seed {seed}: {len(found)} evaluations, front of {len(own)}, dominates or equals {100 * shares[-1]:.1f} %, "
                  f"hypervolume {hypervolume(own, reference):.6g} ({100 * hypervolume(own, reference) / best:.2f} % of the random points')")
            few = points[:evaluations]
            print(f"  - as many random points: {100 * dominated_share(few, points):.1f} %, "
                  f"{100 * hypervolume(few, reference) / best:.2f} %") if seed == 5 else None
        check(f"median of the seeds: {100 * statistics.median(shares):.1f} %, at least 95 %", statistics.median(shares) >= 0.95)


def main():
    parser = measure.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default: all")
    parser.add_argument("--model", help="another model than MobileNetV2 int8")
    parser.add_argument("--points", type=int, help="so many of the 1,000, drawn by seed 1")
    parser.add_argument("--sampled", type=int, default=20, help="points of the shell loop; default 20")
    parser.add_argument("--evaluator", default="python", help="of the part rate: python, in the worker, or process, one for each point")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--kill-seconds", type=float, default=30, help="a sweep is killed within so many seconds; default 30")
    parser.add_argument("--evaluations", type=int, default=200)
    parser.add_argument("--randoms", type=int, default=1000)
    parser.add_argument("--resume", action="store_true", help="keep the rows of an earlier rate")
    arguments = parser.parse_args()
    for part in arguments.parts:
        if part not in PARTS:
            measure.fail(f"found {part!r}; allowed: {', '.join(PARTS)}")
    measure.need_binary()
    arguments.model = arguments.model or measure.network("mobilenetv2", "int8")
    bench = Bench(arguments)
    for part in arguments.parts or PARTS:
        print(f"\n### {part}", flush=True)
        getattr(bench, part)()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
