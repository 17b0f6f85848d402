// expected at line 9: bit layout 'level' has 64 bits, the limit level_bits says 128
include "Limits.td"

def Header : BitLayout<"header", 13> {
  let fields = [
    Field<"opcode", 0, 6, 0, 1, "">, Field<"words", 6, 4, 0, 1, "">, Field<"num_levels", 10, 3, 0, 1, "">
  ];
}
def Level : BitLayout<"level", 64> {
  let fields = [Reserved<0, 64>];
}
