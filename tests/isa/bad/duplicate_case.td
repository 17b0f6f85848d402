// expected at line 4: case of enumeration 'bad' 'a' is defined twice
include "Small.td"

def Bad : Enumeration<"bad", "", [Case<"a", 0, "">, Case<"a", 1, "">]>;
