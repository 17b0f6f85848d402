#!/usr/bin/env bash
# Checks that every C and C++ file stands as .clang-format says. `scripts/lint/format.sh --fix` formats them.
set -euo pipefail
cd "$(dirname "$0")/../.."
mapfile -t files < <(git ls-files '*.c' '*.cpp' '*.h')
if [ "${1:-}" = --fix ]; then
  exec clang-format-14 -i "${files[@]}"
fi
clang-format-14 --dry-run --Werror "${files[@]}"
