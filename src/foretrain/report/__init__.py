"""Results as words, tables and machine-readable files."""
