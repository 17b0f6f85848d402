// expected at line 4: two knobs are named 'colour'
include "Knobs.td"
def : NetworkKnob<"colour", Flag, "whether all kernels have one", "false">;
def : NetworkKnob<"colour", Flag, "whether none has one", "false">;
