#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each part of the scheduler brings: cycles and utilisation of networks under one schedule after the other, and of
ResNet-18's convolutions on VDLA over DRAM latencies and bandwidths. Writes docs/ablation.md and docs/ablation.svg.

Runs are kept in build/measurements: a second call only draws. TILEWRIGHT names a tilewright that is built already.
"""

import argparse
import pathlib
import sys

import measure

# Name, what it is, options of `tilewright run`. Search gets a budget besides.
SCHEDULES = [
    ("serial", "no two engines at work at once", ["--schedule", "serial"]),
    ("double_buffer", "loads one tile ahead", ["--schedule", "double_buffer"]),
    ("pipelined", "as many buffers as lifetimes need; layers drain (`--across none`)",
     ["--schedule", "pipelined", "--across", "none"]),
    ("search", "the same with the best of the tiles tried", ["--schedule", "search", "--across", "none"]),
    ("+ prefetch", "search; layers overlap (`--across prefetch`)", ["--schedule", "search", "--across", "prefetch"]),
    ("+ on chip", "search; tensors between layers stay on chip too (`--across all`)",
     ["--schedule", "search", "--across", "all"]),
]
COLOURS = ["#bdbdbd", "#969696", "#9ecae1", "#4292c6", "#08519c", "#e6550d"]
SUBSET = [("vdla_16x16", "resnet18"), ("vdla_16x16", "mobilenetv2"), ("gemmini_16x16_int8", "resnet18"),
          ("gemmini_16x16_int8", "mobilenetv2"), ("gemmini_16x16_int8", "squeezenet"), ("edge_32x32_int8", "mobilenetv2"),
          ("onnxim_128x128", "squeezenet"), ("onnxim_128x128", "bert_block")]
RATES, LATENCIES = [4, 8, 16], [32, 64, 128, 256, 512]
# Little's law at 16 B/cycle and 512 cycles asks for 129 bursts; the machine's 16 (reads) and 32 (writes) are for 8 B/cycle
# and 64 cycles.
BURSTS = 256


def with_budget(options, budget):
    return options + (["--search-budget", str(budget)] if "search" in options else [])


def network_jobs(rows, budget):
    return [[measure.network(name, form), "--hw", machine, *with_budget(options, budget)]
            for machine, form, name in rows for _, _, options in SCHEDULES]


def sweep_jobs(layers, budget):
    schedules = [with_budget(options, budget) for options in (["--schedule", "serial"], ["--schedule", "search"])]
    return [[measure.conv(layer), "--hw", "vdla_16x16", "--set", f"dram.bytes_per_cycle={rate}", "--set",
             f"dram.latency_cycles={latency}", *measure.in_flight(BURSTS), *options]
            for rate in RATES for latency in LATENCIES for options in schedules for layer in layers]


def bound_utilisation(report):
    return report["macs"] / (report["machine"]["peak_macs_per_cycle"] * report["lower_bound_cycles"])


def point(reports):
    """(geometric mean of the utilisation, sum of the cycles) of some layers; None where one failed."""
    if None in reports:
        return None
    return measure.geometric_mean([r["utilisation"] for r in reports]), sum(r["total_cycles"] for r in reports)


def bound_point(reports):
    if None in reports:
        return None
    return measure.geometric_mean([bound_utilisation(r) for r in reports]), sum(r["lower_bound_cycles"] for r in reports)


def sweep_points(reports, layers):
    """{(rate, latency): (serial, search, bound)}."""
    points = {}
    reports = iter(reports)
    for rate in RATES:
        for latency in LATENCIES:
            serial, search = ([next(reports) for _ in layers] for _ in range(2))
            points[rate, latency] = point(serial), point(search), bound_point(serial)
    return points


def cell(report):
    return f"{report['total_cycles']:,} ({100 * report['utilisation']:.1f} %)" if report else "failed"


def document(command, budget, rows, reports, layers, points):
    text = f"""# Ablation: what each part of the scheduler brings

Made by
`{command}`:
simulated cycles, the same on every host; in brackets useful MACs / (peak MACs per cycle x cycles). `search` simulates
{budget} programs for each cell. MACs in the padding are not useful.

