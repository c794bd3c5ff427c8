"""Tables 3.3, 3.4 and 4.2 on data that users place in SKOUT_DATA, in the sources' own formats."""

import dataclasses
import io
import zipfile

import numpy as np
import pytest

from skout.datasets import CATALOG

pytestmark = [
    # small data: folds of a few rows, sketches of all of them
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SKOUT_DATA", str(tmp_path))
    return tmp_path


def arff(X, Y, labels):
    """Return a table as Mulan has it: sparse rows of label sets, dense ones of targets."""
    kind = "{0,1}" if labels else "numeric"
    lines = ["@relation small", *(f"@attribute x{j} numeric" for j in range(X.shape[1]))]
    lines += [f"@attribute y{j} {kind}" for j in range(Y.shape[1])] + ["@data"]
    for row in np.hstack([X, Y]):
        cells = [f"{value:g}" for value in row]
        if labels:
            lines.append("{" + ",".join(f"{j} {c}" for j, c in enumerate(cells) if c != "0") + "}")
        else:
            lines.append(",".join(cells))
    return "\n".join(lines) + "\n"


def place(monkeypatch, folder, kind, name, X, Y, n):
    """Write the files of a data set, of which the first n rows are to train on."""
    changed = {"shape": (len(X), X.shape[1], Y.shape[1]), "n_train": n}
    source = dataclasses.replace(CATALOG[kind, name], **changed)
    monkeypatch.setitem(CATALOG, (kind, name), source)
    parts = [slice(None)] if len(source.files) == 1 else [slice(0, n), slice(n, None)]
    for file, part in zip(source.files, parts, strict=True):
        (folder / file.name).write_text(arff(X[part], Y[part], kind == "multilabel"))


def carried_out(plan, folder):
    from experiments.pieces import carry_out

    return carry_out(plan, "quick", folder=folder / "parts")


@pytest.mark.parametrize("name", ["bookmarks", "mediamill"])
def test_table_4_2(folder, monkeypatch, name):
    from experiments.papers import table_4_2

    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (90, 6)).astype(float)
    place(monkeypatch, folder, "multilabel", name, X, X[:, :3], 60)
    plan = table_4_2.plan("quick", name)
    (row,) = carried_out(plan, folder)
    assert plan.record == f"table_4_2_{name}"
    assert (row["method"], row["how"]) == ("SISOKR", "chosen")
    assert row["f1"][0] > 70.0  # labels are features


@pytest.mark.parametrize("name", ["rf2", "scm1d", "scm20d"])
def test_table_3_4(folder, monkeypatch, name):
    from experiments.papers import table_3_4

    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    place(monkeypatch, folder, "multioutput", name, X, X[:, :2] + X[:, 1:], 150)
    plan = table_3_4.plan("quick", name)
    plan = dataclasses.replace(plan, pieces={"p-SR": plan.pieces["p-SR"]})
    rows = carried_out(plan, folder)
    assert plan.record == f"table_3_4_official_{name}"
    assert rows[0]["arrmse"][0] < 0.5
    assert list(rows[0]["targets"]) == ["y0", "y1"]


def test_table_3_3_of_otoliths(folder, monkeypatch):
    from experiments.papers import table_3_3

    ages = np.random.default_rng(0).integers(2, 10, 70)
    with zipfile.ZipFile(folder / "otoliths.zip", "w") as archive:
        for part, some in (("train/Train", ages[:60]), ("test/Test", ages[60:])):
            for i, age in enumerate(some):
                buffer = io.BytesIO()
                np.save(buffer, np.full((4, 4), 20 * age, dtype=np.uint8))
                archive.writestr(f"{part}_fc_{i}.npy", buffer.getvalue())
            lines = "".join(f"{i},{age}\n" for i, age in enumerate(some))
            archive.writestr(f"{part}ing_info.csv", "image,Ground truth\n" + lines)
    changed = dataclasses.replace(CATALOG["regression", "otoliths"], shape=(70, 16, 1), n_train=60)
    monkeypatch.setitem(CATALOG, ("regression", "otoliths"), changed)
    monkeypatch.setattr(table_3_3, "ALPHAS", (1e-3, 1e-4))
    monkeypatch.setattr(table_3_3, "TIES", (table_3_3.FIRST_TIE,))
    X, y, _, y_test = table_3_3.split(0, "otoliths")
    assert (len(y), len(y_test), X.shape[1]) == (60, 10, 16)
    row = table_3_3.run_split(0, True, "otoliths")["p-SR"]
    assert row["pinball"] < 0.5 * table_3_3.constant_loss(0, "otoliths")
    assert table_3_3.plan("quick", "otoliths").record == "table_3_3_otoliths"
