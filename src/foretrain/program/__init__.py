"""Waist 1: the work of a training step as ops, bytes, FLOP and groups; no hardware, no seconds."""
