"""What solvers ask of an engine: a verb on every shard, and the answers joined in one of four ways."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .buffers import Buffers
from .fold import Fold, Part
from .team import Team

Array = NDArray[Any]
STAY, CONCATENATE, SUM, BOTH = "stay", "concatenate", "sum", "both"


class Answers:
    """Answers of some shards to one verb: pieces with their shards' numbers, and parts of a sum."""

    def __init__(self, join: str, buffers: Buffers | None = None) -> None:
        self.join, self.fold = join, Fold(buffers)
        self.pieces: list[tuple[int, Any]] = []

    def take(self, number: int, answer: Any) -> None:
        """The answer of one shard; shards come in order."""
        if self.join == BOTH:
            piece, term = answer
        else:
            piece = term = answer
        if self.join in (CONCATENATE, BOTH):
            self.pieces.append((number, piece))
        if self.join in (SUM, BOTH):
            self.fold.add(Part(number, 1, term))

    def merge(self, others: Iterable["Answers"]) -> None:
        """The answers of all shards, made in several places."""
        others = list(others)
        self.pieces = sorted((piece for other in others for piece in other.pieces), key=lambda piece: piece[0])
        for part in sorted((part for other in others for part in other.fold.parts), key=lambda part: part.first):
            self.fold.add(part)

    def joined(self) -> Any:
        """All pieces, in the order of shards; where they are tuples, of each of their arrays."""
        pieces = [piece for _, piece in self.pieces]
        if isinstance(pieces[0], tuple):
            return tuple(np.concatenate(parts) for parts in zip(*pieces, strict=True))
        return np.concatenate(pieces)

    def total(self) -> Array:
        """The sum over all shards."""
        return self.fold.total()


class Engine:
    """Base of the engines: each says how a verb reaches the shards, and results do not depend on which engine it is."""

    n_jobs: int
    team: Team = Team()
    rounds: int = 0  # verbs run so far
    recover: Callable[[], Iterable[tuple[str, tuple[Any, ...]]]] = staticmethod(tuple)
    """The verbs that bring a new shard to where the others are; set by whom the shards work for."""

    def run(self, verb: str, *args: Any) -> None:
        """Verbs whose answers stay in the shards."""
        self.ask(STAY, verb, args)

    def sum(self, verb: str, *args: Any) -> NDArray[np.float64]:
        """Verbs whose answers add up."""
        return self.ask(SUM, verb, args).total()

    def concatenate(self, verb: str, *args: Any) -> NDArray[np.float64]:
        """Verbs whose answers are pieces, one per shard."""
        found: NDArray[np.float64] = self.ask(CONCATENATE, verb, args).joined()
        return found

    def concatenate_and_sum(self, verb: str, *args: Any) -> tuple[Any, NDArray[np.float64]]:
        """Verbs that answer with a piece and a term of a sum."""
        answers = self.ask(BOTH, verb, args)
        return answers.joined(), answers.total()

    def ask(self, join: str, verb: str, args: tuple[Any, ...]) -> Answers:
        """One round: the verb on every shard."""
        raise NotImplementedError(f"{type(self).__name__} runs no verbs.")

    def each(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Some work for each of some items, beside the shards, in the engine's threads here."""
        return self.team.each(work, items)

    def close(self) -> None:
        """Let go of what is only needed while verbs run; a later verb brings it back."""
