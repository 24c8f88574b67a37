"""Pictures of what was learned."""

from .pictures import Panel, rank_path

__all__ = ["Panel", "rank_path"]
