"""How pipeline stages interleave and what overlaps."""
