"""Strings: the n-gram kernel against counting, the decoder against trying everything."""

import csv
import functools
import gzip
import itertools
import os
import re
import string
from collections import Counter
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import pytest
from extras import extra
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skout import KernelBasis, iokr
from skout.decoding import euler
from skout.decoding.euler import Graph, euler_path, nearest_trail
from skout.decoding.strings import StringDecoder
from skout.kernels import Gaussian, Normalized
from skout.kernels import strings as strings_module
from skout.kernels.strings import NGram, string_of
from skout.sketches import SubSample
from skout.testing import check_decoder, check_kernel

pd = extra("pandas")
pl = extra("polars")

FRUITS = ["banana", "ananas", "papaya", "apple", "nab", "aaaa", "apricot"]
KERNELS = {
    "counts": NGram(2),
    "presence": NGram(2, presence=True),
    "several": NGram((1, 2, 3)),
    "normalised": Normalized(NGram(2)),
    "normalised-presence": Normalized(NGram(2, presence=True)),
}
each_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))


# The kernel --------------------------------------------------------------------------------------


def grams(text, n):
    return [text[i : i + n] for i in range(len(text) - n + 1)]


def spectrum(A, B, lengths, presence=False):
    """(2.1) as it stands, for each length."""
    K = np.zeros((len(A), len(B)))
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            for n in lengths:
                in_a, in_b = Counter(grams(a, n)), Counter(grams(b, n))
                K[i, j] += sum(
                    1 if presence else in_a[u] * in_b[u] for u in in_a.keys() & in_b.keys()
                )
    return K


@pytest.mark.parametrize("presence", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, (1, 3), [2, 1], range(1, 4), np.array([3])], ids=str)
def test_kernel_is_the_formula(n, presence):
    lengths = [n] if isinstance(n, int) else list(n)
    K = NGram(n, presence=presence)(FRUITS, FRUITS[:3])
    assert_array_equal(K, spectrum(FRUITS, FRUITS[:3], lengths, presence))
    as_bytes = [some.encode() for some in FRUITS]
    assert_array_equal(NGram(n, presence=presence)(as_bytes, as_bytes[:3]), K)


# Characters of every width, so that n-grams are packed, hashed, and both in one data set.
texts = st.lists(st.text(alphabet="ab\x00\x7fé中\U0010ffff", max_size=14), min_size=1, max_size=6)


@given(A=texts, B=texts, n=st.integers(1, 12), presence=st.booleans())
def test_kernel_is_the_formula_for_any_text(A, B, n, presence):
    kernel = NGram(n, presence=presence, short="keep")
    assert_array_equal(kernel(A, B), spectrum(A, B, [n], presence))


@given(A=texts, n=st.sets(st.integers(1, 12), min_size=2, max_size=4))
def test_several_lengths_are_a_sum_of_kernels(A, n):
    assert_array_equal(NGram(tuple(n), short="keep")(A), spectrum(A, A, n))


@given(A=st.lists(st.binary(max_size=12), min_size=1, max_size=5), n=st.integers(1, 12))
def test_kernel_is_the_formula_for_any_bytes(A, n):
    assert_array_equal(NGram(n, short="keep")(A), spectrum(A, A, [n]))


