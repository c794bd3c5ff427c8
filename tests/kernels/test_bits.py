"""Packed bits, and the kernels on sets that take them: double loops and both ways to count."""

import pickle
import sys

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.model_selection import train_test_split

from skout import KernelBasis, KernelRidge
from skout._numerics.arrays import astype as cast
from skout._numerics.arrays import float_dtype, match, take, unique
from skout._numerics.objects import stack
from skout.decoding import LabelSetDecoder
from skout.kernels import F1, Cosine, Tanimoto, bits, popcount
from skout.kernels.bits import (
    BitBlocks,
    GaussianTanimoto,
    PackedBits,
    pack_matrix,
    pack_objects,
    set_blocks,
)
from skout.sketches import PSparsified, SubSample
from skout.testing import check_kernel


def gaussian_tanimoto(gamma):
    return lambda a, b: np.exp(-gamma * (2.0 - 2.0 * oracles.tanimoto(a, b)))


CASES = {
    "tanimoto": (Tanimoto(), oracles.tanimoto),
    "f1": (F1(), oracles.f1),
    "gaussian-tanimoto": (GaussianTanimoto(0.7), gaussian_tanimoto(0.7)),
}
each_case = pytest.mark.parametrize(("kernel", "oracle"), CASES.values(), ids=list(CASES))


class FakeBitVector:
    """What RDKit's bit vectors have."""

    def __init__(self, row):
        self.row = row

    def GetNumBits(self):
        return len(self.row)

    def ToBitString(self):
        return "".join(str(int(bit)) for bit in self.row)


def to_hex(B):
    return [np.packbits(row, bitorder="little").tobytes().hex() for row in B.astype(bool)]


FORMS = {
    "bool": lambda B: B.astype(bool),
    "int8": lambda B: B.astype(np.int8),
    "uint64": lambda B: B.astype(np.uint64),
    "float64": lambda B: B.astype(np.float64),
    "fortran": lambda B: np.asfortranarray(B, dtype=np.float64),
    "csr": lambda B: sparse.csr_matrix(B.astype(np.float64)),
    "csc_array": lambda B: sparse.csc_array(B.astype(np.int32)),
    "hex": to_hex,
    "hex array": lambda B: np.array(to_hex(B)),
    "bit vectors": lambda B: [FakeBitVector(row) for row in B],
    "packed": pack_matrix,
}


def random_bits(n, d, seed=0, density=0.1):
    """Rows of 0 and 1; the first is empty, the second full."""
    B = (np.random.default_rng(seed).random((n, d)) < density).astype(np.int64)
    B[0], B[1:2] = 0, 1
    return B


@pytest.fixture
def fresh(monkeypatch):
    """Nothing compiled, nothing counted."""
    monkeypatch.setattr(popcount, "_compiled", {})
    monkeypatch.setattr(popcount, "_compared", 0)


@pytest.fixture(params=["compiled", "products"])
def way(request, monkeypatch):
    """Both ways to count what two sets share."""
    if request.param == "compiled":
        pytest.importorskip("numba")
    monkeypatch.setattr(bits, "is_worthwhile", lambda *_: request.param == "compiled")
    return request.param


# Packed bits -----------------------------------------------------------------------------------


