"""Plots of fitted models, each on one matplotlib Axes; the public name of `rankwise.report.plots`."""

from .report.plots import calibration, convergence, factor_map, rank_path, residuals, spectrum

__all__ = ["calibration", "convergence", "factor_map", "rank_path", "residuals", "spectrum"]
