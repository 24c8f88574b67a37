"""Scoring rules for clicks: the columns that a row has are compared with all others, through counts and low rank.

With D the diagonal matrix of the column counts, R the matrix of entries and A = D_u**-p R D**-q the scaled matrix::

    score(row) = row D**-c ( neighbours * A.T A  +  low_rank * V diag(w) V.T ) D**c

for the right singular vectors V of A, with ``w = s**2 / (s**2 + shrinkage * s[0]**2)``. The first term has full rank
and is sparse; the second has rank k, and factors of weighted sweeps (iALS) may take its place. `ScaledSVD` and the
sweeps minimize a function of X; the rules do not, and are chosen by how well they rank held-out entries.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs
from threadpoolctl import threadpool_limits

from .._arrays import Array
from .._checks import check_choice, is_number
from .._errors import SettingError
from ..model import Everywhere, LowRankModel, Seen
from ..model.neighbours import Encoder, Neighbours, dense_product
from ..objectives import Problem
from ..observations import Observations
from ..spectral import widen
from ..spectral.blocks import right_svd
from .altmin import unit_terms
from .factor_sweeps import FactorSweeps
from .folding import fold_in
from .loop import solve
from .scaled_svd import N_EXTRA, Scales, power_of, scaled_matrix
from .validation import need_count, need_not_negative, need_positive

N_SOURCES = 300  # neighbours that a scored column keeps; more gain less than 0.5 % (docs/clicks.md)
N_RULE_POWER = 5  # block power iterations of a decomposition
N_SPECTRA = 3  # decompositions that are stored, one for every pair of powers that is tried
N_SIZED = 500  # rows on which the sizes of the two terms are compared
SHRINKAGE = 0.1  # of singular values, relative to the square of the largest
N_SWEEPS = 12  # weighted sweeps of a fit
N_WARM_SWEEPS = 2  # of a fit that starts from the factors of other weights
MOST_DENSE_COLUMNS = 8000  # columns up to which inner products of all columns are stored as a dense matrix
N_DENSE = 4  # dense matrices of each kind that are stored
WELL_POSED = 1e4  # bound on the condition of a regression up to which float32 is accurate enough


@dataclass(frozen=True)
class ScoringRule:
    """Settings of a scoring rule, whose formula is in docs/clicks.md.

    Parameters
    ----------
    row_power, col_power : float
        The powers p and q of the row and column counts in the scaled matrix A.
    score_power : float
        The power c: higher values favor popular columns, 0 favors rare ones.
    rank : int
        Number of singular vectors.
    low_rank : float
        Weight of the low-rank term, relative to the size of the other.
    neighbours : {"none", "counts", "ridge"}
        Full-rank term: none, ``A.T A`` as in the formula, or the weights of a ridge regression of every column on the
        others (EASE).
    ridge, ridge_power : float
        Of "ridge": its ridge, relative to the mean squared length of the columns, and the power of their counts by
        which rows are divided.
    absent : float
        Weight of an absent entry, in units of a click, if the low-rank term is fitted by weighted sweeps (iALS); 0 for
        the SVD of the scaled matrix.
    sweep_ridge : float
        Ridge of these sweeps, times the total weight of the row or column, absent entries included.

    Examples
    --------
    >>> import rankwise as rw
    >>> rule = rw.solvers.ScoringRule(row_power=0.5, col_power=0.4, rank=64, neighbours="counts")
    >>> rw.ImplicitFactorization(rule=rule).rule.neighbours
    'counts'
    """

    row_power: float = 0.5
    col_power: float = 0.5
    score_power: float = 0.3
    rank: int = 64
    low_rank: float = 1.0
    neighbours: str = "none"
    ridge: float = 5.0
    ridge_power: float = 0.25
    absent: float = 0.0
    sweep_ridge: float = 0.02

    def __post_init__(self) -> None:
        check_choice("neighbours", self.neighbours, ("none", "counts", "ridge"))
        need_count("rank", self.rank)
        need_positive("ridge", self.ridge)
        need_not_negative("low_rank", self.low_rank)
        need_not_negative("absent", self.absent)
        need_positive("sweep_ridge", self.sweep_ridge)
        for name in ("row_power", "col_power", "score_power", "ridge_power"):
            power = getattr(self, name)
            if not is_number(power) or not 0 <= power <= 1:
                raise SettingError(f"`{name}` must be a number from 0 to 1, got {power!r}.")

    @property
    def part(self) -> str:
        """Return "low rank", "neighbours" or "both", the terms that scores have."""
        if self.neighbours == "none":
            return "low rank"
        return "both" if self.low_rank else "neighbours"

    @property
    def words(self) -> str:
        """Return a summary of the rule in one line."""
        near = {
            "none": [],
            "counts": ["neighbours by common rows"],
            "ridge": [f"ridge regression ({self.ridge:g}, row power {self.ridge_power:g})"],
        }[self.neighbours]
        weight = f"{self.low_rank:g} × " if near else ""
        low_rank = [] if self.part == "neighbours" else [f"{weight}rank {self.rank}"]
        settings = f"powers p {self.row_power:g}, q {self.col_power:g}, c {self.score_power:g}"
        if self.absent and low_rank:
            settings = f"weighted sweeps, absent {self.absent:g}, ridge {self.sweep_ridge:g}"
        return f"{' + '.join(near + low_rank)}; {settings}"


class Spectrum(NamedTuple):
    """Singular values and right singular vectors of a scaled matrix, shapes (k,) and (n_cols, k)."""

    s: NDArray[np.float64]
    V: Array


class Gram(NamedTuple):
    """Inner products of the scaled columns, without their diagonal, which would add only to what a row has.

    The matrix is sparse, or dense for at most `MOST_DENSE_COLUMNS` columns.
    """

    off_diagonal: Any
    diagonal: NDArray[np.float64]


class ClickParts:
    """The expensive parts of scoring rules for one matrix of clicks, each computed when first needed.

    Parameters
    ----------
    clicks : Observations
        Positive values.
    n_jobs : int or None
        Number of threads.
    seed : int
        Seed of the random start of decompositions.
    n_power, n_sweeps : int
        Block power iterations of a decomposition, and weighted sweeps of a fit that starts from no other.
    """

    def __init__(
        self,
        clicks: Observations,
        n_jobs: int | None = -1,
        seed: int = 0,
        n_power: int = N_RULE_POWER,
        n_sweeps: int = N_SWEEPS,
    ) -> None:
        self.clicks, self.n_jobs, self.seed, self.n_power, self.n_sweeps = clicks, n_jobs, seed, n_power, n_sweeps
        self.R = clicks.to_sparse().astype(np.float32)
        self.pattern = sp.csr_array((np.ones_like(self.R.data), self.R.indices, self.R.indptr), self.R.shape)
        self.row_counts = np.diff(clicks.indptr.astype(np.int64)).astype(np.float64)
        self.col_counts = np.bincount(clicks.indices, minlength=clicks.shape[1]).astype(np.float64)
        self.spectrum = lru_cache(maxsize=N_SPECTRA)(self._spectrum)
        self.dense = self.R.shape[1] <= MOST_DENSE_COLUMNS
        self.gram = lru_cache(maxsize=N_DENSE if self.dense else 1)(self._gram)
        self.regression = lru_cache(maxsize=N_DENSE)(self._regression)
        self.sweeps = lru_cache(maxsize=8)(self._sweeps)
        self.encoded = lru_cache(maxsize=1)(self._encoded)
        self.last_swept: LowRankModel | None = None

    def _spectrum(self, row_power: float, col_power: float, rank: int) -> Spectrum:
        """Leading right singular vectors of the scaled matrix."""
        problem = Problem(self.clicks, "square", dtype=np.float32, n_jobs=self.n_jobs)
        matrix = scaled_matrix(problem, Scales.of(problem, row_power, col_power))
        rank, rng = min(rank, *problem.shape), np.random.default_rng(self.seed)
        start = widen(np.zeros((problem.shape[1], 0)), min(rank + N_EXTRA, *problem.shape), rng)
        with threadpool_limits(limits=1, user_api="blas"):  # BLAS changes bits with its number of threads
            s, V = right_svd(matrix, start, self.n_power)
        problem.close()
        return Spectrum(s[:rank], V[:, :rank].astype(np.float32))

    def _gram(self, row_power: float) -> Gram:
        """``R.T D_u**(-2 row_power) R``."""
        scaled = sp.diags_array(power_of(self.row_counts, -row_power).astype(np.float32)) @ self.R
        gram = (scaled.T @ scaled).tocsr()
        diagonal = gram.diagonal().astype(np.float64)
        gram.setdiag(0.0)
        return Gram(gram.toarray() if self.dense else gram, diagonal)

    def _regression(self, row_power: float, ridge: float) -> NDArray[np.float32]:
        """Weights of the ridge regression of every column on the others, shape (n_cols, n_cols), zero diagonal."""
        off_diagonal, diagonal = self.gram(row_power)
        n_cols, added = diagonal.size, ridge * max(diagonal.mean(), np.finfo(float).tiny)
        # The condition is at most 1 + n_cols / ridge: no eigenvalue is above the sum of the diagonal.
        dtype = np.float32 if n_cols <= WELL_POSED * ridge else np.float64
        gram = np.array(off_diagonal if self.dense else off_diagonal.toarray(), dtype, order="F")
        gram[np.diag_indices_from(gram)] = diagonal + added
        factorize, invert = get_lapack_funcs(("potrf", "potri"), (gram,))
        with threadpool_limits(limits=1, user_api="blas"):  # BLAS changes bits with its number of threads
            lower, _ = factorize(gram, lower=True, overwrite_a=True)
            lower, _ = invert(lower, lower=True, overwrite_c=True)
        inverse = np.tril(lower) + np.tril(lower, -1).T
        weights = -inverse / np.diag(inverse)
        np.fill_diagonal(weights, 0.0)
        return np.asarray(weights, np.float32)

    def _sweeps(self, absent: float, ridge: float, rank: int) -> LowRankModel:
        """Factors of weighted sweeps, those of the rows given the columns; sweeps start from the last such factors."""
        clicks = as_confidence(self.clicks)
        problem = Problem(clicks, "square", n_jobs=self.n_jobs, everywhere=Everywhere(absent))
        solver = FactorSweeps(ridge=ridge, offsets="none", count_power=1.0)
        start = self.last_swept if self.last_swept is not None and self.last_swept.longest == rank else None
        options: dict[str, Any] = {"start": start, "max_iter": N_WARM_SWEEPS if start else self.n_sweeps}
        fitted = solve(problem, solver, rank=rank, tol=0.0, random_state=self.seed, **options).model
        self.last_swept = fitted
        folded = fold_in(fitted, clicks, n_jobs=self.n_jobs)  # so that folding in a training row gives it back
        return replace(folded, seen=Seen.of_clicks(self.clicks))

    def prepare(self, rule: ScoringRule) -> None:
        """Compute the parts that a rule needs, before threads ask for them."""
        if rule.absent:
            self.sweeps(rule.absent, rule.sweep_ridge, rule.rank)
        else:
            self.low_rank(rule)
        if rule.neighbours == "counts":
            self.gram(rule.row_power)
        elif rule.neighbours == "ridge":
            self.regression(rule.ridge_power, rule.ridge)

    def clear(self) -> None:
        """Free the stored parts."""
        for part in (self.spectrum, self.encoded, self.gram, self.regression, self.sweeps):
            part.cache_clear()

    def weights(self, rule: ScoringRule) -> Any:
        """Matrix W of the full-rank term, sparse or dense; a row scores ``row @ W``."""
        if rule.neighbours == "ridge":
            return self.regression(rule.ridge_power, rule.ridge)
        (down, up), gram = self._column_scales(rule), self.gram(rule.row_power).off_diagonal
        return down[:, None] * gram * up if self.dense else sp.diags_array(down) @ gram @ sp.diags_array(up)

    def near_scores(self, rule: ScoringRule, rows: Array) -> NDArray[np.float32]:
        """Scores of all columns for some rows by the full-rank term, shape (n_rows, n_cols)."""
        if rule.neighbours == "ridge":
            return np.asarray(self.pattern[rows] @ self.regression(rule.ridge_power, rule.ridge))
        (down, up), gram = self._column_scales(rule), self.gram(rule.row_power).off_diagonal
        return np.asarray(dense_product(self.pattern[rows] @ sp.diags_array(down), gram) * up)

    def _column_scales(self, rule: ScoringRule) -> tuple[Array, Array]:
        """Factors of the rows and of the columns of ``R.T D_u**(-2p) R`` that make it the full-rank term."""
        powers = -rule.score_power - rule.col_power, rule.score_power - rule.col_power
        down, up = (power_of(self.col_counts, power).astype(np.float32) for power in powers)
        return down, up

    def low_rank(self, rule: ScoringRule) -> tuple[Array, Encoder]:
        """Return V, with unit columns, and the encoder: a row scores ``encoder.factors(row, V) @ V.T``."""
        return self.encoded(rule.row_power, rule.col_power, rule.rank, rule.score_power)

    def _encoded(self, row_power: float, col_power: float, rank: int, score_power: float) -> tuple[Array, Encoder]:
        s, V = self.spectrum(row_power, col_power, rank)
        V = power_of(self.col_counts, score_power)[:, None] * V
        lengths = np.sqrt(np.einsum("ij,ij->j", V, V))
        V /= np.where(lengths > 0, lengths, 1.0)
        shrunk = s**2 / (s**2 + SHRINKAGE * s[:1] ** 2)
        return V.astype(np.float32), Encoder(power_of(self.col_counts, -2 * score_power), lengths**2 * shrunk)

    def low_rank_scores(
        self, rule: ScoringRule, rows: Array, ranks: tuple[int, ...]
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Ranks, in rising order up to the rule's, and scores of all columns for some rows by the low-rank term.

        The arrays of shape (n_rows, n_cols) are one array, which changes from rank to rank. Sweeps have one rank.
        """
        if rule.absent:
            fitted = self.sweeps(rule.absent, rule.sweep_ridge, rule.rank)
            yield rule.rank, ((fitted.U[rows] * fitted.theta) @ fitted.V.T).astype(np.float32)
            return
        V, encoder = self.low_rank(rule)
        factors = encoder.factors(self.R[rows], V).astype(np.float32)
        scores, first = np.zeros((rows.size, V.shape[0]), np.float32), 0
        for rank in ranks:
            scores += factors[:, first:rank] @ V[:, first:rank].T
            first = rank
            yield rank, scores

    def model(self, rule: ScoringRule) -> LowRankModel:
        """Return the model with the scores of a rule for all rows."""
        return self._swept_model(rule) if rule.absent else self._encoded_model(rule)

    def _swept_model(self, rule: ScoringRule) -> LowRankModel:
        """Factors of sweeps, and neighbours in units of their scores."""
        fitted = replace(self.sweeps(rule.absent, rule.sweep_ridge, rule.rank), facts={})
        if rule.neighbours == "none":
            return fitted
        neighbours, sample = Neighbours.of(self.weights(rule), N_SOURCES), self._sample()
        ((_, low_rank),) = self.low_rank_scores(rule, sample, (rule.rank,))
        near = dense_product(self.pattern[sample], neighbours.matrix)
        unit = size_of(low_rank) / (rule.low_rank * size_of(near) or 1.0)
        return replace(fitted, neighbours=neighbours._replace(weights=(unit * neighbours.weights).astype(np.float32)))

    def _sample(self) -> Array:
        """Rows on which the sizes of the two terms are compared."""
        return np.linspace(0, self.R.shape[0] - 1, min(N_SIZED, self.R.shape[0])).astype(int)

    def _encoded_model(self, rule: ScoringRule) -> LowRankModel:
        """Singular vectors, and the encoder of rows; neighbours as they are."""
        with threadpool_limits(limits=1, user_api="blas"):  # BLAS changes bits with its number of threads
            V, encoder = self.low_rank(rule)
            neighbours, weight = None, rule.low_rank
            if rule.neighbours != "none":
                neighbours = Neighbours.of(self.weights(rule), N_SOURCES)
                sample = self._sample()
                low_rank = encoder.factors(self.R[sample], V).astype(np.float32) @ V.T
                near = dense_product(self.pattern[sample], neighbours.matrix)
                weight *= size_of(near) / (size_of(low_rank) or 1.0)
            encoder = encoder._replace(components=weight * encoder.components)
            theta, U, V = unit_terms(encoder.factors(self.R, V).astype(np.float32), V)
        seen, labels = Seen.of_clicks(self.clicks), (self.clicks.row_labels, self.clicks.col_labels)
        path = np.tril(np.tile(theta, (theta.size, 1)))
        return LowRankModel(path, U, V, *labels, seen=seen, neighbours=neighbours, encoder=encoder)


def as_confidence(clicks: Observations) -> Observations:
    """Return clicks with targets of one, and their counts as weights if they differ from one."""
    weights = None if np.all(clicks.targets == 1) else clicks.targets
    labels = clicks.row_labels, clicks.col_labels
    return Observations(clicks.indptr, clicks.indices, np.ones_like(clicks.targets), clicks.shape, weights, labels)


def size_of(scores: Array) -> float:
    """Mean over the rows of the standard deviation of their scores."""
    return float(scores.std(axis=1, dtype=np.float64).mean())
