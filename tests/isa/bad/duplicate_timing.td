// expected at line 5: timing record 'a_cycles' is defined twice
include "IsaBase.td"

def : TimingConstant<"a_cycles", 1, "">;
def : TimingConstant<"a_cycles", 2, "">;
