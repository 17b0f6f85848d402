// expected at line 4: instruction 'bad': field 'a' at bits 20 to 27 and a reserved field at bits 20 to 255 overlap
include "Small.td"

def Bad : Instruction<"bad", 1, Sequencer, 1> {
  let fields = [Field<"a", 20, 8, 0, 1, "">, Reserved<20, 236>];
}
