"""Pictures show the numbers: what is drawn is compared with what NumPy and scikit-learn make of the same model."""

import matplotlib
import numpy as np
import pytest
from sklearn.calibration import calibration_curve

import rankwise as rw
from rankwise import _extras, plots
from rankwise._errors import MissingExtraError
from rankwise.selection import Choice

matplotlib.use("Agg")
from matplotlib import pyplot


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def split():
    """Training and held-out signs."""
    made = rw.datasets.signed_network(60, 40, rank=3, density=0.5, flip=0.05, random_state=0)
    return rw.selection.split_entries(made.observations, 0.2, 0)


@pytest.fixture(scope="module")
def signs(split):
    return rw.MatrixCompletion("logistic", method="eglrl", rank=6).fit(split[0])


@pytest.fixture(scope="module")
def chosen(split):
    return rw.MatrixCompletion("logistic", method="eglrl").fit(split[0])


def every_picture(signs, chosen, held_out, ax=None):
    return {
        "convergence": plots.convergence(signs, ax=ax),
        "rank_path": plots.rank_path(chosen, ax=ax),
        "spectrum": plots.spectrum(signs, ax=ax),
        "residuals": plots.residuals(signs, held_out, ax=ax),
        "calibration": plots.calibration(signs, held_out, ax=ax),
        "factor_map": plots.factor_map(signs, ax=ax),
    }


def test_every_picture_has_words_on_its_axes_and_draws_where_it_is_told(signs, chosen, split):
    ax = pyplot.figure().subplots()
    for name, found in every_picture(signs, chosen, split[1]).items():
        assert found.get_title() and found.get_xlabel() and found.get_ylabel(), name
        assert found is not ax
    assert all(found is ax for found in every_picture(signs, chosen, split[1], ax).values())


def test_every_public_picture_is_tested_here(signs, chosen, split):
    assert sorted(every_picture(signs, chosen, split[1])) == plots.__all__ == sorted(plots.__all__)


def test_convergence_draws_the_history(signs):
    line = plots.convergence(signs).lines[0]
    np.testing.assert_allclose(line.get_xdata(), signs.history_.column("wall_seconds"))
    np.testing.assert_allclose(line.get_ydata(), signs.history_.column("value"))


def test_a_saved_model_is_drawn_like_the_estimator(signs, chosen, split, tmp_path):
    for estimator, name in ((signs, "signs"), (chosen, "chosen")):
        estimator.save(tmp_path / name)
    loaded = (rw.load(tmp_path / name) for name in ("signs", "chosen"))
    ours, theirs = every_picture(signs, chosen, split[1]), every_picture(*loaded, split[1])
    for name in ours:
        for one, other in zip(ours[name].lines, theirs[name].lines, strict=True):
            np.testing.assert_array_equal(one.get_xydata(), other.get_xydata())