def test_ngrams_of_any_kind_have_names_of_their_own():
    """Leading zeros, codes at the edge of what is packed, and lengths."""
    for n in (1, 2, 3, 4, 8, 9, 10, 63, 64, 70):
        edge = 2 ** min(21, 63 // n)
        codes = [c for c in {0, 1, edge - 1, edge, 127, 128, 255, 0x10FFFF} if c <= 0x10FFFF]
        ends = itertools.product(codes, repeat=min(n, 3))
        every = ["\0" * (n - min(n, 3)) + "".join(map(chr, end)) for end in ends]
        rows = NGram(n).encode(every)
        assert len(np.unique(rows.features)) == len(every)
    rows = NGram((1, 2, 3)).encode(["\0\0a"])  # \0 a, \0\0 \0a, \0\0a
    assert_array_equal(np.sort(rows.counts), [1, 1, 1, 1, 2])


def test_hashes_of_similar_ngrams_differ():
    every = ["x" * 9 + "".join(end) for end in itertools.product(string.ascii_letters, repeat=3)]
    assert len(np.unique(NGram(12).encode(every).features)) == len(every) == 52**3


@each_kernel
def test_kernel_keeps_the_contract(kernel):
    check_kernel(kernel, FRUITS)
    check_kernel(kernel, [some.encode() for some in FRUITS])


def test_a_string_alone_has_the_bag_it_has_among_others(monkeypatch):
    whole = NGram((2, 3)).encode(FRUITS)
    for i, some in enumerate(FRUITS):
        alone = NGram((2, 3)).encode([some])
        assert alone.keys() == whole[i].keys()
    monkeypatch.setattr(strings_module, "_BLOCK", 7)  # a string may be longer than a part
    assert NGram((2, 3)).encode(FRUITS).keys() == whole.keys()


@pytest.mark.parametrize(
    "container",
    [
        *(tuple, np.array, lambda A: np.array(A, dtype=object)),
        *(lambda A: pd.Series(A), lambda A: pl.Series(A)),
    ],
    ids=["tuple", "array", "objects", "pandas", "polars"],
)
def test_any_container_of_strings(container):
    assert NGram(2).encode(container(FRUITS)).keys() == NGram(2).encode(FRUITS).keys()


def test_lone_surrogates_are_characters():
    assert NGram(1)(["\ud800a"], ["\ud800\ud800"])[0, 0] == 2
    assert string_of(NGram(2).vocabulary(["\ud800a"])[1][0]) == "\ud800a"


def test_vocabulary_is_of_the_longest_ngrams():
    kernel = NGram((1, 2))
    features, codes = kernel.vocabulary([b"banana"])
    assert {string_of(row, bytes) for row in codes} == {b"ba", b"an", b"na"}
    for feature, row in zip(features, codes, strict=True):
        assert feature in kernel.encode([string_of(row, bytes)]).features


def test_short_strings_raise_or_are_alike_to_nothing():
    message = re.escape(
        "The string at index 1, 'C', is shorter than n=3 and has no n-gram, and 1 more are as "
        'short. Give short="keep"'
    )
    with pytest.raises(ValueError, match=message):
        NGram(3)(["CCO", "C", "CCC", "CC"])
    with pytest.raises(ValueError, match=r"index 0, b'', is shorter than n=1 and has no n-gram\. "):
        NGram((2, 1))([b"", b"a"])
    assert NGram((1, 3))(["CCO", "C"])[0, 1] == 2  # n=1 is there for it
    kernel = NGram(3, short="keep")
    assert_array_equal(kernel(["CCO", "C", "CC"]), np.diag([1.0, 0.0, 0.0]))
    same = [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    assert_array_equal(Normalized(kernel)(["CCO", "C", "CC"]), same)


def test_no_strings_have_no_bags_and_no_basis():
    assert len(NGram(2).encode([])) == 0
    assert NGram(2)([], ["abc"]).shape == (0, 1)
    with pytest.raises(ValueError, match="at least one row"):
        KernelBasis(NGram(2)).fit([])


@pytest.mark.parametrize(
    ("objects", "error", "message"),
    [
        ("word", TypeError, "takes a list or array of strings. Got str instead; for a single"),
        (b"word", TypeError, "takes a list or array of strings. Got bytes"),
        (7, TypeError, "takes a list or array of strings. Got int"),
        (np.array([["ab", "cd"]]), ValueError, "Got an array of shape (1, 2)"),
        ([3, 4], TypeError, "Got 3 of type int at index 0"),
        (["abc", None], TypeError, "Got None of type NoneType at index 1"),
        ([b"abc", b"abc", np.nan], TypeError, "Got nan of type float at index 2"),
        (["abc", b"abc"], TypeError, "Got str at index 0 and bytes at index 1"),
        ([b"abc", "abc"], TypeError, "Got bytes at index 0 and str at index 1"),
    ],
)
def test_what_is_not_strings_is_refused(objects, error, message):
    with pytest.raises(error, match=re.escape(message)):
        NGram(2).encode(objects)


def test_a_missing_string_of_pandas_is_refused():
    with pytest.raises(TypeError, match="Got <NA> of type NAType at index 1"):
        NGram(2).encode(pd.Series(["abc", None], dtype="string"))


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"n": 0}, ValueError, "n must be an integer >= 1. Got 0"),
        ({"n": (2, 0)}, ValueError, "n must be an integer >= 1. Got 0"),
        ({"n": 2.5}, TypeError, "n must be an int or a sequence of ints. Got 2.5"),
        ({"n": True}, TypeError, "n must be an integer >= 1. Got True"),
        ({"n": "2"}, TypeError, "n must be an int or a sequence of ints. Got '2'"),
        ({"n": ()}, ValueError, "n must have at least one length, each once. Got ()"),
        ({"n": (2, 2)}, ValueError, "n must have at least one length, each once. Got (2, 2)"),
        ({"presence": "yes"}, ValueError, "presence must be one of False, True. Got 'yes'"),
        ({"short": "drop"}, ValueError, "short must be one of 'error', 'keep'. Got 'drop'"),
    ],
)
def test_wrong_parameters_are_refused(params, error, message):
    with pytest.raises(error, match=re.escape(message)):
        NGram(**params).encode(FRUITS)


