#!/usr/bin/env bash
# scripts/bench-networks.sh [--schedule NAME] [--search-budget N] [--math finite] [--compare] [MACHINE[/NETWORK]...]
# Runs the networks of scripts/networks.txt, or only these, under a schedule (default pipelined) and prints cycles, lower
# bound, DRAM traffic and the time it took as a Markdown table; for all of them it also writes docs/networks.md, or
# docs/networks-search.md under search, each with a second table of the machine where --math finite matters, and the
# second one with networks that longer searches bring to their targets.
# --math finite: no float is infinite (docs/design/pixel-packing.md). --compare: also how far the results are
# from the CPU's. Exit status 1 if a network fails or disagrees. TILEWRIGHT names a tilewright that is built already.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() {
  echo "bench-networks: $1" >&2
  exit 1
}
schedule=pipelined budget=8 finite="" compare="" rows=()
while [ $# -gt 0 ]; do
  case $1 in
    --schedule | --search-budget | --math) [ $# -gt 1 ] || fail "$1 needs a value" ;;&
    --schedule) schedule=$2 && shift ;;
    --search-budget) budget=$2 && shift ;;
    --math)
      [ "$2" = finite ] || fail "--math is '$2' but must be finite"
      finite=1 && shift
      ;;
    --compare) compare=1 ;;
    -*) fail "unknown option '$1', expected --schedule, --search-budget, --math or --compare" ;;
    *)
      if [[ $1 == */* ]]; then wanted="^${1%%/*} .* ${1#*/}( |\$)"; else wanted="^$1 "; fi
      grep -Eq "$wanted" scripts/networks.txt || fail "'$1' is not in scripts/networks.txt"
      rows+=("$1")
      ;;
  esac
  shift
done
if [ -z "${TILEWRIGHT:-}" ]; then
  scripts/build.sh release tilewright
  TILEWRIGHT=build/release/bin/tilewright
fi
export SYSTEMC_DISABLE_COPYRIGHT_MESSAGE=1
unset TILEWRIGHT_CACHE # every search begins with nothing
networks=${TILEWRIGHT_BUILD:-build}/networks
options=(--schedule "$schedule" --search-budget "$budget" ${finite:+--math finite})
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$TILEWRIGHT" run gemm:16x16x16:int8 --hw tiny_8x8 "${options[@]}" >/dev/null || exit 1 # a bad schedule is said once

# The file of a network in a form; made if it is not there.
model() {
  local file=$networks/$2/$1.onnx
  [ -f "$networks/fp32/$1.onnx" ] || scripts/networks.py "$networks/fp32" "$1" >&2
  mkdir -p "$networks/$2"
  [ -f "$file" ] || "$TILEWRIGHT" quantize "$networks/fp32/$1.onnx" --calibration random:1 -o "$file" >&2
  echo "$file"
}

numbers() {
  /usr/bin/python3 - "$@" <<'PYTHON'
import json, sys
r = json.load(open(sys.argv[1]))
moved, reference = r["dram_read_bytes"] + r["dram_write_bytes"], r["schedule_reference_dram_bytes"]
cycles, bound = r["total_cycles"], r["lower_bound_cycles"]
# What a network must reach depends on what the machine has to wait for at best: the DRAM, if the reference's bytes take longer
# than the bound, else an engine.
if reference > bound * r["machine"]["dram"]["peak_bytes_per_cycle"]:
    busy = 0.85 if 4 * r["dram_write_bytes"] > moved else 0.90
    target, met = f"bus {100 * busy:.0f} %, 1.15", r["data_bus_busy"] >= busy and moved <= 1.15 * reference
    # Tensors that stay on chip leave the bus idle; that is no loss if a schedule that just meets the target took longer.
    no = "no, but faster" if r["data_bus_busy"] / moved * 1.15 * reference >= busy else "no"
else:
    share = 0.80 if "128x128" in sys.argv[2] else 0.85 if sys.argv[3] == "mobilenetv2" else 0.95
    target, met, no = f"{share:.2f}", bound >= share * cycles, "no"
working = {engine["name"]: f"{100 * engine['busy_cycles'] / cycles:.0f} %" for engine in r["engines"]}
print(f"{cycles:,}", f"{bound:,}", f"{bound / cycles:.3f}", r["bound_by"], f"{r['layer_serial_cycles']:,}", working["tensor"], working["vector"],
      f"{100 * r['utilisation']:.1f} %", f"{moved / 2**20:.2f}", f"{moved / reference:.2f}", f"{100 * r['data_bus_busy']:.1f} %",
      f"{r['compile_wall_seconds']:.1f}", f"{r['simulate_wall_seconds']:.1f}", f"{r['peak_memory_bytes'] / 2**20:.0f}",
      f"{target}: {'met' if met else no}", sep=" | ")
PYTHON
}

status=0
table() {
  echo "| machine | network | form | cycles | bound | bound / cycles | bound by | layer by layer | array busy | vector busy | utilisation | DRAM MiB | / reference |" \
    "bus busy | compile s | simulate s | peak MiB | target |${compare:+ largest error |}"
  echo "|---|---|---|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|${compare:+---:|}"
  local machine form names name file row
  while read -r machine form names; do
    for name in $names; do
      [ ${#rows[@]} -eq 0 ] || [[ " ${rows[*]} " == *" $machine "* || " ${rows[*]} " == *" $machine/$name "* ]] || continue
      file=$(model "$name" "$form")
      if "$TILEWRIGHT" run "$file" --hw "$machine" "${options[@]}" --json "$scratch/report" >/dev/null; then
        row=$(numbers "$scratch/report" "$machine" "$name")
      else
        row="failed | | | | | | | | | | | | | |"
        status=1
      fi
      if [ -n "$compare" ]; then
        "$TILEWRIGHT" compare "$file" --hw "$machine" "${options[@]}" --repeat 1 >"$scratch/compared" || status=1
        row+=" | $(awk '/values equal/ { error = "equal" }
                        /max abs error/ { sub(/.*max abs error [^(]*\(/, ""); error = $1 }
                        END { print error ? error : "failed" }' "$scratch/compared")"
      fi
      echo "| $machine | $name | $form | $row |"
    done
  done < <(grep -v '^#' scripts/networks.txt)
}

[ -z "$finite" ] || [ ${#rows[@]} -gt 0 ] || fail "--math finite needs machines or networks: the pages have both"
if [ ${#rows[@]} -gt 0 ]; then
  table
  exit $status
fi
title=Networks
[ "$schedule" != search ] || title+=" under search"
text="Made by \`scripts/bench-networks.sh --schedule $schedule"
[ "$schedule" != search ] || text+=" --search-budget $budget"
{
  echo "# $title, end to end"
  echo
  cat <<TEXT
$text${compare:+ --compare}\`: every layer of the networks of \`scripts/networks.txt\` on the
simulated accelerator, batch 1. Cycles, bound and bytes are the same on every host; seconds and memory are those of the
process, the first one of a search, on the host that wrote this page. **bound**: what no schedule can beat ([bounds.md](bounds.md)), and the term that
it is. **layer by layer**: the sum of the layers' own bounds, each from DRAM to DRAM; only what overlaps across layers or keeps tensors on
chip can be faster. **array busy**, **vector busy**: part of the time in which these engines work; one that works nearly all the time has more to do
than the bound counts, as it may take any packing of the array. **utilisation**: useful MACs / (peak MACs per cycle x cycles).
**/ reference**: simulated DRAM bytes over the schedule reference, which is not a bound. **bus busy**: part of the time outside refresh in
which the DRAM's data buses move something.
**peak**: memory of the process that compiles and simulates. **target**: what we want, and whether it is met: bound / cycles where an
engine is what there is to wait for; where it is the DRAM, because the reference's bytes take longer than the bound, how busy its
buses are at least, and by how much the bytes may exceed the reference. "No, but faster": a schedule that just meets it takes longer.
TEXT
  echo
  table
  echo
  echo "## With \`--math finite\`"
  echo
  echo "On \`cloud_128x128\`: an infinity may reach outputs that do not read it ([pixel packing](design/pixel-packing.md)). The bound counts that as well."
  echo
  rows=(cloud_128x128) options+=(--math finite)
  table
  if [ "$schedule" = search ]; then
    echo
    echo "## With more programs"
    echo
    echo "A network that meets its target with a longer search, in one process for each of $(nproc) processors."
    echo
    rows=(gemmini_16x16_fp32/squeezenet) options=(--schedule search --search-budget 2000)
    echo "\`scripts/bench-networks.sh ${options[*]} ${rows[*]}\`:"
    echo
    table
  fi
} >"$scratch/page"
page=docs/networks.md
[ "$schedule" != search ] || page=docs/networks-search.md
cp "$scratch/page" "$page"
chmod 644 "$page"
cat "$page"
exit $status
