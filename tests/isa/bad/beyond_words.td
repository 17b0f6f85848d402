// expected at line 4: instruction 'bad': a reserved field at bits 28 to 256 goes beyond bit 255
include "Small.td"

def Bad : Instruction<"bad", 1, Sequencer, 1> {
  let fields = [Field<"a", 20, 8, 0, 1, "">, Reserved<28, 229>];
}
