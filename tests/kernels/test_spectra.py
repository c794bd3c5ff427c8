"""Kernels on spectra against double sums over all pairs of peaks, and what they refuse."""

import builtins
import math
import os
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from extras import extra
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from skout import KernelBasis
from skout._numerics.arrays import take, unique
from skout._numerics.objects import stack
from skout.basis.features import LandmarkFeatures, Projection
from skout.kernels import Normalized
from skout.kernels import spectra as module
from skout.kernels.spectra import PeakCosine, ProbabilityProduct, Spectra, read_spectra
from skout.rows import Memory
from skout.sketches import SubSample
from skout.testing import check_kernel

pd = extra("pandas")
pl = extra("polars")

KERNELS = {
    "product": ProbabilityProduct(0.02, 0.3),
    "product-sum": ProbabilityProduct(0.02, 0.1, intensity="sum"),
    "product-raw": ProbabilityProduct(0.02, 40.0, intensity=None),
    "product-wide": ProbabilityProduct(5.0, 0.3),
    "product-loss": ProbabilityProduct(0.02, 0.3, neutral_loss=True),
    "cosine": PeakCosine(0.1),
    "cosine-powers": PeakCosine(0.1, intensity_power=1.0, mz_power=2.0),
    "cosine-presence": PeakCosine(0.5, intensity_power=0.0),
    "cosine-narrow": PeakCosine(1e-6),
}
each_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))
seeds = st.integers(0, 10_000)


def make_spectra(n: int, seed: int = 0) -> list:
    """Spectra with shared, near, repeated and far masses, zero intensities, losses below 0."""
    rng = np.random.default_rng(seed)
    common = np.array([50.1, 51.7, 53.2, 56.9, 58.4, 59.8])
    out = []
    for _ in range(n):
        size = rng.integers(1, 9)
        mz = rng.choice(common, size) + rng.choice([0.0, 0.01, 0.05, 0.3], size)
        intensity = rng.uniform(0.0, 100.0, size) * (rng.uniform(size=size) < 0.8)
        intensity[rng.integers(size)] = rng.uniform(1.0, 100.0)
        out.append((np.sort(mz), intensity, float(rng.uniform(55.0, 65.0))))
    return out


# The formulas as they stand ----------------------------------------------------------------------


def peaks_of(kernel: ProbabilityProduct, spectrum) -> list[tuple[float, float]]:
    mz, intensity, precursor = spectrum
    scale = {"max": max(intensity), "sum": sum(intensity), None: 1.0}[kernel.intensity]
    mass = [precursor - m if kernel.neutral_loss else m for m in mz]
    return [(m, i / scale) for m, i in zip(mass, intensity, strict=True)]


def normal_density(x: float, variance: float) -> float:
    return math.exp(-(x**2) / (2.0 * variance)) / math.sqrt(2.0 * math.pi * variance)


def product_oracle(kernel: ProbabilityProduct, x, y) -> float:
    """The integral of the product of two normal densities is a normal density."""
    s, t = kernel.sigma_mass, kernel.sigma_intensity
    left, right = peaks_of(kernel, x), peaks_of(kernel, y)
    total = 0.0
    for m, i in left:
        for mm, ii in right:
            total += normal_density(m - mm, 2.0 * s**2) * normal_density(i - ii, 2.0 * t**2)
    return total / (len(left) * len(right))


def cosine_oracle(kernel: PeakCosine, x, y) -> float:
    def overlap(x, y):
        total = 0.0
        for m, i in zip(x[0], x[1], strict=True):
            for mm, ii in zip(y[0], y[1], strict=True):
                weight = (i * ii) ** kernel.intensity_power * (m * mm) ** kernel.mz_power
                total += weight * max(0.0, 1.0 - abs(m - mm) / kernel.tolerance)
        return total

    return overlap(x, y) / math.sqrt(overlap(x, x) * overlap(y, y))


def oracle(kernel, A, B) -> np.ndarray:
    one = cosine_oracle if isinstance(kernel, PeakCosine) else product_oracle
    return np.array([[one(kernel, a, b) for b in B] for a in A])


@pytest.fixture(params=["numpy", "numba"])
def engine(request, monkeypatch):
    """Run a test with the compiled loop and without it."""
    if request.param == "numba":
        pytest.importorskip("numba")
    else:
        monkeypatch.setattr(module, "_compiled", lambda pair_value: None)
    return request.param


