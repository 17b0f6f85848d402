// expected at line 4: instruction 'bad': field 'rest' has the name of a header field
include "Small.td"

def Bad : Instruction<"bad", 1, Sequencer, 1> {
  let fields = [Field<"rest", 20, 8, 0, 1, "">, Reserved<28, 228>];
}
