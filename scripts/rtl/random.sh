#!/usr/bin/env bash
# Random programs on all models, on four machines (8x8, 16x16, 32x32; int8, bf16, fp32): scripts/rtl/random.sh [PROGRAMS [FAULTY [SEED [OPTION...]]]]
# PROGRAMS legal and FAULTY faulty ones on each machine. Exit status 1 at the first difference, with the smallest program that shows it.
set -euo pipefail
cd "$(dirname "$0")/../.."
tool=${TILEWRIGHT_RANDOM:-build/release/bin/tilewright-random}
export SYSTEMC_DISABLE_COPYRIGHT_MESSAGE=1
for machine in tiny_8x8 gemmini_16x16_int8 gemmini_16x16_fp32 edge_32x32_bf16; do
  "$tool" --machine "$machine" --programs "${1:-5000}" --illegal "${2:-500}" --seed "${3:-1000000}" --coverage "${@:4}"
done
