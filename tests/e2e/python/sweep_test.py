#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of tilewright.sweep and tilewright.sensitivity: PYTHONPATH=build/release/python python3
tests/e2e/python/sweep_test.py. TILEWRIGHT names a real binary, for the
tests that compare rows with `tilewright run`; without one they are skipped."""

import contextlib
import csv
import io
import itertools
import json
import math
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from typing import Any, Dict, List, Optional, Tuple

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = os.environ.get("PYTHONPATH", str(HERE.parents[2] / "build/release/python")).split(os.pathsep)[0]
sys.path.insert(0, PACKAGE)
REAL = os.environ.get("TILEWRIGHT")

from tilewright import sensitivity  # noqa: E402
from tilewright.sweep import cli, export, machines  # noqa: E402
from tilewright.sweep.driver import Sweep  # noqa: E402
from tilewright.sweep.errors import StudyError, UserError  # noqa: E402
from tilewright.sweep.evaluate import build_of, digest_of, inputs_of  # noqa: E402
from tilewright.sweep.expressions import Expression, ExpressionError  # noqa: E402
from tilewright.sweep.front import dominated_share, dominates, front, hypervolume  # noqa: E402
from tilewright.sweep.pool import LocalPool  # noqa: E402
from tilewright.sweep.progress import Progress, duration  # noqa: E402
from tilewright.sweep.results import by_path, comparable, computed, front_rows, vector  # noqa: E402
from tilewright.sweep.samplers import make_sampler  # noqa: E402
from tilewright.sweep.store import Outcome, Store  # noqa: E402
from tilewright.sweep.reading import parse_yaml, study_from, study_from_mapping, values_of_flag  # noqa: E402
from tilewright.sweep.study import Point, Space, Study, override_text  # noqa: E402

MACHINE = """
name: fake
clock_mhz: {value: 1000, source: none}
array: {source: none, type: int8, rows: 16, cols: 16}
scratchpads: {unified: {assumed: none, capacity_bytes: 262144}}
accumulator: {assumed: none, capacity_bytes: 65536}
dram: {device: flat}
"""
DEVICE = "name: flat\nkind: ideal\nlatency_cycles: 20\nbytes_per_cycle: 64/3\n"
STUDY = """
models: [gemm:64x64x64:int8]
machines: [fake.yaml]
parameters:
  array.rows: {from: 8, to: 64, log2_step: 1}
  scratchpads.unified.capacity_bytes: [65536, 262144]
derived:
  array.cols: rows
  vector.lanes: array.cols
objectives: [cycles, area]
"""


class Case(unittest.TestCase):
    """A folder of its own, with a machine and the fake binary."""

    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sweep-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, self.before)
        (self.folder / "fake.yaml").write_text(MACHINE)
        (self.folder / "dram").mkdir()
        (self.folder / "dram/flat.yaml").write_text(DEVICE)
        self.binary = str(self.folder / "tilewright")
        shutil.copy(HERE / "fake_tilewright.py", self.binary)
        os.chmod(self.binary, 0o755)
        self.log = self.folder / "runs.log"
        os.environ["FAKE_LOG"] = str(self.log)
        self.addCleanup(os.environ.pop, "FAKE_LOG", None)

    def runs(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0

    def study(self, text: str = STUDY, name: str = "study.yaml") -> Study:
        return study_from(parse_yaml(text, name), "study", self.folder, self.binary)

    def sweep(self, study: Study, file: str = "rows.sqlite", **options: Any) -> Tuple[List[Any], Any]:
        with Store(file) as store, LocalPool(2) as pool:
            summary = Sweep(study, store, pool, quiet=True, **options).run()
            return store.rows(study.digest, details=True), summary

    def command(self, *words: str, status: int = 0) -> Tuple[str, str]:
        """Output and messages of the command line, in this process."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            found = cli.main(list(words))
        self.assertEqual(found, status, err.getvalue())
        self.assertNotIn("Traceback", err.getvalue())
        return out.getvalue(), err.getvalue()


class Expressions(unittest.TestCase):
    VALUES = {"array.rows": 16, "cols": 8, "dram.bytes_per_cycle": "64/3", "name": "edge"}

    def value(self, text: str) -> Any:
        return Expression(text).evaluate(lambda name: self.VALUES[name])  # type: ignore[return-value]

    def test_values(self) -> None:
        for text, wanted in {
            "array.rows*cols*256": 32768, "2**5 + 1": 33, "7//2": 3, "7/2": 3.5, "8/2": 4, "-cols": -8, "min(array.rows, cols, 3)": 3,
            "log2(array.rows)": 4, "ceil(9/2)": 5, "array.rows >= cols > 4": True, "array.rows < cols or cols == 8": True,
            "not cols": False, "1 if cols > 4 else 2": 1, "dram.bytes_per_cycle * 3": 64, "name == 'edge'": True, "10 % 4": 2,
            "cols > 4 and cols < 6": False,
        }.items():
            with self.subTest(text):
                self.assertEqual(self.value(text), wanted)

    def test_names(self) -> None:
        self.assertEqual(Expression("array.rows*cols + max(a.b.c, 1)").names, {"array.rows", "cols", "a.b.c"})

    def test_refused(self) -> None:
        for text in ("__import__('os')", "().__class__", "[1,2]", "lambda: 1", "open('x')", "rows[0]", "f'{rows}'", "rows :=1", "", "1 +",
                     "print(1)", "min(*rows)", "min(a=1)", "(1).real", "None", "a" + " + a" * 300, "rows if", "(" * 500):
            with self.subTest(text[:20]), self.assertRaises(ExpressionError):
                Expression(text)

    def test_no_value(self) -> None:
        for text in ("1/0", "2**300", "9**9**9", "log2(0)", "name + 1", "name < 1", "1e300*1e300", "sqrt(-1)"):
            with self.subTest(text), self.assertRaises(ExpressionError):
                self.value(text)


