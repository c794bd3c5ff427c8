"""What seven newcomers type first: it works, or the answer says what to type instead.

A data scientist, a kernel person, somebody of metabolomics, a chemist, a researcher, an engineer
and a student, five things each, and ten that they type next. Snippets run in an environment
without extras but for those that name one: `cli` is a word of the shell.
"""

import csv
import pickle  # noqa: F401  of a snippet
import re
import shlex
import subprocess
import sys
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from extras import extra

import skout
from skout import Tuned
from skout.kernels import Gaussian

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = X[:, 0] + 0.1 * X[:, 1]
LABELS = np.column_stack([X[:, 0] > 0, X[:, 1] > 0, X[:, 0] <= 0]).astype(int)
NAMES = [["a", "b"] if value > 0 else ["c"] for value in Y]
SPECTRUM = """BEGIN IONS
TITLE=unknown
PEPMASS=195.0877
CHARGE=1+
ADDUCT=[M+H]+
138.0662 100
110.0713 30
END IONS
"""


@dataclass(frozen=True)
class Snippet:
    """Who types what, what the answer says, and what must be installed for it."""

    who: str
    code: str
    says: str | None = None  # a piece of the error; None where it must work
    needs: tuple[str, ...] = ()

    @property
    def is_command(self):
        return self.code.startswith("skout ")


