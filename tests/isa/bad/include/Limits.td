// Enough limits and an enumeration for a description of a few lines.
include "IsaBase.td"

def WordBits  : Limit<"word_bits", 256, "">;
def LevelBits : Limit<"level_bits", 128, "">;
def MaxLevels : Limit<"max_levels", 6, "">;
def Big       : Limit<"big", 300, "">;
def Color     : Enumeration<"color", "", [Case<"red", 0, "">, Case<"blue", 5, "">]>;