@pytest.mark.skipif("SKOUT_DATA" not in os.environ, reason="SKOUT_DATA is not set")
def test_smiles_of_qm9():
    with gzip.open(Path(os.environ["SKOUT_DATA"]) / "qm9_smiles.csv.gz", "rt") as file:
        smiles = [row[1] for row in list(csv.reader(file))[1:]]
    rows = NGram(3, short="keep").encode(smiles)
    assert rows.counts.sum() == sum(max(0, len(some) - 2) for some in smiles)
    some = np.random.default_rng(0).choice(len(smiles), 60, replace=False)
    chosen = [smiles[i] for i in some]
    kernel = NGram(3, short="keep")
    assert_array_equal(kernel(rows[some], rows[some[:30]]), spectrum(chosen, chosen[:30], [3]))


# Euler paths -------------------------------------------------------------------------------------


def has_trail(graph, counts):
    """Whether some path takes every edge as often as counted, by trying all."""

    @functools.cache
    def rest(node, counts):
        if not any(counts):
            return graph.ends[node] > 0
        fewer = lambda e: counts[:e] + (counts[e] - 1,) + counts[e + 1 :]  # noqa: E731
        ways = [e for e, c in enumerate(counts) if c and graph.tail[e] == node]
        return any(rest(graph.head[e], fewer(e)) for e in ways)

    return any(rest(node, tuple(counts)) for node in set(graph.tail) if graph.starts[node])


def draw_graph(rng, n_edges, n_nodes=4, presence=False):
    pairs = rng.choice(n_nodes * n_nodes, n_edges, replace=False)
    starts, ends = rng.integers(0, 5, (2, n_nodes))
    if rng.integers(2):
        starts, ends = starts + 1, ends + 1
    return Graph(pairs // n_nodes, pairs % n_nodes, starts, ends, presence)


def assert_is_trail(graph, trail):
    assert_array_equal(graph.head[trail[:-1]], graph.tail[trail[1:]])
    assert graph.starts[graph.tail[trail[0]]] * graph.ends[graph.head[trail[-1]]] > 0


@given(seed=st.integers(0, 10**6), n_edges=st.integers(1, 7))
def test_euler_path_is_found_where_there_is_one(seed, n_edges):
    rng = np.random.default_rng(seed)
    graph = draw_graph(rng, n_edges)
    for counts in rng.integers(0, 3, (20, n_edges)):
        trail = euler_path(graph, counts) if counts.any() else None
        assert (trail is not None) == (bool(counts.any()) and has_trail(graph, counts))
        if trail is not None:
            assert_array_equal(np.bincount(trail, minlength=n_edges), counts)
            assert_is_trail(graph, trail)


def test_no_edges_have_no_path():
    loop = Graph(np.array([0]), np.array([0]), np.ones(1), np.ones(1))
    assert euler_path(loop, np.array([0])) is None


def test_path_is_the_lowest_and_circles_are_cut_where_likely():
    # a - b - c - a and a loop at each: edges in order aa ab bb bc ca cc
    tail, head = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 2, 0, 2])
    graph = Graph(tail, head, np.array([9, 5, 5]), np.array([0, 2, 2]))
    assert euler_path(graph, np.ones(6, dtype=int)) == [2, 3, 5, 4, 0, 1]  # from b


