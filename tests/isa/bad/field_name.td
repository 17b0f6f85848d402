// expected at line 4: instruction 'bad': field 'A' is not a lower_snake_case name
include "Small.td"

def Bad : Instruction<"bad", 1, Sequencer, 1> {
  let fields = [Field<"A", 20, 8, 0, 1, "">, Reserved<28, 228>];
}
