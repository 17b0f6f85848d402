#!/usr/bin/env bash
# Sets up what is missing, builds, and runs every test. Long suites: scripts/test.sh --long
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh release
label=(-LE long)
[ "${1:-}" = --long ] && label=()
ctest --test-dir build/release --output-on-failure -j "${TILEWRIGHT_JOBS:-2}" "${label[@]}"
