// expected at line 4: instruction 'bad' has 13 words, allowed are 1 to 12
include "Small.td"

def Bad : Instruction<"bad", 1, Sequencer, 13> {
  let fields = [Reserved<20, 3308>];
}
