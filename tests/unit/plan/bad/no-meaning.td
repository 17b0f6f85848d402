// expected at line 3: knob 'colour' has no meaning
include "Knobs.td"
def : KernelKnob<"colour", Flag, "">;
