// expected at line 4: enumeration 'bad' has no case 0, the value of a field nobody sets
include "Small.td"

def Bad : Enumeration<"bad", "", [Case<"a", 1, "">]>;
