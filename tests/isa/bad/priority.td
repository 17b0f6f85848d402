// expected at line 4: engine 'bad' has priority 7, allowed are 0 to 6, each once
include "Small.td"

def Bad : Engine<"bad", 7, "">;