class Fronts(unittest.TestCase):
    def test_against_brute_force(self) -> None:
        draw = random.Random(7)
        for size, dims in itertools.product((0, 1, 2, 17, 60), (1, 2, 3)):
            vectors = [tuple(draw.randrange(8) for _ in range(dims)) for _ in range(size)]
            wanted = [i for i, v in enumerate(vectors) if not any(dominates(w, v) for w in vectors)]
            self.assertEqual(front(vectors), wanted)

    def test_hypervolume_against_counting(self) -> None:
        draw = random.Random(3)
        for dims in (1, 2, 3):
            for _ in range(20):
                vectors = [tuple(draw.randrange(7) for _ in range(dims)) for _ in range(draw.randrange(6))]
                counted = sum(any(all(x <= c for x, c in zip(v, cell)) for v in vectors)
                              for cell in itertools.product(range(6), repeat=dims))
                self.assertEqual(hypervolume(vectors, (6,) * dims), counted)

    def test_share(self) -> None:
        self.assertEqual(dominated_share([(1, 1)], [(1, 1), (0, 5), (2, 2), (1, 3)]), 0.75)


class Studies(Case):
    def test_points(self) -> None:
        points = list(Space(self.study()).all_points())
        self.assertEqual(len(points), 8)
        self.assertEqual(points[0].sets, ["array.cols=8", "array.rows=8", "scratchpads.unified.capacity_bytes=65536", "vector.lanes=8"])
        self.assertEqual(dict(points[-1].coordinates)["array.rows"], 64)

    def test_ranges(self) -> None:
        text = STUDY + "  - {maximise: utilisation}\n"
        text = text.replace("[cycles, area]", "\n  - cycles").replace("[65536, 262144]", "{from: 100, to: 300, step: 50}")
        self.assertEqual(self.study(text).axis("scratchpads.unified.capacity_bytes").values, (100, 150, 200, 250, 300))
        half = STUDY.replace("log2_step: 1", "log2_step: 0.5")
        values = self.study(half).axis("array.rows").values
        self.assertEqual((len(values), values[0], values[2], values[-1]), (7, 8, 16, 64))

    def test_constraints_and_duplicates(self) -> None:
        text = STUDY + "constraints: ['scratchpads.unified.capacity_bytes >= 65536*(rows/16)', rows != 64]\n"
        self.assertEqual(len(list(Space(self.study(text)).all_points())), 5)
        text = STUDY.replace("  array.rows:", "  pick: [1, 2]\n  array.rows:").replace("array.cols: rows", "array.cols: rows + 0*pick")
        self.assertEqual(len(list(Space(self.study(text)).all_points())), 8)

    def test_values_of_the_machine(self) -> None:
        text = STUDY.replace("objectives", "constraints: [rows <= clock_mhz/50, dram.bytes_per_cycle > 21, latency_cycles == 20, "
                             "dma.load_engines == 2]\nobjectives")
        self.assertEqual(len(list(Space(self.study(text)).all_points())), 4)

    def test_override_text(self) -> None:
        self.assertEqual([override_text(v) for v in (3, True, 12.8, 4.0, "64/3")], ["3", "true", "64/5", "4", "64/3"])

    def test_flag_values(self) -> None:
        self.assertEqual(values_of_flag("8,16,true,x"), [8, 16, True, "x"])
        self.assertEqual(values_of_flag("8..64*2"), {"from": 8, "to": 64, "log2_step": 1})
        self.assertEqual(values_of_flag("8..64+8"), {"from": 8, "to": 64, "step": 8})
        with self.assertRaises(UserError):
            values_of_flag("8..64*1")

    def test_refused(self) -> None:
        """Each with its line, key, what was found and what is allowed."""
        def twin(old: str, new: str) -> str:
            self.assertIn(old, STUDY)
            return STUDY.replace(old, new, 1)

        cases = [
            (twin("models:", "modells:"), "study.yaml:2", "unknown key 'modells'", "models"),
            (twin("[gemm:64x64x64:int8]", "[none.onnx]"), "study.yaml:2: models[0]", "no file 'none.onnx'", "a model file"),
            (twin("[gemm:64x64x64:int8]", "[]"), "study.yaml:2: models", "found []", "a list"),
            (twin("models: [gemm:64x64x64:int8]\n", ""), "study.yaml:2", "no models", "models"),
            (twin("[fake.yaml]", "[nowhere]"), "study.yaml:3: machines[0]", "nowhere: no such machine", "hw list"),
            (twin("log2_step: 1", "log2_step: 0"), "study.yaml:5: parameters.array.rows", "", "larger than 0"),
            (twin("log2_step: 1", "step: 1, log2_step: 1"), "study.yaml:5: parameters.array.rows", "", "a range"),
            (twin("from: 8", "from: 80"), "study.yaml:5: parameters.array.rows", "", "from at most to"),
            (twin("from: 8", "from: x"), "study.yaml:5: parameters.array.rows.from", "'x'", "a number"),
            (twin("from: 8, to: 64, log2_step: 1", "from: 1, to: 1000000000, step: 1"), "study.yaml:5", "", "at most 100000 values"),
            (twin("[65536, 262144]", "[65536, 65536]"), "study.yaml:6", "65536", "once"),
            (twin("[65536, 262144]", "[[1]]"), "study.yaml:6", "[1]", "a number"),
            (twin("[65536, 262144]", ""), "study.yaml:6", "None", "a list of values"),
            (twin("  scratchpads.unified", "  size: [1]\n  scratchpads.unified"), "study.yaml:6: parameters.size", "no expression reads", "key"),
            (twin("array.cols: rows", "array.cols: rows +"), "study.yaml:8: derived.array.cols", "not an expression", "numbers"),
            (twin("array.cols: rows", "array.cols: rowz"), "study.yaml:8: derived.array.cols", "unknown name 'rowz'", "array.rows"),
            (twin("array.cols: rows", "array.rows: 8"), "study.yaml:8", "in parameters and in derived", "a key"),
            (twin("[cycles, area]", "[cycels]"), "study.yaml:10: objectives[0]", "'cycels'", "latency"),
            (twin("[cycles, area]", "[cycles, cycles]"), "study.yaml:10", "", "once"),
            (twin("[cycles, area]", "[{smallest: cycles}]"), "study.yaml:10", "", "minimise"),
            (STUDY + "sampler: best\n", "study.yaml:11: sampler", "'best'", "grid or random"),
            (STUDY + "sampler: {name: tpe}\n", "study.yaml:11: sampler", "no points", "an integer"),
            (STUDY + "sampler: {name: random, points: 0}\n", "study.yaml:11: sampler.points", "0", "an integer from 1"),
            (STUDY + "sampler: {name: random, points: 3, population: 3}\n", "study.yaml:11", "population", "nsga2"),
            (STUDY + "sampler: {name: nsga2, points: 3}\nprune: true\n", "study.yaml:12: prune", "nsga2", "grid and random"),
            (STUDY + "options: {speed: 3}\n", "study.yaml:11: options", "unknown key 'speed'", "across"),
            (STUDY + "batch: [0]\n", "study.yaml:11: batch[0]", "0", "an integer from 1"),
            (STUDY + "timeout_seconds: soon\n", "study.yaml:11", "'soon'", "an integer"),
            (STUDY + "models: [a]\n", "study.yaml:11", "a second value", "one"),
            (STUDY + "constraints: [rows ** ** 2]\n", "study.yaml:11", "not an expression", "numbers"),
            ("a: [", "study.yaml:1", "", "YAML"),
            ("", "study.yaml", "an empty file", "a study"),
            ("- 1", "study.yaml:1", "[1]", "a study"),
            ("{[1]: 2}", "study.yaml:1", "no word", "words"),
        ]
        for text, place, found, allowed in cases:
            with self.subTest(text[-60:]):
                with self.assertRaises(StudyError) as caught:
                    self.study(text)
                message = str(caught.exception)
                self.assertTrue(message.startswith(place), message)
                self.assertIn(found, message)
                self.assertIn("; allowed: ", message)
                self.assertIn(allowed, message.split("; allowed: ", 1)[1])

    def test_ambiguous_name(self) -> None:
        text = STUDY.replace("derived:", "derived:\n  accumulator.capacity_bytes: capacity_bytes")
        self.study(text)  # parameters set one of them: that is the one that is meant
        with self.assertRaises(StudyError) as caught:
            self.study(STUDY.replace("[cycles, area]", "[{minimise: =banks}]"))
        self.assertIn("may be", str(caught.exception))


