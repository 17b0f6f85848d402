# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files for the tests of the page: a timeline of any size."""
import json
import random

ENGINES = ["sequencer", "load0", "load1", "preload", "tensor", "vector", "store0"]
PLANNED = ["load0", "tensor", "store0"]


def timeline(slices: int, layers: int = 40) -> str:
    """A file as `tilewright run --trace` writes it, with about that many slices in the tracks of seven engines and their queues."""
    chance = random.Random(1)
    each = slices // (2 * len(ENGINES))
    total = each * 24
    events = [{"ph": "M", "pid": 0, "name": "process_name", "args": {"name": "sample (1 us is 1 cycle)"}},
              {"ph": "M", "pid": 0, "tid": 0, "name": "thread_name", "args": {"name": "critical path"}}]
    for layer in range(layers):
        events.append({"ph": "X", "pid": 0, "tid": 0, "ts": layer * total // layers, "dur": total // layers, "name": f"layer{layer}", "args": {}})
    for number, engine in enumerate(ENGINES):
        tracks = 3 * number + 1, 3 * number + 3
        plan = tracks[0] + 1
        planned = ((plan, engine + " planned"),) if engine in PLANNED else ()
        for track, name in ((tracks[0], engine), *planned, (tracks[1], engine + " queue")):
            events.append({"ph": "M", "pid": 0, "tid": track, "name": "thread_name", "args": {"name": name}})
        for i in range(each):
            if engine in PLANNED and i % 3 == 0:
                events.append({"ph": "X", "pid": 0, "tid": plan, "ts": i * 24, "dur": 12, "name": f"op_{engine}",
                               "args": {"layer": f"layer{i * 24 * layers // total}", "simulated": i * 24 + 3}})
            start = i * 24 + chance.randrange(6)
            duration = chance.randrange(4, 12)
            layer = f"layer{start * layers // total}"
            events.append({"ph": "X", "pid": 0, "tid": tracks[i % 5 == 0], "ts": start, "dur": duration, "name": f"op_{engine}",
                           "args": {"layer": layer, "word": i}})
            events.append({"ph": "X", "pid": 0, "tid": tracks[0], "ts": start + duration, "dur": chance.randrange(1, 6),
                           "name": chance.choice(["operand", "dram_latency"]), "args": {"cause": "semaphore 1", "layer": layer}})
    for i in range(each // 4):
        common = {"pid": 0, "cat": "semaphore", "id": i, "name": "semaphore 1"}
        events.append({"ph": "s", **common, "tid": 4, "ts": i * 96 + 8})
        events.append({"ph": "f", "bp": "e", **common, "tid": 13, "ts": i * 96 + 24})
    head = '{"displayTimeUnit":"ms","otherData":{"time_unit":"1 us is 1 cycle","total_cycles":%d},"traceEvents":[\n' % total
    return head + ",\n".join(json.dumps(event, separators=(",", ":")) for event in events) + "\n]}\n"
