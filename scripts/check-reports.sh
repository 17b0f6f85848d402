#!/usr/bin/env bash
# Makes reports of random networks and of kernels of one layer, on all machines and schedules, and checks each by the rules of
# docs/profile.md: scripts/check-reports.sh [NETWORKS [KERNELS]], 400 and 200 by default. TILEWRIGHT_SEED: the first seed.
set -euo pipefail
cd "$(dirname "$0")/.."
networks=${1:-400} kernels=${2:-200}
scripts/build.sh release RandomNetworkTest RandomKernelTest >&2
tests=build/release/tests/fuzz
output=$(mktemp)
trap 'rm -f "$output"' EXIT
# Each family of networks in int8, fp32 and bf16.
TILEWRIGHT_FUZZ_CASES=$(((networks + 8) / 9)) "$tests/RandomNetworkTest" --gtest_brief=1 | tee "$output"
TILEWRIGHT_FUZZ_CASES=$kernels "$tests/RandomKernelTest" --gtest_brief=1 | tee -a "$output"
awk '/ran, the others/ { ran += $1 } / reports / { for (i = 1; i < NF; ++i) if ($(i + 1) == "reports") reports += $i }
     / kernels ran/ { kernels = $1 } END { printf "%d networks and %d kernels ran, %d reports of programs are sound\n", ran, kernels, reports }' "$output"
