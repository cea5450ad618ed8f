"""Measured runs against predictions."""