@pytest.mark.parametrize("give", [lambda e: e, lambda e: e.model_, lambda e: e.path_], ids=["fit", "model", "choice"])
def test_the_rank_path_draws_scores_their_errors_and_the_choice(chosen, give):
    ax, path = plots.rank_path(give(chosen)), chosen.path_
    curve, mark = ax.lines[0], ax.lines[-1]
    np.testing.assert_allclose(curve.get_xydata(), np.c_[path.settings, path.scores])
    bars = np.array([segment[:, 1] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(bars, np.c_[path.scores - path.deviations, path.scores + path.deviations])
    assert set(mark.get_xdata()) == {path.best} and chosen.model_.rank == path.best
    assert ax.get_xlabel() == "rank"


def test_a_path_of_ridges_is_called_that_and_drawn_on_a_log_scale():
    ridges = np.array([8.0, 4.0, 2.0])
    ax = plots.rank_path(Choice(4.0, ridges, np.array([0.3, 0.2, 0.25]), np.full(3, 0.01)))
    assert ax.get_xlabel() == "ridge" and ax.get_xscale() == "log"


def test_the_spectrum_of_a_singular_value_decomposition_is_its_singular_values():
    matrix = np.random.default_rng(0).normal(size=(9, 7))
    U, sigma, Vt = np.linalg.svd(matrix, full_matrices=False)
    model = rw.LowRankModel(np.tril(np.tile(-sigma, (7, 1))), -U, Vt.T)  # a sign that the coefficients carry
    np.testing.assert_allclose(plots.spectrum(model).lines[0].get_xydata(), np.c_[np.arange(1, 8), sigma])


def test_residuals_count_every_held_out_entry(signs, split):
    held_out = split[1]
    bars = plots.residuals(signs, held_out).patches
    margins = signs.model_.to_dense()[held_out.rows, held_out.cols] * held_out.targets
    edges = np.r_[[bar.get_x() for bar in bars], bars[-1].get_x() + bars[-1].get_width()]
    np.testing.assert_allclose(edges[[0, -1]], [margins.min(), margins.max()])
    assert sum(bar.get_height() for bar in bars) == held_out.n_observed
    wrong = sum(bar.get_height() for bar in bars if bar.get_x() + bar.get_width() <= 0)
    assert wrong <= np.count_nonzero(margins < 0)


def test_residuals_that_differ_by_one_bit_are_drawn(signs):
    model = rw.LowRankModel(np.ones((1, 1)), np.array([[3.0], [np.nextafter(3.0, 4.0)]]), np.ones((1, 1)))
    bars = plots.residuals(model, np.array([[0.0], [0.0]])).patches
    assert sum(bar.get_height() for bar in bars) == 2 and all(bar.get_width() > 0 for bar in bars)


def test_residuals_of_values_are_predicted_less_observed(tmp_path):
    made = rw.datasets.ratings(30, 20, rank=2, density=0.6, noise=0.1, random_state=0).observations
    fitted = rw.MatrixCompletion("square", method="glrl", rank=1).fit(made)
    bars = plots.residuals(fitted, made).patches
    middles = np.array([bar.get_x() + bar.get_width() / 2 for bar in bars])
    heights = np.array([bar.get_height() for bar in bars])
    residuals = fitted.model_.to_dense()[made.rows, made.cols] - made.targets
    assert abs(np.average(middles, weights=heights) - residuals.mean()) <= bars[0].get_width() / 2


def test_calibration_is_that_of_scikit_learn(signs, split):
    held_out = split[1]
    ax = plots.calibration(signs, held_out)
    chances = 1 / (1 + np.exp(-signs.model_.to_dense()[held_out.rows, held_out.cols]))
    observed, predicted = calibration_curve(held_out.targets > 0, chances, n_bins=10)
    np.testing.assert_allclose(ax.lines[1].get_xydata(), np.c_[predicted, observed], rtol=1e-6)
    assert sum(int(text.get_text().replace(",", "")) for text in ax.texts) == held_out.n_observed


@pytest.mark.parametrize("axis", ["rows", "columns"])
def test_products_of_the_maps_are_what_two_components_add(signs, axis):
    model, which = signs.model_, (2, 0)
    drawn = plots.factor_map(signs, axis, which, labels=3)
    points = np.asarray(drawn.collections[0].get_offsets())
    factor = model.U if axis == "rows" else model.V
    np.testing.assert_allclose(points, factor[:, which] * np.sqrt(np.abs(model.theta[list(which)])), rtol=1e-6)
    farthest = np.argsort(-np.hypot(*points.T))[:3]
    assert {text.get_text() for text in drawn.texts} == {str(place) for place in farthest}


def test_labels_of_a_map_lie_inside_the_axes_and_do_not_overlap():
    made = rw.datasets.ratings(60, 40, rank=2, density=0.5).observations
    names = [f"a film with a long name, part {place}" for place in range(40)]
    made = rw.Observations.from_coo(made.rows, made.cols, made.targets, made.shape, labels=(range(60), names))
    figure, axes = pyplot.subplots(1, 2, figsize=(12, 4), layout="constrained")
    ax = plots.factor_map(
        rw.MatrixCompletion("square", method="glrl", rank=2).fit(made), "columns", labels=8, ax=axes[1]
    )
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert 4 <= len(boxes) <= 8
    assert not any(box.count_overlaps(boxes[:k]) for k, box in enumerate(boxes))
    assert all(ax.bbox.contains(*corner) for box in boxes for corner in (box.p0, box.p1))


def test_names_are_drawn_as_text_never_as_formulas(tmp_path):
    names = [r"$\frac{$", "<script>", "100 $ & more $", "été 😀", "_^{}", "\\"]
    rows, cols = np.divmod(np.arange(36), 6)
    values = np.random.default_rng(0).normal(size=36)
    made = rw.Observations.from_labels(np.array(names)[rows], np.array(names)[cols], values)
    ax = plots.factor_map(rw.MatrixCompletion("square", method="glrl", rank=2).fit(made), labels=6)
    assert {text.get_text() for text in ax.texts} == set(names)
    ax.figure.savefig(tmp_path / "map.svg")  # would raise on a formula that cannot be parsed


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda signs, held_out: plots.spectrum(rw.MatrixCompletion()), "not fitted"),
        (lambda signs, held_out: plots.spectrum(3), "got int"),
        (lambda signs, held_out: plots.rank_path(signs), 'rank="auto"'),
        (lambda signs, held_out: plots.factor_map(signs, "diagonal"), "'rows' or 'columns'"),
        (lambda signs, held_out: plots.factor_map(signs, components=(0, 6)), "0 to 5"),
        (lambda signs, held_out: plots.residuals(signs, renamed(held_out)), "None of the"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(signs, split, draw, words):
    with pytest.raises(rw.RankwiseError, match=words):
        draw(signs, split[1])


def test_only_probabilities_have_a_calibration():
    made = rw.datasets.ratings(20, 15, rank=2, density=0.6, random_state=0).observations
    fitted = rw.MatrixCompletion("square", method="glrl", rank=1).fit(made)
    with pytest.raises(rw.SettingError, match="logistic"):
        plots.calibration(fitted, made)


def test_without_matplotlib_the_extra_is_named(signs, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name="matplotlib")

    monkeypatch.setattr(_extras.importlib, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"rankwise\[plots\]"):
        plots.spectrum(signs)


def renamed(observations):
    """The same entries under names that no model knows."""
    rows, cols = (np.char.add("x", side.astype(str)) for side in (observations.rows, observations.cols))
    return rw.Observations.from_labels(rows, cols, observations.targets)
