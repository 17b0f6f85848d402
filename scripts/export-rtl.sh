#!/usr/bin/env bash
# Writes the RTL of one machine as a project of its own: scripts/export-rtl.sh MACHINE DIR [--set KEY=VALUE]...
# DIR, which must be new or empty, holds the modules and packages, the list of them in the order in which they are read (files.f), the
# testbench that the simulator drives (a C interface around the Verilated machine) and a Makefile: `make lint`, and `make`, which builds
# the testbench as a shared object. $TILEWRIGHT names the program, build/release/bin/tilewright by default.
set -euo pipefail
fail() {
  echo "export-rtl.sh: $1" >&2
  exit 1
}
[ $# -ge 2 ] || fail "usage: export-rtl.sh MACHINE DIR [--set KEY=VALUE]..."
root=$(cd "$(dirname "$0")/.." && pwd)
tool=${TILEWRIGHT:-$root/build/release/bin/tilewright}
machine=$1
out=$2
shift 2
[ -x "$tool" ] || fail "there is no program '$tool': build it (scripts/build.sh) or set TILEWRIGHT"
share=$(dirname "$(readlink -f "$tool")")/../share/tilewright/rtl
[ -d "$share" ] || fail "there is no RTL in '$share'"
[ ! -e "$out" ] || [ -z "$(ls -A "$out")" ] || fail "'$out' is not empty"
package=$("$tool" hw rtl "$machine" "$@") || exit 1
mkdir -p "$out/rtl" "$out/testbench/simulator/cosim"
cp -L "$share"/simulator/rtl/tw_*.sv "$share/tw_isa_pkg.sv" "$share/tw_tables_pkg.sv" "$out/rtl"
cp -L "$share/simulator/cosim/RtlShim.cpp" "$share/simulator/cosim/RtlAbi.h" "$out/testbench/simulator/cosim"
cd "$out"
printf '%s\n' "$package" >rtl/tw_machine_pkg.sv
for name in isa machine '' tables fp; do # each uses those before it
  echo "rtl/tw_${name:+${name}_}pkg.sv"
done >files.f
LC_ALL=C ls rtl/*.sv | grep -v '_pkg\.sv$' >>files.f
cat >Makefile <<'EOF'
# The flags are those that the simulator builds its models with.
VERILATE = verilator -sv --top-module tw_top -f files.f
VERILATOR_INCLUDE = $(shell verilator --getenv VERILATOR_ROOT)/include
CXXFLAGS = -std=c++17 -O2 -w -fPIC

machine.so: files.f $(shell cat files.f) $(wildcard testbench/simulator/cosim/*)
	$(VERILATE) --cc -O3 --x-assign fast --x-initial fast --noassert --output-split 20000 --prefix Vtw_top --Mdir obj
	$(MAKE) -C obj -f Vtw_top.mk OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O2 "USER_CPPFLAGS=-fPIC -w" \
	  verilated.o verilated_threads.o Vtw_top__ALL.a
	$(CXX) $(CXXFLAGS) -shared -DVM_TRACE=0 -DVM_TRACE_FST=0 -DVM_COVERAGE=0 -Itestbench -Iobj -isystem $(VERILATOR_INCLUDE) -isystem $(VERILATOR_INCLUDE)/vltstd \
	  testbench/simulator/cosim/RtlShim.cpp obj/verilated.o obj/verilated_threads.o obj/Vtw_top__ALL.a -pthread -latomic -Wl,-z,defs -o $@

# WIDTHCONCAT: ports of large machines are wider than Verilator thinks probable.
lint:
	$(VERILATE) --lint-only -Wall -Wno-WIDTHCONCAT --unroll-count 4096 --unroll-stmts 100000

clean:
	rm -rf obj machine.so

.PHONY: lint clean
EOF
cat >README.md <<EOF
# $machine${*:+ ($*)}
The machine in SystemVerilog; the top is \`tw_top\`, and \`rtl/tw_machine_pkg.sv\` holds all that makes it this machine. \`make lint\` checks
it with Verilator; \`make\` builds it with the testbench as \`machine.so\`, whose C interface is \`testbench/simulator/cosim/RtlAbi.h\`.
Exported from Tilewright $("$tool" --version | cut -d' ' -f2).
EOF
echo "$machine: $(wc -l <files.f) files in $PWD"
