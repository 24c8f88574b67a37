"""Multilabel learning: predict the topics of documents from their words and few known topics.

Run it: python examples/multilabel.py
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, hamming_loss

import rankwise as rw

N_OLD, N_NEW, N_WORDS, N_TOPICS, SHARE, WEIGHT = 400, 200, 60, 12, 0.15, 3.0
NAMES = ("micro F1", "macro F1", "Hamming loss")


def documents(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return standardized word counts, topics, and a mask of known topics: some of old documents, none of new ones."""
    words, topics = make_multilabel_classification(
        N_OLD + N_NEW, n_features=N_WORDS, n_classes=N_TOPICS, n_labels=4, length=200, random_state=seed
    )
    known = np.random.default_rng(seed).random(topics.shape) < SHARE
    known[N_OLD:] = False
    return (words - words.mean(0)) / words.std(0), topics, known


def low_rank(words: np.ndarray, topics: np.ndarray, known: np.ndarray, loss: rw.losses.Loss) -> np.ndarray:
    """Predict all topics from one matrix with a column per word and per topic, and a loss per column."""
    rows, cols = np.nonzero(np.column_stack((np.ones(words.shape, bool), known)))
    values = np.column_stack((words, 2 * topics - 1))[rows, cols]  # topics as -1 and +1
    losses = [rw.losses.Square()] * N_WORDS + [loss] * N_TOPICS
    weights = [1.0] * N_WORDS + [WEIGHT] * N_TOPICS
    mixed, codes = rw.losses.Mixed.encode(losses, cols, values, scales=weights)
    seen = rw.Observations.from_coo(rows, cols, codes, (N_OLD + N_NEW, N_WORDS + N_TOPICS))
    model = rw.solve(rw.Problem(seen, mixed), "bayes", rank=15).model
    return model.to_dense()[:, N_WORDS:] > 0


def regressions(words: np.ndarray, topics: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Baseline: a logistic regression per topic, fitted to the documents for which it is known."""
    guess = np.zeros_like(topics)
    for k in range(N_TOPICS):
        seen = known[:, k]
        if topics[seen, k].any():  # a topic without a positive example is never predicted
            guess[:, k] = LogisticRegression().fit(words[seen], topics[seen, k]).predict(words)
    return guess


scores: dict[str, list] = {
    "low rank, logistic": [],
    "low rank, hinge": [],
    "a regression per topic": [],
    "no topic": [],
}
for seed in range(1, 6):  # WEIGHT was chosen on seed 0
    data = documents(seed)
    guesses = (
        low_rank(*data, rw.losses.Logistic()),
        low_rank(*data, rw.losses.Hinge()),
        regressions(*data),
        0 * data[1],
    )
    truth = data[1][N_OLD:]
    for method, guess in zip(scores, guesses, strict=True):
        new = guess[N_OLD:].astype(int)
        f1 = [f1_score(truth, new, average=average, zero_division=0) for average in ("micro", "macro")]
        scores[method].append((*f1, hamming_loss(truth, new)))

# Mean scores over the draws, on the new documents, for which only the words are known.
means = {method: np.mean(draws, axis=0) for method, draws in scores.items()}
for method, mean in means.items():
    print(f"{method}: " + ", ".join(f"{name} {score:.3f}" for name, score in zip(NAMES, mean, strict=True)))

figure, axes = plt.subplots(1, 3, figsize=(10, 2.6), layout="constrained", sharey=True)
for axis, name, heights in zip(axes, NAMES, np.transpose(list(means.values())), strict=True):
    axis.barh(list(means), heights)
    axis.set_title(f"{name} ({'lower' if name == 'Hamming loss' else 'higher'} is better)", fontsize="medium")
axes[0].invert_yaxis()
figure.savefig("multilabel.png", dpi=80)
