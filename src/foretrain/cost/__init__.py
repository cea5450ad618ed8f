"""Dollars: rented or owned."""
