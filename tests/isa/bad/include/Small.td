// A good description without instructions; each test adds one with a fault.
include "Limits.td"

def Header : BitLayout<"header", 20> {
  let fields = [
    Field<"opcode", 0, 6, 0, 1, "">, Field<"words", 6, 4, 0, 1, "">, Field<"num_levels", 10, 3, 0, 1, "">,
    Field<"rest", 13, 7, 0, 1, "">
  ];
}
def Level : BitLayout<"level", 128> {
  let fields = [Field<"count", 0, 16, 0, 1, "">, Reserved<16, 112>];
}
