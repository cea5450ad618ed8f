"""Conversion factors, each exact by definition. Nothing here is measured."""

from __future__ import annotations

GIB = 2.0**30
GB = 1e9
MIB = 2.0**20
SECOND_PER_HOUR = 3600.0
SECOND_PER_DAY = 86400.0
SECOND_PER_YEAR = 8766.0 * 3600.0  # Julian year: 365.25 days
J_PER_KWH = 3.6e6

DTYPE_BYTE = {
    "fp64": 8.0,
    "fp32": 4.0,
    "tf32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "nf4": (4.0 + 0.127) / 8.0,
    "none": 0.0,
}
"""Bytes per element by data type; ``none`` is a copy that is not kept. ``nf4`` is 4 bits and 0.127 bits of its doubly quantised block
constants (Dettmers et al., arXiv 2305.14314, section 3)."""
