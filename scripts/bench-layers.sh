#!/usr/bin/env bash
# Cycles of the layers and matrix products that other systems publish, under every schedule, as Markdown: scripts/bench-layers.sh [BUDGET]
# BUDGET: programs that schedule search may simulate for each (default 33). Writes docs/latency-hiding.md.
set -euo pipefail
cd "$(dirname "$0")/.."
tilewright=${TILEWRIGHT:-build/release/bin/tilewright}
budget=${1:-33}
export SYSTEMC_DISABLE_COPYRIGHT_MESSAGE=1
unset TILEWRIGHT_CACHE # every search begins with nothing
json=$(mktemp)
trap 'rm -f "$json"' EXIT
row() { # name, kernel, machine, further arguments
  local name=$1 kernel=$2 machine=$3
  shift 3
  local cells="" bound="" best="" ratio="" peak="" seconds=""
  for schedule in serial double_buffer pipelined search; do
    "$tilewright" run "$kernel" --hw "$machine" --schedule "$schedule" --search-budget "$budget" --json "$json" "$@" >/dev/null
    read -r best bound ratio peak seconds < <(python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))
cycles, bound = r["total_cycles"], r["lower_bound_cycles"]
peak, seconds = 100 * r["utilisation"], r["compile_wall_seconds"]
print(cycles, bound, f"{bound / cycles:.3f}", f"{peak:.1f}", f"{seconds:.1f}")' "$json")
    cells+=" $best |"
  done
  echo "| $name | $machine |$cells $bound | $ratio | $peak % | $seconds |"
}
{
  echo "# Latency hiding, measured"
  echo
  echo "Made by \`scripts/bench-layers.sh $budget\`: simulated cycles, the same on every host. **bound / search** and **peak** are those of"
  echo "\`search\`, which simulates $budget programs; **s** is the time it takes to compile with it. **peak** counts"
  echo "useful MACs, those in the padding are none; the bound is that of [bounds.md](bounds.md)."
  echo
  echo "## Convolutions of ResNet-18, as TVM's table has them"
  echo
  echo "| layer | machine | serial | double_buffer | pipelined | search | bound | bound / search | peak | s |"
  echo "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
  number=2
  for shape in "56x56x64:3x3x64:s1:p1" "56x56x64:1x1x64:s1:p0" "56x56x64:3x3x128:s2:p1" "56x56x64:1x1x128:s2:p0" "28x28x128:3x3x128:s1:p1" \
    "28x28x128:3x3x256:s2:p1" "28x28x128:1x1x256:s2:p0" "14x14x256:3x3x256:s1:p1" "14x14x256:3x3x512:s2:p1" "14x14x256:1x1x512:s2:p0" \
    "7x7x512:3x3x512:s1:p1"; do
    row "C$number" "conv:1x$shape:int8" vdla_16x16
    number=$((number + 1))
  done
  echo
  echo "## Matrix products"
  echo
  echo "| size | machine | serial | double_buffer | pipelined | search | bound | bound / search | peak | s |"
  echo "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
  for machine in onnxim_16x16_16b onnxim_16x16_4b; do
    for n in 512 1024; do
      row "$n^3" "gemm:${n}x${n}x${n}:int8" "$machine"
    done
  done
  for n in 512 1024 2048; do
    row "$n^3" "gemm:${n}x${n}x${n}:int8" onnxim_128x128
  done
} >docs/latency-hiding.md.new
mv docs/latency-hiding.md.new docs/latency-hiding.md
cat docs/latency-hiding.md
