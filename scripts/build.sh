#!/usr/bin/env bash
# Configures and builds one preset: scripts/build.sh [release|debug|asan] [target...]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
preset=${1:-release}
shift || true
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
[ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" >"/tmp/tilewright-configure.$$" 2>&1 ||
  { cat "/tmp/tilewright-configure.$$" >&2; exit 1; }
rm -f "/tmp/tilewright-configure.$$"
cmake --build "build/$preset" -j "${TILEWRIGHT_JOBS:-2}" ${1:+--target "$@"}
