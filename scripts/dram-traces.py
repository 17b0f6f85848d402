#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Replays 24 traces on the DRAM model and compares its totals with Ramulator 2.1's: the table of docs/dram.md.

scripts/dram-traces.py [-o FOLDER]; with -o the traces stay there. Exit status 1 if a total differs by more than 1 %.
Environment: TILEWRIGHT is the binary, build/release/bin/tilewright by default.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOLERANCE = 0.01
ACCESSES = 60_000

# Ramulator 2.1: total DRAM ticks and mean read latency. FR-FCFS, 32 reads, 32 writes, its own watermarks (below), mapping RoBaRaCoCh.
RAMULATOR = {
    "ddr4": {"stream": (320_852, 190), "random": (410_051, 254), "strided": (410_005, 254), "conflict": (3_454_961, 1877),
             "mixed_stream": (386_788, 329), "mixed_random": (422_419, 372), "sparse": (2_465_395, 68), "refresh": (7_999_636, 56),
             "twostream_conflict": (383_077, 224), "bursty": (460_958, 283), "writes": (321_614, 0), "write_random": (410_734, 0)},
    "hbm2": {"stream": (133_059, 90), "random": (583_961, 347), "strided": (583_980, 347), "conflict": (3_728_331, 2024),
             "mixed_stream": (221_111, 197), "mixed_random": (584_685, 501), "sparse": (2_461_264, 72), "refresh": (7_999_637, 54),
             "twostream_conflict": (188_101, 119), "bursty": (485_968, 141), "writes": (133_470, 0), "write_random": (584_035, 0)},
}

# Writes are served from more than 0.8 of the queue on, down to less than 0.2: Ramulator's own, of 32 entries.
RULES = ["dram.controller=windowed", "dram.window_requests=32", "dram.write_buffer_bursts=32", "dram.write_high_watermark_bursts=26",
         "dram.write_low_watermark_bursts=6", "dram.interleave_bank_groups=false"]


class Device:
    """A device of one channel, with 16 banks."""

    def __init__(self, name, shipped, overrides, burst, row, capacity):
        self.name, self.shipped, self.overrides = name, shipped, overrides
        self.burst, self.row, self.capacity = burst, row, capacity
        self.rows = 16 * row # the bytes of one row of every bank


DEVICES = [Device("ddr4", "ddr4_2400", [], 64, 8192, 8 << 30),
           Device("hbm2", "hbm2", ["dram.channels=1", "dram.capacity_bytes=536870912"], 32, 1024, 512 << 20)]


def traces(device):
    """(name, accesses) of a device, an access being (arrival, "R" or "W", address). The draws come from one generator, in this order."""
    burst, half = device.burst, device.capacity // 2
    at_once = range(ACCESSES)
    places = [burst * number for number in random.sample(range(device.capacity // burst), ACCESSES)]

    def skipping(step):
        """One burst of every `step` bytes; one burst further each time round."""
        return [(0, "R", i * step % device.capacity + i * step // device.capacity * burst) for i in at_once]

    yield "stream", [(0, "R", i * burst) for i in at_once]
    yield "random", [(0, "R", place) for place in places]
    yield "strided", skipping(device.row)
    yield "conflict", skipping(device.rows)
    yield "mixed_stream", [(0, "W", half + i * burst) if i % 3 == 2 else (0, "R", i * burst) for i in at_once]
    yield "mixed_random", [(0, "W" if random.random() < 0.33 else "R", place) for place in places]
    arrival, accesses = 0, []
    for place in places:
        arrival += random.choice([1, 5, 20, 40, 60, 120])
        accesses.append((arrival, "R", place))
    yield "sparse", accesses
    yield "refresh", [(400 * i, "R", place) for i, place in enumerate(places[:20_000])]
    # Two streams in different rows of one bank.
    yield "twostream_conflict", [(0, "R", i // 2 * burst + i % 2 * 1000 * device.rows) for i in at_once]
    # 64 reads and 36 writes, then a pause.
    arrival, accesses = 0, []
    for _ in range(ACCESSES // 100):
        base = random.randrange(half // burst) * burst
        accesses += [(arrival, "R", (base + i * burst) % device.capacity) for i in range(64)]
        target = half + base // 2 // burst * burst
        accesses += [(arrival, "W", (target + i * burst) % device.capacity) for i in range(36)]
        arrival += random.choice([200, 700, 1500])
    yield "bursty", accesses
    yield "writes", [(0, "W", i * burst) for i in at_once]
    yield "write_random", [(0, "W", place) for place in places]


def replay(binary, device, trace):
    """The report of `tilewright dram`, which checks every command too."""
    settings = [word for setting in device.overrides + RULES for word in ("--set", setting)]
    command = [binary, "dram", trace, "--device", device.shipped, *settings, "--json", "-"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(result.stderr)
    return json.loads(result.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", help="folder in which the traces stay")
    arguments = parser.parse_args()
    binary = os.environ.get("TILEWRIGHT", ROOT / "build/release/bin/tilewright")
    random.seed(7)
    print("| trace | ticks | Ramulator 2.1 | ratio | mean read latency | Ramulator 2.1 |\n|---|---:|---:|---:|---:|---:|")
    wrong = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(arguments.output or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for device in DEVICES:
            for name, accesses in traces(device):
                trace = folder / f"{device.name}.{name}"
                trace.write_text("".join(f"{arrival} {kind} {address:x}\n" for arrival, kind, address in accesses))
                report = replay(binary, device, trace)
                total, (expected, latency) = report["total_cycles"], RAMULATOR[device.name][name]
                ratio = total / expected
                print(f"| {trace.name} | {total:,} | {expected:,} | {ratio:.4f} | {report['read_latency_cycles']['mean']:.0f} | {latency} |",
                      flush=True)
                if abs(ratio - 1) > TOLERANCE:
                    wrong.append(trace.name)
    if wrong:
        sys.exit(f"more than {TOLERANCE:.0%} from Ramulator 2.1: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