@each_kernel
@pytest.mark.usefixtures("engine")
def test_equals_the_double_sum(kernel):
    A, B = make_spectra(15, 1), make_spectra(11, 2)
    truth = oracle(kernel, A, B)
    assert np.count_nonzero(truth > 1e-3 * truth.max()) > 10, "the data must match somewhere"
    left, right = np.diagonal(oracle(kernel, A, A)), np.diagonal(oracle(kernel, B, B))
    # pairs beyond the window are left out: the bound of the docstring, with 8 peaks at most
    bound = 8e-12 * np.sqrt(np.outer(left, right)) + 1e-10 * truth
    assert np.all(np.abs(kernel(A, B) - truth) <= bound)
    assert_allclose(kernel.diag(kernel.encode(A)), left, rtol=1e-10)


def test_the_kernel_is_the_integral_of_the_product_of_the_densities():
    """By the rectangle rule on a fine grid: constants included."""
    kernel = ProbabilityProduct(0.5, 0.4, intensity=None)
    x = ([10.0, 11.0], [1.0, 0.2], 12.0)
    y = ([10.3, 12.0], [0.7, 1.0], 12.0)
    m, i = np.meshgrid(np.linspace(5, 17, 1201), np.linspace(-3, 5, 801))

    def density(spectrum):
        parts = [
            np.exp(-((m - a) ** 2) / 0.5 - (i - b) ** 2 / 0.32) / (2 * np.pi * 0.5 * 0.4)
            for a, b in zip(spectrum[0], spectrum[1], strict=True)
        ]
        return np.mean(parts, axis=0)

    assert_allclose(kernel([x], [y])[0, 0], np.sum(density(x) * density(y)) * 1e-4, rtol=1e-9)


@each_kernel
@pytest.mark.usefixtures("engine")
def test_conforms(kernel):
    check_kernel(kernel, make_spectra(20))
    check_kernel(Normalized(kernel), make_spectra(20, 5))


@settings(max_examples=15)
@given(seed=seeds)
def test_engines_agree_and_blocks_do_not_matter(seed):
    pytest.importorskip("numba")
    A, B = make_spectra(9, seed), make_spectra(7, seed + 1)
    for kernel in KERNELS.values():
        K = kernel(A, B)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_compiled", lambda pair_value: None)
            patch.setattr(module, "_PAIRS", 3)  # cuts spectra, too
            assert_allclose(kernel(A, B), K, rtol=1e-12, atol=1e-13 * K.max())
            assert_allclose(kernel.diag(kernel.encode(A)), np.diagonal(kernel(A, A)), rtol=1e-12)


@given(seed=seeds, shift=st.floats(0.0, 500.0), scale=st.floats(1e-3, 1e6))
def test_only_differences_in_mass_and_relative_intensities_count(seed, shift, scale):
    A = make_spectra(6, seed)
    moved = [(mz + shift, scale * intensity, p + shift) for mz, intensity, p in A]
    for name in ("product", "product-sum", "product-loss", "cosine", "cosine-presence"):
        kernel = KERNELS[name]
        assert_allclose(kernel(moved), kernel(A), rtol=1e-6, atol=1e-8 * kernel(A).max())


