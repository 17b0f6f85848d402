#!/usr/bin/env bash
# Sets up what is missing, builds, and runs every test. Long suites: scripts/test.sh --long. The page of `tilewright report` is built and
# opened in a browser where node and Chromium can be had: scripts/test.sh --web.
set -euo pipefail
cd "$(dirname "$0")/.."
label=(-LE long)
web=false
for argument in "$@"; do
  case $argument in
  --long) label=() ;;
  --web) web=true ;;
  *) echo "test: unknown argument '$argument'; usage: scripts/test.sh [--long] [--web]" >&2; exit 1 ;;
  esac
done
scripts/build.sh release
if $web; then
  begin=$SECONDS
  status=0
  scripts/setup.sh web || status=77
  [ "$status" -ne 0 ] || scripts/report-page.sh || status=$?
  case $status in
  0) echo "test: the page of tilewright report is built, $((SECONDS - begin)) s" ;;
  77) echo "test: SKIPS the tests of the page of tilewright report: what builds or opens it cannot be had (see above)" ;;
  *) exit "$status" ;;
  esac
fi
ctest --test-dir build/release --output-on-failure -j "${TILEWRIGHT_JOBS:-2}" "${label[@]}"
