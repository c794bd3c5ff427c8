"""Prices for hubs, the candidates that are near too many predictions, from cross-validation."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from .._numerics.arrays import n_rows, take, unique
from .._numerics.validation import check_number, check_rng
from ..decoding import EmbeddedPool, hub_prices
from ..decoding.base import able
from ..decoding.predicting import fitted_in, predicted

__all__ = ["without_hubs"]


def without_hubs(
    model: Any,
    X: Any,
    Y: Any,
    candidates: Any = None,
    *,
    cv: int = 5,
    share: float = 0.5,
    heat: float = 0.05,
    n_references: int = 10_000,
    random_state: Any = None,
) -> EmbeddedPool:
    """Embed candidates, those that predictions crowd around with a price.

    The regressor is fitted again on parts of the training data, to predict the others: rows with
    equal outputs are in one fold, so that no prediction knows its own object. The prices are those
    of `hub_prices` by these. The defaults of `share` and `heat` did well on label sets,
    images, spectra and texts; compare with the plain candidates on data of your own.

    Parameters
    ----------
    model : StructuredPredictor, or Pipeline that ends in one
        Fitted, with a decoder that ranks candidates. The transformers, too, are fitted again on
        each part.
    X : what the regressor takes, n rows
        The training inputs.
    Y : objects, n of them
    candidates : objects, CandidateSets, list of lists or EmbeddedPool, optional
        Default the distinct training outputs.
    cv : int, default 5
        Number of folds.
    share, heat : float, default 0.5 and 0.05
        See `skout.decoding.hub_prices`.
    n_references : int, default 10,000
        At most so many predictions are compared with the candidates.
    random_state : None, int or Generator
        Seed of the folds and of the choice of references.

    Returns
    -------
    pool : EmbeddedPool
        Give it as `candidates` to the model.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skout import sisokr, without_hubs
    >>> from skout.metrics import mean_reciprocal_rank
    >>> images = load_digits(n_class=4).data[:450] / 16.0
    >>> upper, lower = images[:, :32], images[:, 32:]
    >>> model = sisokr("gaussian", "gaussian", random_state=0).fit(upper[:300], lower[:300])
    >>> fair = without_hubs(model, upper[:300], lower[:300], lower, random_state=0)
    >>> for pool in (lower, fair):
    ...     ranks = model.truth_ranks(upper[300:], lower[300:], pool)
    ...     print(f"{mean_reciprocal_rank(ranks):.1f}")
    0.1
    0.2
    """
    before, model = fitted_in(model, "without_hubs")
    check_number(n_references, "n_references", low=1, integer=True)
    decoder = able(model.decoder_, "embed", "matched", "priced", by="without_hubs")
    pool = decoder.embed(candidates)
    rng = check_rng(random_state)
    F = cross_predicted(model, before, X, Y, cv, rng)
    some = np.sort(rng.permutation(len(F))[:n_references])
    own = decoder.matched(take(Y, some), pool)
    prices = hub_prices(F[some], pool, own, share=share, heat=heat)
    return decoder.priced(pool, prices)


def cross_predicted(model: Any, before: Any, X: Any, Y: Any, cv: int, rng: Any) -> np.ndarray:
    """Return the coordinates that regressors predict which were fitted without equal outputs."""
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
    for train, test in folds.split(groups, groups=groups):
        own = {name: values[train] for name, values in params.items()}
        rows, held, regressor = take(X, train), take(X, test), clone(model.regressor)
        if before is not None:
            steps = clone(before).fit(rows, targets[train])
            rows, held = steps.transform(rows), steps.transform(held)
        regressor.fit(rows, targets[train], **own)
        F[test] = predicted(regressor, held)
    return F
