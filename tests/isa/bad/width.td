// expected at line 4: instruction 'bad': field 'a' is 49 bits wide, allowed are 1 to 48
include "Small.td"

def Bad : Instruction<"bad", 1, Sequencer, 1> {
  let fields = [Field<"a", 20, 49, 0, 1, "">, Reserved<69, 187>];
}
