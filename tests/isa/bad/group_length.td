// expected at line 4: instruction 'bad': the members of group 'g' differ in length
include "Small.td"

def Bad : Instruction<"bad", 1, Sequencer, 1> {
  let fields = [Field<"a", 20, 8, 0, 1, "">, Field<"b", 28, 8, 0, 2, "">, Reserved<44, 212>];
  let groups = [Group<"g", ["a", "b"]>];
}
