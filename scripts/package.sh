#!/usr/bin/env bash
# Builds Debian packages into build/packages: scripts/package.sh [OUTDIR] (docs/packages.md). The page of `tilewright report` is in them
# where scripts/report-page.sh has built it. DEBFULLNAME and DEBEMAIL, where they are set, name the maintainer.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in -*) echo "usage: scripts/package.sh [OUTDIR]" >&2; exit 1 ;; esac
scripts/setup.sh core python packages
scripts/build.sh --core release tilewright tilewright-gpu tilewright-manual tilewright-python
[ -f build/release/share/tilewright/report/template.html ] ||
  echo "package: without the page of tilewright report, which is not built: scripts/setup.sh web, then scripts/report-page.sh" >&2
mkdir -p "${1:-build/packages}"
out=$(cd "${1:-build/packages}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
options=()
[ -z "${DEBEMAIL:-}" ] || options=(-D "CPACK_PACKAGE_CONTACT=${DEBFULLNAME:-$DEBEMAIL} <$DEBEMAIL>")
cpack --config build/release/CPackConfig.cmake -B "$work" "${options[@]}" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
rm -f "$out"/{tilewright,libtilewright0,libtilewright-dev,python3-tilewright}_*.deb
cp "$work"/*.deb "$out"
ls "$out"/*.deb
