#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plants single faults in the RTL and in the SystemC model and lists which test catches each.

  scripts/rtl/mutation.py [--seed S] [--per-file N] [--only rtl|model] [--machine NAME]... [--programs N]

All faults of one side are built at once: a faulty statement stands beside the right one, and the environment variable
TW_MUTANT chooses (0: none). A fault is caught when the random programs of `tilewright-random` differ between the models,
fault, or do not end. What survives is printed with its place, for a person to explain. The faults are drawn by the printed seed.
"""
import argparse
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Files of the SystemC side: what computes values and what computes times. The DRAM model is shared by both sides and has
# a checker of its own, so a fault there cannot show as a difference.
MODEL_FILES = [
    "simulator/systemc/DmaEngines.cpp", "simulator/systemc/DramPort.cpp", "simulator/systemc/Engine.cpp",
    "simulator/systemc/SemaphoreUnit.cpp", "simulator/systemc/Sequencer.cpp", "simulator/systemc/StartArbiter.cpp",
    "simulator/functional/ExecuteLoad.cpp", "simulator/functional/ExecutePreload.cpp",
    "simulator/functional/ExecuteStore.cpp", "isa/timing/Dma.cpp", "isa/timing/InstructionTiming.cpp",
]


def operators(text):
    """Every way one generic operator applies to an expression: (name, mutated text)."""
    def put(match, new):
        return text[:match.start()] + new + text[match.end():]

    found = []
    for m in re.finditer(r"(?<![\w'.])(\d+)'d(\d+)", text):  # sized constants
        width, value = int(m[1]), int(m[2])
        if value + 1 < 1 << width:
            found.append(("constant + 1", put(m, f"{width}'d{value + 1}")))
        if value:
            found.append(("constant - 1", put(m, f"{width}'d{value - 1}")))
    for m in re.finditer(r"(?<![\w'.\[:])(\d+)(?![\w'.:])", text):  # plain constants
        found.append(("constant + 1", put(m, str(int(m[1]) + 1))))
        if int(m[1]):
            found.append(("constant - 1", put(m, str(int(m[1]) - 1))))
    inverse = {" == ": " != ", " != ": " == ", " < ": " >= ", " > ": " <= ", " >= ": " < ", " <= ": " > "}
    for m in re.finditer(r" (==|!=|<|>|>=|<=) ", text):
        found.append(("inverted compare", put(m, inverse[m[0]])))
    for m in re.finditer(r" (&&|\|\|) ", text):
        found.append(("and for or", put(m, " || " if m[1] == "&&" else " && ")))
    for m in re.finditer(r"(?<![\w!~])[!~](?=[\w(])", text):
        found.append(("dropped negation", put(m, "")))
    for m in re.finditer(r" [+&|^-] (?=([\w.']+(?:\[[^\]]*\])?)(?=[;,)\s]|$))", text):  # x + term
        found.append(("dropped term", text[:m.start()] + text[m.end(1):]))
    for m in re.finditer(r"(?<![\w'.:\]])(\b[\w.]+) - ([\w.]+)\b(?!['\[(:.])", text):
        found.append(("swapped operands", put(m, f"{m[2]} - {m[1]}")))
    for m in re.finditer(r"(?<=\w)\[(\w+)\]", text):
        if not m[1].isdigit() or text[:m.start()].rstrip().endswith(("_q", "_d", "_i")):
            found.append(("index off by one", put(m, f"[{m[1]} + 1]" if not m[1].isdigit() else f"[{int(m[1]) ^ 1}]")))
    return [(name, new) for name, new in found if new != text]


def statements(lines, language):
    """Single-line statements with an expression: (line number, before, expression, after)."""
    if language == "sv":
        forms = [r"^(\s*(?:assign\s+)?[\w.\[\]:+*\s'-]+? <?= )([^;?]+)(;\s*(?://.*)?)$",
                 r"^(\s*(?:end )?(?:else )?if \()(.+)(\) (?:begin|[\w.\[\]]+ <?= [^;]+;)\s*(?://.*)?)$"]
    else:
        forms = [r"^(\s*(?:[\w\->.\[\]()*]+|(?:const )?(?:Cycle|uint64_t|uint32_t|bool|int64_t) \w+) [+-]?= )([^;?{]+)(;\s*(?://.*)?)$",
                 r"^(\s*return )([^;?{\"]+)(;\s*(?://.*)?)$",
                 r"^(\s*(?:\} )?(?:else )?if \()([^;]+)(\)(?: \{)?\s*(?://.*)?)$"]
    skipped = 0
    for number, line in enumerate(lines):
        stripped = line.strip()
        if stripped.startswith("`ifdef VERILATOR"):
            skipped += 1
        if stripped.startswith("`endif") and skipped:
            skipped -= 1
        if skipped or re.match(r"(//|localparam|parameter|for |assert|\$|genvar|import|constexpr|static|using|template)", stripped):
            continue
        if '"' in line or "/*" in line:
            continue
        for form in forms:
            match = re.match(form, line)
            if match and match[2].count("(") == match[2].count(")"):
                yield number, match[1], match[2], match[3]
                break


def unplant(path, original, faults, output):
    """Takes back the faults on lines that a tool complains about: (those that stay, whether any went)."""
    bad = {int(n) for n in re.findall(rf"{re.escape(path.name)}:(\d+)", output)}
    gone = [f for f in faults if f[1].split(":")[0].endswith(path.name) and int(f[1].split(":")[1]) in bad]
    lines = path.read_text().split("\n")
    for fault in gone:
        number = int(fault[1].split(":")[1])
        lines[number - 1] = original[number - 1]
    path.write_text("\n".join(lines))
    return [f for f in faults if f not in gone], bool(gone)


def plant(path, language, wanted, rng, first, choice):
    """Rewrites a file with `wanted` faults from number `first` on; returns [(number, line, operator, mutated)]."""
    lines = path.read_text().split("\n")
    sites = [(number, before, text, after, name, new) for number, before, text, after in statements(lines, language)
             for name, new in operators(text)]
    rng.shuffle(sites)
    planted, used = [], set()
    for number, before, text, after, name, new in sites:
        if number in used:
            continue
        used.add(number)
        fault = first + len(planted)
        lines[number] = f"{before}(({choice} == {fault}) ? ({new}) : ({text})){after}"
        planted.append((fault, number + 1, name, f"{text.strip()}  ->  {new.strip()}"))
        if len(planted) == wanted:
            break
    path.write_text("\n".join(lines))
    return planted


def run(command, env=None, limit=3600):
    """What a command did; None if it took more than `limit` seconds of processor time: other work slows nothing down."""
    def bound():
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 10))

    try:  # the time of the clock is for what waits
        result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=20 * limit, cwd=ROOT, preexec_fn=bound)
    except subprocess.TimeoutExpired:
        return None
    return None if result.returncode == -signal.SIGXCPU else result


def judge(random_tool, faults, arguments, env):
    """Runs every fault against the random programs of each machine; prints one row each; returns the survivors."""
    survivors = []

    def test(machine, fault, limit):
        env["TW_MUTANT"] = str(fault)
        return run([random_tool, "--machine", machine, "--programs", str(arguments.programs), "--illegal",
                    str(max(1, arguments.programs // 4)), "--seed", str(arguments.seed), "--shrink-tries", "0"], env, limit)

    for machine in arguments.machine:  # without a fault; builds the models
        result = test(machine, 0, 3600)
        if result is None or result.returncode:
            sys.exit(f"mutation: {machine} fails without a fault:\n" + (result.stdout[-3000:] + result.stderr[-3000:] if result else "does not end"))
    for fault, place, name, change in faults:
        caught = None
        for machine in arguments.machine:
            result = test(machine, fault, arguments.limit)
            if result is None:
                caught = f"random programs, {pathlib.Path(machine).stem}: does not end"
            elif result.returncode != 0:
                seeds = [line for line in result.stdout.split("\n") if re.match(r"(faulty )?seed \d+", line)]
                caught = f"random programs, {pathlib.Path(machine).stem}: {(seeds or [f'exit status {result.returncode}'])[0][:90]}"
            if caught:
                break
        if not caught:
            survivors.append((fault, place, name, change))
        print(f"| {fault} | `{place}` | {name} | `{change.replace('|', chr(92) + '|')}` | {caught or '**survives**'} |", flush=True)
    return survivors


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per-file", type=int, default=3)
    parser.add_argument("--only", choices=["rtl", "model"])
    parser.add_argument("--machine", action="append")
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--limit", type=int, default=120, help="seconds of processor time for one run")
    parser.add_argument("--build", default=str(ROOT / "build/release"), help="build folder with tilewright-random")
    parser.add_argument("--work", default="/tmp/tilewright-mutation")
    arguments = parser.parse_args()
    arguments.machine = arguments.machine or ["tiny_8x8"]
    print(f"seed {arguments.seed}, machines {', '.join(arguments.machine)}, {arguments.programs} programs\n")
    print("| fault | place | operator | change | caught by |\n|---:|---|---|---|---|", flush=True)
    work = pathlib.Path(arguments.work)
    total, survivors = 0, []

    work.mkdir(parents=True, exist_ok=True)
    chooser = work / "tw_mutant.h"
    chooser.write_text("""#include <cstdlib>
