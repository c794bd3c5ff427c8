"""Hubness correction: a penalty on candidates that are close to the predictions of many inputs.

Predictions are conditional means, which lie closer to each other than true objects do, and a
candidate in their midst, a hub, is close to all of them. Cross-validation tells how close a
candidate is to the predictions of other inputs; that is subtracted from its score.
"""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import n_rows, row_slices, take, unique
from .._numerics.typing import Candidates, Estimator, Floats, Objects, RandomState, Rng
from .._numerics.validation import check_choice, check_number, check_rng
from ..decoding import EmbeddedPool
from ..decoding.base import able, split_pipeline
from ..predictor import predicted
from ..solvers.folds import deal

# Entries of a block of cosines: 32 MB.
_COSINES = 2**22


def correct_hubness(
    model: Estimator,
    X: Objects,
    Y: Objects,
    candidates: Candidates = None,
    *,
    cv: int | str = 5,
    share: float = 0.5,
    temperature: float = 0.05,
    n_references: int = 10_000,
    random_state: RandomState = None,
) -> EmbeddedPool:
    """Embed candidates with hubness penalties, which lower the scores of hubs.

    The regressor is fitted again on parts of the training data, to predict the others: rows with
    equal outputs are in one fold, so that no model has seen the object that it predicts. With the
    cosine a(x, c) = <f(x), z(c)> / (||f(x)|| sqrt(k(c, c))) of a prediction and a candidate and
    the temperature t the penalty is 2 share sqrt(k(c, c)) t log mean_x exp(a(x, c) / t), a soft
    maximum. The defaults did well on label sets, images, spectra and texts; compare with the plain
    candidates on data of your own.

    Parameters
    ----------
    model : StructuredPredictor, or Pipeline that ends in one
        Fitted, with a decoder that ranks candidates. The transformers, too, are fitted again on
        each part.
    X : what the regressor takes, n rows
        The training inputs; with cv="prefit" any inputs.
    Y : objects, n of them
        Their outputs: a candidate is not penalized for being close to its own.
    candidates : objects, CandidateSets, list of lists or EmbeddedPool, optional
        Default the distinct training outputs.
    cv : int or "prefit", default 5
        Number of folds. "prefit" takes the predictions of the fitted model instead, for networks,
        whose fits take long; X should then be rows that it was not trained on.
    share : float, default 0.5
        Factor of the penalty; 0 leaves the scores as they are.
    temperature : float, default 0.05
        Small values count the nearest predictions only, large ones the mean of all.
    n_references : int, default 10,000
        Maximum number of predictions that candidates are compared with.
    random_state : None, int or Generator
        Seed of the folds and of the choice of references.

    Returns
    -------
    pool : EmbeddedPool
        Pass it as `candidates` to the model.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skout import sisokr, correct_hubness
    >>> from skout.metrics import mean_reciprocal_rank
    >>> images = load_digits(n_class=4).data[:450] / 16.0
    >>> upper, lower = images[:, :32], images[:, 32:]
    >>> model = sisokr("gaussian", "gaussian", random_state=0).fit(upper[:300], lower[:300])
    >>> fair = correct_hubness(model, upper[:300], lower[:300], lower, random_state=0)
    >>> for pool in (lower, fair):
    ...     ranks = model.truth_ranks(upper[300:], lower[300:], pool)
    ...     print(f"{mean_reciprocal_rank(ranks):.1f}")
    0.1
    0.2
    """
    before, model = split_pipeline(model)
    if not hasattr(model, "predict_coordinates"):
        raise TypeError(
            "correct_hubness takes a StructuredPredictor, or a Pipeline that ends in one. Got "
            f"{type(model).__name__} instead; of an Ensemble give one of its members_, of a search "
            "its best_estimator_."
        )
    check_is_fitted(model)
    check_number(n_references, "n_references", low=1, integer=True)
    decoder = able(model.decoder_, "embed", "matched", "penalized", by="correct_hubness")
    pool = decoder.embed(candidates)
    rng = check_rng(random_state)
    if isinstance(cv, str):
        check_choice(cv, "cv", ("prefit",))
        sample = np.sort(rng.permutation(n_rows(X))[:n_references])
        rows = take(X, sample)
        F = model.predict_coordinates(rows if before is None else before.transform(rows))
    else:
        F = cross_predictions(model, before, X, Y, cv, rng)
        sample = np.sort(rng.permutation(len(F))[:n_references])
        F = F[sample]
    truth = decoder.matched(take(Y, sample), pool)
    penalties = hubness_penalties(F, pool, truth, share=share, temperature=temperature)
    penalized: EmbeddedPool = decoder.penalized(pool, penalties)
    return penalized


