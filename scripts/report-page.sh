#!/usr/bin/env bash
# Builds the page of `tilewright report` without data: scripts/report-page.sh [BUILD], by default build/release.
# Needs node (18 or newer) and npm (scripts/setup.sh web), and once the network, for the packages in runtime/report/package-lock.json.
# Status 77: one of these cannot be had.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build/release}
for program in node npm; do
  command -v "$program" >/dev/null || { echo "report-page: needs $program: scripts/setup.sh web" >&2; exit 77; }
done
node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' ||
  { echo "report-page: found node $(node --version); needs 18 or newer" >&2; exit 77; }
cd "$root/runtime/report"
# What is installed stays while the lock file is the same.
if ! cmp -s package-lock.json node_modules/.installed; then
  timeout 300 npm ci --ignore-scripts --no-audit --no-fund --loglevel error ||
    { echo "report-page: npm cannot fetch the packages in runtime/report/package-lock.json" >&2; exit 77; }
  cp package-lock.json node_modules/.installed
fi
npx --no-install tsc -p .
npx --no-install vite build --logLevel warn --emptyOutDir --outDir "$build/report-page"
install -D -m 644 "$build/report-page/index.html" "$build/share/tilewright/report/template.html"
echo "report-page: $build/share/tilewright/report/template.html"