SNIPPETS = [
    # a data scientist has a table, and wants scores and probabilities
    Snippet(
        "data scientist", "skout fit churn.csv", "--target is missing.*columns are: plan, months"
    ),
    Snippet("data scientist", "skout fit churn.csv --target chrun", "Did you mean 'churn'"),
    Snippet("data scientist", "skout fit churn.csv --target churn --budget '3 fits' -o m.skout"),
    Snippet("data scientist", "skout predict m.skout churn.csv --proba -o p.csv"),
    Snippet(
        *("data scientist", "Tuned().fit(table.assign(target=Y), 'target')"),
        says=r"fit\(X.drop\(columns='target'\), X\['target'\]\)",
        needs=("pandas",),
    ),
    # a kernel person comes from scikit-learn
    Snippet("kernel person", "KernelRidge(gamma=0.1)", "Gaussian.gamma=0.1."),
    Snippet(
        "kernel person", "KernelRidge('gaussian', 100).fit(X, Y)", r"SubSample\(100\).*alpha=100"
    ),
    Snippet("kernel person", "KernelRidge('rbf', alpha=0.1).fit(X, Y).predict(X)"),
    Snippet("kernel person", "KernelRidge(Gaussian(np.ones(3))).fit(X, Y)", "LearnedMetric"),
    Snippet(
        "kernel person", "KernelMachine('rbf', C=1.0, epsilon=0.1)", "loss=Epsilon|alpha = 1 /"
    ),
    # metabolomics: spectra in a file, and what they may be of
    Snippet("metabolomics", "skout identify", "Missing argument|Missing option|model"),
    Snippet("metabolomics", "skout identify nothing.mgf", "no file|There is no|--model|rdkit"),
    Snippet(
        "metabolomics",
        "skout pool build nothing.csv -o p",
        "no file|There is no|RDKit: pip install",
    ),
    Snippet("metabolomics", "skout predict m.skout unknown.mgf", r"unknown\.mgf|\.mgf"),
    Snippet(
        *("metabolomics", "skout.readers.read_mgf(spectrum)"),
    ),
    # a chemist has SMILES
    Snippet(
        *("chemist", "iokr('gaussian', 'tanimoto').fit(X, ['CCO', 'CCC'] * 30)"),
        says="skout.molecules.fingerprints",
    ),
    Snippet(
        *("chemist", "skout.molecules.fingerprints(['CCO', 'CCC']).shape"),
        needs=("rdkit",),
    ),
    Snippet(
        *("chemist", "skout.molecules.fingerprints(['CCO', 'no molecule'])"),
        says="no molecule",
        needs=("rdkit",),
    ),
    Snippet(
        "chemist", "skout fit smiles.csv --target y --budget '2 fits' -o s.skout", needs=("rdkit",)
    ),
    Snippet("chemist", "KernelRidge('tanimoto').fit(LABELS, Y).predict(LABELS)"),
    # a researcher tries parts of their own, and the methods of the papers
    Snippet(
        "researcher", "KernelRidge(lambda A: A @ A.T).fit(X, Y)", r"two sets of rows, \(A, B\)"
    ),
    Snippet("researcher", "KernelRidge(lambda A, B: A @ B.T).fit(X, Y).predict(X)"),
    Snippet("researcher", "skout.sisokr('gaussian', 'f1').fit(X, LABELS).predict(X)"),
    Snippet(
        "researcher", "iokr('gaussian', 'f1').fit(X, series)", "MultiLabelBinarizer", ("pandas",)
    ),
    Snippet("researcher", "KernelRidge('precomputed').fit(X @ X.T, Y).predict(X @ X.T)"),
    # an engineer asks for versions, files and types
    Snippet("engineer", "skout --version"),
    Snippet("engineer", "skout export m.skout -o m.onnx", needs=("onnx",)),
    Snippet("engineer", "skout evaluate m.skout churn.csv --json"),
    Snippet("engineer", "skout predict m.skout other.csv", "has no column 'months'.*It has: color"),
    Snippet("engineer", "KernelRidge().partial_fit(X, Y)", "partial_fit needs a sketch"),
    # a student copies what they know
    Snippet("student", "iris()"),
    Snippet("student", "KernelRidge('gaussian:0.5').fit(X, Y)", r"skout.kernels.Gaussian\(0.5\)"),
    Snippet("student", "KernelRidge('sigmoid').fit(X, Y)", "pairwise.sigmoid_kernel"),
    Snippet("student", "KernelRidge('gaussian', n_components=100)", r"SubSample\(100\)"),
    Snippet("student", "skout.SVR", "KernelMachine"),
]
# What they type next.
NEXT = [
    Snippet("data scientist", "skout fit churn.csv churn", r"argument.*Usage: skout fit.*--help"),
    Snippet("data scientist", "skout report m.skout", "'data'.*Usage: skout report"),
    Snippet("data scientist", "Tuned(budget='60s').fit(X, Y)", "seconds, or a number of fits"),
    Snippet("kernel person", "KernelRidge().set_params(gamma=0.1)", "kernel__gamma in set_params"),
    Snippet("kernel person", "KernelRidge('rbf').fit(X, Y).predict(X, return_std=True)"),
    Snippet("metabolomics", "skout identify churn.csv", r"\.mgf"),
    Snippet("chemist", "Tuned(budget='1 fits').fit(['CCO', 'CCC'] * 30, Y).predict(['CCO'])"),
    Snippet("researcher", "skout.formulas.p_sparsified(20, 60, 0.3, RNG)"),
    Snippet("engineer", "pickle.loads(pickle.dumps(KernelRidge().fit(X, Y))).predict(X)"),
    Snippet("student", "Tuned().predict(X)", "not fitted yet"),
]


