// expected at line 4: instruction 'bad': field 'a' is defined twice
include "Small.td"

def Bad : Instruction<"bad", 1, Sequencer, 1> {
  let fields = [Field<"a", 20, 8, 0, 1, "">, Field<"a", 28, 8, 0, 1, "">, Reserved<36, 220>];
}
