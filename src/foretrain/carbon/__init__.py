"""Kilograms of CO2-equivalent: operational (location- and market-based) and embodied."""
