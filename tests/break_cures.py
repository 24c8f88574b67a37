"""Takes out the cures of defects that users have met, one at a time: ``python tests/break_cures.py [NUMBERS]``.

The numbers are those of the table in docs/testing.md. Works as `break_lines`, with compiled kernels.
"""

import sys

from break_lines import Break, main


def cure(file: str, line: str, broken: str, tests: str, select: str) -> Break:
    """A break whose tests run compiled kernels."""
    return Break(file, line, broken, tests, select, plain=False)


CURES = {
    1: cure(
        "losses/custom.py",
        "return 1.0 if self._measured is None else self._measured.best_scale(mean)",
        "return 1.0",
        "test_units.py",
        "users_square_loss",
    ),
    2: cure("solvers/marginals.py", "if loss.mean_width:", "if False:", "test_marginals.py", "unseen_row_is_predicted"),
    3: cure(
        "solvers/loop.py",
        "solver, most = solver.open_ended(), solver.most_steps",
        "most = 0",
        "test_held_back.py",
        "goes_on",
    ),
    4: cure(
        "solvers/sweeps.py",
        '{"calibration": state.odds} | ',
        "",
        "test_probabilities.py",
        "where_averages or folded_in",
    ),
    5: cure(
        "estimators/planning.py",
        'solver.default_offsets if self.offsets == "auto" and not sweeps else self.offsets',
        '"none" if self.offsets == "auto" and not sweeps else self.offsets',
        "test_methods_with_a_level.py",
        "",
    ),
    6: cure(
        "estimators/planning.py",
        "    if facts.zero_one:\n        return losses.Bernoulli()\n",
        "",
        "test_two_classes.py",
        "mapped_back",
    ),
    7: cure(
        "io/dialect.py",
        'return "index" if (name == "" or role == "index") and _increase(texts) else None',
        "return None",
        "test_columns.py",
        "indices",
    ),
    8: cure(
        "estimators/robust.py",
        "return loss, BayesSweeps(block=",
        'return loss, BayesSweeps(offsets="none", block=',
        "test_robust_estimator.py",
        "background",
    ),
    9: cure(
        "estimators/tables.py", "any() and not ignore_unknown", "any()", "test_imputer.py", "categories_that_fit_did"
    ),
    10: cure(
        "model/ranking.py", 'return RISK if link == "identity" else 0.0', "return 0.0", "test_recommend.py", "crowd"
    ),
    11: cure("model/ranking.py", "vectors = stored.get(axis)", "vectors = None", "test_recommend.py", "computed_once"),
    12: cure(
        "losses/units.py", "removed = level and centre > HIGH * width", "removed = False", "test_units.py", "everything"
    ),
    13: cure(
        "storage/shard_folder.py",
        "        folder = self._transpose\n",
        "        folder = self.folder / TRANSPOSED\n",
        "test_shard_folder.py",
        "replaced_by_others",
    ),
    14: cure(
        "observations/frames.py",
        "used[codes] = True",
        "used[:] = True",
        "test_text_labels.py",
        "levels_of_a_dictionary",
    ),
    15: cure(
        "kernels/cache.py",
        "if _others_write(status) and not status.st_mode & stat.S_ISVTX:",
        "if False:",
        "test_cache.py",
        "parent_that_others",
    ),
    16: cure(
        "_files.py",
        "        temporary.replace(path)\n",
        "        temporary.replace(path)\n        path.chmod(0o666)\n",
        "test_files.py",
        "umask or private",
    ),
    17: cure(
        "cli/terminal.py",
        "click.echo(printable(text), err=err)",
        "click.echo(text, err=err)",
        "test_terminal.py",
        "file",
    ),
    18: cure(
        "cli/files.py",
        "any(isinstance(given, Path) and _contains(given, path)",
        "any(False",
        "test_cli_broken.py",
        "never",
    ),
    19: cure(
        "engines/cluster/client.py",
        "except Exception as error:  # errors of operations",
        "except ZeroDivisionError as error:  # errors of operations",
        "test_cluster.py",
        "falls_silent",
    ),
    20: cure("observations/labels.py", "if len(label) > MAX_LABEL:", "if False:", "test_text_labels.py", "long_label"),
    21: cure("engines/threads.py", "if self._owner != os.getpid():", "if False:", "test_forks.py", "both_sides"),
    22: cure(
        "kernels/cache.py",
        "if hashlib.sha256(content[SEAL:]).digest() != content[:SEAL]:",
        "if False:",
        "test_cache.py",
        "flipped or damaged_entry",
    ),
    23: cure(
        "observations/build.py",
        "if not (sound and np.all(indptr[:-1] <= indptr[1:])):",
        "if False:",
        "test_sparse.py",
        "damaged",
    ),
}

if __name__ == "__main__":
    sys.exit(1 if main([int(number) for number in sys.argv[1:]], CURES) else 0)
