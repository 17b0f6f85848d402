// expected at line 4: instruction 'bad': field 'a' has 0 elements, allowed is 1 or more
include "Small.td"

def Bad : Instruction<"bad", 1, Sequencer, 1> {
  let fields = [Field<"a", 20, 8, 0, 0, "">, Reserved<28, 228>];
}
