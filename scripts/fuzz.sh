#!/usr/bin/env bash
# Fuzzes what reads files from outside: scripts/fuzz.sh MINUTES [TARGET...] runs each target so long, all of them by default, in a build
# of its own. What was learnt stays in build/fuzz/corpus, and findings are in build/fuzz/findings: run a target on one to see it again.
# Ends with status 1 at the first finding: a crash, more than 10 s, or more than 2 GB.
# scripts/fuzz.sh --smoke PROGRAM is what the tests run: ten seconds, with one seed of the random numbers.
set -euo pipefail
cd "$(dirname "$0")/.."
limits=(-timeout=10 -rss_limit_mb=2048 -max_len=65536)

seedsOf() {
  local name
  name=$(basename "$1" Target)
  echo "$PWD/tests/fuzz/seeds/${name,,}"
}

scratch=$(mktemp -d) # of the targets' own files as well
trap 'rm -rf "$scratch"' EXIT
export TMPDIR=$scratch

if [ "${1:-}" = --smoke ]; then
  mkdir "$scratch/corpus" "$scratch/findings"
  if ! "$2" "${limits[@]}" -seed=1 -max_total_time=10 -keep_seed=1 -artifact_prefix="$scratch/findings/" "$scratch/corpus" \
    "$(seedsOf "$2")" 2>"$scratch/log"; then
    tail -c 4000 "$scratch/log"
    for file in "$scratch"/findings/*; do
      echo "$(basename "$file") in base64:"
      base64 "$file" | head -c 8000
    done
    exit 1
  fi
  tail -n 1 "$scratch/log"
  exit 0
fi

minutes=${1:?usage: scripts/fuzz.sh MINUTES [TARGET...]}
shift
[[ $minutes =~ ^[1-9][0-9]*$ ]] || { echo "fuzz: MINUTES is '$minutes' but must be a whole number from 1" >&2; exit 1; }
targets=("$@")
[ $# -gt 0 ] || for source in tests/fuzz/targets/*Target.cpp; do targets+=("$(basename "$source" .cpp)"); done
scripts/build.sh fuzz "${targets[@]}"
mkdir -p build/fuzz/findings
for target in "${targets[@]}"; do
  echo "fuzz: $target, $minutes minutes"
  mkdir -p "build/fuzz/corpus/$target"
  "build/fuzz/tests/fuzz/targets/$target" "${limits[@]}" -fork=1 -ignore_timeouts=0 -ignore_ooms=0 -max_total_time=$((60 * minutes)) \
    -artifact_prefix="build/fuzz/findings/$target-" "build/fuzz/corpus/$target" "$(seedsOf "$target")" ||
    { echo "fuzz: $target has found something: build/fuzz/findings" >&2; exit 1; }
done
