"""How long does rankwise take to match each library at its best, and what do search, fit and memory cost in total?

Each peer (LIBMF, cmfrec, SVD of scikit-surprise, imputers of scikit-learn) uses the best setting of a small grid
(benchmarks/peers.py), selected on a twentieth of the training entries; beyond five million entries, only the first two
settings are tried. `implicit` is excluded because it takes no explicit ratings. rankwise is `MatrixCompletion()` with
default parameters. Two threads and float32 for all but Surprise (one, float64). Half of the ratings are held out, a
tenth of the signs and of ten million synthetic ratings (rank 5, noise 1: no RMSE below 1). Alternating runs, each in
its own process: medians of five runs, of three if a run takes 5 s, one if it takes 15 s (`runs`). Imports, compilation
(`compile_s`) and predictions are excluded.

`ours_to_it_s`: seconds of rankwise, including the construction of the problem, until its held-out score (accuracy or
RMSE) is first as good as this peer's. `to_it / fit` divides it by the peer's fit alone: required 0.5, desired 0.15, for
LIBMF. `ours / all`: the whole fit of rankwise over the peer's search and fit: required 0.3, desired 0.1. `extra_MB`:
increase of the peak resident memory by the fit. `verdict` names the comparisons that rankwise loses.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from statistics import median
from typing import Any, NamedTuple

import numpy as np

import rankwise as rw

from .common import SHARES, THREADS, Meter, NoAnswerError, Row, Split, apart, default_problem, scattered, sweep
from .peers import PEERS, Choice, fitted, search, why_not

RUNS = ((5.0, 5), (15.0, 3), (np.inf, 1))  # fits shorter than so many seconds are run so often
Path = list[tuple[float, float]]


class Ours(NamedTuple):
    """One fit of the default: predictions, what it took, and the cost after each sweep by the clock."""

    predicted: np.ndarray
    meter: Meter
    compile_seconds: float
    path: Path


def default(split: Split) -> Ours:
    """Fit the default twice in this process: as a user does, and with a score after each sweep."""
    some = split.train.take(np.arange(min(split.train.n_observed, 2000)))
    with Meter() as compiling:
        rw.MatrixCompletion(n_jobs=THREADS).fit(some)
    with Meter() as meter:
        fit = rw.MatrixCompletion(n_jobs=THREADS).fit(split.train)
    with Meter() as making:
        problem = default_problem(split)
    history = sweep(split, problem=problem).history
    path = [(making.seconds + record.wall_seconds, record.score) for record in history]
    predicted = fit.model_.at(split.held_out.rows, split.held_out.cols)
    return Ours(predicted, meter, compiling.seconds, path)


def reached(path: Path, cost: float) -> float:
    """Seconds at which a cost was first reached; infinite if never."""
    return next((seconds for seconds, found in path if found <= cost), np.inf)


def data() -> Iterator[tuple[str, Callable[[], Split]]]:
    """Names, and what makes the splits."""
    yield from ((name, lambda name=name: Split.load(name)) for name in SHARES)
    yield "synthetic-1e7", lambda: Split.of(scattered(10_000_000, (100_000, 20_000)), 0.1)


def runs(split: Split, choices: dict[str, Choice], most: int) -> dict[str, list[Any]]:
    """Fits of all methods by turns; a peer that gives no answer in its turn has a run less."""
    found: dict[str, list[Any]] = {"rankwise": []} | {name: [] for name in choices}
    for k in range(most):
        for name, done in found.items():
            if done and k >= next(times for limit, times in RUNS if done[0][1].seconds < limit):
                continue
            if name == "rankwise":
                done.append(apart(default, split))
                continue
            with suppress(NoAnswerError):
                done.append(fitted(name, split, choices[name].settings))
    return found


def shown(split: Split, done: list[Any]) -> Row:
    """Scores, seconds and memory of one method's runs."""
    scores = {key: round(value, 4) for key, value in split.scores(done[0][0]).items() if key != "grid_mae"}
    seconds = median(each[1].seconds for each in done)
    memory = round(median(each[1].megabytes for each in done))
    return scores | {"fit_s": round(seconds, 3), "extra_MB": memory, "runs": len(done)}


def against(split: Split, ours: list[Ours], theirs: list[Any], choice: Choice) -> Row:
    """How a peer's runs compare with ours."""
    cost = split.cost(theirs[0][0])
    fit, whole = median(each[1].seconds for each in theirs), median(each.meter.seconds for each in ours)
    to_it = median(reached(each.path, cost) for each in ours)
    lost = ["never as good"] if to_it == np.inf else ["slower to its score"] if to_it > fit else []
    lost += ["slower than search and fit"] if whole > choice.seconds + fit else []
    lost += ["more memory"] if median(e.meter.megabytes for e in ours) > median(e[1].megabytes for e in theirs) else []
    return {
        "search_and_fit_s": round(choice.seconds + fit, 2),
        "ours_to_it_s": round(to_it, 3),
        "to_it / fit": round(to_it / fit, 3),
        "ours / all": round(whole / (choice.seconds + fit), 3),
        "verdict": "we lose: " + ", ".join(lost) if lost else "we win",
        "settings": f"{choice.settings} of {choice.tried}" + (f"; {choice.failed}" if choice.failed else ""),
    }


def compared(name: str, split: Split, most: int) -> Iterator[Row]:
    """All rows of one data set."""
    choices: dict[str, Choice] = {}
    for peer in PEERS:
        reason = why_not(peer, split)
        try:
            if not reason:
                choices[peer] = search(peer, split)
        except NoAnswerError as error:
            reason = str(error)
        if reason:
            yield {"data": name, "method": peer, "verdict": reason}
    found = runs(split, choices, most)
    ours = found.pop("rankwise")
    compiled = round(median(each.compile_seconds for each in ours), 2)
    yield {"data": name, "method": "rankwise"} | shown(split, ours) | {"compile_s": compiled}
    for peer, theirs in found.items():
        if not theirs:
            yield {"data": name, "method": peer, "verdict": f"no answer at its best setting, {choices[peer].settings}"}
            continue
        yield {"data": name, "method": peer} | shown(split, theirs) | against(split, ours, theirs, choices[peer])


def run(most: int = 5, only: tuple[str, ...] = ()) -> Iterator[Row]:
    """Every method on every data set, or on those named; the largest last."""
    for name, make in data():
        if not only or name in only:
            try:
                yield from compared(name, make(), most)
            except (NoAnswerError, rw.DataError) as error:
                yield {"data": name, "verdict": f"left out: {error}"}