class Samplers(Case):
    def points(self, sampler: str, told: bool = True, extra: str = "") -> List[Point]:
        study = self.study(STUDY.replace("log2_step: 1", "step: 1") + f"sampler: {sampler}\n" + extra)
        found = make_sampler(study, Space(study))
        out = []
        while not found.done:
            point = found.ask()
            if point is None:
                break
            out.append(point)
            values = dict(point.overrides)
            found.tell(point, (1e6 / int(values["array.rows"]), float(values["array.rows"]) ** 2) if told else None)
        return out

    def test_random(self) -> None:
        first = self.points("{name: random, points: 20, seed: 4}")
        self.assertEqual(first, self.points("{name: random, points: 20, seed: 4}"))
        self.assertNotEqual(first, self.points("{name: random, points: 20, seed: 5}"))
        self.assertEqual(len({p.overrides for p in first}), 20)
        self.assertEqual(len(self.points("{name: random, points: 1000}")), 114)

    def test_optuna(self) -> None:
        try:
            import optuna  # noqa: F401
        except ImportError:
            self.skipTest("no Optuna")
        constraint = "constraints: [rows % 2 == 0]\n"
        for name in ("tpe", "nsga2"):
            with self.subTest(name):
                first = self.points(f"{{name: {name}, points: 14, seed: 4}}", extra=constraint)
                self.assertEqual(first, self.points(f"{{name: {name}, points: 14, seed: 4}}", extra=constraint))
                self.assertNotEqual(first, self.points(f"{{name: {name}, points: 14, seed: 5}}", extra=constraint))
                self.assertEqual(len({p.overrides for p in first}), 14)
                self.assertTrue(all(int(dict(p.overrides)["array.rows"]) % 2 == 0 for p in first))
                self.assertEqual(len(self.points(f"{{name: {name}, points: 6}}", told=False)), 6)
                # The space has less than that.
                self.assertLessEqual(len(self.points(f"{{name: {name}, points: 80}}", extra="constraints: [rows > 60]\n")), 8)


