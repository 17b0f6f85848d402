// expected at line 7: instruction 'good' is defined twice
include "Small.td"

def Good : Instruction<"good", 1, Sequencer, 1> {
  let fields = [Reserved<20, 236>];
}
def Bad : Instruction<"good", 2, Sequencer, 1> {
  let fields = [Reserved<20, 236>];
}
