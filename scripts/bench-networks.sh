#!/usr/bin/env bash
# scripts/bench-networks.sh [MACHINE...]: runs the networks of scripts/networks.txt, on these machines only, and prints
# their cycles and how far the results are from the CPU's as a Markdown table. Exit status 1 if they disagree.
# TILEWRIGHT names a tilewright that is built already.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${TILEWRIGHT:-}" ]; then
  scripts/build.sh release tilewright
  TILEWRIGHT=build/release/bin/tilewright
fi
export SYSTEMC_DISABLE_COPYRIGHT_MESSAGE=1
networks=build/networks
for machine in "$@"; do
  grep -q "^$machine " scripts/networks.txt ||
    { echo "bench-networks: machine '$machine' is not in scripts/networks.txt" >&2; exit 1; }
done

# The file of a network in a form; made if it is not there.
model() {
  local file=$networks/$2/$1.onnx
  [ -f "$networks/fp32/$1.onnx" ] || scripts/networks.py "$networks/fp32" "$1" >&2
  mkdir -p "$networks/$2"
  [ -f "$file" ] || "$TILEWRIGHT" quantize "$networks/fp32/$1.onnx" --calibration random:1 -o "$file" >&2
  echo "$file"
}

status=0
echo "| machine | network | form | cycles | ms | GMAC/s | largest error by range |"
echo "|---|---|---|---:|---:|---:|---:|"
while read -r machine form names; do
  [ $# -eq 0 ] || [[ " $* " == *" $machine "* ]] || continue
  for name in $names; do
    file=$(model "$name" "$form")
    out=$("$TILEWRIGHT" compare "$file" --hw "$machine" --repeat 1) || status=1
    awk -v row="| $machine | $name | $form" '
      $1 == "accelerator" { ms = $2; rate = $3; cycles = $5 }
      /values equal/ { error = "equal" }
      /of the output.s range/ && /max abs error/ { sub(/.*\(/, ""); error = $1 }
      END { print row " | " (cycles ? cycles : "failed") " | " ms " | " rate " | " error " |" }' <<<"$out"
  done
done < <(grep -v '^#' scripts/networks.txt)
exit $status