class Rows(Case):
    def test_rows(self) -> None:
        study = self.study()
        rows, summary = self.sweep(study)
        self.assertEqual((len(rows), summary.ran, summary.counts), (8, 8, {"ok": 8}))
        # Rows are what the binary prints.
        for row in rows:
            said = json.loads(subprocess.run([self.binary, "run", row.model, "--hw", row.machine, *[w for k, v in sorted(row.overrides.items())
                                              for w in ("--set", f"{k}={v}")], "--schedule", row.schedule, "--json", "-"],
                                             capture_output=True, check=True).stdout)
            self.assertEqual(list(said), list(row.report))
            self.assertEqual(comparable(said), comparable(row.report))
        self.assertEqual(rows[0].inputs["build"], build_of(self.binary)["digest"])
        best = front_rows(rows, study.objectives)
        vectors = [vector(study.objectives, row) for row in rows]
        self.assertEqual([r.digest for r in best],
                         [r.digest for r, v in zip(rows, vectors) if not any(dominates(w, v) for w in vectors)])
        # Again: nothing runs, nothing changes.
        before = self.runs()
        again, summary = self.sweep(study)
        self.assertEqual((summary.ran, self.runs()), (0, before))
        self.assertEqual(again, rows)

    def test_sql(self) -> None:
        self.sweep(self.study())
        with contextlib.closing(sqlite3.connect("rows.sqlite")) as db:
            self.assertEqual(db.execute("SELECT count(*) FROM results WHERE total_cycles > 0 AND area_mm2 > 0").fetchone(), (8,))
            self.assertEqual(db.execute("SELECT count(*) FROM points WHERE json_extract(report, '$.machine.dram.ideal') = 1"
                                        " AND json_extract(overrides, '$.\"array.rows\"') = '8'").fetchone(), (2,))

    def test_digest(self) -> None:
        study = self.study()
        point = next(Space(study).all_points())
        build = build_of(self.binary)
        first = digest_of(inputs_of(study, point, build))
        self.assertEqual(first, digest_of(inputs_of(study, point, build)))
        text = (self.folder / "dram/flat.yaml").read_text()
        time.sleep(0.01)
        (self.folder / "dram/flat.yaml").write_text(text.replace("20", "21"))
        self.assertNotEqual(first, digest_of(inputs_of(study, point, build)))
        (self.folder / "dram/flat.yaml").write_text(text)
        self.assertEqual(first, digest_of(inputs_of(study, point, build)))
        with open(self.binary, "a") as out:
            out.write("# another build\n")
        self.assertNotEqual(first, digest_of(inputs_of(study, point, build_of(self.binary))))

    def test_failures_are_rows(self) -> None:
        study = self.study("""
models: [gemm:64x64x64:int8]
machines: [fake.yaml]
parameters: {accumulator.banks: [1, 3, 5, 7, 2]}
timeout_seconds: 1
""")
        rows, summary = self.sweep(study)
        self.assertEqual([row.status for row in rows], ["ok", "failed", "crashed", "timeout", "ok"])
        self.assertEqual(rows[1].message, "three banks do not fit")
        self.assertIn("SIGSEGV", rows[2].message)
        self.assertIn("after 1 s", rows[3].message)
        before = self.runs()
        _, summary = self.sweep(study)
        self.assertEqual((summary.ran, self.runs()), (0, before))
        rows, summary = self.sweep(study, retry=True)
        self.assertEqual((summary.ran, [row.attempts for row in rows]), (3, [1, 2, 2, 2, 1]))

    def test_lost_worker(self) -> None:
        study = self.study(STUDY)
        os.environ["FAKE_SECONDS"] = "0.5"
        self.addCleanup(os.environ.pop, "FAKE_SECONDS", None)
        with Store("rows.sqlite") as store, LocalPool(2) as pool:
            def end_one() -> None:
                time.sleep(1.0)
                os.kill(next(iter(pool._busy.values())).process.pid, signal.SIGKILL)

            thread = threading.Thread(target=end_one)
            thread.start()
            Sweep(study, store, pool, quiet=True).run()
            thread.join()
            counts = store.counts(study.digest)
        self.assertEqual(sum(counts.values()), 8)
        self.assertEqual(counts.get("crashed"), 1)

    def test_pruning(self) -> None:
        text = """
models: [gemm:64x64x64:int8]
machines: [fake.yaml]
parameters:
  scratchpads.unified.capacity_bytes: [262144, 65536]
  array.rows: {from: 8, to: 64, step: 8}
derived: {array.cols: rows, vector.lanes: rows}
objectives: [cycles, {minimise: =rows*cols}]
"""
        whole = self.study(text)
        rows, _ = self.sweep(whole, "whole.sqlite")
        pruned = self.study(text + "prune: true\n")
        some, summary = self.sweep(pruned, "some.sqlite")
        self.assertEqual(len(some), len(rows))
        self.assertGreater(summary.counts.get("pruned", 0), 0)
        self.assertEqual({r.digest for r in front_rows(some, pruned.objectives)}, {r.digest for r in front_rows(rows, whole.objectives)})
        for row in some:
            if row.status == "pruned":
                with Store("some.sqlite") as store:
                    other = store.row(row.dominated_by)
                self.assertLessEqual(other.report["total_cycles"], row.lower_bound_cycles)
        # A study that does not prune, or prunes for something else, runs them.
        again, summary = self.sweep(whole, "some.sqlite")
        self.assertEqual({r.status for r in again}, {"ok"})
        self.assertEqual([comparable(r.report) for r in again], [comparable(r.report) for r in rows])
        _, summary = self.sweep(self.study(STUDY + "prune: true\n"), "other.sqlite")
        self.assertIn("no bound for objective area", summary.notes[0])

    def test_fixed_program(self) -> None:
        os.environ["TMPDIR"] = str(self.folder)
        self.addCleanup(os.environ.pop, "TMPDIR", None)
        tempfile.tempdir = None
        self.addCleanup(setattr, tempfile, "tempdir", None)
        rows, _ = self.sweep(self.study("""
models: [gemm:64x64x64:int8]
machines: [fake.yaml]
parameters: {array.rows: [8, 16], dram.latency_cycles: [10, 20]}
fixed_program: true
"""))
        self.assertEqual([row.program.rsplit("(", 1)[1] for row in rows], ["array.rows=8)"] * 2 + ["array.rows=16)"] * 2)
        self.assertEqual(len(list(self.folder.glob("tilewright-programs-*/*.twp"))), 2)
        self.assertTrue(rows[0].report["model"].endswith(".twp"))

    def test_batch(self) -> None:
        rows, _ = self.sweep(self.study(STUDY + "batch: [1, 4]\n"))
        one, four = [next(r for r in rows if r.batch == n) for n in (1, 4)]
        self.assertAlmostEqual(computed(four)["batch_milliseconds"], 4 * one.report["total_milliseconds"])
        self.assertAlmostEqual(computed(four)["inferences_per_second"], computed(one)["inferences_per_second"])
        study = self.study(STUDY + "batch: [4]\noptions: {shape: 'x=N,3'}\n")
        self.assertEqual(study.command_options(4), ["--shape", "x=4,3"])
        rows, _ = self.sweep(study, "n.sqlite")
        self.assertAlmostEqual(computed(rows[0])["inferences_per_second"], 4e3 / rows[0].report["total_milliseconds"])

    def test_objective_without_field(self) -> None:
        study = self.study(STUDY.replace("[cycles, area]", "[cycles, {minimise: energy.sum}]"))
        with self.assertRaises(UserError) as caught:
            self.sweep(study)
        self.assertIn("'energy.sum'; found: area.total_mm2", str(caught.exception))
        self.assertIn("energy.total_joules", str(caught.exception))

    def test_paths(self) -> None:
        report = {"a": {"b.c": [{"name": "x.y", "v": 3}]}, "n": 1}
        self.assertEqual(by_path(report, "a.b.c.x.y.v"), 3)
        self.assertEqual(by_path(report, "a.b.c.0.v"), 3)
        self.assertIsNone(by_path(report, "a.q"))


