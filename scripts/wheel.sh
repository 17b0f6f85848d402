#!/usr/bin/env bash
# Builds the Python package as a wheel for Debian's python3: scripts/wheel.sh [OUTDIR], build/wheel by default. It holds the library,
# the program tilewright, machines, RTL and, where scripts/report-page.sh has built it, the page of `tilewright report`; NumPy, LLVM and
# SystemC come from Debian (scripts/packages.txt, groups core and python).
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh core python
scripts/build.sh --core release tilewright tilewright-python
out=${1:-build/wheel}
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cmake --install build/release --component wheel --prefix "$tree" >/dev/null
version=$(sed -nE 's/^project\(Tilewright VERSION ([0-9.]+) .*/\1/p' CMakeLists.txt)
info=$tree/tilewright-$version.dist-info
mkdir -p "$info" "$out"
cp LICENSE scripts/debian/copyright "$info"
cat >"$info/METADATA" <<EOF
Metadata-Version: 2.1
Name: tilewright
Version: $version
Summary: Compile neural networks for a simulated tensor accelerator, run them and see where the cycles go
License: Apache-2.0 WITH LLVM-exception
Requires-Python: >=3.11
Requires-Dist: numpy
EOF
cat >"$info/WHEEL" <<EOF
Wheel-Version: 1.0
Generator: scripts/wheel.sh
Root-Is-Purelib: false
Tag: $(/usr/bin/python3 -c 'import sys, sysconfig; v = "cp%d%d" % sys.version_info[:2]; print(v, v, sysconfig.get_platform().replace("-", "_"), sep="-")')
EOF
/usr/bin/python3 -m wheel pack "$tree" --dest-dir "$out"
