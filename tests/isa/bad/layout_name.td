// expected at line 4: bit layout 'bad' is unknown, allowed are 'header' and 'level'
include "Small.td"

def Bad : BitLayout<"bad", 1> {
  let fields = [Reserved<0, 1>];
}
