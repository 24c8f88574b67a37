"""Loops over the bytes of text files."""

import numpy as np

from .jit import jit

NEWLINE, RETURN, PLUS, MINUS, POINT, ZERO, NINE = 10, 13, 43, 45, 46, 48, 57
LOWER_E, UPPER_E = 101, 69
MOST_DIGITS = 18  # what an int64 can hold for sure
POWERS = 10.0 ** np.arange(23)  # all exact
SLACK = 2.0**-48  # above the relative error of a quotient of a rounded integer and an exact power


@jit
def read_integer(text, at):
    """The integer that begins at byte `at` and where it ends; an end of -1 if it is not a plain one."""
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += 1
    start, total = at, np.int64(0)
    while ZERO <= text[at] <= NINE:
        total = total * 10 + (np.int64(text[at]) - ZERO)
        at += 1
        if at - start > MOST_DIGITS:
            return np.int64(0), -1
    return -total if negative else total, at if at > start else -1


@jit
def read_label(text, at):
    """The same for an integer as a program writes it: 007, +7 and -0 are not."""
    digit = at + (text[at] == MINUS)
    found, end = read_integer(text, at)
    if text[at] == PLUS or (text[digit] == ZERO and end > at + 1):
        return np.int64(0), -1
    return found, end


@jit
def read_decimal(text, at):
    """The float32 nearest to the decimal number at byte `at`, and where it ends; an end of -1 if it is not plain."""
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += 1
    total, n_digits, n_significant, power, pointed = np.int64(0), 0, 0, np.int64(0), False
    while ZERO <= text[at] <= NINE or (text[at] == POINT and not pointed):
        if text[at] == POINT:
            pointed = True
        else:
            total = total * 10 + (np.int64(text[at]) - ZERO)
            n_digits += 1
            n_significant += total != 0
            power -= pointed
            if n_significant > MOST_DIGITS:
                return np.float32(0), -1
        at += 1
    if n_digits == 0:
        return np.float32(0), -1
    if text[at] == LOWER_E or text[at] == UPPER_E:
        exponent, at = read_integer(text, at + 1)
        power += exponent
    if abs(power) >= POWERS.size or at < 0:
        return np.float32(0), -1
    found = total / POWERS[-power] if power < 0 else total * POWERS[power]
    nearest = np.float32(found * (1 - SLACK))
    if nearest != np.float32(found * (1 + SLACK)):  # too near the border between two float32 to decide here
        return np.float32(0), -1
    return -nearest if negative else nearest, at


@jit
def parse_entries(text, delimiter, more, comment, fields, rows, cols, values):
    """Read the lines of `text`, up to one that is not plain or finds `rows` full; bytes, lines and entries read.

    Fields ``fields[0], fields[1], fields[2]`` of a line go to `rows`, `cols`, `values`. `text` ends in a newline.
    Between fields are 1 + `more` bytes `delimiter`, two at most.
    """
    start, n_lines, n, last = 0, 0, 0, max(fields)
    while start < text.size:
        at = start
        if text[at] != comment and text[at] != NEWLINE:
            if n == rows.size:
                break
            for field in range(last + 1):
                if field == fields[0]:
                    rows[n], at = read_label(text, at)
                elif field == fields[1]:
                    cols[n], at = read_label(text, at)
                elif field == fields[2]:
                    values[n], at = read_decimal(text, at)
                else:
                    while (text[at] != delimiter or text[at + more] != delimiter) and text[at] != NEWLINE:
                        at += 1
                if at < 0 or (field < last and (text[at] != delimiter or text[at + more] != delimiter)):
                    break
                at += (1 + more) * (field < last)
            if at >= 0 and text[at] == RETURN:
                at += 1
                ended = text[at] == NEWLINE
            else:
                ended = at >= 0 and (text[at] == NEWLINE or (text[at] == delimiter and text[at + more] == delimiter))
            if field < last or not ended:
                break
            n += 1
        while text[at] != NEWLINE:
            at += 1
        start = at + 1
        n_lines += 1
    return start, n_lines, n