inline int twMutant() {
  static const int chosen = [] { const char *value = std::getenv("TW_MUTANT"); return value ? std::atoi(value) : 0; }();
  return chosen;
}
""")
    if arguments.only != "model":
        shutil.rmtree(work / "rtl", ignore_errors=True)
        for folder in ("simulator/rtl", "simulator/cosim"):
            shutil.copytree(ROOT / folder, work / "rtl" / folder)
        faults, rng = [], random.Random(arguments.seed)
        for path in sorted((work / "rtl/simulator/rtl").glob("tw_*.sv")):
            for fault, line, name, change in plant(path, "sv", arguments.per_file, rng, len(faults) + 1, '$c32("twMutant()")'):
                faults.append((fault, f"{path.name}:{line}", name, change))
        originals = {path.name: path.read_text().split("\n") for path in (ROOT / "simulator/rtl").glob("tw_*.sv")}
        env = dict(os.environ, TILEWRIGHT_RTL=str(work / "rtl"), TILEWRIGHT_RTL_CACHE=str(work / "cache"),
                   TILEWRIGHT_VERILATOR_FLAGS=f"-CFLAGS -include -CFLAGS {chooser} -Wno-fatal")
        tool = str(pathlib.Path(arguments.build) / "bin/tilewright-random")
        for _ in range(20):  # what the language does not allow is no fault
            result = run([tool, "--machine", arguments.machine[0], "--programs", "1", "--illegal", "0"], dict(env, TW_MUTANT="0"), 3600)
            if result and result.returncode == 0:
                break
            went = False
            for path in (work / "rtl/simulator/rtl").glob("tw_*.sv"):
                faults, some = unplant(path, originals[path.name], faults, (result.stdout + result.stderr) if result else "")
                went = went or some
            if not went:
                sys.exit("mutation: the mutated RTL does not build:\n" + (result.stdout + result.stderr if result else "timeout")[-3000:])
        survivors += judge(tool, faults, arguments, env)
        total += len(faults)

    if arguments.only != "rtl":
        tree = work / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns("build", ".git"))
        header = tree / "isa/timing/Mutant.h"
        header.write_text("#pragma once\n" + chooser.read_text())
        faults, rng, number = [], random.Random(arguments.seed + 1), 1000
        for name in MODEL_FILES:
            path = tree / name
            for fault, line, operator, change in plant(path, "cpp", arguments.per_file, rng, number, "twMutant()"):
                faults.append((fault, f"{name}:{line + 1}", operator, change))  # behind the line that is put in front
            number = max([number] + [f[0] + 1 for f in faults])
            path.write_text('#include "isa/timing/Mutant.h"\n' + path.read_text())
        build = work / "tree-build"
        run(["cmake", "-S", str(tree), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
             "-DCMAKE_CXX_COMPILER=clang++-14", "-DCMAKE_C_COMPILER=clang-14"])
        for _ in range(20):
            result = run(["ninja", "-C", str(build), "-j2", "tilewright-random"], None, 3600)
            if result is None or result.returncode == 0:
                break
            went = False
            for name in MODEL_FILES:
                original = ["", *(ROOT / name).read_text().split("\n")]
                faults, some = unplant(tree / name, original, faults, result.stdout)
                went = went or some
            if not went:
                break
        if result is None or result.returncode:
            sys.exit("mutation: the mutated model does not build:\n" + (result.stdout[-3000:] if result else "timeout"))
        env = dict(os.environ)
        # As the sources number their lines.
        faults = [(fault, re.sub(r"\d+$", lambda m: str(int(m[0]) - 1), place), *rest) for fault, place, *rest in faults]
        survivors += judge(str(build / "bin/tilewright-random"), faults, arguments, env)
        total += len(faults)

    print(f"\n{total - len(survivors)} of {total} faults caught, {len(survivors)} survive")
    return 0


if __name__ == "__main__":
    sys.exit(main())
