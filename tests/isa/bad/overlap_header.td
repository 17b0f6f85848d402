// expected at line 4: instruction 'bad': the header at bits 0 to 19 and field 'a' at bits 19 to 26 overlap
include "Small.td"

def Bad : Instruction<"bad", 1, Sequencer, 1> {
  let fields = [Field<"a", 19, 8, 0, 1, "">, Reserved<27, 229>];
}
