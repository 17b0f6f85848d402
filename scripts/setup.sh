#!/usr/bin/env bash
# Installs what is missing of the packages in scripts/packages.txt (Debian 12): scripts/setup.sh [GROUP...], all groups but web by default.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
known=$(sed -nE 's/^\[([a-z]+)\].*/\1/p' "$here/packages.txt" | paste -sd' ')
for group in "$@"; do
  [[ " $known " = *" $group "* ]] || { echo "setup: unknown group '$group'; the groups are $known" >&2; exit 1; }
done
mapfile -t packages < <(awk -v wanted=" ${*:-${known/ web/}} " \
  '/^\[/ { group = substr($1, 2, length($1) - 2); next } /^[a-z0-9]/ && index(wanted, " " group " ")' "$here/packages.txt")
missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
echo "setup: installing ${missing[*]}"
run=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: needs root or sudo to install packages" >&2; exit 1; }
  run=(sudo)
fi
"${run[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${run[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
