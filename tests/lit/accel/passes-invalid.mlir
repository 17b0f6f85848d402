// RUN: tilewright-opt %s -split-input-file -verify-diagnostics --accel-verify-schedule="machine=tiny_8x8"

// A store of what a load may not have written yet.
// expected-error @+1 {{read after write hazard on scratchpad0 bytes [0, 64): store0 does not wait for load0}}
module {
  func.func @program() {
    isa.load(span=64 counts=[64, 1, 1, 1, 1])
    isa.store(dram_address=4096 span=64 counts=[64, 1, 1, 1, 1])
    isa.halt()
    return
  }
}

// -----

// expected-error @+1 {{has no function @program}}
module {
}
