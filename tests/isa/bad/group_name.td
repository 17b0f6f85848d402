// expected at line 4: instruction 'bad': group 'a' has the name of a field or another group
include "Small.td"

def Bad : Instruction<"bad", 1, Sequencer, 1> {
  let fields = [Field<"a", 20, 8, 0, 1, "">, Reserved<28, 228>];
  let groups = [Group<"a", ["a"]>];
}
