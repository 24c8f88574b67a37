"""Numbers as text."""

import pytest

from rankwise._text import percent


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0.00%"),
        (0.063, "6.30%"),
        (1.0, "100.00%"),
        (0.00099, "0.099%"),
        (2.34e-5, "0.0023%"),
        (1e-9, "0.00000010%"),
    ],
)
def test_a_share_above_zero_is_never_shown_as_zero(share, text):
    assert percent(share) == text and (float(text.rstrip("%")) > 0) == (share > 0)
