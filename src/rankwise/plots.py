"""Plots of a fitted model: the public name of `rankwise.report.plots`."""

from .report.plots import calibration, convergence, factor_map, rank_path, residuals, spectrum

__all__ = ["calibration", "convergence", "factor_map", "rank_path", "residuals", "spectrum"]