def iris():
    """Return what everybody types first: `Tuned().fit(*load_iris(return_X_y=True))`."""
    from sklearn.datasets import load_iris

    flowers, kinds = load_iris(return_X_y=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = Tuned(budget="3 fits", random_state=0).fit(flowers, kinds)
    assert [str(one.message) for one in caught] == [
        "Y is taken for classes. If it is not, say kind='numbers'."
    ]
    assert model.score(flowers, kinds) > 0.9
    assert model.predict(flowers).shape == (150,)
    assert model.predict_proba(flowers).shape == (150, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that newcomers have, and a model that was fitted on one."""
    folder = tmp_path_factory.mktemp("first")
    plans, months = RNG.choice(["month", "year"], 60), RNG.integers(1, 70, 60)
    left = np.where((plans == "month") & (months < 40), "yes", "no")
    tables = {
        "churn": [["plan", "months", "churn"], *zip(plans, months, left, strict=True)],
        "other": [["color", "size"], ["red", 1]],
        "smiles": [["smiles", "y"], *([f"{'C' * (i % 9 + 1)}O", i % 9] for i in range(40))],
    }
    for name, rows in tables.items():
        with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    (folder / "unknown.mgf").write_text(SPECTRUM, encoding="utf-8")
    return folder


@pytest.fixture
def shell(folder, monkeypatch, capsys):
    """Run words of a shell in that folder; return the code and what was said."""

    def run(words):
        for name in ("typer", "rich", "pyarrow"):
            pytest.importorskip(name)
        from skout.apps import cli

        monkeypatch.chdir(folder)
        with pytest.raises(SystemExit) as end:
            cli.main(shlex.split(words)[1:])
        return end.value.code or 0, "".join(capsys.readouterr())

    return run


def test_each_of_seven_has_five():
    counts = [sum(one.who == who for one in SNIPPETS) for who in {one.who for one in SNIPPETS}]
    assert counts == [5] * 7


@pytest.mark.parametrize("snippet", SNIPPETS + NEXT, ids=lambda one: f"{one.who}: {one.code[:40]}")
def test_first_minutes(snippet, shell, folder):
    for name in snippet.needs:
        pytest.importorskip(name)
    if snippet.is_command:
        if "m.skout" in snippet.code and not (folder / "m.skout").exists():
            shell("skout fit churn.csv --target churn --budget '3 fits' -o m.skout")
        code, said = shell(snippet.code)
        if snippet.says is None:
            assert code == 0, said
        else:
            assert code != 0
            assert "Traceback" not in said
            assert_says(snippet.says, said)
        return
    names = {name: getattr(skout, name) for name in ("KernelRidge", "KernelMachine", "iokr")}
    names |= {**globals(), "Gaussian": Gaussian, "spectrum": folder / "unknown.mgf"}
    if "pandas" in snippet.needs:
        pandas = extra("pandas")
        names |= {
            "table": pandas.DataFrame(X, columns=["a", "b", "c"]),
            "series": pandas.Series(NAMES),
        }
    if snippet.says is None:
        eval(snippet.code, names)
        return
    with pytest.raises((TypeError, ValueError, AttributeError)) as error:
        eval(snippet.code, names)
    assert_says(snippet.says, f"{error.value} {error.value.__cause__}")


def assert_says(pattern, said):
    """Assert that an answer has a piece, on however many lines."""
    assert re.search(pattern, " ".join(said.split())), said


def test_a_new_category_is_named(shell, folder):
    shell("skout fit churn.csv --target churn --budget '3 fits' -o m.skout")
    text = (folder / "churn.csv").read_text(encoding="utf-8").replace("month,", "Month ,")
    (folder / "new.csv").write_text(text.replace("Month s", "months"), encoding="utf-8")
    code, said = shell("skout predict m.skout new.csv -o p.csv")
    assert code == 0
    assert "column 'plan': 'Month', in" in said
    assert "the nearest is 'month'" in said


def test_python_m_skout_is_the_command():
    for name in ("typer", "rich"):
        pytest.importorskip(name)
    words = [sys.executable, "-m", "skout", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"skout {skout.__version__}"


def test_a_fit_without_a_bar_imports_no_notebook_bar():
    """In a notebook without widgets, tqdm.auto warns: it is for who wants a bar."""
    code = (
        "import sys, warnings, numpy as np; warnings.simplefilter('error');"
        "from skout import Tuned; X = np.random.default_rng(0).standard_normal((30, 2));"
        "Tuned('numbers', budget='1 fits').fit(X, X[:, 0]);"
        "sys.exit('tqdm.auto' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
