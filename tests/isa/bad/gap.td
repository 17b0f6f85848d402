// expected at line 4: instruction 'bad': no field covers bit 28
include "Small.td"

def Bad : Instruction<"bad", 1, Sequencer, 1> {
  let fields = [Field<"a", 20, 8, 0, 1, "">, Reserved<29, 227>];
}
