#!/usr/bin/env bash
# Schedules small random tile loops, proves the least initiation interval of each with z3, rewrites docs/optimality.md.
#   scripts/bench-optimality.sh [OPTION...]     e.g. --kernels 20, --every, --load-plugin ./my.so, --help
# With options the result is only printed. TILEWRIGHT_OPTIMALITY names a tilewright-optimality that is built already.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v z3 >/dev/null; then
  echo "bench-optimality: z3 is not installed (apt-get install z3)" >&2
  exit 1
fi
if [ -z "${TILEWRIGHT_OPTIMALITY:-}" ]; then
  scripts/build.sh release tilewright-optimality
  TILEWRIGHT_OPTIMALITY=build/release/bin/tilewright-optimality
fi
if [ $# -gt 0 ]; then
  exec "$TILEWRIGHT_OPTIMALITY" "$@"
fi
page=$(mktemp)
trap 'rm -f "$page"' EXIT

cat >"$page" <<'TEXT'
# How far schedulers are from the optimum

Made by `scripts/bench-optimality.sh`; z3 needs some minutes.

A kernel is the steady state of a small tile loop, drawn by its number (`tests/unit/loopsched/RandomKernel.h`): loads, one to three pairs of
preload and tensor instruction, vector instructions and a store, on five or six engines, one DRAM bus, a scratchpad and an accumulator.
What must hold stands in `compiler/research/loopsched/Problem.h`. Every schedule below has passed `verify()`.

- **ResMII**: cycles of the busiest resource. **RecMII**: the largest cycle ratio, each buffer at the largest depth that fits alone.
- **optimum**: the least initiation interval, in cycles. It is *proved* if z3 finds the exact model (`tests/unit/loopsched/ExactModel.h`: linear
  integer arithmetic, no code shared with schedulers or `verify()`) unsatisfiable one cycle below, or if it equals a bound, and a verified
  schedule reaches it and satisfies the model. That nothing further below is possible either follows from monotonicity, proved at the head
  of `Problem.h`; `--every` asks z3 for every initiation interval from the lower bound on instead, as the test `OptimumTest` does for some.
- **refuted**: initiation intervals that z3 found impossible.
- In parentheses: the gap to the optimum. The medians below count proved optima only.

The result holds for this model of time: occupancy and latency of an operation are constants; ports, queues and the banks of DRAM are the
simulator's business.

TEXT
"$TILEWRIGHT_OPTIMALITY" >>"$page"
cp "$page" docs/optimality.md
chmod 644 docs/optimality.md
tail -9 docs/optimality.md
echo "wrote docs/optimality.md"
