"""Numba loops: arrays in, arrays out.

Every kernel is serial, releases the GIL, and writes into arrays that its caller owns; threads run several of them
side by side on different shards. Indices are unsigned (signed ones cost more than twice the time), sums run in
float64, and the order of a sum depends on the data alone.
"""
