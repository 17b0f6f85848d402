// expected at line 4: two knobs are named 'colour'
include "Knobs.td"
def : KernelKnob<"colour", Flag, "whether the kernel has one">;
def : KernelKnob<"colour", Count, "how many it has">;
