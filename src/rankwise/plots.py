"""Pictures of a fitted model, each on one matplotlib Axes: `rankwise.report.plots` under the name that people use."""

from .report.plots import calibration, convergence, factor_map, rank_path, residuals, spectrum

__all__ = ["calibration", "convergence", "factor_map", "rank_path", "residuals", "spectrum"]
