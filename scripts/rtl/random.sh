#!/usr/bin/env bash
# Random programs on all models, on six machines (8x8, 16x16, 32x32, 8x32, 4x64; int8, bf16, fp32) with both DRAM controllers:
# scripts/rtl/random.sh [PROGRAMS [FAULTY [SEED [OPTION...]]]]
# PROGRAMS legal and FAULTY faulty ones on each machine with each controller, 22,000 by default. Exit status 1 at the first difference, with
# the smallest program that shows it.
set -euo pipefail
cd "$(dirname "$0")/../.."
tool=${TILEWRIGHT_RANDOM:-build/release/bin/tilewright-random}
export SYSTEMC_DISABLE_COPYRIGHT_MESSAGE=1
for machine in tiny_8x8 gemmini_16x16_int8 gemmini_16x16_fp32 edge_32x32_bf16 tests/rtl/random/odd_8x32_int8.yaml tests/rtl/random/odd_4x64_bf16.yaml; do
  # The memory of tiny_8x8 is ideal: it has no controller, and the programs are others.
  for seed in "${3:-1000000}" "$((${3:-1000000} + 1000000))"; do
    options=()
    [ "$seed" = "${3:-1000000}" ] || [ "$machine" = tiny_8x8 ] || options=(--set dram.controller=in_order)
    "$tool" --machine "$machine" "${options[@]}" --programs "${1:-1667}" --illegal "${2:-167}" --seed "$seed" --coverage "${@:4}"
  done
done
