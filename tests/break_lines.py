"""Breaks lines of the core, one at a time, and shows the test that notices: ``python tests/break_lines.py [NUMBERS]``.

Works on a copy of the tree, runs only the tests near each line, and prints one table row per line; pytest does not
collect this file. Kernels run as plain Python, so that nothing waits for the compiler, except where a
test compares with other processes. A line that no test misses ends it with status 1: a law is missing.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Break(NamedTuple):
    """What stands once in a file, what it becomes, and the tests to ask: a file and what to select of it."""

    file: str
    line: str
    broken: str
    tests: str
    select: str = ""
    plain: bool = True


BREAKS = [
    Break("engines/base.py", "left.first % (2 * left.width) == 0 and ", "", "test_bits.py", "sums"),
    Break(
        "engines/shard.py",
        "u, cols = u[self.start : self.stop]",
        "u, cols = u[: self.stop - self.start]",
        "test_many_shards.py",
        "products",
    ),
    Break(
        "engines/shard.py",
        "self.step < step:\n            pattern.blend",
        "True:\n            pattern.blend",
        "test_bits.py",
        "repeated",
    ),
    Break("objectives/journal.py", "            k += step.n_terms", "            k += 1", "test_journal.py"),
    Break(
        "objectives/journal.py", "        self.added.clear()", "        self.added = self.added[:1]", "test_journal.py"
    ),
    Break(
        "kernels/pattern.py",
        "            z += shift[i]",
        "            z += 0.0",
        "test_kernels.py",
        "gram",
    ),
    Break(
        "kernels/pattern.py",
        "free[key] += uint64(1)",
        "free[key] += uint64(1) if key else uint64(2)",
        "test_kernels.py",
        "stable_argsort",
    ),
    Break(
        "solvers/greedy.py",
        "return self._refine.needs",
        "return ()",
        "test_refine.py",
        "needs_a_smooth",
    ),
    Break(
        "solvers/greedy.py",
        "if gradient.norm == 0.0:",
        "if False:",
        "test_loop.py",
        "square_is_zero",
    ),
    Break("solvers/refine.py", "1.0 - share + share * shrink", "share * shrink", "test_refine.py", "share_of_a_step"),
    Break(
        "solvers/refine.py",
        "before = np.append(objective.point.theta, 0.0)",
        "before = np.append(objective.point.theta, weight)",
        "test_refine.py",
        "share_of_a_step",
    ),
    Break(
        "solvers/steps.py",
        "if not value <= least:  # rounding",
        "if False:  # rounding",
        "test_refine.py",
        "ill_conditioned or singular",
    ),
    Break(
        "solvers/steps.py", "sigma**2 / (2 * bound)", "sigma**2 / (4 * bound)", "test_refine.py", "backtracking_finds"
    ),
    Break(
        "solvers/nonsmooth.py",
        "residual = max(residual - sigma**2, 0.0)",
        "residual = max(residual - sigma, 0.0)",
        "test_nonsmooth_pursuit.py",
        "lowers_the_residual",
    ),
    Break(
        "solvers/nonsmooth.py",
        "(self.step_scale or 0.05) / t**0.5",
        "(self.step_scale or 0.05) / t",
        "test_nonsmooth_pursuit.py",
        "step_of_the_paper",
    ),
    Break(
        "solvers/sweeps.py",
        "side.precisions = n / np.maximum(squares, 1e-30)",
        "side.precisions = (n + 1) / np.maximum(squares, 1e-30)",
        "test_sweeps.py",
        "every_learned_number",
    ),
    Break(
        "solvers/sweep_state.py", "constant += sign * middle", "constant += middle", "test_sweeps.py", "the_level_is"
    ),
    Break(
        "solvers/sweep_state.py", "if not self.rows.rank:", "if not self.priors:", "test_sweeps.py", "once_there_are"
    ),
    Break(
        "storage/archive.py",
        "if file.read() != DIGEST + _digest(file, size - LENGTH):",
        "if False:",
        "test_model.py",
        "flipped or checksum",
    ),
    Break(
        "storage/archive.py",
        "if dtype.kind not in PLAIN_KINDS:",
        "if False:",
        "test_checkpoint_files.py",
        "more_memory",
    ),
    Break(
        "observations/build.py",
        "by_key = (cols, shape[1]), (rows, shape[0])",
        "by_key = (rows, shape[0]), (cols, shape[1])",
        "test_observations.py",
        "sorted",
    ),
    Break(
        "storage/shard_files.py",
        "digest is not None and file_digest(path) != digest",
        "False",
        "test_shard_folder.py",
        "flips_anywhere",
    ),
    Break(
        "storage/shard_files.py",
        "array.shape == (lengths[name],) and ",
        "",
        "test_shard_folder.py",
        "no_matrix_has",
    ),
    Break(
        "storage/sharding.py",
        'if duplicates != "error":  # there may',
        "if False:  # there may",
        "test_shard_folder.py",
        "merged",
    ),
    Break(
        "observations/shards.py",
        'boundaries, side="left"',
        'boundaries, side="right"',
        "test_observations.py",
        "first_row",
    ),
    Break(
        "solvers/checkpoint.py",
        "self._own = [*self._own[-1:], path]",
        "self._own = [path]",
        "test_checkpoint.py",
        "last_two",
    ),
    Break(
        "solvers/run.py",
        "values = saved.previous, saved.before",
        "values = saved.previous, np.inf",
        "test_checkpoint.py",
        "small_change",
    ),
    Break(
        "spectral/oracles.py",
        "if norm == 0.0:  # the operator maps v to zero",
        "if False:",
        "test_oracles.py",
        "zero_matrix",
    ),
    Break("losses/logistic.py", "lipschitz = 0.25", "lipschitz = 0.2", "test_losses.py", "lipschitz"),
    Break(
        "losses/domains.py",
        "(targets >= 0) & np.isfinite(targets)",
        "(targets >= 0)",
        "test_losses.py",
        "outside_the_domain",
    ),
    Break("engines/base.py", " and right.first == left.first + left.width", "", "test_bits.py", "sums"),
    Break("engines/disk.py", "        if self.shifted:", "        if False:", "test_shard_folder.py", "from_disk_have"),
    Break(
        "engines/disk.py",
        "shard.buffers, shard.step = self.buffers, self.step",
        "shard.buffers = self.buffers",
        "test_shard_folder.py",
        "repeated",
    ),
    Break(
        "engines/disk.py",
        "reserve(file.fileno(), 0, size)",
        "os.ftruncate(file.fileno(), size)",
        "test_shard_folder.py",
        "working_space",
    ),
    Break(
        "engines/cluster/messages.py",
        "array if isinstance(array, Kept) else np.copy(array)",
        "array",
        "test_cluster.py",
        "waits_for",
        plain=False,
    ),
    Break(
        "engines/cluster/owners.py",
        "if runs[-1].stop == following.start:",
        "if True:",
        "test_cluster.py",
        "rows_of_its_shards",
        plain=False,
    ),
    Break(
        "engines/cluster/peers.py",
        "np.flatnonzero(occurs[run])",
        "np.arange(run.stop - run.start)",
        "test_cluster.py",
        "lines_of_its_entries",
        plain=False,
    ),
    Break("engines/cluster/worker.py", "in message.past:", "in []:", "test_cluster_deaths.py", "two_die", plain=False),
    Break(
        "solvers/checkpoint.py",
        "max(CHECKPOINT_INTERVAL, TIMES_WRITING * self._took)",
        "CHECKPOINT_INTERVAL",
        "test_checkpoint.py",
        "small_share",
    ),
    Break(
        "solvers/checkpoint.py",
        "lock.acquire(timeout=0)",
        "pass",
        "test_checkpoint_files.py test_checkpoint_users.py",
        "process or two or same_time or folder",
    ),
    Break(
        "objectives/journal.py",
        "= version, None if theta is None else theta.copy()",
        "= version, theta",
        "test_journal.py",
        "shrunk",
    ),
    Break(
        "storage/sharding.py",
        'spool.single and duplicates == "error"',
        "spool.single",
        "test_shard_folder.py",
        "come_back",
    ),
    Break(
        "storage/sharding.py",
        'np.searchsorted(bounds, start, side="right") - 1',
        "np.searchsorted(bounds, start)",
        "test_shard_folder.py",
        "merged or come_back",
    ),
    Break("spectral/tall.py", "slice(start, start + ROWS)", "slice(start, start + ROWS - 1)", "test_blocks.py", "tall"),
    Break(
        "storage/archive.py",
        "if math.prod(shape) * dtype.itemsize != member.file_size - file.tell():",
        "if False:",
        "test_checkpoint_files.py",
        "memory",
    ),
    Break(
        "storage/archive.py",
        "if sum(member.file_size for member in members) > size:",
        "if False:",
        "test_checkpoint_files.py",
        "memory",
    ),
    Break(
        "kernels/row_solver.py",
        "(prior_mean[a] - 0.5 * x)",
        "(prior_mean[a] - 0.4 * x)",
        "test_row_solver.py",
        "one_call and given",
    ),
    Break(
        "kernels/tile_losses.py",
        "0.5 * weight * (linear * linear - spread + float64(noises[k]))",
        "0.5 * weight * (linear * linear - spread)",
        "test_row_solver.py",
        "one_call",
    ),
    Break(
        "kernels/row_solver.py",
        "        if not short:",
        "        if False:",
        "test_row_solver.py",
        "one_call or tile",
    ),
    Break(
        "kernels/row_few.py",
        "shrunk[a] = g[a] * inverse[a]",
        "shrunk[a] = 0.9 * g[a] * inverse[a]",
        "test_row_solver.py",
        "one_call or tile",
    ),
    Break(
        "kernels/row_solver.py", "vector[a] = rhs[a]", "vector[a] = rhs[a] * (a < 2)", "test_row_solver.py", "one_call"
    ),
    Break("kernels/row_solver.py", "share *= 0.5", "share *= 0.6", "test_row_solver.py", "halved"),
    Break(
        "kernels/row_parts.py",
        "matrix[a, c] += b * S[a, c]",
        "matrix[a, c] += S[a, c]",
        "test_row_problem.py",
        "shared_quadratic",
    ),
    Break(
        "kernels/row_few.py",
        "solution[a] = rhs[a] / multiplier",
        "solution[a] = rhs[a]",
        "test_row_problem.py",
        "few_entries",
    ),
    Break(
        "solvers/factor_sweeps.py",
        "if not problem.quadratic and majorised(problem.loss.formula):",
        "if False:",
        "test_sweeps.py",
        "factor_sweeps_minimise",
    ),
    Break(
        "estimators/planning.py",
        "bound = max(known, min(bound, known + MAX_ADDED))",
        "bound = min(bound, known + MAX_ADDED)",
        "test_paths.py",
        "going_on",
    ),
    Break("model/ordered.py", "predicted[some] = model.at(", "predicted[some] = 0.9 * model.at(", "test_decoding.py"),
    Break(
        "model/targets.py",
        "grid.size <= min(MAX_GRID, targets.size / 2)",
        "grid.size <= MAX_GRID",
        "test_decoding.py",
        "grid",
    ),
    Break(
        "kernels/row_entries.py",
        "target[k], weight[k] = target[0], 0.0",
        "target[k], weight[k] = target[0], 1.0",
        "test_row_solver.py",
        "one_call",
    ),
    Break(
        "kernels/expected.py",
        " - weight * (wide - s)",
        "",
        "test_expected.py",
        "two_points or derivative_in_the_variance",
    ),
    Break("kernels/columns.py", "y = s * (", "y = (", "test_blocks.py", "tall or blend"),
    Break(
        "kernels/columns.py",
        "load(h, k), load(c, at)",
        "load(g, k), load(c, at)",
        "test_blocks.py",
        "tall or blend",
    ),
    Break("kernels/pattern.py", "pick(v, indices, lo)", "load(v, lo)", "test_kernels.py", "matrix_times_a_vector"),
    Break(
        "kernels/row_solver.py",
        "solution[a] = vector[a]",
        "solution[a] = work.rhs[a]",
        "test_row_solver.py",
        "one_call",
    ),
    Break("solvers/sweep_state.py", "retained[effects.argmax()] = True", "pass", "test_sweeps.py", "stays"),
    Break(
        "solvers/sweep_state.py",
        "return bool(known and self.previous_cost - self.cost <= FALLING * abs(self.previous_cost))",
        "return True",
        "test_sweeps.py",
        "left_out",
    ),
    Break("solvers/sweep_state.py", "self.rank = self.rows.rank", "pass", "test_sweeps.py", "left_out"),
    Break(
        "solvers/sweeps.py",
        "state.narrow(live[0] & live[1])  # factors of zero on one side would stay zero",
        "pass",
        "test_warm_start.py",
        "were_zero",
    ),
    Break(
        "observations/labels.py",
        "np.where(known, keys.astype(np.int64), -1)",
        "np.where(known, keys, keys.dtype.type(-1 % 256)).astype(np.int64)",
        "test_observations.py",
        "of_any_type",
    ),
    Break(
        "observations/build.py",
        "and weights is not None and not weights.all():",
        "and False:",
        "test_observations.py",
        "weigh_nothing",
    ),
]


def first_failure(change: Break, room: Path) -> str | None:
    """Name of the first test that fails on the broken tree."""
    source = room / "src" / "rankwise" / change.file
    whole = source.read_text(encoding="utf-8")
    assert whole.count(change.line) == 1, f"{change.file} has {change.line!r} {whole.count(change.line)} times"
    source.write_text(whole.replace(change.line, change.broken), encoding="utf-8")
    tests = [str(path) for name in change.tests.split() for path in (room / "tests").rglob(name)]
    plugins = ["-p", "no:cacheprovider", *(["-p", "plain_kernels"] if change.plain else [])]
    command = [sys.executable, "-m", "pytest", "-qx", *plugins, *tests, "-k", change.select]
    try:
        paths = os.pathsep.join(str(room / name) for name in ("src", "tests", "."))
        environment = os.environ | {"PYTHONPATH": paths}
        done = subprocess.run(command, cwd=room, env=environment, capture_output=True, text=True)
    finally:
        source.write_text(whole, encoding="utf-8")
    if done.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) tests/(\S+?)(?:\[| -|$)", done.stdout, re.M)
    assert found is not None, done.stdout[-2000:] + done.stderr[-2000:]
    return found[1]


def main(numbers: list[int], breaks: dict[int, Break]) -> int:
    """Break the lines of these numbers, or all; the number of lines that no test missed."""
    unnoticed = 0
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        for name in ("src", "tests", "docs", "benchmarks"):
            shutil.copytree(ROOT / name, room / name, ignore=shutil.ignore_patterns("__pycache__", "_build"))
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, room / name)
        for k in numbers or breaks:
            change = breaks[k]
            found = first_failure(change, room)
            unnoticed += found is None
            line, broken = (" ".join(text.split()) for text in (change.line, change.broken))
            caught = "**nobody**" if found is None else f"`{found}`"
            print(f"| {k} | `{change.file}` | `{line}` | `{broken or '(nothing)'}` | {caught} |", flush=True)
    return unnoticed


if __name__ == "__main__":
    sys.exit(1 if main([int(number) for number in sys.argv[1:]], dict(enumerate(BREAKS))) else 0)
