"""Choice of a scoring rule for clicks, by how well it ranks held-out entries."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from .._arrays import Array
from .._errors import DataError
from ..engines import usable_cores
from ..model.ranking import Scores, Seen, best_columns
from ..observations import Observations
from ..solvers.scoring_rules import MOST_DENSE_COLUMNS, ClickParts, ScoringRule, size_of
from .ranking import hits_of
from .splits import generator, split_within_rows

K = 20  # columns recommended to each held-out row
HELD_OUT_PER_ROW = 0.2  # share of each row's entries
N_FIRST_ROWS = 1000  # rows on which all rules are scored
N_ROWS = 4000  # rows on which the rules of the best families are scored again
N_FINALISTS = 6  # such families, fewer if they have many rules
N_FINAL_RULES = 51
N_TRIAL_POWER = 3  # block power iterations of the decompositions that are compared; the final one takes more
N_TRIAL_SWEEPS = 6  # weighted sweeps, likewise; up to 16 change recall and NDCG of held-out clicks by less than 0.002
CHUNK = 500  # rows scored at a time
POWERS = ((0.5, 0.45), (0.35, 0.45), (0.25, 0.4))  # of rows and columns in the scaled matrix
SCORE_POWERS = (0.1, 0.3, 0.45)
RANKS = (3, 8, 24, 64, 192, 512, 1024)
N_RANKS = 4  # of them that are tried, the largest up to a quarter of the smaller side
LOW_RANK = (0.3, 1.0, 3.0)  # weights of the low-rank term beside neighbours; each alone is tried as well
REGRESSIONS = ((0.25, 2.0), (0.25, 6.0), (0.5, 2.0), (0.5, 6.0))  # row powers and ridges of regressions
# Weights of absent entries, and ridges, of sweeps: a path, on which each fit starts from the factors of the last.
SWEEPS = ((0.3, 0.007), (0.1, 0.01), (0.1, 0.014), (0.03, 0.02))
SWEEP_RANK = 128
MOST_PAIRS = 2e9  # pairs of entries in one row, summed over the rows, up to which neighbours are tried


@dataclass(frozen=True)
class RuleScore:
    """A scoring rule and its mean recall and NDCG at 20 on held-out entries, with the standard error of their mean."""

    rule: ScoringRule
    recall: float
    ndcg: float
    error: float

    @property
    def mean(self) -> float:
        """Mean of recall and NDCG, by which rules are compared."""
        return 0.5 * (self.recall + self.ndcg)


def choose_rule(
    clicks: Observations, *, time: Array | None = None, rank: int | None = None, n_jobs: int | None = -1, seed: int = 0
) -> list[RuleScore]:
    """Score the rules of a grid on entries held out from every row, best first.

    All rules are scored on some rows. The families that have the best ones, rules with the same powers, are scored on
    more rows and come before all others.

    Parameters
    ----------
    clicks : Observations
    time : ndarray of shape (n_observed,), optional
        Times of the entries: the latest of each row are held out; random ones without it.
    rank : int, optional
        Rank of the low-rank term; by default several are tried.
    n_jobs : int, default=-1
    seed : int, default=0
    """
    most = int(np.diff(clicks.indptr.astype(np.int64)).max(initial=0))
    if most < 2:
        raise DataError("Every row has a single click, so that none can be held out to choose a rule; give `rule`.")
    share = HELD_OUT_PER_ROW if round(HELD_OUT_PER_ROW * most) else 1  # one click of each row if all rows are short
    train, held_out = split_within_rows(clicks, share, time=time, random_state=seed)
    rows = generator(seed).permutation(np.unique(held_out.rows))[:N_ROWS]
    parts = ClickParts(train, n_jobs, seed, N_TRIAL_POWER, N_TRIAL_SWEEPS)
    trial = _Trial(parts, Seen.of(train), held_out, np.sort(rows[:N_FIRST_ROWS]), n_jobs)
    tried = [(family, trial.scores(*family)) for family in _families(trial.parts, _ranks(clicks, rank))]
    tried.sort(key=lambda pair: -max(score.mean for score in pair[1]))
    n_rules = np.cumsum([len(scores) for _, scores in tried[:N_FINALISTS]])
    n_finalists = max(1, int(np.sum(n_rules <= N_FINAL_RULES))) if rows.size > N_FIRST_ROWS else 0
    trial = replace(trial, rows=np.sort(rows))
    finalists = sorted((family for family, _ in tried[:n_finalists]), key=lambda family: family[0].row_power)
    best = [score for family in finalists for score in trial.scores(*family)]
    parts.clear()
    return _sorted(best) + _sorted([score for _, scores in tried[n_finalists:] for score in scores])


def _sorted(scores: list[RuleScore]) -> list[RuleScore]:
    return sorted(scores, key=lambda score: -score.mean)


def _ranks(clicks: Observations, rank: int | None) -> tuple[int, ...]:
    most = max(1, min(clicks.shape) // 4)
    return (min(rank, min(clicks.shape)),) if rank else tuple(sorted({min(k, most) for k in RANKS})[-N_RANKS:])


def _families(parts: ClickParts, ranks: tuple[int, ...]) -> Iterator[tuple[ScoringRule, tuple[int, ...]]]:
    """Yield the settings that the rules of each family share, and the ranks that they try."""
    counts, n_cols = parts.row_counts, parts.R.shape[1]
    kind = "counts" if float(counts @ counts) <= MOST_PAIRS else "none"
    for p, q in POWERS:
        for c in SCORE_POWERS:
            yield ScoringRule(p, q, c, ranks[-1], neighbours=kind), ranks
    if n_cols <= MOST_DENSE_COLUMNS:
        p, q = POWERS[0]
        for power, ridge in REGRESSIONS:
            base = ScoringRule(p, q, SCORE_POWERS[0], ranks[-1], neighbours="ridge", ridge=ridge, ridge_power=power)
            yield base, ranks
            yield from _swept(base, ranks)
        yield from _swept(replace(base, neighbours="none"), ranks)


def _swept(base: ScoringRule, ranks: tuple[int, ...]) -> Iterator[tuple[ScoringRule, tuple[int, ...]]]:
    """Yield families whose low-rank term is fitted by weighted sweeps."""
    rank = ranks[0] if len(ranks) == 1 else min(SWEEP_RANK, ranks[-1])
    for absent, ridge in SWEEPS:
        yield replace(base, rank=rank, absent=absent, sweep_ridge=ridge), (rank,)


@dataclass
class _Trial:
    """Held-out rows, and the parts of the rules fitted to the training entries."""

    parts: ClickParts
    seen: Seen | None
    held_out: Observations
    rows: Array
    n_jobs: int | None

    def scores(self, base: ScoringRule, ranks: tuple[int, ...]) -> list[RuleScore]:
        """Score the rules with the powers and the neighbours of `base`, of all ranks and weights."""
        self.parts.prepare(base)
        chunks = [self.rows[first : first + CHUNK] for first in range(0, self.rows.size, CHUNK)]
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(usable_cores(self.n_jobs)) as pool:
            pieces = list(pool.map(lambda rows: self._scores(base, ranks, rows), chunks))
        scores = []
        for rule in pieces[0]:
            recall, ndcg = np.concatenate([piece[rule] for piece in pieces]).T
            error = float(np.std(0.5 * (recall + ndcg)) / np.sqrt(recall.size))
            scores.append(RuleScore(rule, float(recall.mean()), float(ndcg.mean()), error))
        return scores

    def _scores(self, base: ScoringRule, ranks: tuple[int, ...], rows: Array) -> dict[ScoringRule, NDArray[np.float64]]:
        """Recall and NDCG of some rows by the rules with the powers and the neighbours of `base`."""
        found, kind = {}, base.neighbours
        if kind != "none":
            near = self.parts.near_scores(base, rows)
            if not base.absent:  # else it has been scored
                found[replace(base, rank=ranks[0], low_rank=0.0)] = self._score(near, rows)
        for rank, low_rank in self.parts.low_rank_scores(base, rows, ranks):
            rule = replace(base, rank=rank)
            if kind != "ridge":
                found[replace(rule, neighbours="none")] = self._score(low_rank, rows)
            if kind != "none":
                size = size_of(near) / (size_of(low_rank) or 1.0)
                for weight in LOW_RANK:
                    mixed = near + np.float32(weight * size) * low_rank
                    found[replace(rule, low_rank=weight)] = self._score(mixed, rows)
        return found

    def _score(self, scores: NDArray[np.float32], rows: Array) -> NDArray[np.float64]:
        """Recall and NDCG of each row, shape (n_rows, 2)."""
        n, n_cols = scores.shape
        nothing = np.zeros((n, 0)), np.zeros((n_cols, 0)), np.zeros(n)
        terms = Scores(*nothing, shift=scores)
        best = best_columns(terms, K, self.seen.take_rows(rows) if self.seen else None, n_jobs=1)
        wanted = self.held_out.take_rows(rows)
        hits = hits_of(best.columns, wanted.rows, wanted.cols, n_cols)
        n_relevant, discounts = np.bincount(wanted.rows, minlength=n), 1 / np.log2(np.arange(2, K + 2))
        ideal = np.concatenate(([0.0], np.cumsum(discounts)))[np.minimum(n_relevant, K)]
        return np.column_stack((hits.sum(axis=1) / n_relevant, hits @ discounts / ideal))
