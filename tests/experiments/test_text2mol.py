"""Text to molecule: drafts do not know the molecule of a text, and prices are what they say."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse"),  # CSR tensors are new to PyTorch
]
CPU = torch.device("cpu")
WORDS = ("acid", "amine", "benzene", "chloride", "ethyl", "hydroxy", "methyl", "oxide")


@pytest.fixture(scope="module", autouse=True)
def draft():
    """Return the module."""
    from experiments.papers import text2mol_draft

    return text2mol_draft


@pytest.fixture(scope="module")
def texts():
    """Return 60 texts, the keys of their 30 molecules, and targets."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 5)) for _ in range(60)]
    keys = np.array([f"KEY{i // 2}" for i in range(60)])
    return texts, keys, rng.standard_normal((60, 4)).astype(np.float32)


def test_drafts_are_ridge_regression_without_the_fold(draft, texts):
    words, keys, T = texts
    drafts = draft.Drafts(words, keys, CPU)
    fold = draft.folds_of(keys)
    X = drafts.grams(words).toarray().astype(np.float64)
    assert_allclose(np.linalg.norm(X, axis=1), 1.0, rtol=1e-5)
    expected = np.empty_like(T, dtype=np.float64)
    for i in range(60):
        some = fold != fold[i]
        K = X[some] @ X[some].T + draft.LAMBDA * np.eye(some.sum())
        expected[i] = X[i] @ X[some].T @ np.linalg.solve(K, T[some])
    worth = drafts.fit(torch.tensor(T))
    assert_allclose(drafts.predict(worth, drafts.rows(words), fold), expected, atol=1e-4)


def test_drafts_do_not_see_their_own_targets(draft, texts):
    words, keys, T = texts
    drafts = draft.Drafts(words, keys, CPU)
    fold, rows = draft.folds_of(keys), drafts.rows(words)
    before = drafts.predict(drafts.fit(torch.tensor(T)), rows, fold)
    changed = T.copy()
    changed[fold == 1] += 100.0
    after = drafts.predict(drafts.fit(torch.tensor(changed)), rows, fold)
    same = (before == after).all(dim=1).numpy()
    assert same[fold == 1].all()
    assert not same[fold != 1].any()


def test_all_texts_of_a_molecule_are_in_one_fold(draft, texts):
    _, keys, _ = texts
    fold = draft.folds_of(keys)
    assert_array_equal(fold[::2], fold[1::2])
    assert len(np.unique(fold)) == draft.N_FOLDS


def test_prices_are_soft_maxima_of_the_cosines_of_other_texts(draft):
    rng = np.random.default_rng(1)
    F, C = rng.standard_normal((6, 3)), rng.standard_normal((4, 3))
    about, own = np.array(list("aabbcd")), np.array(list("abxd"))
    found = draft.prices(torch.tensor(F), about, torch.tensor(C), own)
    cosines = F @ C.T / np.linalg.norm(F, axis=1)[:, None]  # candidates are as long as they are
    for j in range(4):
        others = cosines[about != own[j], j]
        if own[j] != "x":  # the paired ones count as if opposite
            others = np.append(others, np.full((about == own[j]).sum(), -1.0))
        expected = draft.HEAT * np.log(np.exp(others / draft.HEAT).sum())
        assert_allclose(found[j], draft.SHARE * expected, rtol=1e-6)


def test_features_are_the_vectors_at_first_and_bring_pairs_together(draft):
    torch.manual_seed(0)
    Y = torch.nn.functional.normalize(torch.randn(300, 8))
    residual = draft.Residual(8).eval()
    assert_allclose(residual(Y).detach(), Y, atol=1e-6)
    noisy = Y + 0.5 * torch.randn(1, 8)  # every draft is drawn to one side: a hub
    view = draft.learnt_features(noisy, Y, torch.arange(300), seed=0)
    with torch.inference_mode():
        loss = [
            float(draft.contrast(20.0 * torch.nn.functional.normalize(noisy) @ V.T, own))
            for V, own in ((Y, torch.arange(300)), (view(Y), torch.arange(300)))
        ]
    assert loss[1] < loss[0]


def test_other_texts_of_a_molecule_are_no_negatives(draft):
    S = torch.tensor([[1.0, 5.0, 0.0], [5.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    apart = draft.contrast(S, torch.tensor([0, 1, 2]))
    together = draft.contrast(S, torch.tensor([0, 0, 2]))
    row = -np.log(np.e / (np.e + 1.0))  # of rows 0 and 1, once the other is left out
    last = -np.log(np.e / (np.e + 2.0))
    assert_allclose(together, 2.0 * (2.0 * row + last) / 3.0, rtol=1e-6)
    assert apart > together


def test_ranks_share_ties():
    from experiments.papers.text2mol import ranks

    S = np.array([[3.0, 1.0, 1.0, 2.0], [0.5, 0.1, 0.9, 0.9 * (1 + 1e-9)]])
    assert_array_equal(ranks(S, np.array([1, 2])), [3.5, 1.5])
    assert_array_equal(ranks(S, np.array([1, 2]), tie=0.0), [3.5, 2.0])


def test_listwise_is_the_softmax_without_copies_of_the_answer():
    from experiments.papers.text2mol_deep import listwise

    S = np.random.default_rng(2).standard_normal((3, 5))
    own, same = np.array([1, 0, 4]), np.zeros((3, 5), dtype=bool)
    same[0, [1, 2]] = same[2, 4] = True  # an answer is never left out itself
    expected = []
    for i in range(3):
        left = [j for j in range(5) if j == own[i] or not same[i, j]]
        expected.append(np.log(np.exp(S[i, left]).sum()) - S[i, own[i]])
    found = listwise(torch.tensor(S), torch.tensor(own), torch.tensor(same))
    assert_allclose(float(found), np.mean(expected), rtol=1e-9)


def test_rows_are_equal_where_their_vectors_are():
    from experiments.papers.text2mol_deep import _equal

    vectors = np.random.default_rng(3).standard_normal((6, 9))
    vectors[4] = vectors[1]
    number = _equal(vectors, CPU)
    assert number[4] == number[1]
    assert len(set(number.tolist())) == 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ZKHQWZAMYRWXGA-KQYNXXCUSA-N", False),
        ("lipidmaps:LMPK04000031", False),
        ("G06402", False),
        ("D-galactose", True),
        ("2-(4-Aminobenzenesulfonamido)-4-methylpyrimidine", True),
    ],
)
def test_names_are_words(text, expected):
    from experiments.papers.text2mol_data import is_name

    assert is_name(text) is expected


def test_forms_of_a_caption_leave_out_one_sentence():
    from experiments.papers.text2mol_data import Problem

    problem = Problem.__new__(Problem)
    text = (
        "It is an acid of a certain kind. It has a role as a drug. It derives from a nameless one."
    )
    problem.texts, problem.source = [text, "2-methylpropane"], np.array(["chebi20", "iupac"])
    first, second, *others = problem.forms(0)
    assert first == text
    assert second == "It has a role as a drug. It derives from a nameless one."
    assert others[0] == "It is an acid of a certain kind. It derives from a nameless one."
    assert len(others) == 2
    assert problem.forms(1) == ["2-methylpropane"]