def test_neutral_loss_equals_mirrored_masses():
    A = make_spectra(8)
    mirrored = [(p - mz[::-1] + 100.0, intensity[::-1]) for mz, intensity, p in A]
    fragments = ProbabilityProduct(0.02, 0.3)(mirrored)
    assert_allclose(KERNELS["product-loss"](A), fragments, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("distance", [10.4, 10.6])
@pytest.mark.usefixtures("engine")
def test_pairs_beyond_the_window_are_left_out(distance):
    kernel = ProbabilityProduct(0.1, 0.3)
    value = kernel([([100.0], [1.0])], [([100.0 + 0.1 * distance], [1.0])])[0, 0]
    full = normal_density(0.1 * distance, 0.02) / math.sqrt(4.0 * math.pi * 0.09)
    assert value == (pytest.approx(full, rel=1e-9) if distance < 10.5 else 0.0)
    assert full < 2e-12 * kernel.diag(kernel.encode([([100.0], [1.0])]))[0]


def test_many_spectra_do_not_blur_the_diagonal():
    """The search over all spectra at once rounds masses; peaks 1e-9 apart still match."""
    A = [([900.0, 900.0 + 1e-9], [1.0, 1.0])] * 3000
    kernel = ProbabilityProduct(1e-9, 1.0)
    assert_allclose(
        kernel.diag(kernel.encode(A)), product_oracle(kernel, (*A[0], 1.0), (*A[0], 1.0))
    )


# Rows --------------------------------------------------------------------------------------------


def as_matchms(spectrum, as_dict: bool):
    mz, intensity, precursor = spectrum
    metadata = {"precursor_mz": precursor}
    peaks = SimpleNamespace(mz=mz, intensities=intensity)
    if as_dict:
        return SimpleNamespace(peaks=peaks, metadata=metadata)
    return SimpleNamespace(peaks=peaks, get=metadata.get)


FORMS = {
    "lists": lambda s: [list(s[0]), tuple(s[1]), s[2]],
    "dict": lambda s: {"mz": s[0], "intensity": s[1], "precursor_mz": s[2], "name": "x"},
    "dict-precursor": lambda s: {"mz": s[0], "intensity": s[1], "precursor": s[2]},
    "matchms": lambda s: as_matchms(s, True),
    "matchms-get": lambda s: as_matchms(s, False),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
def test_every_form_gives_the_same_rows(form):
    A = make_spectra(7)
    rows, truth = read_spectra([form(s) for s in A]), read_spectra(A)
    assert rows.keys() == truth.keys()
    assert_array_equal(rows.mz, np.concatenate([s[0] for s in A]))
    assert_array_equal(rows.intensity, np.concatenate([s[1] for s in A]))
    assert_array_equal(rows.precursor[rows.indptr[:-1]], [s[2] for s in A])


def test_rows_of_data_frames():
    A = make_spectra(5)
    columns = {
        "mz": [list(s[0]) for s in A],
        "intensity": [list(s[1]) for s in A],
        "precursor_mz": [s[2] for s in A],
    }
    truth = read_spectra(A).keys()
    assert read_spectra(pl.DataFrame(columns).rows(named=True)).keys() == truth
    assert read_spectra(pd.DataFrame(columns).to_dict("records")).keys() == truth


def test_rows_are_indexed_joined_and_compared():
    A = make_spectra(9)
    rows = read_spectra(A)
    assert len(rows) == 9
    assert_array_equal(rows.lengths, [len(s[0]) for s in A])
    index = np.array([7, 2, 2, 0])
    chosen = take(rows, index)
    assert chosen.keys() == read_spectra([A[i] for i in index]).keys()
    assert stack([rows[:4], rows[4:]]).keys() == rows.keys()
    assert_array_equal(unique(chosen)[0], [0, 1, 3])
    other = [(*s[:2], s[2] + 1.0) for s in A]
    assert not set(read_spectra(other).keys()) & set(rows.keys()), "the precursor is part of a row"


def test_kernels_share_rows():
    A = make_spectra(6)
    both = ProbabilityProduct() + PeakCosine()
    rows = ProbabilityProduct().encode(A)
    assert_allclose(both(A), ProbabilityProduct()(rows) + PeakCosine()(rows))


def test_input_is_left_alone_and_no_rows_are_fine():
    A = make_spectra(4)
    for mz, intensity, _ in A:
        mz.flags.writeable = intensity.flags.writeable = False
    for kernel in KERNELS.values():
        kernel(A)
        assert kernel([], A).shape == (0, 4)
        assert kernel(A, []).shape == (4, 0)
        assert kernel.diag(kernel.encode([])).shape == (0,)


def test_without_numba_there_is_no_compiled_loop(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "numba":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert module._compiled.__wrapped__(module._gaussian_pair) is None


def test_works_in_a_basis():
    A = make_spectra(30)
    basis = KernelBasis(Normalized(ProbabilityProduct(0.05)), SubSample(20), random_state=0)
    Z = basis.fit(A).transform(A)
    K = Normalized(ProbabilityProduct(0.05))(A)
    assert np.linalg.eigvalsh(K - Z @ Z.T).min() > -1e-8
    assert np.linalg.norm(K - Z @ Z.T) < 0.7 * np.linalg.norm(K)


def test_memory_follows_the_chunks(monkeypatch):
    """Without numba, pairs of peaks are held some at a time: all would be 100 MB here."""
    monkeypatch.setattr(module, "_compiled", lambda pair_value: None)
    rng = np.random.default_rng(0)
    A = [(np.sort(rng.uniform(100.0, 101.0, 60)), np.ones(60)) for _ in range(50)]
    kernel = ProbabilityProduct(1.0)
    rows = kernel.encode(A)
    block = kernel.against(rows)
    tracemalloc.start()
    block(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


@pytest.mark.usefixtures("engine")
def test_buffers_of_any_layout_are_filled():
    A = make_spectra(6)
    for kernel in KERNELS.values():
        rows = kernel.encode(A)
        out = np.full((5, 6), 7.0).T
        assert kernel.against(rows[:5])(rows, out) is out
        assert_array_equal(out, kernel(rows, rows[:5]))


# What is refused ---------------------------------------------------------------------------------

GOOD = ([50.0, 60.0], [1.0, 2.0], 70.0)
BAD = {
    "nan": (([50.0, 60.0], [1.0, np.nan]), ValueError, "intensity must be finite. Got nan in sp"),
    "inf": (([50.0, 60.0], [np.inf, 1.0]), ValueError, "intensity must be finite. Got inf in sp"),
    "negative": (([50.0, 60.0], [1.0, -2.0]), ValueError, "intensity must be >= 0. Got -2.0 in sp"),
    "nan-mz": (([50.0, np.nan], [1.0, 2.0]), ValueError, "m/z must be finite and > 0. Got nan in"),
    "zero-mz": (([0.0, 50.0], [1.0, 2.0]), ValueError, "m/z must be finite and > 0. Got 0.0 in"),
    "unsorted": (([60.0, 50.0], [1.0, 2.0]), ValueError, "not sorted: 50 follows 60. Sort its"),
    "empty": (([], []), ValueError, "Spectrum 1 has no peaks. Leave empty spectra out"),
    "flat": (([50.0], [0.0]), ValueError, "Spectrum 1 has no peak of positive intensity"),
    "lengths": (([50.0], [1.0, 2.0]), ValueError, "Spectrum 1 has 1 m/z values and 2 intensities"),
    "deep": (([[50.0]], [[1.0]]), ValueError, r"1-D array. Got shape \(1, 1\)"),
    "text": ((["a"], [1.0]), TypeError, "m/z of spectrum 1 are not all numbers. Got"),
    "precursor": (([50.0], [1.0], "x"), TypeError, "precursor of spectrum 1 is no number. Got 'x'"),
    "precursor-0": (([50.0], [1.0], 0.0), ValueError, "precursor of spectrum 1 must be a finite"),
    "dict": ({"mz": [50.0]}, ValueError, r"Spectrum 1 is a dict without \['intensity'\]"),
    "array": (np.ones((2, 2)), TypeError, r"ndarray of shape \(2, 2\). Give a list of spectra"),
    "string": ("ab", TypeError, "Spectrum 1 is of type str. Give a list of spectra"),
    "four": (([1.0], [1.0], 1.0, 1.0), TypeError, "Spectrum 1 is of type tuple. Give a list"),
    "number": (3, TypeError, "Spectrum 1 is of type int. Give a list of spectra"),
}


@pytest.mark.parametrize(("bad", "error", "message"), BAD.values(), ids=list(BAD))
def test_bad_spectra(bad, error, message):
    for kernel in (ProbabilityProduct(), PeakCosine()):
        with pytest.raises(error, match=message) as caught:
            kernel.encode([GOOD, bad, GOOD])
        assert "pectrum 1" in str(caught.value)


def test_bad_collections():
    with pytest.raises(TypeError, match="Got DataFrame instead of a list of spectra"):
        read_spectra(pl.DataFrame({"mz": [[1.0]], "intensity": [[1.0]]}))
    with pytest.raises(TypeError, match="Got dict instead of a list of spectra"):
        read_spectra({"mz": [1.0], "intensity": [1.0]})
    with pytest.raises(TypeError, match=r"Spectrum 0 is of type ndarray of shape \(2,\)"):
        read_spectra((np.array([50.0, 60.0]), np.array([1.0, 2.0])))


def test_losses_need_precursors():
    kernel = ProbabilityProduct(neutral_loss=True)
    kernel.encode([GOOD, GOOD])
    for without in (GOOD[:2], (*GOOD[:2], None), (*GOOD[:2], np.nan)):
        message = "Of the 4 given, 2 have none, the first is spectrum 1"
        with pytest.raises(ValueError, match=message):
            kernel.encode([GOOD, without, GOOD, without])
        rows = ProbabilityProduct().encode([GOOD, without])
        assert isinstance(rows, Spectra)
        with pytest.raises(ValueError, match="Of the 2 given, 1 have none"):
            kernel.encode(rows)


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (ProbabilityProduct(0.0), ValueError, "sigma_mass must be a finite number > 0. Got 0.0"),
        (ProbabilityProduct("x"), TypeError, "sigma_mass must be a finite number > 0. Got 'x'"),
        (ProbabilityProduct(0.1, -1.0), ValueError, "sigma_intensity must be .* > 0. Got -1.0"),
        (ProbabilityProduct(intensity="mx"), ValueError, "intensity must be .*Did you mean 'max'"),
        (PeakCosine(0.0), ValueError, "tolerance must be a finite number > 0. Got 0.0"),
        (PeakCosine(mz_power=-1), ValueError, "mz_power must be a finite number >= 0. Got -1"),
        (PeakCosine(intensity_power=-1), ValueError, "intensity_power must be .* >= 0. Got -1"),
    ],
)
def test_bad_parameters(kernel, error, message):
    clone(kernel)  # nothing is checked before it is used
    with pytest.raises(error, match=message):
        kernel([GOOD, GOOD])


# Real spectra ------------------------------------------------------------------------------------

FOLDER = os.environ.get("SKOUT_DATA")


@pytest.fixture(scope="module")
def massbank():
    if not FOLDER:
        pytest.skip("SKOUT_DATA, the folder of the real data, is not set")
    columns = ["mz", "intensity", "precursor_mz"]
    path = Path(FOLDER) / "massbank_ms2_pos_mh.parquet"
    return pl.read_parquet(path, columns=columns).rows(named=True)


def test_massbank_equals_the_double_sum(massbank):
    """200 random pairs, of which many share no mass, and each spectrum with itself."""
    rng = np.random.default_rng(0)
    known = [s for s in massbank if s["precursor_mz"] is not None]
    chosen = [known[i] for i in rng.choice(len(known), 400, replace=False)]
    as_lists = [(s["mz"], s["intensity"], s["precursor_mz"]) for s in chosen]
    A, B = as_lists[:200], as_lists[200:]
    for kernel in (ProbabilityProduct(), ProbabilityProduct(0.01, 0.2, neutral_loss=True)):
        truth = np.array([product_oracle(kernel, a, b) for a, b in zip(A, B, strict=True)])
        found = kernel.paired(A, B)
        scale = np.sqrt(kernel.diag(kernel.encode(A)) * kernel.diag(kernel.encode(B)))
        assert np.abs(found - truth).max() < 1e-6 * truth.max()
        assert np.all(np.abs(found - truth) < 1e-9 * scale)
        likely = truth > 1e-6 * scale
        assert likely.sum() > 20
        assert_allclose(found[likely], truth[likely], rtol=1e-6)


def test_massbank_finds_spectra_of_the_same_precursor(massbank):
    """The most alike of 3,000 spectra has the same precursor far more often than by chance."""
    known = [s for s in massbank if s["precursor_mz"] is not None][::14][:3000]
    precursor = np.array([s["precursor_mz"] for s in known])
    near = np.abs(precursor[:500, None] - precursor) < 0.01
    np.fill_diagonal(near, False)
    has = near.any(axis=1)
    for kernel in (Normalized(ProbabilityProduct()), PeakCosine()):
        rows = kernel.encode(known)
        function = Projection(LandmarkFeatures(kernel, rows))
        K = Memory(rows[:500]).map(function, (len(rows),), np.float64)
        np.fill_diagonal(K, -1.0)
        hits = near[np.arange(500), K.argmax(axis=1)][has]
        assert hits.mean() > 20.0 * near[has].mean()
