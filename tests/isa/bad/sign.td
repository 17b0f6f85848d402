// expected at line 4: instruction 'bad': field 'a' is signed and has no bit beside the sign
include "Small.td"

def Bad : Instruction<"bad", 1, Sequencer, 1> {
  let fields = [Field<"a", 20, 1, 1, 1, "">, Reserved<21, 235>];
}
