// expected at line 4: instruction 'bad' has opcode 64, allowed are 0 to 63
include "Small.td"

def Bad : Instruction<"bad", 64, Sequencer, 1> {
  let fields = [Reserved<20, 236>];
}
