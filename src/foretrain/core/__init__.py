"""Numbers, units, sums that remember their parts, verdicts and errors."""
