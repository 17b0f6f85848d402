// expected at line 4: instruction 'bad': field 'levels' has the name of a header field
include "Small.td"

def Bad : Instruction<"bad", 1, Sequencer, 1> {
  let fields = [Field<"levels", 20, 8, 0, 1, "">, Reserved<28, 228>];
}
