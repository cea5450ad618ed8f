"""Many scenarios: variants of one, and inverse questions about it."""
