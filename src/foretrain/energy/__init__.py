"""Joules at the meter: chips, host, network, conversion losses, facility."""