@given(st.integers(0, 5), st.integers(1, 200), st.integers(0, 99))
def test_packing_and_unpacking_is_the_identity(n, d, seed):
    B = np.random.default_rng(seed).integers(0, 2, (n, d))
    for matrix in (B, B == 1, B.astype(np.float32), sparse.csr_matrix(B)):
        rows = pack_matrix(matrix)
        assert rows.shape == (n, d)
        assert rows.words.shape == (n, -(-d // 64))
        assert_array_equal(rows.unpack(), B)
        assert_array_equal(rows.sizes, B.sum(axis=1))
        assert rows.toarray().dtype == float_dtype(matrix)


def test_column_j_is_bit_j_of_the_words():
    B = np.zeros((1, 130), dtype=int)
    B[0, [0, 63, 65, 129]] = 1
    expected = np.array([[1 + (1 << 63), 2, 2]], dtype=np.uint64)
    assert_array_equal(pack_matrix(B).words, expected)
    assert_array_equal(pack_matrix(sparse.csr_matrix(B)).words, expected)


def test_csr_may_store_zeros():
    B = sparse.csr_matrix(([1.0, 0.0, 1.0], ([0, 0, 2], [3, 64, 70])), shape=(3, 80))
    assert_array_equal(pack_matrix(B).toarray(), B.toarray())


@pytest.mark.parametrize("value", [2.0, 0.5, -1.0])
def test_other_values_are_not_packed(value):
    B = random_bits(4, 70).astype(float)
    B[2, 5] = value
    assert pack_matrix(B) is None
    assert pack_matrix(sparse.csr_matrix(B)) is None


INDICES = [
    slice(1, 4),
    slice(None, None, -2),
    slice(7, 3),
    np.array([4, 0, 0]),
    np.array([True, False] * 4),
    np.array([], dtype=int),
    3,
    -1,
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_rows_are_indexed_as_those_of_a_matrix(index):
    B = random_bits(8, 100)
    index = (
        np.array(index, dtype=bool if True in index else int) if isinstance(index, list) else index
    )
    rows = pack_matrix(B)[index]
    assert_array_equal(rows.unpack(), np.atleast_2d(B[index]))
    assert_array_equal(rows.sizes, np.atleast_2d(B[index]).sum(axis=1))


def test_rows_have_no_columns_to_index():
    with pytest.raises(TypeError, match=r"an index of rows alone\. Got \(slice.*, 3\)"):
        pack_matrix(random_bits(4, 70))[:, 3]


def test_scikit_learn_splits_them():
    B = random_bits(9, 70)
    train, test = train_test_split(pack_matrix(B), random_state=0)
    assert isinstance(train, PackedBits)
    expected = train_test_split(B, random_state=0)
    assert_array_equal(train.unpack(), expected[0])
    assert_array_equal(test.unpack(), expected[1])


def test_equal_rows_are_found():
    B = random_bits(6, 70)[[0, 1, 2, 1, 0, 5]]
    rows = pack_matrix(B)
    first, inverse = unique(rows)
    assert_array_equal(first, [0, 1, 2, 5])
    assert_array_equal(inverse, [0, 1, 2, 1, 0, 3])
    assert_array_equal(match(rows[[3, 5]].astype(np.float32), take(rows, slice(0, 3))), [1, -1])


def test_stacked_rows():
    B, C = random_bits(3, 70), random_bits(4, 70, seed=1)
    rows = stack([pack_matrix(B), pack_matrix(C.astype(np.float32))])
    assert isinstance(rows, PackedBits)
    assert rows.dtype == np.float64
    assert_array_equal(rows.unpack(), np.vstack([B, C]))
    assert_array_equal(rows.sizes, np.vstack([B, C]).sum(axis=1))
    assert_array_equal(stack([pack_matrix(B), 3.0 * C]), np.vstack([B, 3.0 * C]))
    assert_array_equal(stack([pack_matrix(B), sparse.csr_matrix(C)]), np.vstack([B, C]))
    with pytest.raises(ValueError, match=r"same number of columns\. Got 70, 71"):
        stack([pack_matrix(B), pack_matrix(random_bits(3, 71))])


def test_precision():
    rows = pack_matrix(random_bits(3, 70))
    single = cast(rows, np.float32)
    assert (single.dtype, rows.dtype) == (np.float32, np.float64)
    assert single.words is rows.words
    assert rows.astype(np.float32).words is not rows.words
    with pytest.raises(ValueError, match=r"dtype must be float32 or float64\. Got int8"):
        rows.astype(np.int8)


def test_as_an_array_and_as_text():
    B = random_bits(3, 70)
    rows = pickle.loads(pickle.dumps(pack_matrix(B)))
    assert_array_equal(np.asarray(rows), B.astype(float))
    assert np.asarray(rows, dtype=np.int16).dtype == np.int16
    assert repr(rows) == "<PackedBits: 3 rows of 70 bits, float64>"


@pytest.mark.parametrize(
    ("words", "n_bits", "message"),
    [
        (np.zeros((2, 1)), 3, r"uint64 of shape \(n, 1\) for n_bits=3\. Got float64"),
        (
            np.zeros((2, 1), np.uint64),
            65,
            r"shape \(n, 2\) for n_bits=65\. Got uint64 of shape \(2, 1",
        ),
        (np.array([[8]], np.uint64), 3, r"no ones beyond n_bits=3"),
        (np.array([[0, 1 << 63]], np.uint64), 127, r"no ones beyond n_bits=127"),
    ],
)
def test_bad_words(words, n_bits, message):
    with pytest.raises(ValueError, match=message):
        PackedBits(words, n_bits)


def test_the_last_bits_count():
    assert PackedBits(np.array([[1 << 63]], np.uint64), 64).sizes[0] == 1
    assert PackedBits(np.array([[4]], np.uint64), 3).unpack().tolist() == [[0, 0, 1]]


# What is packed --------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
def test_all_forms_encode_to_the_same_rows(form):
    B = random_bits(7, 304)
    rows = Tanimoto().encode(form(B))
    assert isinstance(rows, PackedBits)
    assert rows.dtype == np.float64
    assert_array_equal(rows.unpack(), B)
    assert Tanimoto().encode(rows) is rows


def test_float32_stays_the_precision():
    B = random_bits(7, 304).astype(np.float32)
    for matrix in (B, sparse.csr_matrix(B)):
        assert F1().encode(matrix).dtype == np.float32
        K = F1()(matrix)
        assert K.dtype == np.float32
        assert_allclose(K, oracles.gram(oracles.f1, B, B), rtol=1e-6)


def test_what_stays_a_matrix():
    few, many = random_bits(4, 255), random_bits(4, 256)
    assert isinstance(Tanimoto().encode(few), np.ndarray)
    assert isinstance(Tanimoto().encode(many), PackedBits)
    counts = many.copy()
    counts[2, 7] = 2
    assert_array_equal(Tanimoto().encode(counts), counts)
    thin = sparse.csr_matrix(np.eye(4, 400))  # packed, each row would take 56 bytes in place of 12
    assert sparse.issparse(Tanimoto().encode(thin))


@pytest.mark.parametrize("least", [256, 257])
def test_bad_values_are_refused_packed_or_not(least, monkeypatch):
    monkeypatch.setattr(bits, "_LEAST_BITS", least)
    B = random_bits(4, 256).astype(float)
    with pytest.raises(ValueError, match=r"F1 takes 0/1 vectors or counts.*Got -1"):
        F1().encode(-B)
    with pytest.raises(ValueError, match=r"F1 takes 0/1 vectors or counts.*Got -1"):
        F1().encode(-B.astype(int))
    B[1, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        F1().encode(B)


@pytest.mark.parametrize(
    ("strings", "shown"),
    [
        (["0f", "0f0"], "'0f0' at position 1"),
        (["0f", "zz"], "'zz' at position 1"),
        (["0f0", "0f0"], "'0f0' at position 0"),
        (["", ""], "'' at position 0"),
        (["0f", "ff", 3], "3 at position 2"),
        (["0 f ", "00ff"], "'0 f ' at position 0"),
    ],
)
def test_bad_hex(strings, shown):
    with pytest.raises(ValueError, match=rf"in hex.*Got {shown} instead.*molecules\.fingerprints"):
        Tanimoto().encode(strings)


def test_hex_is_as_in_the_fps_format():
    assert pack_objects(["8001"]).unpack().tolist() == [[0] * 7 + [1, 1] + [0] * 7]


def test_bad_bit_vectors():
    short, long = FakeBitVector([1, 0]), FakeBitVector([1, 0, 1])
    with pytest.raises(ValueError, match=r"Got 2 at position 0 and 3 at position 1\."):
        Tanimoto().encode([short, long])
    with pytest.raises(TypeError, match=r"Got an object of type int at position 1"):
        Tanimoto().encode([short, 3])


def test_lists_of_numbers_are_vectors():
    assert pack_objects([[0, 1], [1, 1]]) is None
    assert pack_objects([]) is None
    assert_allclose(Tanimoto()([[0, 1], [1, 1]]), [[1.0, 0.5], [0.5, 1.0]])


def test_columns_must_agree():
    with pytest.raises(ValueError, match=r"same number of columns\. Got 8 and 16"):
        Tanimoto()(["0f"], ["0f0f"])


# Blocks ----------------------------------------------------------------------------------------


@each_case
@pytest.mark.parametrize("d", [300, 1030])
@pytest.mark.usefixtures("way")
def test_kernels_equal_double_loops(kernel, oracle, d):
    A, B = random_bits(3, d), random_bits(70, d, seed=1)
    assert_allclose(kernel(A, B), oracles.gram(oracle, A, B), rtol=1e-13)
    assert_allclose(kernel.diag(kernel.encode(A)), np.diagonal(kernel(A)), rtol=1e-13)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kernel", [kernel for kernel, _ in CASES.values()], ids=list(CASES))
def test_kernels_keep_their_promises(kernel):
    check_kernel(kernel, random_bits(12, 300))
    check_kernel(kernel, random_bits(12, 300).astype(np.float32))
    check_kernel(kernel, to_hex(random_bits(12, 16)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_both_ways_give_the_same_numbers(dtype, monkeypatch):
    pytest.importorskip("numba")
    A, B = (pack_matrix(random_bits(n, 500, density=0.02).astype(dtype)) for n in (600, 1100))
    found = []
    for compiled in (True, False):
        monkeypatch.setattr(bits, "is_worthwhile", lambda *_, answer=compiled: answer)
        found.append([kernel.against(B)(A) for kernel, _ in CASES.values()])
    for first, second in zip(*found, strict=True):
        assert first.dtype == dtype
        assert_array_equal(first, second)


@pytest.mark.usefixtures("way")
def test_any_buffer_will_do():
    A, B = pack_matrix(random_bits(20, 300)), pack_matrix(random_bits(130, 300, seed=1))
    block = Tanimoto().against(B)
    expected = block(A)
    buffers = [
        np.empty((130, 20)).T,
        np.empty((20, 400))[:, 3:133],
        np.empty((20, 130), np.float32),
    ]
    for out in buffers:
        assert block(A, out) is out
        assert_allclose(out, expected, rtol=1e-6)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.usefixtures("way")
def test_threads_share_the_columns(threads, monkeypatch):
    monkeypatch.setattr(popcount, "_SHARED_WORDS", 0)
    monkeypatch.setattr(bits, "_RIGHT", 64)
    for module in (bits, popcount):
        monkeypatch.setattr(module, "spare_threads", lambda: threads)
    A, B = random_bits(5, 300), random_bits(200, 300, seed=1)
    assert_allclose(Tanimoto()(A, B), oracles.gram(oracles.tanimoto, A, B), rtol=1e-13)


@pytest.mark.usefixtures("way")
def test_no_rows():
    none, some = pack_matrix(random_bits(3, 300))[:0], pack_matrix(random_bits(3, 300))
    assert Tanimoto()(none, some).shape == (0, 3)
    assert Tanimoto()(some, none).shape == (3, 0)


def test_columns_that_are_not_kept(monkeypatch):
    monkeypatch.setattr(bits, "_KEPT_BYTES", 0)
    monkeypatch.setattr(bits, "_LEFT", 4)
    monkeypatch.setattr(bits, "_RIGHT", 3)
    monkeypatch.setattr(bits, "_DIVIDED", 3)
    monkeypatch.setattr(bits, "_AT_ONCE", 1000)
    monkeypatch.setattr(bits, "is_worthwhile", lambda *_: False)
    A, B = random_bits(9, 300), random_bits(10, 300, seed=1)
    assert_allclose(Tanimoto()(A, B), oracles.gram(oracles.tanimoto, A, B), rtol=1e-13)


@pytest.mark.usefixtures("fresh")
def test_small_blocks_add_up_until_compiling_pays(monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(popcount, "_FEW_WORDS", 2 * 3 * 5)  # two blocks of 3 rows, 5 words each
    block = Tanimoto().against(pack_matrix(random_bits(1, 300)))
    A = pack_matrix(random_bits(3, 300))
    block(A)
    assert not popcount._compiled
    block(A)
    assert list(popcount._compiled) == [bits._tanimoto]


@pytest.mark.usefixtures("fresh")
def test_without_numba(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(popcount, "_has_numba", popcount._has_numba.__wrapped__)
    monkeypatch.setattr(popcount, "_FEW_WORDS", 0)
    B = random_bits(9, 300)
    assert_allclose(Tanimoto()(B), oracles.gram(oracles.tanimoto, B, B), rtol=1e-13)
    assert not popcount._compiled


@each_case
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
@pytest.mark.usefixtures("way")
def test_counts_against_bits(kernel, oracle, form):
    A, B = random_bits(6, 300), random_bits(7, 300, seed=1)
    B[3, :9] = 4
    expected = oracles.gram(oracle, A, B)
    assert isinstance(kernel.encode(A), PackedBits)
    assert not isinstance(kernel.encode(form(B)), PackedBits)
    assert_allclose(kernel(A, form(B)), expected, rtol=1e-13)
    assert_allclose(kernel(form(B), A), expected.T, rtol=1e-13)


@each_case
@pytest.mark.usefixtures("way")
def test_bits_that_are_not_packed_against_bits_that_are(kernel, oracle):
    A, thin = random_bits(6, 300), np.eye(7, 300)
    expected = oracles.gram(oracle, A, thin)
    assert sparse.issparse(kernel.encode(sparse.csr_matrix(thin)))
    assert_allclose(kernel(A, sparse.csr_matrix(thin)), expected, rtol=1e-13)
    assert_allclose(kernel(sparse.csr_matrix(thin), A), expected.T, rtol=1e-13)


def cosine_parts(common, a, b):
    return common, np.sqrt(a * b)


@pytest.mark.usefixtures("way")
def test_cosine_of_packed_bits():
    """Its denominator is 0 where one of two sets is empty."""
    A, B = random_bits(6, 300), random_bits(130, 300, seed=1)
    B[7] = 0
    block = set_blocks(cosine_parts, pack_matrix(B), Cosine().against)
    expected = oracles.gram(oracles.cosine, A.astype(float), B.astype(float))
    assert_allclose(block(pack_matrix(A)), expected, rtol=1e-13)
    assert_allclose(block(2.0 * A), expected, rtol=1e-13)
    assert np.all(np.diagonal(BitBlocks(cosine_parts, pack_matrix(B))(pack_matrix(B))) == 1.0)


@given(st.integers(0, 999))
def test_gram_matrices_are_positive_semidefinite(seed):
    rng = np.random.default_rng(seed)
    B = rng.random((20, 70)) < rng.random()
    for kernel, _ in CASES.values():
        assert np.linalg.eigvalsh(kernel(pack_matrix(B))).min() > -1e-12


# GaussianTanimoto ------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, pack_matrix], ids=["matrix", "packed"])
def test_median_width(form):
    B = random_bits(30, 120)[[*range(30), 3]]  # one row twice
    kernel = GaussianTanimoto("median")
    resolved = kernel.resolve(form(B), np.random.default_rng(0))
    T = oracles.gram(oracles.tanimoto, B, B)
    distances = (2.0 - 2.0 * T)[np.triu_indices(len(B), 1)]
    assert_allclose(resolved.gamma, 0.5 / np.median(distances[distances > 0]), rtol=1e-12)
    assert kernel.gamma == "median"


def test_width_of_equal_rows_and_of_a_number():
    rng = np.random.default_rng(0)
    assert GaussianTanimoto("median").resolve(np.ones((3, 4)), rng).gamma == 1.0
    assert GaussianTanimoto(0.3).resolve(np.ones((3, 4)), rng).gamma == 0.3


@pytest.mark.parametrize(
    ("gamma", "error", "message"),
    [
        (-1.0, ValueError, r"gamma must be a finite number >= 0\. Got -1\.0"),
        ("scale", ValueError, r"gamma must be one of 'median'\. Got 'scale'"),
        (None, TypeError, r"gamma must be a finite number"),
    ],
)
def test_bad_width(gamma, error, message):
    with pytest.raises(error, match=message):
        GaussianTanimoto(gamma).resolve(np.ones((3, 4)), np.random.default_rng(0))


def test_width_that_needs_data():
    with pytest.raises(ValueError, match=r"gamma='median' depends on the data"):
        GaussianTanimoto("median")(np.ones((3, 4)))


def test_only_equal_sets_are_entirely_alike():
    B = random_bits(20, 300)
    K = GaussianTanimoto(2.0)(B)
    assert np.all(np.diagonal(K) == 1.0)
    assert K[0, 1] == np.exp(-4.0)  # nothing and everything


# Where rows go ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", [None, SubSample(15), PSparsified(12, p=0.3)], ids=str)
@pytest.mark.parametrize("kernel", [F1(), GaussianTanimoto("median")], ids=str)
def test_a_basis_of_packed_rows_is_that_of_the_matrix(kernel, sketch, monkeypatch):
    B, C = random_bits(40, 300), random_bits(9, 300, seed=1)
    thin = KernelBasis(kernel, sketch, random_state=0).fit(B)
    assert isinstance(thin.landmarks_, PackedBits)
    monkeypatch.setattr(bits, "_LEAST_BITS", 10**9)
    dense = KernelBasis(kernel, sketch, random_state=0).fit(B)
    assert isinstance(dense.landmarks_, np.ndarray)
    assert_allclose(thin.transform(C), dense.transform(C), atol=1e-9)
    assert_allclose(thin.transform(pack_matrix(C)), dense.transform(C), atol=1e-9)


def test_ridge_on_packed_rows_is_that_on_the_matrix(monkeypatch):
    B, y = random_bits(40, 300), np.random.default_rng(0).standard_normal(40)
    packed_fit = KernelRidge(Tanimoto()).fit(B, y).predict(B)
    given_packed = KernelRidge(Tanimoto()).fit(pack_matrix(B), y).predict(pack_matrix(B))
    monkeypatch.setattr(bits, "_LEAST_BITS", 10**9)
    expected = KernelRidge(Tanimoto()).fit(B, y).predict(B)
    assert_allclose(packed_fit, expected, rtol=1e-9)
    assert_allclose(given_packed, expected, rtol=1e-9)


def test_label_sets_are_decoded_from_packed_landmarks(monkeypatch):
    Y = random_bits(50, 300, density=0.02)
    Y[1] = Y[2]  # and not all labels at once
    shares = np.random.default_rng(0).dirichlet(np.ones(50), 10)
    found = []
    for least in (256, 10**9):
        monkeypatch.setattr(bits, "_LEAST_BITS", least)
        basis = KernelBasis(F1()).fit(Y)
        assert isinstance(basis.landmarks_, PackedBits) == (least == 256)
        F = basis.transform(Y)
        F = np.vstack([F, shares @ F])
        found.append(LabelSetDecoder().fit(basis, Y).decode(F))
    assert_array_equal(*found)
    assert_array_equal(found[0][:50], Y)


def test_blocks_need_as_many_bits():
    block = Tanimoto().against(pack_matrix(random_bits(4, 64)))
    with pytest.raises(ValueError, match="Rows have 300 bits, and landmarks 64"):
        block(pack_matrix(random_bits(4, 300)))
