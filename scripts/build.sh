#!/usr/bin/env bash
# Configures and builds one preset: scripts/build.sh [--core] [release|debug|asan] [target...]
# --core: installs only the packages that tilewright itself needs, and does not configure the tests of a new build folder.
set -euo pipefail
cd "$(dirname "$0")/.."
core=false
[ "${1:-}" != --core ] || { core=true; shift; }
preset=${1:-release}
shift || true
folder=build/$preset
options=()
if $core; then
  scripts/setup.sh core
  [ -f "$folder/build.ninja" ] || options=(-DTILEWRIGHT_TESTS=OFF)
else
  scripts/setup.sh
  options=(-DTILEWRIGHT_TESTS=ON)
  grep -qs '^TILEWRIGHT_TESTS:BOOL=OFF' "$folder/CMakeCache.txt" || [ ! -f "$folder/build.ninja" ] || options=()
fi
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
# A folder that was configured without pybind11 has no Python package; it may be installed now.
again=false
! grep -qs '^pybind11_DIR:PATH=pybind11_DIR-NOTFOUND' "$folder/CMakeCache.txt" || again=true
if [ ! -f "$folder/build.ninja" ] || [ ${#options[@]} -gt 0 ] || $again; then
  log=$(mktemp)
  cmake --preset "$preset" "${options[@]}" >"$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; exit 1; }
  rm -f "$log"
fi
cmake --build "$folder" -j "${TILEWRIGHT_JOBS:-2}" ${1:+--target "$@"}