@given(seed=st.integers(0, 10**6), length=st.integers(2, 9))
def test_path_has_the_fewest_odd_turns(seed, length):
    rng = np.random.default_rng(seed)
    graph = draw_graph(rng, 8, 3)._replace(starts=np.array([9, 1, 1]), ends=np.ones(3))
    pairs = [(a, b) for a in range(8) for b in range(8) if graph.head[a] == graph.tail[b]]
    graph = graph._replace(turns=frozenset(p for p in pairs if rng.uniform() < 0.5) | {(8, 8)})
    trail = [int(rng.choice(np.flatnonzero(graph.tail == graph.tail[0])))]
    for _ in range(length):
        following = np.flatnonzero(graph.tail == graph.head[trail[-1]])
        trail += [int(rng.choice(following))] if len(following) else []
    counts = np.bincount(trail, minlength=8)
    found = euler_path(graph, counts)
    assert_array_equal(np.bincount(found, minlength=8), counts)
    assert_is_trail(graph, found)

    def paths(node, path, left):
        if not any(left):
            yield path
        for edge in [e for e in range(8) if left[e] and graph.tail[e] == node]:
            fewer = tuple(c - (e == edge) for e, c in enumerate(left))
            yield from paths(graph.head[edge], [*path, edge], fewer)

    odd = [
        sum(turn not in graph.turns for turn in itertools.pairwise(path))
        for path in [found, *paths(graph.tail[found[0]], [], tuple(counts))]
    ]
    assert odd[0] == min(odd)


def value(graph, g, counts):
    counts = np.minimum(counts, 1) if graph.presence else counts
    return np.sum(2 * g * counts - counts**2)


@settings(max_examples=100)
@given(seed=st.integers(0, 10**6), n_edges=st.integers(1, 6), presence=st.booleans())
def test_nearest_trail_is_the_best_of_all(seed, n_edges, presence):
    rng = np.random.default_rng(seed)
    graph = draw_graph(rng, n_edges, presence=presence)
    g = rng.normal(0.4, 0.7, n_edges)
    most = np.clip(np.floor(g + 0.5), 0, 1 if presence else np.inf).astype(int) + 1
    every = [c for c in itertools.product(*(range(m + 1) for m in most)) if any(c)]
    values = {c: value(graph, g, np.array(c)) for c in every if has_trail(graph, c)}
    trail = nearest_trail(graph, g)
    if not values:
        assert trail is None
        return
    best = max(values.values())
    assert_is_trail(graph, trail)
    # again and again the same edge costs a trifle where presence counts
    slack = 1e-4 * most.sum() if presence else 1e-9
    assert value(graph, g, np.bincount(trail, minlength=n_edges)) >= best - slack
    above = nearest_trail(graph, g, best - 0.01)
    assert value(graph, g, np.bincount(above, minlength=n_edges)) >= best - slack
    rounded = np.minimum(most - 1, 1) if presence else most - 1
    assert nearest_trail(graph, g, value(graph, g, rounded)) is None  # nothing is worth more


def test_pieces_are_joined(monkeypatch):
    # two circles, ab ba and cd dc, and a way from the one to the other that is worth little
    tail, head = np.array([0, 1, 2, 3, 1, 2]), np.array([1, 0, 3, 2, 2, 1])
    graph = Graph(tail, head, np.ones(4, dtype=int), np.ones(4, dtype=int))
    trail = nearest_trail(graph, np.array([1.0, 1.0, 1.0, 1.0, 0.2, -0.5]))
    assert sorted(trail) == [0, 1, 2, 3, 4]
    # after the last round the best piece is taken as it is
    monkeypatch.setattr(euler, "_ROUNDS", 1)
    trail = nearest_trail(graph, np.array([1.0, 1.0, 1.1, 1.0, 0.2, -0.5]))
    assert sorted(trail) == [2, 3]
    monkeypatch.undo()
    # where the way costs more than a circle is worth, the better circle alone
    trail = nearest_trail(graph, np.array([1.0, 1.0, 1.4, 1.0, -3.0, -3.0]))
    assert sorted(trail) == [2, 3]


@pytest.mark.parametrize("size", [1e6, 1e9, 1e15])
def test_huge_counts_make_no_huge_paths(size):
    loop = Graph(np.array([0]), np.array([0]), np.ones(1), np.ones(1))
    assert nearest_trail(loop, np.array([size])) == [0] * 301
    # nothing that short is worth as much as this
    assert nearest_trail(loop, np.array([size]), floor=1000.0 * size) is None
    # ab is worth much, but to take it twice needs ba, which costs as much
    both = Graph(np.array([0, 1]), np.array([1, 0]), np.ones(2), np.ones(2))
    trail = nearest_trail(both, np.array([size, -size]))
    assert trail == [0]


