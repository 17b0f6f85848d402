// expected at line 4: bit layout 'level' is defined twice
include "Small.td"

def Bad : BitLayout<"level", 128> {
  let fields = [Reserved<0, 128>];
}
