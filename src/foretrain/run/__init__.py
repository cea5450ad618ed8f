"""The job: steps, checkpoints, failures and goodput. Waist 3 is ``Run``."""
