"""Parsing of integer labels."""

from numba import int64, uint64

from .jit import jit

MINUS, ZERO = 45, 48
MAX_DIGITS = 18  # an int64 holds any integer of 18 digits


@jit
def read_integers(text, ends, numbers):
    """Parse ``text[ends[k]:ends[k + 1]]`` into ``numbers[k]``; return whether all are integers as programs print them.

    Leading zeros, plus signs, blanks and more than 18 digits are not; `text` and `ends` are those of an Arrow array.
    """
    at = uint64(ends[0])
    for k in range(numbers.size):
        end = uint64(ends[k + 1])
        negative = at < end and text[at] == MINUS
        at += uint64(negative)
        n_digits = int64(end) - int64(at)
        if n_digits < 1 or n_digits > MAX_DIGITS or (text[at] == ZERO and (n_digits > 1 or negative)):
            return False
        number = int64(0)
        for j in range(at, end):
            digit = int64(text[j]) - ZERO
            if digit < 0 or digit > 9:
                return False
            number = 10 * number + digit
        numbers[k] = -number if negative else number
        at = end
    return True
