// expected at line 4: timing constant 'a_cycles' is -1, allowed are 0 to 4294967295
include "IsaBase.td"

def : TimingConstant<"a_cycles", -1, "">;
