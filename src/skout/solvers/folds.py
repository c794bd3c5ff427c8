"""Cross-validation of a penalty: rows are dealt into folds, and the best alpha of a path is chosen.

Whoever has a path over the penalties, from moments, a kernel matrix or a convex solver, is a
`Path`: it returns held-out losses, or predictions that a `Scorer` turns into scores. `deal` makes
the splits and `choose` the choice, for every estimator of the library.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from scipy import sparse
from tqdm import tqdm

from .._numerics.arrays import row_slices
from .._numerics.threads import map_blocks
from .._numerics.typing import Floats, Index, Ints, Objects, RandomState, Table, Weights
from .._numerics.validation import check_number, check_rng, check_size
from ..rows import source
from ..rows.encode import named

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

#: Pairs (train, test) of positions of rows, increasing as `deal` returns them.
Splits: TypeAlias = Sequence[tuple[Ints, Ints]]
#: One penalty, or those to choose from.
Alphas: TypeAlias = float | Sequence[float] | Floats


class Splitter(Protocol):
    """What is asked of a splitter of scikit-learn."""

    def split(
        self, X: Floats, y: Objects | None = None, groups: Ints | None = None
    ) -> Iterable[tuple[Index, Index]]: ...


#: A number of folds, a splitter of scikit-learn, or splits.
CV: TypeAlias = int | Splitter | Iterable[tuple[Index, Index]] | None

#: The roles that a row may have in a split; their sum where it has both.
TRAIN, TEST = 1, 2
# A cross-validation whose rows have more different roles than this is refused: each keeps moments,
# 2 GB of them with 2,000 landmarks. Splits by k folds have k roles.
_MAX_GROUPS = 64
# Held-out rows that are scored, in all splits together: the standard error of a share of 50 % is
# 1.1 % then, and half or double make it 1.6 % or 0.8 %, at half or double the cost of decoding.
_SCORED_ROWS = 2000
# The alpha of models that choose none.
_DEFAULT = 1e-3
# Standard errors by which another alpha must be ahead of the default, as in a test at 5 %:
# with 1 the choice follows chance on small data, with 4 it hardly leaves the default.
_AHEAD = 2.0


# Dealing rows into folds --------------------------------------------------------------------------


def deal(
    cv: CV,
    n: int,
    y: Objects | None = None,
    weights: Weights = None,
    random_state: RandomState = None,
    *,
    stratified: bool = False,
    groups: ArrayLike | None = None,
    first: int | None = None,
) -> Splits:
    """Return the training and test rows of each split of n rows in which both have weight.

    They are positions, increasing. A number of folds, `cv`, deals the rows at random, since files
    are often sorted. A splitter, which is given the targets or objects y and the groups, or splits,
    of positions or masks, are taken as they are. Rows of a group come into the same fold. Weights
    that are not in memory are not read. If `stratified`, y are classes, of which each fold has its
    share, or rows of 0 and 1, (n, L), that say which labels a row has: then each fold has its share
    of each label. Of all splits only the `first` are made, where it is a number.
    """
    from sklearn.model_selection import GroupKFold, check_cv  # slow to import

    numbers = None
    if groups is not None:
        groups = np.asarray(groups)
        if groups.shape != (n,):
            raise ValueError(
                f"groups must have one entry for each of the {n} rows. Got shape {groups.shape}."
            )
        numbers = np.unique(groups, return_inverse=True)[1]
    if isinstance(cv, Integral) and not stratified and n > 1:
        cv = check_size(cv, n, "cv")  # no more folds than rows
    if stratified and groups is None and isinstance(cv, Integral) and len(np.shape(y)) == 2:
        rng = check_rng(random_state).spawn(2)[1]
        fold = _label_folds(sparse.csc_matrix(y), check_size(cv, n, "cv"), rng)
        numbers = [np.flatnonzero(fold == k) for k in np.unique(fold)[:first]]
        return [(np.setdiff1d(np.arange(n), held, assume_unique=True), held) for held in numbers]
    with named("cv"):
        folds = check_cv(cv, y if stratified else None, classifier=stratified)
        if cv is None or isinstance(cv, Integral):
            # the sketch uses the generator itself, and a sample of blocks its first child
            rng = check_rng(random_state).spawn(2)[1]
            y = y if stratified else None
            if numbers is None:
                seed = int(rng.integers(2**31))
                folds = type(folds)(folds.n_splits, shuffle=True, random_state=seed)
            else:  # groups of about equal numbers of rows
                order = rng.permutation(numbers.max() + 1)  # which breaks the ties of equal groups
                if len(order) < 2:
                    raise ValueError(
                        "groups must be at least 2 different ones. Got 1: leave groups out."
                    )
                folds, numbers = GroupKFold(min(folds.n_splits, len(order))), order[numbers]
        splits = list(islice(folds.split(np.zeros((n, 1)), y, numbers), first))
    if not splits:
        raise ValueError(f"cv must have at least one split. Got {cv!r} instead.")
    for part in (np.asarray(part) for split in splits for part in split):
        if part.size == 0 or part.dtype.kind not in "biu":
            raise ValueError("cv must give row numbers for training and for testing. Got none.")
        if part.dtype.kind != "b" and (part.max() >= n or part.min() < -n):
            raise ValueError(f"cv must give rows of X, 0 to {n - 1}. Got row {part.max()} instead.")
    everything = np.arange(n)
    splits = [(np.sort(everything[train]), np.sort(everything[test])) for train, test in splits]
    if not isinstance(weights, np.ndarray):
        return splits
    splits = [split for split in splits if all(weights[part].sum() > 0.0 for part in split)]
    if not splits:
        raise _no_split(cv)
    return splits


def _label_folds(labels: sparse.csc_matrix, n_folds: int, rng: np.random.Generator) -> np.ndarray:
    """Return the fold of each row, so that each fold has its share of each label.

    The rows of the rarest label are dealt first, to the folds that lack most of it, and where
    several do, to those that lack most rows (iterative stratification, Sechidis et al., 2011; here
    all rows of a label at once, and labels in the order of their numbers of rows).
    """
    n = labels.shape[0]
    fold, sizes = np.full(n, -1), np.zeros(n_folds)
    counts = np.diff(labels.indptr)
    columns = (labels.indices[labels.indptr[j] : labels.indptr[j + 1]] for j in np.argsort(counts))
    for rows in (*columns, np.arange(n)):  # the last are those that have no label
        new = rng.permutation(rows[fold[rows] < 0])
        if len(new):
            dealt = fold[rows]
            lacks = len(rows) / n_folds - np.bincount(dealt[dealt >= 0], minlength=n_folds)
            share = _water_level(lacks, len(new))
            whole = np.floor(share)
            order = np.lexsort((rng.random(n_folds), sizes, whole - share))
            whole[order[: len(new) - int(whole.sum())]] += 1
            fold[new] = np.repeat(np.arange(n_folds), whole.astype(int))
            sizes += whole
    return fold


def _water_level(lacks: np.ndarray, total: int) -> np.ndarray:
    """Return max(lacks - t, 0), with the t that makes their sum the total."""
    ordered = -np.sort(-lacks)
    t = (np.cumsum(ordered) - total) / np.arange(1, len(lacks) + 1)
    level: Floats = np.maximum(lacks - t[np.count_nonzero(ordered > t) - 1], 0.0)
    return level


def _no_split(cv: CV) -> ValueError:
    """Return the error of a cross-validation none of whose splits can choose alpha."""
    return ValueError(
        f"cv={cv!r} has no split whose training rows and test rows both have a positive "
        "sample_weight: give fewer folds or other splits, or one alpha."
    )


def groups_of_splits(splits: Splits, n: int, most: float = _MAX_GROUPS) -> tuple[Ints, np.ndarray]:
    """Group the rows that have the same role in every split, so that each group has its moments.

    Returns the group of each row, (n,), and the roles of groups, (n_groups, n_splits): 1 in
    training, 2 in testing, 3 in both, 0 in neither.
    """
    roles = np.zeros((n, len(splits)), dtype=np.int8)
    for j, (train, test) in enumerate(splits):
        roles[train, j] |= TRAIN
        roles[test, j] |= TEST
    # a number for each row of roles, the same for equal rows: base 4, then renumbered
    numbers = np.zeros(n, dtype=np.int64)
    for columns in row_slices(len(splits), 16):
        for column in roles[:, columns].T:
            numbers = 4 * numbers + column
        numbers = np.unique(numbers, return_inverse=True)[1]
    _, first, groups = np.unique(numbers, return_index=True, return_inverse=True)
    if len(first) > most:
        raise ValueError(
            f"The splits of cv divide the rows into {len(first)} parts, more than {most}; "
            "their moments would not fit. Use k-fold splits, or GridSearchCV over alpha."
        )
    return groups, roles[first]


def groups_or_splits(splits: Splits, n: int) -> tuple[list[Ints], np.ndarray]:
    """Return the rows of groups, and the roles these have, whatever the splits are.

    Where there would be many groups, the training and the test rows of each split are two.
    """
    groups, roles = groups_of_splits(splits, n, np.inf)
    if len(roles) <= max(_MAX_GROUPS, 2 * len(splits)):
        return [np.flatnonzero(groups == group) for group in range(len(roles))], roles
    rows = [np.arange(n)[part] for split in splits for part in split]
    return rows, np.kron(np.eye(len(splits), dtype=np.int8), np.array([[TRAIN], [TEST]], np.int8))


def interleaved_groups(
    cv: CV, n_alphas: int, start: int, n: int
) -> tuple[Ints | None, np.ndarray | None]:
    """Deal n rows, the first of which is number `start`, into folds in turn.

    Folds then do not depend on how the rows come in blocks. Returns what `groups_of_splits` does;
    None twice where there is a single alpha.
    """
    if n_alphas == 1:
        return None, None
    k = int(check_number(cv, "cv, in partial_fit,", low=2, integer=True))
    return (start + np.arange(n)) % k, np.eye(k, dtype=np.int8) + 1


def held_rows(
    splits: Splits,
    n: int,
    most: int = _SCORED_ROWS,
    random_state: RandomState = None,
    weights: Weights = None,
) -> list[Ints]:
    """Return the test rows to score, increasing, one array a split: all, or a random sample.

    There are `most` of all splits together, but at least one of each. Rows without weight are left
    out.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.solvers.folds import held_rows
    >>> [rows.tolist() for rows in held_rows([([2, 3], [0, 1]), ([0, 1], [3, 2])], 4)]
    [[0, 1], [2, 3]]
    """
    # the sketch uses the generator itself, a sample of blocks and the folds its first children
    rng = check_rng(random_state).spawn(3)[2]
    share = max(1, most // len(splits))
    held = []
    for _, test in splits:
        rows = np.unique(np.arange(n)[test])
        if isinstance(weights, np.ndarray):
            rows = rows[weights[rows] > 0.0]
        held.append(np.sort(rows[rng.permutation(len(rows))[:share]]))
    return held


# Choosing alpha -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scorer:
    """What alpha is chosen by in place of the loss: a score of predictions of held-out rows."""

    splits: Splits
    held: list[Ints]  # the test rows that are scored, increasing, one array a split: `held_rows`
    # (number of the split, F) -> n_alphas numbers, the greater the better; F is of the shape
    # (n_alphas, len(held), d)
    score: Callable[[int, Floats], Sequence[float]]
    name: str = ""  # of the score in `cv_results_`


class AlphaSearch(NamedTuple):
    """Which alphas to choose from, the splits to try them on, and a score where there is one."""

    alphas: list[float]
    splits: Splits = ()  # without any, nothing is chosen
    scorer: Scorer | None = None  # None chooses by the loss of the held-out rows


class ChosenAlpha(NamedTuple):
    """The alpha that was chosen, and the table of the choice; None where there was no choice."""

    alpha: float
    results: Table | None = None


class Path(Protocol):
    """Fits on the training rows of each split, for many penalties."""

    @property
    def splits_in_threads(self) -> bool:
        """Whether threads take one split each; else a split uses all threads."""

    def losses(self, alphas: Sequence[float], split: int) -> Sequence[float]:
        """Return the mean loss of held-out rows by each alpha; nothing where a split lacks rows."""

    def predictions(self, alphas: Sequence[float], split: int, held: Ints) -> Floats:
        """Return what each alpha predicts for some rows, shape (n_alphas, len(held), d)."""


def choose(
    path: Path,
    search: AlphaSearch,
    *,
    n_splits: int | None = None,
    cv: CV = None,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> ChosenAlpha:
    """Return the alpha of greatest score or least loss over the splits, and the table of both.

    Without splits, or without rows enough to compare them, it is the largest. Where `cv` is given,
    a cross-validation none of whose splits has rows is an error instead. `n_splits` is the number
    of splits of a path that knows them by itself, where None is that of the search.
    """
    alphas, _, scorer = search
    n = len(search.splits) if n_splits is None else n_splits
    tried: Callable[[int], Any] = functools.partial(path.losses, alphas)
    if scorer is not None:
        tried = lambda k: path.predictions(alphas, k, scorer.held[k])  # noqa: E731
    results: Iterable[Any] = map(tried, range(n))
    if path.splits_in_threads and n:
        results = map_blocks(tried, range(n), n_jobs=n_jobs)
    bar = tqdm(results, total=n, desc="folds", disable=not (verbose and n))
    table = [row if scorer is None else scorer.score(k, row) for k, row in enumerate(bar)]
    table = [row for row in table if len(row)]
    if not table:
        if n and cv is not None:
            raise _no_split(cv)
        return ChosenAlpha(max(alphas))
    if scorer is None:
        return least_loss(alphas, np.array(table))
    return greatest_score(alphas, table, scorer.name)


def least_loss(alphas: Sequence[float], table: Floats) -> ChosenAlpha:
    """Return the alpha of least mean loss in a table of shape (n_splits, n_alphas), and the table.

    The table is a dict with "alpha", "mean_loss", "std_loss" and "fold_loss".
    """
    mean = table.mean(axis=0)
    results = {
        "alpha": np.array(alphas),
        "mean_loss": mean,
        "std_loss": table.std(axis=0),
        "fold_loss": table,
    }
    return ChosenAlpha(alphas[int(np.argmin(mean))], results)


def greatest_score(
    alphas: Sequence[float], table: Sequence[Sequence[float]], name: str = ""
) -> ChosenAlpha:
    """Return the alpha of greatest mean score, or the default that is as good, and the table.

    The alpha nearest to 1e-3, the default of the models, is kept unless the best is ahead of it by
    more than two standard errors of their difference over the splits: on small data the best is
    often best by chance.

    The table, (n_splits, n_alphas), comes as a dict with "alpha", "mean_score", "std_error" (of
    the mean over the splits), "fold_score" and "scoring", the name of the score.

    Examples
    --------
    >>> from skout.solvers.folds import greatest_score
    >>> greatest_score([1e-5, 1e-3], [[0.52, 0.50], [0.50, 0.51]]).alpha
    0.001
    >>> greatest_score([1e-5, 1e-3], [[0.60, 0.50], [0.58, 0.51]]).alpha
    1e-05
    """
    scores = np.asarray(table, dtype=np.float64)
    mean = scores.mean(axis=0)
    results = {
        "alpha": np.array(alphas),
        "mean_score": mean,
        "std_error": _standard_error(scores),
        "fold_score": scores,
        "scoring": name,
    }
    with np.errstate(divide="ignore"):  # 0, and nan where there is no alpha, are infinitely far
        steps = np.nan_to_num(np.abs(np.log10(np.array(alphas) / _DEFAULT)), nan=np.inf).round(9)
    near = sorted(range(len(alphas)), key=lambda j: (steps[j], -alphas[j]))  # to the default
    usual, best = near[0], next(j for j in near if mean[j] == mean.max())
    ahead = scores[:, [best]] - scores[:, [usual]]
    is_clear = ahead.mean() > _AHEAD * _standard_error(ahead)[0]
    return ChosenAlpha(alphas[best if is_clear else usual], results)


def _standard_error(scores: Floats) -> Floats:
    """Return the standard error of the mean over splits, 0 where there is one."""
    if len(scores) < 2:
        return np.zeros(scores.shape[1])
    errors: Floats = scores.std(axis=0, ddof=1) / np.sqrt(len(scores))
    return errors


def squared_error(y: Objects, held: list[Ints]) -> Callable[[int, Floats], Sequence[float]]:
    """Return minus the mean squared error as the score of a `Scorer`."""
    targets = source(y)

    def score(k: int, F: Floats) -> list[float]:
        T: Any = targets.take(held[k])
        T = T.toarray() if sparse.issparse(T) else T.reshape(len(T), -1)
        return [-mean_square(T, predicted) for predicted in F]

    return score


def mean_square(T: Floats, F: Floats, weights: Weights = None) -> float:
    """Return the mean squared error over rows and outputs; NaN in T is left out.

    With missing targets it is the mean over outputs of that over the rows that have them. An output
    that no row has, or that no training row had, which makes F NaN, says nothing.
    """
    squares = (T - F) ** 2
    missing = np.isnan(squares)
    if not missing.any():
        return float(np.average(squares.mean(axis=1), weights=weights))
    W = (~missing).astype(np.float64)
    W = W if weights is None else W * weights[:, None]
    total, used = (W * np.where(missing, 0.0, squares)).sum(axis=0), W.sum(axis=0)
    return float(np.mean(total[used > 0.0] / used[used > 0.0])) if used.any() else np.nan
