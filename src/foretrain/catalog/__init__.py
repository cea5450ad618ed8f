"""The catalogue: machines, models, stacks, prices, with a passport beside every number."""
