// expected at line 4: enumeration 'color' is defined twice
include "Small.td"

def Bad : Enumeration<"color", "", [Case<"a", 0, "">]>;
