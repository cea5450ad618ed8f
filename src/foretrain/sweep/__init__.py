"""Many plans at once."""
