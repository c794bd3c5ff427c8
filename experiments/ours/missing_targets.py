"""What related outputs are worth where most of y is missing: MoleculeACE and L+M-24.

    pip download --no-deps MoleculeACE                      a wheel that holds its tables
    python -m experiments.ours.missing_targets molecules --wheel FILE  record ..._molecules
    python -m experiments.ours.missing_targets properties              record ..._properties
    python -m experiments.ours.missing_targets table                   both, as markdown

MoleculeACE: 35,633 molecules, 30 targets, 95 % missing; the official split of each target. Exact
ridge with the Tanimoto kernel of Morgan fingerprints, for the ten targets with the fewest training
rows and their relatives. Separate: a fit for each target, with an alpha of its own, the best of
three folds of its training rows. Related: M is that of a graph which joins the proteins of a family
(`graph_task_matrix`, divided by its diagonal); alpha and mu by three folds of the training rows of
the family. Since M has a block for each family, families are fitted one after another.

L+M-24: properties of molecules, 0 or 1, of which nine in ten are hidden, from some targets more
than from others. Sketched ridge; separate, with an alpha for each target, and with a learnt M and
one alpha; alphas by two folds of training rows.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from experiments.common import clock, print_table, read_record, write_record
from skout import KernelRidge, graph_task_matrix
from skout.molecules import fingerprints
from skout.sketches import SubSample

FEWEST = 10
# Proteins of one family, by the names of ChEMBL; the others among the ten stand alone.
FAMILIES = {
    "kinases": ("2835_Ki", "2971_Ki", "4203_Ki", "1862_Ki", "262_Ki", "2147_Ki"),
    "steroid receptors": ("1871_Ki", "2034_Ki"),
    "PPAR and FXR": ("2047_EC50", "3979_EC50", "239_EC50", "235_EC50"),
    "kappa opioid receptor": ("237_EC50", "237_Ki"),
    "ghrelin receptor": ("4616_EC50",),
    "PI3K": ("4005_Ki",),
}
ALPHAS = [3e-5, 1e-4, 3e-4]
MUS = [0.0, 0.3, 0.6]
WIDE = [1e-4, 1e-3, 1e-2, 1e-1]


def read_wheel(path: str) -> tuple[list[str], np.ndarray, np.ndarray, list[str]]:
    """Return molecules, training and test activities with NaN, and the names of the targets."""
    archive = zipfile.ZipFile(path)
    files = sorted(name for name in archive.namelist() if name.endswith(".csv"))
    names = [Path(file).stem.removeprefix("CHEMBL") for file in files]
    number: dict[str, int] = {}
    entries = []
    for j, file in enumerate(files):
        for row in csv.DictReader(io.StringIO(archive.read(file).decode())):
            i = number.setdefault(row["smiles"], len(number))
            entries.append((i, j, float(row["y"]), row["split"] == "train"))
    tables = np.full((2, len(number), len(files)), np.nan)
    for i, j, y, train in entries:
        tables[0 if train else 1, i, j] = y
    return list(number), tables[0], tables[1], names


def family_matrix(d: int, mu: float) -> np.ndarray:
    M = graph_task_matrix(np.ones((d, d)) - np.eye(d), mu)
    return M / M[0, 0]


def fitted(X: Any, T: np.ndarray, M: np.ndarray | None = None) -> KernelRidge:
    model = KernelRidge(
        "tanimoto", alpha=ALPHAS, cv=3, fit_intercept=True, task_matrix=M, random_state=0
    )
    return model.fit(X, T)


def fitted_together(X: Any, T: np.ndarray) -> tuple[KernelRidge, float]:
    """Return the model of least held-out error, and its mu."""
    found = [(fitted(X, T, family_matrix(T.shape[1], mu)), mu) for mu in MUS]
    return min(found, key=lambda one: one[0].cv_results_["mean_loss"].min())


def molecules(given: Any) -> None:
    smiles, train, test, names = read_wheel(given.wheel)
    rows, seconds = [], 0.0
    for family, members in FAMILIES.items():
        columns = [names.index(name) for name in members]
        T, S = train[:, columns], test[:, columns]
        known, new = (np.flatnonzero(~np.isnan(A).all(axis=1)) for A in (T, S))
        both = np.union1d(known, new)
        X = fingerprints([smiles[i] for i in both])
        at, to = np.searchsorted(both, known), np.searchsorted(both, new)
        with clock() as time:
            own = [~np.isnan(T[known, k]) for k in range(len(members))]
            apart = [fitted(X[at][has], T[known][has, k]) for k, has in enumerate(own)]
            F = np.column_stack([model.predict(X[to]) for model in apart])
            G, alpha, mu = F, apart[0].alpha_, 0.0
            if len(members) > 1:
                together, mu = fitted_together(X[at], T[known])
                G, alpha = together.predict(X[to]), together.alpha_
        seconds += time.seconds
        for k, name in enumerate(members):
            errors = (np.nanmean((A[:, k] - S[new, k]) ** 2) for A in (F, G))
            rows.append(
                {
                    "family": family, "target": f"CHEMBL{name}", "training_rows": int(own[k].sum()),
                    "alpha_separate": apart[k].alpha_, "alpha": alpha, "mu": mu,
                    **dict(zip(("mse_separate", "mse_related"), map(float, errors), strict=True)),
                }
            )  # fmt: skip
            print_table(rows[-1:], list(rows[-1]))
    settings = {"mus": MUS, "alphas": ALPHAS, "molecules": len(smiles), "targets": len(names)}
    write_record("missing_targets_molecules", settings, rows, wall_seconds=seconds)


def properties(given: Any) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(Path(os.environ["SKOUT_DATA"]) / "lpm24_train_props.parquet").to_pydict()
    rng = np.random.default_rng(0)
    some = rng.permutation(len(table["smiles"]))[: given.n + given.test]
    counts: dict[str, int] = {}
    for i in some:
        for name in table["properties"][i]:
            counts[name] = counts.get(name, 0) + 1
    names = sorted(counts, key=lambda name: -counts[name])[: given.d]
    Y = np.array([[name in set(table["properties"][i]) for name in names] for i in some], float)
    X = fingerprints([table["smiles"][i] for i in some])
    # nine in ten are hidden, from some targets more than from others
    kept = 10.0 ** rng.uniform(-2.0, 0.0, given.d)
    for _ in range(50):
        kept = np.minimum(kept * 0.1 / kept.mean(), 0.9)
    hidden = rng.random((given.n, given.d)) >= kept
    T = np.where(hidden, np.nan, Y[: given.n])
    used = np.flatnonzero(~hidden.all(axis=1))
    rows: list[dict[str, Any]] = []
    with clock() as time:
        options = {"alpha": WIDE, "cv": 2, "fit_intercept": True, "random_state": 0}
        sketch, new = SubSample(given.m), X[given.n :]
        apart = []
        for t in T.T:
            has = np.flatnonzero(~np.isnan(t))
            model = KernelRidge("tanimoto", sketch, **options)
            apart.append(model.fit(X[has], t[has], landmarks=X[used]))
        together = KernelRidge("tanimoto", sketch, task_matrix="learned", **options)
        together.fit(X[used], T[used])
        F = np.column_stack([model.predict(new) for model in apart])
        errors = [np.mean((A - Y[given.n :]) ** 2, axis=0) for A in (F, together.predict(new))]
    for j, name in enumerate(names):
        rows.append(
            {
                "target": name, "training_rows": int((~hidden[:, j]).sum()),
                "variance": float(Y[given.n :, j].var()),
                "alpha_separate": apart[j].alpha_,
                "mse_separate": float(errors[0][j]), "mse_related": float(errors[1][j]),
            }
        )  # fmt: skip
    settings = vars(given) | {"alpha": together.alpha_}
    settings |= {"hidden": float(hidden.mean()), "alphas": WIDE}
    settings.pop("run")
    write_record("missing_targets_properties", settings, rows, wall_seconds=time.seconds)
    print(time.seconds)


def gain(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return by how much errors are lower for the targets with the fewest rows, on average."""
    few = sorted(rows, key=lambda row: row["training_rows"])[:FEWEST]
    ratios = np.array([row["mse_related"] / row["mse_separate"] for row in few])
    return {
        "targets": len(few),
        "most_rows": few[-1]["training_rows"],
        "mse_lower_by": float(1.0 - ratios.mean()),
        "rmse_lower_by": float(1.0 - np.sqrt(ratios).mean()),
        "better": int((ratios < 1.0).sum()),
    }


def table(given: Any) -> None:
    for name in ("missing_targets_molecules", "missing_targets_properties"):
        record = read_record(name)
        rows = sorted(record["results"], key=lambda row: row["training_rows"])
        print(name, gain(rows), f"{record['wall_seconds']:.0f} s")
        for row in rows[:FEWEST]:
            errors = f"{row['mse_separate']:.3f} | {row['mse_related']:.3f}"
            print(f"| {row['target']} | {row['training_rows']} | {errors} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = parser.add_subparsers(required=True)
    for function in (molecules, properties, table):
        step = steps.add_parser(function.__name__)
        step.set_defaults(run=function)
        if function is molecules:
            step.add_argument("--wheel", required=True)
        if function is properties:
            for name, default in (("n", 8000), ("test", 2000), ("d", 40), ("m", 300)):
                step.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    given.run(given)


if __name__ == "__main__":
    main()
