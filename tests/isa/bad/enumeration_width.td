// expected at line 4: instruction 'bad': field 'a' cannot hold case 'blue' of enumeration 'color': value 5 is above 3
include "Small.td"

def Bad : Instruction<"bad", 1, Sequencer, 1> {
  let fields = [EnumField<"a", 20, 2, 0, 1, "", Color>, Reserved<22, 234>];
}