def test_exact_counts_make_long_paths():
    loop = Graph(np.array([0]), np.array([0]), np.ones(1), np.ones(1))
    assert len(nearest_trail(loop, np.array([100_000.0]))) == 100_000


def test_large_programs_are_left_out_and_large_cuts_replaced_by_the_best_piece(monkeypatch):
    # two circles, ab ba and cd dc, and a way between them
    tail, head = np.array([0, 1, 2, 3, 1, 2]), np.array([1, 0, 3, 2, 2, 1])
    graph = Graph(tail, head, np.ones(4, dtype=int), np.ones(4, dtype=int))
    g = np.array([1.0, 1.0, 1.1, 1.0, 0.2, -0.5])
    assert len(nearest_trail(graph, g)) == 5
    monkeypatch.setattr(euler, "_CUT", 5)
    assert sorted(nearest_trail(graph, g)) == [2, 3]
    monkeypatch.setattr(euler, "_COPIES", 3)
    assert nearest_trail(graph, g) is None


# The decoder -------------------------------------------------------------------------------------


def words():
    text = " ".join(topics.values()).lower()
    found = sorted(set(re.findall(r"[a-z]{3,}", text)))
    return [str(some) for some in np.random.default_rng(0).permutation(found)]


def is_unique(word, n=2):
    """Whether no other string has the n-grams of this one."""
    counts, found = Counter(grams(word, n)), set()

    def go(text):
        if len(text) == len(word):
            found.add(text)
        for gram in [g for g in counts if counts[g] and g[:-1] == text[len(text) - n + 1 :]]:
            counts[gram] -= 1
            go(text + gram[-1])
            counts[gram] += 1

    for gram in {g[:-1] for g in counts}:
        go(gram)
        if len(found) > 1:
            return False
    return True


@pytest.fixture(scope="module")
def split():
    """Training words, and new ones that are made of their 2-grams and told by them."""
    every = words()
    train, rest = every[:1500], every[1500:]
    known = {gram for word in train for gram in grams(word, 2)}
    return train, [word for word in rest if known.issuperset(grams(word, 2)) and is_unique(word)]


def recovered(kernel, split, noise=0.0, **params):
    train, new = split
    basis = KernelBasis(kernel).fit(train)
    F = basis.transform(new)
    F += noise * np.random.default_rng(0).standard_normal(F.shape)
    decoder = StringDecoder(**params).fit(basis, train)
    return np.mean([a == b for a, b in zip(decoder.decode(F), new, strict=True)])


@pytest.mark.parametrize("known", [True, False])
def test_new_words_are_recovered_from_their_exact_coordinates(split, known):
    assert len(split[1]) >= 500
    assert recovered(NGram(2), split, known=known) > 0.99


@pytest.mark.parametrize(
    ("kernel", "noise", "least"),
    [
        (NGram(2), 0.1, 0.98),
        (Normalized(NGram(2)), 0.0, 0.98),
        (NGram(2, presence=True), 0.0, 0.93),
    ],
)
def test_new_words_are_recovered_with_other_kernels_and_noise(split, kernel, noise, least):
    train, new = split
    assert recovered(kernel, (train, new[:200]), noise) > least


def test_decoder_reads_exact_counts(split):
    train = split[0]
    basis = KernelBasis(NGram(2)).fit(train)
    decoder = StringDecoder().fit(basis, train)
    G = decoder.scores(basis.transform(train[:50]))
    counts = [[grams(word, 2).count(gram) for gram in decoder.ngrams_] for word in train[:50]]
    assert_allclose(G, counts, atol=1e-8)


@each_kernel
@pytest.mark.parametrize("sketch", [None, SubSample(12)], ids=["exact", "sketched"])
@pytest.mark.parametrize("known", [True, False])
def test_decoder_keeps_the_contract(kernel, sketch, known):
    Y = [some for some in words() if len(some) < 7][:40]
    basis = KernelBasis(kernel, sketch, random_state=0).fit(Y)
    rng = np.random.default_rng(0)
    Z = basis.transform(Y)
    F = 0.5 * (Z[:5] + Z[5:10]) + 0.1 * Z.std() * rng.standard_normal((5, Z.shape[1]))
    if known:
        check_decoder(StringDecoder(), basis, Y, F)
    found = StringDecoder(known=known).fit(basis, Y).decode(F)
    seen = {gram for word in Y for gram in grams(word, 2)}
    assert all(seen.issuperset(grams(some, 2)) for some in found)


