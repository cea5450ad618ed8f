"""Money over time."""

from __future__ import annotations

import numpy as np

from foretrain.core.numeric import Num, maximum

LEAST_RATE = 1e-12
"""Discount rate per period that stands for zero: over a hundred periods the annuity is right to ten digits."""


def capital_recovery(rate: Num, periods: Num) -> Num:
    """Payment per period that repays one unit of capital over ``periods`` at interest ``rate`` per period.

    ``CRF = rate / (1 - (1 + rate)^-periods)`` (the annuity formula of engineering economics; used for data centres by Koomey et al.,
    Uptime Institute 2007, and Hamilton 2010). ``1 / periods`` at rate zero; ``rate`` for an endless life. Any period will do, if
    both arguments use the same one; ``periods`` > 0 may be a fraction.

    >>> round(float(capital_recovery(0.05 / 12, 36.0)), 6), round(float(capital_recovery(0.0, 4.0)), 9)
    (0.029971, 0.25)
    """
    rate = maximum(rate, LEAST_RATE)
    return -rate / np.expm1(-periods * np.log1p(rate))
