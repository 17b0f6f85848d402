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
lint() { # machine and its settings; $flags of Verilator
  "$build/bin/tilewright" hw rtl "$@" >"$work/tw_machine_pkg.sv"
  # WIDTHCONCAT: ports of the 128x128 machines are wider than Verilator thinks probable.
  # shellcheck disable=SC2086
  verilator --lint-only -Wall -Wno-WIDTHCONCAT $flags -sv --top-module tw_top "$build/isa/tw_isa_pkg.sv" "$work/tw_machine_pkg.sv" simulator/rtl/tw_pkg.sv \
    "$build/simulator/rtl/tw_tables_pkg.sv" simulator/rtl/tw_fp_pkg.sv "${modules[@]}"
  echo "$*: lint clean"
}
flags="--unroll-count 4096 --unroll-stmts 100000"
for machine in "${machines[@]}"; do
  lint "$machine"
done
# The most that the RTL takes, unrolled no further than where a model is built.
flags=
lint tiny_8x8 --set dma.outstanding_bursts=4096 --set dram.write_buffer_bursts=1024