def score(basis, F, found):
    rows = basis.kernel_.encode(found)
    return 2.0 * np.sum(F * basis.transform(rows), axis=1) - basis.kernel_.diag(rows)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_decoded_string_is_as_near_as_any(seed):
    """All strings of up to 7 characters over three letters, n-grams of training outputs only."""
    rng = np.random.default_rng(seed)
    Y = ["".join(rng.choice(list("abc"), rng.integers(2, 6))) for _ in range(6)]
    basis = KernelBasis(NGram(2)).fit(Y)
    F = rng.normal(0.4, 0.5, (3, basis.rank_))
    decoder = StringDecoder().fit(basis, Y)
    pool = ["".join(s) for m in range(2, 8) for s in itertools.product("abc", repeat=m)]
    seen = set(decoder.ngrams_)
    pool = [some for some in pool if seen.issuperset(grams(some, 2))]
    counts = np.array([[grams(some, 2).count(u) for u in decoder.ngrams_] for some in pool])
    found = score(basis, F, decoder.decode(F))
    for g, value_found in zip(decoder.scores(F), found, strict=True):
        allowed = (counts <= np.maximum(np.floor(g + 0.5), 0) + 1).all(axis=1)
        values = 2.0 * counts @ g - (counts**2).sum(axis=1)
        assert value_found >= values[allowed].max() - 1e-8


def test_a_known_string_is_taken_among_equals():
    Y = ["abcdbec", "xabecdbcx", "beca"]  # the n-grams of the first are those of "abecdbc" too
    for outputs in (Y, ["abecdbc", *Y[1:]]):
        basis = KernelBasis(NGram(2)).fit(outputs)
        F = basis.transform(["abcdbec"])
        assert StringDecoder().fit(basis, outputs).decode(F) == [outputs[0]]
    built = StringDecoder(known=False).fit(basis, outputs).decode(F)
    assert built == StringDecoder(known=False).fit(basis, outputs).decode(F)
    assert sorted(grams(built[0], 2)) == sorted(grams("abcdbec", 2))


def test_a_known_string_is_taken_where_nothing_built_is_nearer():
    Y = ["C", "CCO", "CNC"]
    basis = KernelBasis(NGram(2, short="keep")).fit(Y)
    nothing = np.zeros((1, basis.rank_))
    assert StringDecoder().fit(basis, Y).decode(nothing) == ["C"]  # which has no n-gram
    assert len(StringDecoder(known=False).fit(basis, Y).decode(nothing)[0]) == 2


def test_ends_may_be_those_of_training_outputs():
    Y = [f"<{some}>" for some in words() if len(some) < 6][:60]
    basis = KernelBasis(NGram(2)).fit(Y)
    F = basis.transform(Y)
    F += 0.5 * np.random.default_rng(0).standard_normal(F.shape)
    free = StringDecoder(known=False).fit(basis, Y).decode(F)
    tied = StringDecoder(known=False, ends="known").fit(basis, Y).decode(F)
    assert not all(re.fullmatch("<.+>", some) for some in free)
    assert all(re.fullmatch("<.+>", some) for some in tied)
    assert np.all(score(basis, F, tied) <= score(basis, F, free) + 1e-8)


def test_one_gram_strings_have_the_right_letters():
    Y = ["ab", "bc", "ca", "abc"]
    basis = KernelBasis(NGram(1)).fit(Y)
    found = StringDecoder().fit(basis, Y).decode(basis.transform(["cabba"]))
    assert sorted(found[0]) == list("aabbc")


@pytest.mark.parametrize("dtype", [None, "U", object])
@pytest.mark.parametrize("kind", [str, bytes])
def test_strings_come_back_as_they_were_given(dtype, kind):
    Y = [some if kind is str else some.encode() for some in FRUITS]
    if dtype is not None:
        Y = np.array(Y, dtype="S" if dtype == "U" and kind is bytes else dtype)
    basis = KernelBasis(NGram(2)).fit(Y)
    decoder = StringDecoder().fit(basis, Y)
    found = decoder.decode(basis.transform(Y))
    assert type(found) is type(Y)
    assert list(found) == list(Y)
    assert all(isinstance(some, kind) for some in found)
    assert getattr(found, "dtype", None) == getattr(Y, "dtype", None)
    assert len(decoder.decode(basis.transform(Y)[:0])) == 0


