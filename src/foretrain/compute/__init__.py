"""How long an op takes on a chip."""
