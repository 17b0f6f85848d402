// expected at line 7: instruction 'bad' has opcode 1, as instruction 'good' has
include "Small.td"

def Good : Instruction<"good", 1, Sequencer, 1> {
  let fields = [Reserved<20, 236>];
}
def Bad : Instruction<"bad", 1, Sequencer, 1> {
  let fields = [Reserved<20, 236>];
}
