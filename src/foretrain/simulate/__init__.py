"""The whole house on one page, and the scenario that says what to put in."""
