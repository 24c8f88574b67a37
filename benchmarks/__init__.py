"""Benchmarks: one question per file, answered in numbers. `make bench` runs them all."""