WRITER = """
import sys
sys.path.insert(0, {package!r})
from tilewright.sweep.store import Outcome, Store
import random
store = Store("rows.sqlite", lease_seconds=30)
order = list(range(80))
random.Random(int(sys.argv[1])).shuffle(order)
mine = 0
for number in order:
    point = dict(model="m", machine="h", schedule="s", batch=1, overrides={{}}, inputs={{"model": "m"}})
    state, row = store.claim(str(number), point)
    if state == "mine":
        mine += 1
        assert store.finish(str(number), Outcome("ok", report={{"n": number, "by": sys.argv[1], "long": ["x" * 100] * 100}}))
print(mine)
"""


class Stores(Case):
    POINT: Dict[str, Any] = {"model": "m", "machine": "h", "schedule": "s", "batch": 1, "overrides": {}, "inputs": {"model": "m"}}

    def test_concurrent_writers(self) -> None:
        writers = [subprocess.Popen([sys.executable, "-c", WRITER.format(package=PACKAGE), str(i)], stdout=subprocess.PIPE)
                   for i in range(4)]
        written = [int(w.communicate()[0]) for w in writers]
        self.assertEqual(sum(written), 80)
        with Store("rows.sqlite") as store:
            rows = store.all_rows(details=True)
        self.assertEqual(sorted(int(r.digest) for r in rows), list(range(80)))
        self.assertTrue(all(r.status == "ok" and r.attempts == 1 and r.report["n"] == int(r.digest) for r in rows))

    def test_leases(self) -> None:
        with Store("rows.sqlite", lease_seconds=0.2) as a, Store("rows.sqlite", lease_seconds=30) as b:
            self.assertEqual(a.claim("1", self.POINT)[0], "mine")
            self.assertEqual(b.claim("1", self.POINT)[0], "busy")
            a.renew()
            time.sleep(0.3)
            self.assertEqual(b.claim("1", self.POINT)[0], "mine")
            self.assertFalse(a.finish("1", Outcome("ok", report={"by": "a"})))
            self.assertTrue(b.finish("1", Outcome("ok", report={"by": "b"})))
            self.assertEqual(a.claim("1", self.POINT)[1].report, {"by": "b"})
            self.assertFalse(b.finish("1", Outcome("failed")))
            a.claim("2", self.POINT)
            self.assertEqual(a.release(), 1)
            self.assertEqual(b.claim("2", self.POINT)[0], "mine")

    def test_owner_that_is_gone(self) -> None:
        code = (f"import sys, os; sys.path.insert(0, {PACKAGE!r})\nfrom tilewright.sweep.store import Store\n"
                "s = Store('rows.sqlite', lease_seconds=1000)\n"
                "s.claim('1', dict(model='m', machine='h', schedule='s', batch=1, overrides={}, inputs={}))\nos.kill(os.getpid(), 9)")
        subprocess.run([sys.executable, "-c", code], check=False)
        with Store("rows.sqlite") as store:
            self.assertEqual(store.claim("1", self.POINT)[0], "mine")

    def test_other_files(self) -> None:
        pathlib.Path("text").write_text("no database " * 100)
        with self.assertRaises(UserError):
            Store("text")
        with contextlib.closing(sqlite3.connect("other.sqlite")) as db:
            db.execute("CREATE TABLE a (b)")
            db.commit()
        with self.assertRaises(UserError):
            Store("other.sqlite")
        with self.assertRaises(UserError):
            Store("nowhere.sqlite", create=False)


