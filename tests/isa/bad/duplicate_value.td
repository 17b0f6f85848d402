// expected at line 4: enumeration 'bad': cases 'a' and 'b' both have value 0
include "Small.td"

def Bad : Enumeration<"bad", "", [Case<"a", 0, "">, Case<"b", 0, "">]>;
