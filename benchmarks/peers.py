"""Other libraries behind one door: settings to try, and predictions of held-out entries (extra `bench`).

Each fits in a process of its own (LIBMF was seen to hang beside our threads), on two threads where it has threads.
Only its call of `fit` is timed: neither imports, nor what brings the data into its form, nor predictions. `implicit` is
not among them: it learns from clicks, takes no explicit ratings and predicts no values.
"""

import contextlib
import importlib.util
import io
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rankwise.observations import Observations

from .common import THREADS, Meter, NoAnswerError, Split, apart

LARGE = 5_000_000  # entries from which on only the first two settings of a grid are tried
Settings = dict[str, Any]
Fitted = tuple[np.ndarray, Meter]


def libmf_grid(split: Split) -> list[Settings]:
    """Settings that did well in a wider search: logistic for signs, squared for ratings."""
    if split.signs:
        return [{"fun": 5, "k": 40, "nr_iters": 30, "ridge": ridge} for ridge in (0.02, 0.05, 0.01, 0.1)]
    return [{"fun": 0, "k": 32, "nr_iters": 40, "ridge": ridge} for ridge in (0.08, 0.16, 0.12, 0.04)]


def libmf_fit(train: Observations, held_out: Observations, settings: Settings) -> Fitted:
    """LIBMF; its wrapper's own `predict` is wrong, so factors are multiplied here. NaN: a row never seen."""
    with contextlib.redirect_stdout(io.StringIO()):
        from libmf.mf import MF

        options = {name: value for name, value in settings.items() if name != "ridge"}
        ridges = dict.fromkeys(("lambda_p2", "lambda_q2"), settings["ridge"]) | {"lambda_p1": 0.0, "lambda_q1": 0.0}
        engine = MF(**options, **ridges, nr_threads=THREADS, nr_bins=20, quiet=True)
        triples = np.column_stack((train.rows, train.cols, train.targets)).astype(np.float32)
        with Meter() as meter:
            engine.fit(triples)
    P, Q = (np.asarray(side).reshape(-1, engine.model.k) for side in (engine.p_factors(), engine.q_factors()))
    seen = (held_out.rows < P.shape[0]) & (held_out.cols < Q.shape[0])
    found = np.full(held_out.n_observed, np.nan)
    found[seen] = np.einsum("ij,ij->i", P[held_out.rows[seen]], Q[held_out.cols[seen]])
    return np.where(np.isnan(found), engine.model.b, found), meter


def cmfrec_grid(split: Split) -> list[Settings]:
    """Ridge and rank of its alternating least squares; two ridges on signs, where it is slow."""
    if split.signs:
        return [{"k": 10, "lambda_": ridge} for ridge in (5.0, 2.0)]
    return [{"k": k, "lambda_": ridge} for k in (10, 30) for ridge in (10.0, 20.0)]


def cmfrec_fit(train: Observations, held_out: Observations, settings: Settings) -> Fitted:
    """Model of cmfrec with row and column offsets."""
    import pandas as pd
    from cmfrec import CMF

    frame = pd.DataFrame({"UserId": train.rows, "ItemId": train.cols, "Rating": train.targets})
    model = CMF(**settings, niter=15, nthreads=THREADS, verbose=False, use_float=True)
    with Meter() as meter:
        model.fit(frame)
    found = np.asarray(model.predict(held_out.rows, held_out.cols), float)
    return np.where(np.isnan(found), float(train.targets.mean()), found), meter


def surprise_grid(split: Split) -> list[Settings]:
    """Ridge of its stochastic gradient steps; it has one thread and float64."""
    return [{"n_factors": 40, "n_epochs": 20, "reg_all": ridge} for ridge in (0.05, 0.1)]


def surprise_fit(train: Observations, held_out: Observations, settings: Settings) -> Fitted:
    """SVD of scikit-surprise, which has offsets; predictions from its factors, as its own are a Python loop."""
    import pandas as pd
    from surprise import SVD, Dataset, Reader

    frame = pd.DataFrame({"user": train.rows, "item": train.cols, "rating": train.targets.astype(float)})
    scale = float(train.targets.min()), float(train.targets.max())
    known = Dataset.load_from_df(frame, Reader(rating_scale=scale)).build_full_trainset()
    model = SVD(**settings, random_state=0)
    with Meter() as meter:
        model.fit(known)
    sides = []
    for names, offsets, factors, size in (
        (known._raw2inner_id_users, model.bu, model.pu, train.shape[0]),
        (known._raw2inner_id_items, model.bi, model.qi, train.shape[1]),
    ):
        inner, outer = np.array(list(names.values())), np.array(list(names))
        wide = np.zeros((size, 1 + factors.shape[1]))
        wide[outer, 0], wide[outer, 1:] = offsets[inner], factors[inner]
        sides.append(wide)
    left, right = sides[0][held_out.rows], sides[1][held_out.cols]
    return known.global_mean + left[:, 0] + right[:, 0] + np.einsum("ij,ij->i", left[:, 1:], right[:, 1:]), meter


