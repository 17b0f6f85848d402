// expected at line 4: instruction 'bad': field 'a' cannot hold its limit 'big': 300 is above 255
include "Small.td"

def Bad : Instruction<"bad", 1, Sequencer, 1> {
  let fields = [BoundedField<"a", 20, 8, 0, 1, "", Big>, Reserved<28, 228>];
}
