// expected at line 5: timing formula 'f' names 'b_cycles', which is neither an argument nor a timing constant
include "IsaBase.td"

def : TimingConstant<"a_cycles", 1, "">;
def : TimingFormula<"f", ["x"], "a_cycles + clog2(x) * b_cycles", "">;
