"""A small experiment that runs in a second."""

from dataclasses import replace

from rankwise import datasets
from rankwise._errors import DataError
from rankwise.experiments import Data, Experiment, Method, Printed, Split

METHODS = (
    Method("eglrl", "EGLRL", method="eglrl", paper={"tiny": Printed(93.6, 0.1, best=True)}),
    Method("glrl-none", "GLRL w/o", method="glrl-none"),
    Method("ais-impute", "AIS-Impute", solver="AISImpute", settings={"nuclear_weight": "search"}),
)


def tiny(**changes):
    """An experiment of a second: three folds of a small signed network."""
    plain = Experiment(
        name="tiny",
        figure="figure0",
        title="A small signed network",
        loss="logistic",
        scores=("accuracy", "auc", "macro-f1"),
        standardise=False,
        time_limit=1000.0,
        split=Split("folds", 3),
        used=3,
        data=(Data("tiny", "Tiny", 3),),
        methods=METHODS,
    )
    return replace(plain, **changes)


def load(name):
    """Signs made on the spot, whatever the name; names that start with "no" are missing."""
    if name.startswith("no"):
        raise DataError(f"There is no file of {name}.")
    return datasets.signed_network(60, 50, rank=2, density=0.3, random_state=len(name)).observations
