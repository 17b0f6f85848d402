// expected at line 3: no network knob is named 'colours'
include "Knobs.td"
def : KernelKnob<"colour", Flag, "whether the kernel has one"> {
  let fromNetwork = "colours";
}
