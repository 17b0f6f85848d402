#!/usr/bin/env bash
# The RTL with random bits in all that is not reset or not defined: scripts/rtl/unknown.sh [PROGRAMS [FAULTY [SEED]]]
# PROGRAMS legal and FAULTY faulty random programs on each of two machines, in three parts that begin with other bits:
# nothing that the models are compared by may depend on them. Exit status 1 at the first difference.
set -euo pipefail
cd "$(dirname "$0")/../.."
tool=${TILEWRIGHT_RANDOM:-build/release/bin/tilewright-random}
export SYSTEMC_DISABLE_COPYRIGHT_MESSAGE=1 TILEWRIGHT_VERILATOR_FLAGS="--x-initial unique --x-assign unique"
seed=${3:-1}
for machine in tiny_8x8 tests/rtl/random/odd_8x4_fp32.yaml; do
  for part in 0 1 2; do
    TILEWRIGHT_RTL_RANDOM=$((seed + part)) "$tool" --machine "$machine" --programs $((${1:-300} / 3)) \
      --illegal $((${2:-200} / 3)) --seed $((seed + part * 1000000)) --no-stepped
  done
done