class Commands(Case):
    def process(self, *words: str) -> "subprocess.Popen[str]":
        environment = {**os.environ, "PYTHONPATH": PACKAGE, "FAKE_SECONDS": "0.15"}
        return subprocess.Popen([sys.executable, "-m", "tilewright.sweep", *words, "--binary", self.binary], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=environment)

    def write(self, text: str = STUDY) -> None:
        pathlib.Path("study.yaml").write_text(text)

    def rows(self, file: str = "study.sqlite") -> List[Any]:
        with Store(file) as store:
            return store.rows(store.study(None)[0], details=True)

    def test_killed_and_resumed(self) -> None:
        text = STUDY.replace("log2_step: 1", "step: 4")
        self.write(text)
        draw = random.Random(5)
        for _ in range(5):
            sweep = self.process("study.yaml", "--jobs", "2", "--quiet")
            time.sleep(0.4 + draw.random() * 0.7)
            sweep.kill()
            sweep.communicate()
        out, err = self.process("study.yaml", "--jobs", "2", "--quiet").communicate()
        self.assertIn("30 ok", out, err)
        rows = self.rows()
        self.assertEqual(len(rows), 30)
        self.assertEqual(len({r.digest for r in rows}), 30)
        with Store("study.sqlite") as store:
            self.assertEqual(len(store.all_rows()), 30)
        whole, _ = self.sweep(self.study(text), "whole.sqlite")
        self.assertEqual([(r.digest, comparable(r.report)) for r in rows], [(r.digest, comparable(r.report)) for r in whole])

    def test_several_sweeps_on_one_file(self) -> None:
        self.write(STUDY.replace("log2_step: 1", "step: 4"))
        sweeps = [self.process("study.yaml", "--jobs", "1", "--quiet") for _ in range(3)]
        outputs = [sweep.communicate() for sweep in sweeps]
        self.assertTrue(all("30 ok" in out for out, _ in outputs), outputs)
        ran = sum(int(out.split(" ran now")[0].rsplit(" ", 1)[1]) for out, _ in outputs)
        self.assertEqual((ran, self.runs(), len(self.rows())), (30, 30, 30))

    def test_interrupted(self) -> None:
        self.write(STUDY.replace("log2_step: 1", "step: 1"))
        sweep = self.process("study.yaml", "--jobs", "2")
        while self.runs() < 3:
            time.sleep(0.05)
        sweep.send_signal(signal.SIGINT)
        out, err = sweep.communicate()
        self.assertEqual(sweep.returncode, 130, err)
        self.assertIn("the same command goes on: tilewright sweep study.yaml --jobs 2", err)
        self.assertNotIn("Traceback", err)
        with Store("study.sqlite") as store:
            self.assertTrue(all(row.final for row in store.all_rows()))
            self.assertGreater(len(store.all_rows()), 0)

    def test_flags_alone(self) -> None:
        out, _ = self.command("--model", "gemm:8x8x8:int8", "--hw", "fake.yaml", "--set", "array.rows=8..32*2", "--derive", "array.cols=rows",
                              "--derive", "vector.lanes=rows", "--where", "rows > 8", "--minimise", "cycles", "--maximise", "utilisation",
                              "--binary", self.binary, "--quiet", "--jobs", "1")
        self.assertIn("rows 2 ok; 2 ran now; in sweep.sqlite", out)
        out, _ = self.command("show", "sweep.sqlite", "--limit", "1")
        self.assertIn("sweep: 2 ok; 1 more", out)
        out, _ = self.command("--model", "gemm:8x8x8:int8", "--hw", "fake.yaml", "--store", "edge.sqlite", "--dry-run", "--binary", self.binary)
        self.assertIn("edge: 1 points of 1", out)

    def test_flags_on_a_study(self) -> None:
        self.write()
        out, _ = self.command("study.yaml", "--set", "array.rows=8,16", "--schedule", "serial", "--dry-run", "--binary", self.binary)
        self.assertIn("4 points of 4, sampler grid", out)
        out, _ = self.command("study.yaml", "--sampler", "random", "--points", "3", "--dry-run", "--binary", self.binary)
        self.assertIn("3 points of 8, sampler random", out)

    def test_reading(self) -> None:
        self.write()
        self.command("study.yaml", "--binary", self.binary, "--quiet")
        out, _ = self.command("front", "study.sqlite", "--reference", "1000000,100")
        self.assertIn("hypervolume", out)
        self.assertIn("array.rows", out)
        out, _ = self.command("show", "study.sqlite", "--fields", "latency,engines.tensor.busy_cycles,machine.clock_mhz")
        self.assertIn("1,000", out.splitlines()[2])
        csv_text, _ = self.command("export", "study.sqlite")
        table = list(csv.DictReader(io.StringIO(csv_text)))
        rows = self.rows()
        self.assertEqual([line["digest"] for line in table], [row.digest for row in rows])
        for line, row in zip(table, rows):
            flat = export.flat(row)
            self.assertEqual({k: v for k, v in line.items() if v != ""}, {k: str(v) for k, v in flat.items() if v != ""})
        self.command("export", "study.sqlite", "--format", "json", "--lists", "-o", "rows.json")
        back = json.loads(pathlib.Path("rows.json").read_text())
        self.assertEqual([line["report"] for line in back], [dict(row.report) for row in rows])
        out, err = self.command("export", "study.sqlite", "--format", "parquet", status=1)
        self.assertIn("name a file", err)
        out, _ = self.command("front", "study.sqlite", "--minimise", "cycles", "--format", "csv")
        self.assertEqual(len(out.splitlines()), 2)

    def test_plots(self) -> None:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest("no matplotlib")
        self.write()
        self.command("study.yaml", "--binary", self.binary, "--quiet")
        for name in ("a.svg", "b.svg"):
            self.command("plot", "study.sqlite", "-o", name)
        text = pathlib.Path("a.svg").read_bytes()
        self.assertEqual(text, pathlib.Path("b.svg").read_bytes())
        self.assertNotIn(b"dc:date", text)
        self.command("plot", "study.sqlite", "-o", "heat.png", "--heat", "array.rows,scratchpads.unified.capacity_bytes", "--value", "energy")
        self.assertTrue(pathlib.Path("heat.png").read_bytes().startswith(b"\x89PNG"))
        for words, found in ((["-o", "a.gif"], "'a.gif'"), (["-o", "a.svg", "--heat", "x,y"], "x,y"), (["-o", "a.svg", "--x", "nothing"], "nothing")):
            _, err = self.command("plot", "study.sqlite", *words, status=1)
            self.assertIn(found, err)

    def test_user_errors(self) -> None:
        self.write(STUDY.replace("array.rows:", "array.rowz:").replace("array.cols: rows", "array.cols: rowz"))
        _, err = self.command("study.yaml", "--binary", self.binary, status=1)
        self.assertIn("study.yaml:5: parameters.array.rowz: unknown key 'array.rowz'", err)
        self.write(STUDY.replace("[65536, 262144]", "[65536, 0]"))
        _, err = self.command("study.yaml", "--binary", self.binary, status=1)
        self.assertIn("study.yaml:6: parameters.scratchpads.unified.capacity_bytes", err)
        self.assertIn("is 0; allowed: an integer from 1", err)
        self.write(STUDY + "constraints: [rows > 100]\n")
        _, err = self.command("study.yaml", "--binary", self.binary, status=1)
        self.assertIn("exclude every point", err)
        self.write(STUDY)
        for words, found in ((["nowhere.yaml"], "nowhere.yaml: cannot be read"), ([], "--model and --hw"), (["study.yaml", "--jobs", "0"], "--jobs"),
                             (["study.yaml", "--set", "x"], "'x'"), (["study.yaml", "--jobs", "many"], "invalid int value"),
                             (["study.yaml", "--store", "study.yaml"], "cannot be used as a file of results"),
                             (["study.yaml", "--minimise", "energy.none", "--quiet"], "energy.none"),
                             (["study.yaml", "--sampler", "tpe"], "no points")):
            with self.subTest(words):
                _, err = self.command(*words, "--binary", self.binary, status=1)
                self.assertIn(found, err)
        _, err = self.command("study.yaml", "--binary", "/nowhere/tilewright", status=1)
        self.assertIn("/nowhere/tilewright: no such program", err)
        _, err = self.command("show", "study.sqlit", status=1)
        self.assertIn("no such file", err)

    def test_progress(self) -> None:
        out = io.StringIO()
        progress = Progress(4, stream=out)
        progress.row("ok", True)
        self.assertEqual(out.getvalue(), "")  # no terminal, and ten seconds have not passed
        progress.row("failed", True)
        progress.show(last=True)
        self.assertRegex(out.getvalue(), r"^2 of 4 points, 1 without a report, [\d.]+ points/s, \d+:\d\d left\n$")
        self.assertEqual([duration(s) for s in (5, 65, 3725)], ["0:05", "1:05", "1:02:05"])


