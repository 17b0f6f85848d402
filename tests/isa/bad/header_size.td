// expected at line 4: bit layout 'header': no field covers bit 13
include "Limits.td"

def Header : BitLayout<"header", 14> {
  let fields = [
    Field<"opcode", 0, 6, 0, 1, "">, Field<"words", 6, 4, 0, 1, "">, Field<"num_levels", 10, 3, 0, 1, "">
  ];
}
def Level : BitLayout<"level", 128> {
  let fields = [Reserved<0, 128>];
}
