// expected at line 4: bit layout 'header' lacks the field 'words'
include "Limits.td"

def Header : BitLayout<"header", 10> {
  let fields = [Field<"opcode", 0, 6, 0, 1, "">, Field<"num_levels", 6, 4, 0, 1, "">];
}
def Level : BitLayout<"level", 128> {
  let fields = [Reserved<0, 128>];
}
