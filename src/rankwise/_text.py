"""Numbers as text."""

import math


def percent(share: float) -> str:
    """Return a share in percent, with two decimals or, if it is below 0.1 %, two significant digits."""
    if not 0 < share < 0.001:
        return f"{share:.2%}"
    return f"{share:.{-math.floor(math.log10(share)) - 1}%}"
