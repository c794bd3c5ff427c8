"""`skout.formulas`, the papers in plain NumPy, gives the numbers of the library.

The formulas of ridge regression and of IOKR to SISOKR are compared in
`tests/predictors/test_predictor.py` and `tests/regressors/test_ridge.py`, for all sketches.
"""

import ast
import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skout import KernelBasis, KernelMachine, KernelRidge, formulas, iokr
from skout.decoding import CandidateDecoder
from skout.kernels import Gaussian
from skout.losses import Huber
from skout.sketches import PSparsified

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((60, 3)), RNG.standard_normal((60, 2))
NEW = RNG.standard_normal((9, 3))
K, K_NEW = formulas.gaussian(X, X, 0.3), formulas.gaussian(NEW, X, 0.3)
SKETCH = PSparsified(20, p=0.2)
R = SKETCH.draw(60, np.random.default_rng(1)).toarray()


def test_formulas_use_nothing_of_the_library():
    tree = ast.parse(inspect.getsource(formulas))
    imported = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    assert imported == {"__future__", "collections.abc", "numpy", "numpy.typing", "typing"}


@pytest.mark.parametrize("name", formulas.__all__)
def test_a_formula_is_short_and_says_which_it_is(name):
    function = getattr(formulas, name)
    text = inspect.getdoc(function)
    assert len(inspect.getsource(function).splitlines()) <= 30
    assert "(" in text or "definition" in text or name == "pseudo_inverse"


def test_kernel_ridge():
    model = KernelRidge(Gaussian(0.3), alpha=1e-2).fit(X, Y)
    assert_allclose(model.predict(NEW), formulas.ridge_weights(K_NEW, K, 1e-2) @ Y, atol=1e-10)


def test_coordinates_are_those_of_the_basis():
    basis = KernelBasis(Gaussian(0.3), SKETCH, whiten="eigh", random_state=1).fit(X)
    ours, theirs = basis.transform(NEW), formulas.coordinates(K_NEW, K, R)
    assert ours.shape == theirs.shape
    assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-9)  # the same up to signs
    projected = formulas.projected_kernel(K_NEW @ R.T, K_NEW @ R.T, R @ K @ R.T)
    assert_allclose(theirs @ theirs.T, projected, atol=1e-9)


@pytest.mark.parametrize("distribution", ["rademacher", "gaussian"])
def test_p_sparsified_sketches_have_the_law_of_the_librarys(distribution):
    """Same share of zeros, and the other entries have the same moments."""
    rng, m, n, p = np.random.default_rng(2), 50, 4000, 0.3
    ours = PSparsified(m, p=p, distribution=distribution).draw(n, rng).toarray()
    plain = formulas.p_sparsified(m, n, p, rng, distribution)
    for draw in (ours, plain):
        assert abs((draw != 0).mean() - p) < 0.01
        assert abs((draw**2).sum(axis=0).mean() - 1.0) < 0.02  # the diagonal of R'R
    entries = [draw[draw != 0] * np.sqrt(m * p) for draw in (ours, plain)]
    moments = [[(values**k).mean() for k in range(1, 5)] for values in entries]
    assert_allclose(*moments, atol=0.1)
    assert moments[0][3] == pytest.approx(1.0 if distribution == "rademacher" else 3.0, abs=0.1)


def test_a_sketched_machine_with_hubers_loss():
    settings = {"alpha": 1e-2, "tol": 1e-10, "random_state": 1}
    model = KernelMachine(Gaussian(0.3), SKETCH, loss=Huber(0.5), **settings).fit(X, Y)
    Z = formulas.coordinates(K, K, R)
    coef = formulas.sketched_machine(
        Z, Y, 1e-2, lambda F, Y: formulas.huber_gradient(F, Y, kappa=0.5)
    )
    wanted = formulas.coordinates(K_NEW, K, R) @ coef
    assert_allclose(model.predict(NEW), wanted, atol=1e-6)


def test_decoding_and_scores():
    pool = RNG.standard_normal((12, 2))
    model = iokr(Gaussian(0.3), Gaussian(0.5), alpha=1e-2).fit(X, Y)
    S = formulas.iokr_scores(K_NEW, K, formulas.gaussian(Y, pool, 0.5), 1e-2)
    chosen = formulas.decode(S, np.ones(12))
    assert isinstance(model.decoder_, CandidateDecoder)
    assert_array_equal(model.predict(NEW, pool), pool[chosen])
    assert_array_equal(formulas.decode(np.zeros((1, 3)), np.array([1.0, 0.5, 0.5])), [1])


def test_the_loss_of_networks():
    torch = pytest.importorskip("torch")
    from skout.deep import KernelLoss

    K_Y = formulas.gaussian(Y, Y, 0.5)
    T = formulas.coordinates(K_Y, K_Y, R)
    G = torch.tensor(RNG.standard_normal(T.shape), requires_grad=True)
    residual = np.diag(K_Y) - (T**2).sum(axis=1)  # what the basis cannot see of an output
    loss = KernelLoss("squared")(G, torch.tensor(T), torch.tensor(residual)).mean()
    loss.backward()
    plain = formulas.dsokr_loss(G.detach().numpy(), T, np.diag(K_Y))
    assert_allclose(loss.item(), plain.mean() / 2, rtol=1e-8)  # the library halves squares
    gradient = formulas.dsokr_gradient(G.detach().numpy(), T)
    assert_allclose(G.grad.numpy(), gradient / 2 / len(T), atol=1e-8)
