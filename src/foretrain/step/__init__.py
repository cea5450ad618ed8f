"""What a step says about the plan: does memory fit, and how well is the machine used."""
