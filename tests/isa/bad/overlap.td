// expected at line 4: instruction 'bad': field 'a' at bits 20 to 27 and field 'b' at bits 27 to 34 overlap
include "Small.td"

def Bad : Instruction<"bad", 1, Sequencer, 1> {
  let fields = [Field<"a", 20, 8, 0, 1, "">, Field<"b", 27, 4, 0, 2, "">, Reserved<35, 221>];
}