def test_decoder_in_a_predictor(split):
    Y = split[0][:150]
    X = [some[:-1] + "#" for some in Y]
    model = iokr(NGram((1, 2)), NGram(2), alpha=1e-6, decoder=StringDecoder()).fit(X, Y)
    assert np.mean([a == b for a, b in zip(model.predict(X), Y, strict=True)]) > 0.9
    assert model.score(X, Y) > 0.95
    with pytest.raises(TypeError, match="StringDecoder builds objects instead of ranking"):
        model.rank(X)
    with pytest.raises(ValueError, match="candidates must be None"):
        model.predict(X, candidates=Y)


def test_decoder_refuses_what_it_cannot_read():
    basis = KernelBasis(Gaussian(1.0)).fit(np.eye(3))
    with pytest.raises(TypeError, match=re.escape("Got Gaussian(gamma=1.0) instead")):
        StringDecoder().fit(basis, ["a", "b", "c"])
    short = KernelBasis(Normalized(NGram(2, short="keep"))).fit(["a", "b"])
    with pytest.raises(ValueError, match="No training output has an n-gram of length n=2"):
        StringDecoder().fit(short, ["a", "b"])
    with pytest.raises(ValueError, match="ends must be one of 'any', 'known'"):
        StringDecoder(ends="marked").fit(short, ["a", "b"])
    with pytest.raises(ValueError, match=r"known must be one of False, True\. Got 'no'"):
        StringDecoder(known="no").fit(short, ["a", "b"])


@pytest.mark.parametrize("known", [False, True])
def test_far_inputs_are_decoded_in_time(known):
    words = ["stone", "tones", "onset", "sets", "nest", "notes", "ton", "net"]
    X = np.arange(8.0)[:, None]
    model = iokr("linear", NGram(2), decoder=StringDecoder(known)).fit(X, words)
    for x in (1e6, 1e12):  # the counts grow with the input: a string of millions of characters
        (found,) = model.predict([[x]])
        assert 2 <= len(found) < 20_000


# Many n-grams ------------------------------------------------------------------------------------


def long_strings(length, n=12):
    rng = np.random.default_rng(0)
    return ["".join(rng.choice(list("abcdefghijklmnopqrst"), length)) for _ in range(n)]


def between(basis, Y):
    """Coordinates that no string has, so that a program must be solved."""
    Z = basis.transform(Y)
    return 0.6 * Z[:1] + 0.55 * Z[1:2] + 0.2 * Z[2:3]


def test_large_programs_find_what_small_ones_find(monkeypatch):
    Y = long_strings(120)
    basis = KernelBasis(NGram(4)).fit(Y)
    F = between(basis, Y)
    monkeypatch.setattr(euler, "_ROUNDS", 1)  # no cuts in either
    monkeypatch.setattr(euler, "_CUT", 10**6)
    monkeypatch.setattr(euler, "linprog", None)  # which is not asked
    by_simplex = StringDecoder(known=False).fit(basis, Y).decode(F)
    monkeypatch.undo()
    monkeypatch.setattr(euler, "milp", None)
    by_interior_point = StringDecoder(known=False).fit(basis, Y).decode(F)
    assert_allclose(score(basis, F, by_interior_point), score(basis, F, by_simplex), rtol=1e-9)


def test_programs_have_a_limit(monkeypatch):
    Y = long_strings(120)
    basis = KernelBasis(NGram(4)).fit(Y)
    decoder = StringDecoder(known=False).fit(basis, Y)
    F = between(basis, Y)
    sizes = []

    class Watched(euler._Program):
        def solve(self):
            sizes.append(len(self.edge))
            return super().solve()

    monkeypatch.setattr(euler, "_Program", Watched)
    best = score(basis, F, decoder.decode(F))
    monkeypatch.setattr(euler, "_CONSIDERED", 300)
    with pytest.warns(UserWarning, match="n-grams to build.*only the 300.*decoder=.candidates"):
        found = score(basis, F, decoder.decode(F))
    assert sizes[0] > 1000
    assert sizes[1] == 300
    assert best >= found - 1e-9
    assert found > 0.5 * best  # the n-grams of greatest counts are there
