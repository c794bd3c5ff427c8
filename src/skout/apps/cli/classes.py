"""Scores of predicted classes and labels: overall, of each one, and a confusion table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import (
    balanced_accuracy_score,
    brier_score_loss,
    confusion_matrix,
    f1_score,
    log_loss,
    precision_recall_fscore_support,
    roc_auc_score,
)

from skout.dev import resolve

# Probabilities are kept this far from 0 and 1 in the log loss, so that one row that was certain and
# wrong costs 16 nats and not infinitely many.
_LEAST = 1e-7
#: Other names of scores.
ALIASES = {"auc": "roc_auc", "neg_log_loss": "log_loss", "f1": "f1_macro"}


@dataclass(frozen=True)
class ClassScore:
    """Precision, recall and F1 of one class or label, and how many test rows have it."""

    name: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class ClassScores:
    """The scores of predicted classes, or of predicted labels."""

    overall: dict[str, float]
    each: list[ClassScore]
    #: Classes in the order of the rows and columns of `confusion`; label sets have neither.
    names: list[str] = field(default_factory=list)
    #: The number of rows of each true class (a row) that were predicted as each class (a column).
    confusion: list[list[int]] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """Return the scores as JSON has them."""
        return {name: value for name, value in asdict(self).items() if value}


def class_scores(
    truth: np.ndarray, predicted: np.ndarray, names: Sequence[str], proba: np.ndarray | None
) -> ClassScores:
    """Return the scores of classes; `proba`, (n, len(names)), has the probabilities of the model.

    Classes of the test rows that the model does not know count as wrong, with probability 0.
    """
    truth, predicted = (np.asarray(values).astype(str) for values in (truth, predicted))
    new = [name for name in np.unique(truth).tolist() if name not in set(names)]
    classes = [*names, *new]
    overall = {
        "balanced_accuracy": _balanced(truth, predicted),
        "f1_macro": float(f1_score(truth, predicted, average="macro", zero_division=0.0)),
    }
    if proba is not None:
        overall |= _of_probabilities(truth, np.pad(proba, ((0, 0), (0, len(new)))), classes)
    return ClassScores(
        overall,
        _each(truth, predicted, classes),
        classes,
        confusion_matrix(truth, predicted, labels=classes).tolist(),
    )


def label_scores(
    truth: Any, predicted: Any, names: Sequence[str], proba: np.ndarray | None
) -> ClassScores:
    """Return the scores of the labels that the model knows, from sets as rows of 0 and 1."""
    n = len(names)
    true, pred = (sparse.csr_matrix(sets)[:, :n].toarray() > 0 for sets in (truth, predicted))
    overall = {
        f"f1_{average}": float(f1_score(true, pred, average=average, zero_division=0.0))
        for average in ("micro", "macro")
    }
    if proba is not None:
        vary = np.flatnonzero(true.any(axis=0) & ~true.all(axis=0))  # others have no AUC
        if len(vary):
            aucs = [roc_auc_score(true[:, j], proba[:, j]) for j in vary]
            overall["roc_auc"] = float(np.mean(aucs))
        clipped = np.clip(proba, _LEAST, 1.0 - _LEAST)
        overall["log_loss"] = float(-np.mean(np.log(np.where(true, clipped, 1.0 - clipped))))
    return ClassScores(overall, _each(true.astype(int), pred.astype(int), names))


def _balanced(truth: np.ndarray, predicted: np.ndarray) -> float:
    """Return the mean recall of the classes that occur in the test rows."""
    rows = np.isin(predicted, truth)  # scikit-learn warns of others
    return float(balanced_accuracy_score(truth, np.where(rows, predicted, truth[0])))


def _of_probabilities(truth: np.ndarray, proba: np.ndarray, classes: list[str]) -> dict[str, float]:
    codes = np.array([classes.index(name) for name in truth.tolist()])
    kept = np.clip(proba, _LEAST, None)
    kept /= kept.sum(axis=1, keepdims=True)
    scores = {"log_loss": float(log_loss(codes, kept, labels=np.arange(len(classes))))}
    present = [j for j in np.unique(codes).tolist() if not np.all(codes == j)]
    if present:  # of two classes both have the same
        aucs = [roc_auc_score(codes == j, proba[:, j]) for j in present]
        scores["roc_auc"] = float(np.mean(aucs))
    if len(classes) == 2:
        scores["brier"] = float(brier_score_loss(codes == 1, proba[:, 1]))
    return scores


def _each(truth: np.ndarray, predicted: np.ndarray, names: Sequence[str]) -> list[ClassScore]:
    labels = np.arange(len(names)) if truth.ndim == 2 else np.asarray(names)
    table = precision_recall_fscore_support(truth, predicted, labels=labels, zero_division=0.0)
    rows = zip(names, *(column.tolist() for column in table), strict=True)
    return [ClassScore(name, p, r, f1, int(n)) for name, p, r, f1, n in rows]


def one_score(evaluation: dict[str, Any], scoring: str) -> dict[str, float]:
    """Return the score of an evaluation that `scoring` names, under its full name."""
    scores = {**evaluation["metrics"], **evaluation.get("classes", {}).get("overall", {})}
    name = ALIASES.get(scoring, scoring)
    return {name: resolve(name, scores, "score in --scoring:")}


def tables_for_people(scores: dict[str, Any], most: int = 12) -> str:
    """Return the scores of the `most` frequent classes, and the confusion table, as text."""
    each = sorted(scores["each"], key=lambda row: -row["support"])
    width = max(6, *(min(len(row["name"]), 30) for row in each[:most]))
    lines = ["", f"{'':{width}}  precision  recall     F1   rows"]
    for row in each[:most]:
        values = f"{row['precision']:9.3f}  {row['recall']:6.3f}  {row['f1']:5.3f}"
        lines.append(f"{row['name'][:30]:{width}}  {values} {row['support']:6,}")
    if len(each) > most:
        lines.append(f"and {len(each) - most:,} more: --json has all.")
    names = scores.get("names", [])
    if names and len(names) <= most:
        cells = max(6, *(min(len(name), 12) + 1 for name in names))
        lines += ["", "rows of each true class, by the predicted class:"]
        lines.append(" " * width + "".join(f"{name[:12]:>{cells}}" for name in names))
        for name, counts in zip(names, scores["confusion"], strict=True):
            shown = "".join(f"{count:>{cells},}" for count in counts)
            lines.append(f"{name[:width]:{width}}{shown}")
    return "\n".join(lines)
