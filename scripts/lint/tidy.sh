#!/usr/bin/env bash
# clang-tidy on the C++ files that a revision and the working tree do not share: scripts/lint/tidy.sh [REVISION], by default HEAD~1. Needs
# Debian's clang-tidy-14 and a build (compile_commands.json). Exit status 1 if it finds something.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v clang-tidy-14 >/dev/null || { echo "tidy: clang-tidy-14 is not installed (apt-get install clang-tidy-14)" >&2; exit 1; }
[ -f build/release/compile_commands.json ] || { echo "tidy: build first (scripts/build.sh)" >&2; exit 1; }
mapfile -t files < <(git diff --name-only --diff-filter=d "${1:-HEAD~1}" -- '*.cpp')
[ ${#files[@]} -gt 0 ] || exit 0
printf '%s\n' "${files[@]}" | xargs -P 2 -n 1 clang-tidy-14 --quiet -p build/release
