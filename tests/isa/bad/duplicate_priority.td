// expected at line 4: engines 'sequencer' and 'bad' both have priority 5
include "Small.td"

def Bad : Engine<"bad", 5, "">;