def imputer_grid(split: Split) -> list[Settings]:
    """Its nearest neighbours; its chained regressions, each on a few of the other columns."""
    near = [{"kind": "KNNImputer", "n_neighbors": n} for n in (20, 60)]
    return [*near, {"kind": "IterativeImputer", "n_nearest_features": 20, "max_iter": 2}]


def imputer_fit(train: Observations, held_out: Observations, settings: Settings) -> Fitted:
    """An imputer of scikit-learn, on the whole matrix with NaN."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer

    kinds = {"KNNImputer": KNNImputer, "IterativeImputer": IterativeImputer}
    options = {name: value for name, value in settings.items() if name != "kind"}
    dense = np.full(train.shape, np.nan, np.float32)
    dense[train.rows, train.cols] = train.targets
    with Meter() as meter:
        filled = kinds[settings["kind"]](keep_empty_features=True, **options).fit_transform(dense)
    return filled[held_out.rows, held_out.cols], meter


class Peer(NamedTuple):
    """A library: what it is imported as, its grid, its fit; seconds a fit may take, entries and cells it may have."""

    package: str
    grid: Callable[[Split], list[Settings]]
    fit: Callable[[Observations, Observations, Settings], Fitted]
    limit: float = 120.0
    tries: int = 1
    entries: float = np.inf
    cells: float = np.inf


PEERS = {
    "libmf": Peer("libmf", libmf_grid, libmf_fit, tries=2),
    "cmfrec": Peer("cmfrec", cmfrec_grid, cmfrec_fit),
    "surprise": Peer("surprise", surprise_grid, surprise_fit, entries=2_000_000),
    "scikit-learn imputers": Peer("sklearn", imputer_grid, imputer_fit, limit=20.0, cells=2_000_000),
}


def why_not(name: str, split: Split) -> str:
    """Why a peer cannot be asked, or nothing."""
    peer = PEERS[name]
    if not importlib.util.find_spec(peer.package):
        return f"left out: {peer.package} is not installed"
    if split.train.n_observed > peer.entries:
        return f"left out: it would take minutes at more than {peer.entries:,.0f} entries"
    if split.train.shape[0] * split.train.shape[1] > peer.cells:
        return f"left out: it fills a dense matrix, here of {split.train.shape[0]} x {split.train.shape[1]}"
    return ""


def fitted(name: str, split: Split, settings: Settings) -> Fitted:
    """A peer's predictions at one setting, and what its fit took."""
    peer = PEERS[name]
    limit = allowed(name, split)
    found: Fitted = apart(peer.fit, split.train, split.held_out, settings, limit=limit, tries=peer.tries)
    return found


def allowed(name: str, split: Split) -> float:
    """Seconds that a fit may take: 15, and 100 for each million entries, up to the peer's limit."""
    return min(PEERS[name].limit, 15 + 1e-4 * split.train.n_observed)


class Choice(NamedTuple):
    """The best setting of a peer's grid on validation entries, what the search took, and what was tried."""

    settings: Settings
    seconds: float
    tried: int
    failed: str


def search(name: str, split: Split) -> Choice:
    """Try a peer's grid on a twentieth of the training entries; settings that give no answer are not timed."""
    inner = Split.of(split.train, 0.05, 1)
    grid = PEERS[name].grid(split)[: 2 if split.train.n_observed > LARGE else None]
    costs, seconds, failed = [], 0.0, ""
    for settings in grid:
        try:
            predicted, meter = fitted(name, inner, settings)
            costs.append(inner.cost(predicted))
            seconds += meter.seconds
        except NoAnswerError as error:
            costs.append(np.inf)
            failed = f"{settings}: {error}"
    if not np.isfinite(min(costs)):
        raise NoAnswerError(failed)
    return Choice(grid[int(np.argmin(costs))], seconds, len(grid), failed)