![utilisation of networks under each schedule, and of ResNet-18's convolutions over DRAM latency](ablation.svg)

"""
    text += "".join(f"- **{name}**: {meaning}\n" for name, meaning, _ in SCHEDULES)
    if rows:
        text += "\n## Networks\n\n"
        table = []
        for i, (machine, _, name) in enumerate(rows):
            cells = reports[i * len(SCHEDULES):(i + 1) * len(SCHEDULES)]
            known = next((r for r in cells if r), None)
            bound = f"{known['lower_bound_cycles']:,} ({100 * bound_utilisation(known):.1f} %)" if known else "-"
            table.append([machine, name, *map(cell, cells), bound])
        text += measure.markdown(["machine", "network", *(name for name, _, _ in SCHEDULES), "bound"], table, 2)
    if layers:
        text += f"""
## DRAM latency and bandwidth

Convolutions {', '.join(layers)} of ResNet-18 (TVM's table) on `vdla_16x16`, each as a program of its own,
with `dram.bytes_per_cycle` and `dram.latency_cycles` as the table says, and with room for the bursts under way,
`dma.outstanding_bursts={BURSTS}` and `dram.write_buffer_bursts={BURSTS}`: geometric mean of the utilisation, and millions of
cycles of all layers together. `serial` does not hide latency, `search` does.

"""
        table = []
        for rate in RATES:
            for which, name in enumerate(["serial", "search", "bound"]):
                values = [points[rate, latency][which] for latency in LATENCIES]
                table.append([rate, name, *(f"{100 * v[0]:.1f} % ({v[1] / 1e6:.2f})" if v else "failed" for v in values)])
        text += measure.markdown(["B/cycle", "schedule", *(f"{latency} cycles" for latency in LATENCIES)], table, 2)
    return text


class Svg:
    def __init__(self):
        self.parts, self.width, self.height = [], 0, 0

    def add(self, text, right, bottom):
        self.parts.append(text)
        self.width, self.height = max(self.width, right), max(self.height, bottom)

    def line(self, x1, y1, x2, y2, style):
        self.add(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>', max(x1, x2), max(y1, y2))

    def box(self, x, y, width, height, colour):
        self.add(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>',
                 x + width, y + height)

    def text(self, x, y, text, anchor="start", style=""):
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {style}>{text}</text>', x, y)

    def path(self, points, style):
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.add(f'<polyline points="{text}" fill="none" {style}/>', max(x for x, _ in points), max(y for _, y in points))

    def axis(self, left, top, right, bottom):
        """0 to 100 % upwards."""
        for percent in range(0, 101, 25):
            y = bottom - (bottom - top) * percent / 100
            self.line(left, y, right, y, 'stroke="#ddd"')
            self.text(left - 6, y + 4, f"{percent} %", "end")

    def str(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width + 20:.0f} {self.height + 12:.0f}" '
                'font-family="sans-serif" font-size="11" fill="#222">\n<rect width="100%" height="100%" fill="#fff"/>\n'
                + "\n".join(self.parts) + "\n</svg>\n")


def picture(rows, reports, layers, points):
    svg = Svg()
    left, bar, gap, height, per_row = 50, 12, 30, 170, 8
    bottom = 0
    if rows:
        svg.text(left, 20, "Utilisation of networks (black line: the lower bound)", style='font-weight="bold"')
        for i, (name, _, _) in enumerate(SCHEDULES):
            svg.box(left + 115 * i, 30, 10, 10, COLOURS[i])
            svg.text(left + 115 * i + 15, 39, name)
        group = len(SCHEDULES) * bar + gap
        for first in range(0, len(rows), per_row):
            top = 60 + first // per_row * (height + 60)
            bottom = top + height
            some = rows[first:first + per_row]
            svg.axis(left, top, left + len(some) * group, bottom)
            for g, (machine, _, name) in enumerate(some):
                x = left + g * group + gap / 2
                cells = reports[(first + g) * len(SCHEDULES):(first + g + 1) * len(SCHEDULES)]
                for i, report in enumerate(cells):
                    if report:
                        tall = height * report["utilisation"]
                        svg.box(x + i * bar, bottom - tall, bar - 1, tall, COLOURS[i])
                known = next((r for r in cells if r), None)
                if known:
                    y = bottom - height * min(1, bound_utilisation(known))
                    svg.line(x - 3, y, x + len(SCHEDULES) * bar + 2, y, 'stroke="#000" stroke-width="1.5"')
                middle = x + len(SCHEDULES) * bar / 2
                svg.text(middle, bottom + 15, name, "middle")
                svg.text(middle, bottom + 28, machine, "middle", 'font-size="9"')
            bottom += 40
    if layers:
        top, wide = bottom + 50, 210
        named = "C2 to C12" if len(layers) == len(measure.RESNET18) else ", ".join(layers)
        title = f"ResNet-18 {named} on vdla_16x16: geometric mean of the utilisation over DRAM latency"
        svg.text(left, top - 24, title, style='font-weight="bold"')
        styles = [("serial", 'stroke="#969696" stroke-width="2"'), ("search", 'stroke="#e6550d" stroke-width="2"'),
                  ("bound", 'stroke="#000" stroke-width="1.5" stroke-dasharray="4 3"')]
        for panel, rate in enumerate(RATES):
            x = left + panel * (wide + 60)
            svg.axis(x, top, x + wide, top + height)
            svg.text(x + wide / 2, top - 7, f"{rate} B/cycle", "middle")
            step = (wide - 30) / (len(LATENCIES) - 1)
            at = [x + 15 + i * step for i in range(len(LATENCIES))]
            for i, latency in enumerate(LATENCIES):
                svg.text(at[i], top + height + 15, latency, "middle")
            svg.text(x + wide / 2, top + height + 30, "cycles of latency", "middle")
            for which, (name, style) in enumerate(styles):
                values = [(at[i], points[rate, latency][which]) for i, latency in enumerate(LATENCIES)]
                known = [(px, top + height * (1 - min(1, v[0]))) for px, v in values if v]
                if known:
                    svg.path(known, style)
        x = left + len(RATES) * (wide + 60)
        for which, (name, style) in enumerate(styles):
            svg.line(x - 40, top + 10 + 18 * which, x - 18, top + 10 + 18 * which, style)
            svg.text(x - 12, top + 14 + 18 * which, name)
        svg.width += 30
    return svg.str()


def pairs(text):
    known = {(machine, name): form for machine, form, name in measure.table()}
    rows = []
    for pair in filter(None, text.split(",")):
        machine, _, name = pair.partition(":")
        if (machine, name) not in known:
            measure.fail(f"--networks names '{pair}', which scripts/networks.txt does not have as MACHINE and network")
        rows.append((machine, known[machine, name], name))
    return rows


def main():
    parser = measure.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="every machine and network of scripts/networks.txt")
    parser.add_argument("--networks", metavar="MACHINE:NETWORK,...", help="these instead; '' for none")
    parser.add_argument("--layers", metavar="C2,...", default=",".join(measure.RESNET18),
                        help="layers of the DRAM sweep; '' for none")
    parser.add_argument("--budget", type=int, default=8,
                        help="programs that search simulates for each cell (default %(default)s)")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=measure.ROOT / "docs", help="folder of ablation.md and .svg")
    options = parser.parse_args()
    layers = list(filter(None, options.layers.split(",")))
    for layer in layers:
        if layer not in measure.RESNET18:
            measure.fail(f"--layers names '{layer}' but has {', '.join(measure.RESNET18)}")
    if options.budget < 1:
        measure.fail(f"--budget is {options.budget} but must be at least 1")
    if not options.output.is_dir():
        measure.fail(f"-o is '{options.output}' but must be a folder")
    if options.full and options.networks is not None:
        measure.fail("give --full or --networks, not both")
    text = ",".join(f"{machine}:{name}" for machine, name in SUBSET) if options.networks is None else options.networks
    rows = measure.table() if options.full else pairs(text)
    if not rows and not layers:
        measure.fail("nothing to run: no network and no layer")

    jobs = network_jobs(rows, options.budget)
    reports = measure.run_all(jobs + sweep_jobs(layers, options.budget))
    reports, sweep = reports[:len(jobs)], reports[len(jobs):]
    points = sweep_points(sweep, layers) if layers else {}
    arguments = [a for a in sys.argv[1:] if a not in ("-o", "--output", str(options.output))]
    command = " ".join(["scripts/ablation.py", *arguments])
    (options.output / "ablation.md").write_text(document(command, options.budget, rows, reports, layers, points))
    (options.output / "ablation.svg").write_text(picture(rows, reports, layers, points))
    print(f"wrote {options.output}/ablation.md and ablation.svg")
    return 1 if None in reports + sweep else 0


if __name__ == "__main__":
    sys.exit(main())