class Sensitivity(Case):
    def test_elasticity(self) -> None:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = sensitivity.main(["gemm:8x8x8:int8", "--hw", "fake.yaml", "--binary", self.binary, "--quiet", "--json", "-", "--parameters",
                                       "array.rows,array.cols,clock_mhz,dram.latency_cycles,accumulator.banks,dma.load_engines,array.type"])
        self.assertEqual(status, 0, err.getvalue())
        document = json.loads(out.getvalue())
        lines = {line["parameter"]: line for line in document["parameters"]}
        cycles = [-(-10_000_000 // (rows * 16)) + 190 + 200 for rows in (8, 32)]
        self.assertAlmostEqual(lines["array.rows"]["elasticity"]["cycles"], math.log(cycles[1] / cycles[0]) / math.log(4), places=9)
        self.assertEqual(lines["array.cols"]["together"], ["vector.lanes"])
        self.assertAlmostEqual(lines["clock_mhz"]["elasticity"]["milliseconds"], -1)
        self.assertEqual(lines["clock_mhz"]["elasticity"]["cycles"], 0)
        self.assertEqual(lines["dram.latency_cycles"]["smaller"]["value"], "10")
        self.assertIsNotNone(lines["array.rows"]["elasticity"]["joules"])
        self.assertIn("unknown key", lines["dma.load_engines"]["why"])
        self.assertEqual(lines["array.type"]["why"], "no number")
        self.assertEqual(document["parameters"][0]["parameter"], "clock_mhz")

    def test_candidates(self) -> None:
        from fractions import Fraction as F
        self.assertEqual(sensitivity.candidates(F(16), True), [32, 24, 17])
        self.assertEqual(sensitivity.candidates(F(3), False), [1, 2])
        self.assertEqual(sensitivity.candidates(F(1), False), [])
        self.assertEqual(sensitivity.candidates(F(64, 3), False), [F(32, 3)])

    def test_user_errors(self) -> None:
        for words, found in ((["gemm:8x8x8:int8", "--hw", "none"], "none: no such machine"), (["no.onnx", "--hw", "fake.yaml"], "no file 'no.onnx'"),
                             (["gemm:8x8x8:int8", "--hw", "fake.yaml", "--parameters", "x"], "found 'x'"),
                             (["gemm:8x8x8:int8", "--hw", "fake.yaml", "--set", "array.rows=0"], "must be an integer"),
                             (["gemm:8x8x8:int8"], "--hw")):
            err = io.StringIO()
            with self.subTest(words), contextlib.redirect_stderr(err):
                self.assertEqual(sensitivity.main([*words, "--binary", self.binary, "--quiet"]), 1)
                self.assertIn(found, err.getvalue())


@unittest.skipUnless(REAL, "TILEWRIGHT does not name a binary")
class RealMachine(Case):
    def setUp(self) -> None:
        super().setUp()
        self.binary = str(pathlib.Path(str(REAL)).resolve())

    def real(self, **more: Any) -> Study:
        return study_from_mapping({
            "models": ["gemm:48x48x48:int8"], "machines": ["gemmini_16x16_int8", "tiny_8x8"],
            "parameters": {"array.rows": [8, 16, 32], "dram.path_latency_cycles": [0, 100]},
            "derived": {"array.cols": "rows", "vector.lanes": "rows"},
            "constraints": ["machine != 'tiny_8x8' or rows == 8"], "objectives": ["cycles", {"minimise": "=rows*cols"}], **more}, self.binary)

    def run_of(self, row: Any) -> Dict[str, Any]:
        return json.loads(subprocess.run([self.binary, "run", row.model, "--hw", row.machine, *[w for k, v in row.overrides.items()
                                          for w in ("--set", f"{k}={v}")], "--schedule", row.schedule, "--json", "-"],
                                         capture_output=True, check=True).stdout)

    def test_rows_equal_runs(self) -> None:
        study = self.real()
        rows, _ = self.sweep(study)
        self.assertEqual(len(rows), 8)
        for row in rows:
            self.assertEqual((row.status, comparable(row.report)), ("ok", comparable(self.run_of(row))))
        pruned = self.real(prune=True)
        some, _ = self.sweep(pruned, "pruned.sqlite")
        self.assertEqual({r.digest for r in front_rows(some, study.objectives)}, {r.digest for r in front_rows(rows, study.objectives)})
        for row in rows:
            self.assertLessEqual(row.report["lower_bound_cycles"], row.report["total_cycles"])

    def test_python_evaluator(self) -> None:
        study = self.real(parameters={"array.rows": [8, 16, 6]}, machines=["gemmini_16x16_int8"], constraints=["rows > 1"])
        rows, _ = self.sweep(study, evaluator="python")
        wanted, _ = self.sweep(study, "process.sqlite")
        self.assertEqual([row.status for row in rows], ["ok", "ok", "failed"])
        for row, other in zip(rows, wanted):
            self.assertEqual((row.digest, row.status), (other.digest, other.status))
            if row.report:
                self.assertEqual(comparable(row.report), comparable(other.report))

    def test_defaults_of_machines(self) -> None:
        """What expressions read of a machine is what the binary has, as far as it says it."""
        row = self.sweep(self.real())[0][0]
        full = machines.with_defaults(machines.parameters("gemmini_16x16_int8", self.binary))
        self.assertEqual(full["array.rows"], 16)
        self.assertEqual(full["dram.clock_mhz"], 1200)
        self.assertEqual(full["dram.write_buffer_bursts"], row.report["machine"]["write_buffer_bursts"])
        try:
            import tilewright
            known: Optional[Dict[str, Any]] = tilewright.Machine.load("gemmini_16x16_int8").parameters  # type: ignore[attr-defined]
        except (ImportError, AttributeError):
            self.skipTest("no native package")
        for key, found in full.items():
            if key in known and "name" not in key and "description" not in key:
                self.assertEqual(str(known[key]).lower(), str(found).lower(), key)


if __name__ == "__main__":
    unittest.main()
