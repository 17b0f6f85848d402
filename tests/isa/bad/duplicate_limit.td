// expected at line 4: limit 'big' is defined twice
include "Small.td"

def Bad : Limit<"big", 1, "">;
