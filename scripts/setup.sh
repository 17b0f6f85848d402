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

present() { # whether the system has what a package is for
  # Node may come from elsewhere, with an npm of its own that Debian's conflicts with.
  case $1 in nodejs) command -v node && return ;; npm) command -v npm && return ;; esac
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}
find_missing() {
  missing=()
  for package in "${packages[@]}"; do
    present "$package" >/dev/null || missing+=("$package")
  done
}
find_missing
[ ${#missing[@]} -eq 0 ] && exit 0
echo "setup: installing ${missing[*]}"
run=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: needs root or sudo to install packages" >&2; exit 1; }
  run=(sudo)
fi
install() {
  DEBIAN_FRONTEND=noninteractive "${run[@]}" apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}
"${run[@]}" apt-get update -qq
if [[ " ${missing[*]} " = *" nodejs "* ]]; then
  install nodejs
  find_missing
fi
[ ${#missing[@]} -eq 0 ] || install "${missing[@]}"
