"""Several targets of different kinds: a `Tuned` for each, on inputs that are read once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skout.dev import PartsByName, all_at_once, n_rows, resolve, take
from skout.kinds import KINDS, Kind, LabelSets, guess_kind
from skout.typing import Tabular

from ..tables.encoder import EncodedTable, TableEncoder
from ..tables.frames import TableLike, columns_of, is_frame
from ..tables.kinds import no_column
from ..tables.reading import as_texts
from ..tables.targets import as_target, kind_of_numbers, kind_of_texts
from .estimator import Tuned
from .inputs import first_inputs

#: Targets by name: a data frame or a dict, of which each column is one.
TargetColumns: TypeAlias = Tabular | Mapping[str, Any]


@dataclass(frozen=True)
class Target:
    """The outputs of one target, and the numbers of the rows that have one."""

    kind: Kind
    outputs: Any
    rows: np.ndarray
    is_text: bool = False  # whether it is a column of texts: predictions are texts, too


class TunedTargets(PartsByName):
    """Choose and fit a model for each of several targets, which may be of different kinds.

    The inputs are read and encoded once, and each target has a model of its own, chosen by its own
    metric. A row without one of the targets is left out of the model of this target only.

    Parameters
    ----------
    tuned : Tuned, optional
        The settings of all models; default `Tuned()`. Targets share its budget in equal parts.
    kinds : dict of str to str, optional
        The kinds of targets, names in `skout.kinds.KINDS`; those of others are guessed.

    Attributes
    ----------
    models_ : dict of str to Tuned
        By the names of the targets. Each takes the same table as `predict`, and shares `encoder_`.
    encoder_ : TableEncoder or None
        The fitted encoder of a table with columns other than numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import Tuned, TunedTargets
    >>> x = np.random.default_rng(0).uniform(size=40)
    >>> table = {"x": x, "color": ["red", "blue"] * 20}
    >>> targets = {"price": 3.0 * x, "size": np.where(x > 0.5, "large", "small")}
    >>> model = TunedTargets(Tuned(budget="4 fits", random_state=0)).fit(table, targets)
    >>> {name: tuned.kind_ for name, tuned in model.models_.items()}
    {'price': 'numbers', 'size': 'classes'}
    >>> model.predict({"x": [0.9], "color": ["red"]})["size"]
    array(['large'], dtype='<U5')
    """

    def __init__(self, tuned: Tuned | None = None, kinds: dict[str, str] | None = None) -> None:
        self.tuned = tuned
        self.kinds = kinds

    @all_at_once
    def fit(self, X: TableLike, Y: TargetColumns, started: float | None = None) -> TunedTargets:
        """Choose and fit the models.

        Parameters
        ----------
        X : data frame of pandas or polars, table of pyarrow, dict of columns, or array, n rows
        Y : data frame or dict, of which each column is a target
            A value of a dict may also have several columns, such as those of a label set. Cells
            may be missing. Columns of texts such as "a;b" may be label sets.
        started : float, optional
            As in `Tuned.fit`; the seconds since then count for the first target.

        Returns
        -------
        self : TunedTargets
        """
        table: Any = X  # `is_frame` tells which
        n = n_rows(next(iter(columns_of(X).values())) if is_frame(X) else table)
        targets = self._targets(Y, n)
        tuned = Tuned() if self.tuned is None else self.tuned
        budget = _share(tuned.budget, len(targets))
        started = tuned._now() if started is None else started
        encoder, matrix = first_inputs(X, tuned.encoder, tuned.kinds)
        rows = X if encoder is None else EncodedTable.of(matrix, encoder)
        self.models_: dict[str, Tuned] = {}
        self._kinds = {name: target.kind for name, target in targets.items() if target.is_text}
        for name, target in targets.items():
            model = clone(tuned).set_params(kind=target.kind.name, budget=budget)
            has_all = len(target.rows) == n
            target_rows = rows if has_all else _taken(rows, target.rows)
            self.models_[name] = model.fit(target_rows, target.outputs, started=started)
            if isinstance(target.kind, LabelSets) and target.kind.labels:
                model.labels_ = list(target.kind.labels)
            started = None
        return self

    def _targets(self, Y: Any, n: int) -> dict[str, Target]:
        """Return the targets by name, each with the rows that have it."""
        if not is_frame(Y):
            raise TypeError(
                "Y must be a data frame or a dict, of which each column is a target. Got "
                f"{type(Y).__name__}: give one target to Tuned."
            )
        names = list(Y) if isinstance(Y, Mapping) else list(columns_of(Y, "Y"))
        for name in self.kinds or {}:
            if name not in names:
                raise ValueError(f"kinds: {no_column(name, names)}")
        targets = {}
        for name in names:
            values = Y[name]
            target = values if isinstance(values, Target) else self._target(str(name), values)
            if not isinstance(values, Target) and n_rows(values) != n:
                raise ValueError(f"Y[{name!r}] must have {n} rows, as X. Got {n_rows(values)}.")
            if not len(target.rows):
                raise ValueError(f"Y: target {name!r} has no value in any row.")
            targets[str(name)] = target
        return targets

    def _target(self, name: str, values: Any) -> Target:
        """Return the target of a column, of a given or guessed kind."""
        kind_name, n = (self.kinds or {}).get(name), n_rows(values)
        if len(getattr(values, "shape", (n,))) > 1:
            kind = _kind(kind_name or guess_kind(values), name)
            return Target(kind, values, np.arange(n))
        cells = columns_of({name: values}, "Y")[name]
        if cells.dtype.kind == "f":
            kind, _ = kind_of_numbers(cells[:, None], name)
        else:
            cells = as_texts(cells)
            kind, _ = kind_of_texts(cells)
        if kind_name is not None:
            kind = _kind(kind_name, name)
        if not kind.reads_text(1):
            if cells.dtype == object:
                raise ValueError(f"Y: target {name!r} must hold numbers to be {kind.plural}.")
            rows = np.flatnonzero(~np.isnan(cells))
            return Target(kind, cells[rows], rows)
        rows = np.flatnonzero([cell is not None for cell in as_texts(cells)])
        if cells.dtype != object:  # classes that are numbers stay numbers
            return Target(kind, cells[rows], rows)
        texts = as_texts(cells)[rows].tolist()
        kind = kind.learn(texts, [name])
        return Target(kind, kind.read(texts), rows, is_text=True)

    @property
    def encoder_(self) -> TableEncoder | None:
        """The fitted encoder of a table with columns other than numbers, None for numbers."""
        check_is_fitted(self)
        return next(iter(self.models_.values())).encoder_

    def _rows(self, X: Any) -> Any:
        """Return the rows as all models take them, encoded once."""
        encoder = self.encoder_
        return X if encoder is None else EncodedTable.of(encoder.transform(X), encoder)

    def predict(self, X: TableLike) -> dict[str, Any]:
        """Predict all targets of each row of X.

        Parameters
        ----------
        X : as in fit, n rows

        Returns
        -------
        predictions : dict of str to outputs, n of each target
            Those of columns of texts, such as label sets "a;b", are texts of the same form.
        """
        rows = self._rows(X)
        predictions = {name: model.predict(rows) for name, model in self.models_.items()}
        for name, kind in self._kinds.items():
            if kind.name != "classes":
                predictions[name] = np.array(kind.write(predictions[name]), dtype=object)
        return predictions

    def predict_proba(self, X: TableLike) -> dict[str, Any]:
        """Return the probabilities of classes and labels, of the targets that have them.

        Parameters
        ----------
        X : as in fit, n rows

        Returns
        -------
        probabilities : dict of str to array of shape (n, classes) or (n, labels)
            Their columns are named by `classes_` or `labels_` of `models_[name]`.
        """
        rows = self._rows(X)
        models = self.models_.items()
        return {
            name: model.predict_proba(rows)
            for name, model in models
            if hasattr(model, "predict_proba")
        }

    def score(self, X: TableLike, Y: TargetColumns) -> dict[str, float]:
        """Return the score of each target by the metric of its kind, on the rows that have it.

        Parameters
        ----------
        X : as in fit, n rows
        Y : as in fit

        Returns
        -------
        scores : dict of str to float
        """
        rows = self._rows(X)
        scores = {}
        for name, model in self.models_.items():
            values, kind = Y[name], self._kinds.get(name)
            if kind is None:
                scores[name] = model.score(rows, values)
                continue
            texts = as_texts(columns_of({name: values}, "Y")[name])
            observed = np.flatnonzero([cell is not None for cell in texts])
            predicted = model.predict(_taken(rows, observed))
            measures = kind.evaluate(kind.read(texts[observed].tolist()), predicted)
            scores[name] = float(measures[kind.metric])  # type: ignore[arg-type]
        return scores

    def summary(self) -> str:
        """Return the line of `Tuned.summary` for each target.

        Returns
        -------
        lines : str
        """
        check_is_fitted(self)
        return "\n".join(f"{name}: {model.summary()}" for name, model in self.models_.items())


def _kind(name: str, target: str) -> Kind:
    """Return the kind of a name, or raise an error that names the target."""
    kind: Kind = resolve(as_target(name), KINDS, f"kinds[{target!r}]")
    return kind


def _taken(rows: Any, numbers: np.ndarray) -> Any:
    """Return the rows of a matrix or of a table that have these numbers."""
    if is_frame(rows):
        return {name: column[numbers] for name, column in columns_of(rows).items()}
    return take(rows, numbers)


def _share(budget: float | str, n: int) -> float | str:
    """Return the budget of each of n targets."""
    fits = re.fullmatch(r"\s*(\d+) fits?\s*", budget) if isinstance(budget, str) else None
    return f"{max(1, int(fits[1]) // n)} fits" if fits else float(budget) / n