def cross_predictions(
    model: Estimator, before: Estimator | None, X: Objects, Y: Objects, cv: int, rng: Rng
) -> np.ndarray:
    """Return out-of-fold coordinates; rows with equal outputs are in one fold."""
    from sklearn.model_selection import GroupKFold  # slow to import

    check_number(cv, "cv", low=2, integer=True)
    basis = model.output_basis_
    groups = unique(basis.kernel_.encode(Y))[1]
    if n_rows(X) != len(groups):
        raise ValueError(f"X and Y differ in length: {n_rows(X)} rows and {len(groups)} objects.")
    n_groups = int(groups.max(initial=-1)) + 1
    if n_groups < cv:
        raise ValueError(f"cv={cv} folds need as many distinct outputs. Got {n_groups}.")
    T = basis.transform(Y)
    targets = T[:, 0] if T.shape[1] == 1 else T  # as regressors want one output
    params = {}
    if getattr(model.regressor, "uses_residual", False):
        params = {"residual": basis.residual(Y)}
    F = np.empty(T.shape)
    folds = GroupKFold(cv, shuffle=True, random_state=int(rng.integers(2**31)))
    for train, test in deal(folds, len(groups), groups=groups):
        fold_params = {name: values[train] for name, values in params.items()}
        rows, held, regressor = take(X, train), take(X, test), clone(model.regressor)
        if before is not None:
            steps = clone(before).fit(rows, targets[train])
            rows, held = steps.transform(rows), steps.transform(held)
        regressor.fit(rows, targets[train], **fold_params)
        F[test] = predicted(regressor, held)
    return F


def hubness_penalties(
    F: Floats,
    pool: EmbeddedPool,
    truth: np.ndarray | None = None,
    *,
    share: float = 0.5,
    temperature: float = 0.05,
) -> Floats:
    """Return the hubness penalty of each distinct candidate: how close it is to predictions F.

    `truth` are the numbers of the true candidates of the predictions, or -1: a candidate is not
    penalized for a prediction of itself.
    """
    check_number(share, "share", low=0.0)
    check_number(temperature, "temperature", low=0.0, strict=True)
    n, p = np.shape(F)
    if n == 0:
        raise ValueError("F is empty: penalties need at least one prediction.")
    if not 1 <= pool.embedding.shape[1] - p <= 2:
        raise ValueError(f"F has {p} coordinates, other than the candidates.")
    U = F / np.maximum(np.linalg.norm(F, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    truth = np.full(n, -1) if truth is None else np.asarray(truth)
    lengths = np.sqrt(-pool.embedding[:, -1])  # k(c, c) is minus the last column
    penalties = np.empty(len(lengths))
    for part in row_slices(len(lengths), max(1, _COSINES // n)):
        Z = pool.embedding[part, :p] / np.maximum(lengths[part], np.finfo(np.float64).tiny)[:, None]
        A = Z @ U.T / temperature
        A[np.arange(part.start, part.start + len(A))[:, None] == truth] = -np.inf
        penalties[part] = _log_mean_exp(A)
    return 2.0 * share * temperature * lengths * penalties


def _log_mean_exp(A: np.ndarray) -> np.ndarray:
    """Return log mean exp of the finite entries of each row, 0 where there are none."""
    n = np.isfinite(A).sum(axis=1)
    top = np.where(n > 0, A.max(axis=1), 0.0)
    total = np.exp(A - top[:, None]).sum(axis=1)
    return np.where(n > 0, top + np.log(np.maximum(total, 1e-300) / np.maximum(n, 1)), 0.0)
