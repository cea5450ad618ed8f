"""The command line: verbs only."""
