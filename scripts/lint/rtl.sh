#!/usr/bin/env bash
# Lints the RTL as every shipped machine: scripts/lint/rtl.sh BUILD_FOLDER [MACHINE...]
# verilator --lint-only elaborates the whole machine, the 128x128 ones too, and every warning is an error.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/release}
shift || true
machines=("$@")
[ ${#machines[@]} -gt 0 ] || mapfile -t machines < <(cd hw-configs && ls ./*.yaml | sed 's,^./,,; s,\.yaml$,,')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mapfile -t modules < <(ls simulator/rtl/tw_*.sv | grep -v '_pkg\.sv$')
for machine in "${machines[@]}"; do
  "$build/bin/tilewright" hw rtl "$machine" >"$work/tw_machine_pkg.sv"
  # WIDTHCONCAT: ports of the 128x128 machines are wider than Verilator thinks probable.
  verilator --lint-only -Wall -Wno-WIDTHCONCAT --unroll-count 4096 --unroll-stmts 100000 -sv --top-module tw_top "$build/isa/tw_isa_pkg.sv" "$work/tw_machine_pkg.sv" simulator/rtl/tw_pkg.sv \
    "$build/simulator/rtl/tw_tables_pkg.sv" simulator/rtl/tw_fp_pkg.sv "${modules[@]}"
  echo "$machine: lint clean"
done
