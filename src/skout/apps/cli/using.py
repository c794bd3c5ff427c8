"""`skout predict`, `rank`, `embed` and `evaluate`: apply the model of a file to a table."""

import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from skout import load, save
from skout.decoding import EmbeddedPool
from skout.dev import check_number, join, n_rows, take
from skout.kinds import Kind

from ..tables.encoder import EncodedTable
from ..tables.files import Part, Table, is_table, listed, select
from .classes import class_scores, label_scores
from .columns import Inputs, Outputs, columns_to_read
from .progress import note, open_with_notes, progress
from .results import describe_file
from .unseen import Unseen, unseen_of, unseen_values

# Bootstrap samples for the standard error of a measure that is no mean over rows.
_SAMPLES = 200
# The most new values of categories that are printed.
_MOST_NOTES = 10


@dataclass(frozen=True)
class Scores:
    """The measures of predictions beside the truth, by the kind of output."""

    kind: Kind
    truth: Any
    predicted: Any

    @cached_property
    def each(self) -> dict[str, np.ndarray]:
        """The measures of each row; the first is the main one."""
        return self.kind.measures(self.truth, self.predicted)

    @cached_property
    def metrics(self) -> dict[str, float | None]:
        """The measures of all rows together."""
        return self.kind.evaluate(self.truth, self.predicted)

    @property
    def main(self) -> str:
        """The name of the main measure."""
        return next(iter(self.each))

    @property
    def merit(self) -> float:
        """The main measure of all rows, with the sign that makes greater better."""
        return self.sign * float(self.metrics[self.main])  # type: ignore[arg-type]

    @property
    def sign(self) -> float:
        """-1 where less of the main measure is better, and 1 elsewhere."""
        return -1.0 if self.kind.estimator_type == "regressor" else 1.0

    def errors(self, n: int) -> dict[str, float | None]:
        """Return the standard error of each measure over n rows, estimated from these rows."""
        if n_rows(self.truth) < 2:
            return dict.fromkeys(self.metrics)
        if self.metrics == {name: float(np.mean(rows)) for name, rows in self.each.items()}:
            # means over rows: s / sqrt(n), s^2 the variance
            return {k: float(np.std(rows, ddof=1) / n**0.5) for k, rows in self.each.items()}
        # deviation over samples of m rows with replacement, times sqrt(m / n)
        m, rng = n_rows(self.truth), np.random.default_rng(0)
        draws: dict[str, list[float]] = {name: [] for name in self.metrics}
        for _ in range(_SAMPLES):
            rows = rng.integers(m, size=m)
            drawn = self.kind.evaluate(take(self.truth, rows), take(self.predicted, rows))
            for name, value in drawn.items():
                draws[name] += [] if value is None else [value]
        return {
            name: float(np.std(values, ddof=1) * (m / n) ** 0.5) if len(values) > 1 else None
            for name, values in draws.items()
        }


@dataclass(frozen=True)
class SavedModel:
    """A model of `skout fit`, with the columns that it takes and predicts."""

    model: Any
    inputs: Inputs
    outputs: Outputs
    others: tuple["SavedModel", ...] = ()  # models of further targets, with the same inputs

    @property
    def targets(self) -> tuple["SavedModel", ...]:
        """This model and those of further targets."""
        return replace(self, others=()), *self.others

    def check_one_target(self, what: str) -> None:
        """Raise if the model has several targets, which the command or option cannot take."""
        if self.others:
            names = listed([target.outputs.name for target in self.targets])
            raise ValueError(
                f"{what} is for models of one target, and this model has: {names}. Fit a model of "
                "the one that you want."
            )

    @property
    def _chooser(self) -> Any:
        """The estimator that embeds candidates: the `searcher_` of a tuned model, if it has one."""
        return getattr(self.model, "searcher_", self.model)

    @property
    def pool(self) -> Any:
        """The training outputs to choose from, None for a model that does not choose."""
        return getattr(getattr(self._chooser, "decoder_", self._chooser), "pool_", None)

    @property
    def levels(self) -> Mapping[str, Sequence[str]]:
        """The training values of each column of categories; empty unless it takes a table."""
        levels: Mapping[str, Sequence[str]] = getattr(
            getattr(self.model, "encoder_", None), "levels_", {}
        )
        return levels

    @property
    def classes(self) -> list[str]:
        """The classes or labels that the model has probabilities of; empty without these."""
        kind = self.outputs.kind
        if not (kind.has_probabilities and callable(getattr(self.model, "predict_proba", None))):
            return []
        labels = getattr(kind, "labels", None)
        return list(map(str, self.model.classes_ if labels is None else labels))

    def probabilities(self, X: Any) -> np.ndarray | None:
        """Return the probability of each of the `classes`, (n, n_classes); None without them."""
        return self.model.predict_proba(X) if self.classes else None

    def names_of_probabilities(self, target: "SavedModel") -> list[str]:
        """Return the columns of a target's probabilities, with its name where there are more."""
        prefix = f"{target.outputs.name}=" if self.others else ""
        return [f"P({prefix}{name})" for name in target.classes]

    def check_proba(self) -> None:
        """Raise if no target has probabilities, and say why."""
        if not any(target.outputs.kind.has_probabilities for target in self.targets):
            kinds = listed([target.outputs.kind.plural for target in self.targets])
            raise ValueError(
                f"--proba is for classes and label sets, and the model predicts {kinds}."
            )
        if not any(target.classes for target in self.targets):
            raise ValueError(
                "--proba: the model has no probabilities, since it was fitted with settings of its "
                "own. Fit it without them (--no-tune, --input-kernel, --alpha ...)."
            )

    def predict(self, X: Any, candidates: Any) -> Any:
        """Return the output of each row, among candidates if there are any."""
        more = {} if candidates is None else {"candidates": candidates}
        return self.model.predict(X, **more)

    def candidates(self, path: Path | None, skip_invalid: bool = False) -> Any:
        """Return the candidates in a table or a file of `skout embed`, None without a path."""
        if path is None:
            return None
        if not self.outputs.kind.has_candidates:
            what = self.outputs.kind.plural
            raise ValueError(f"The model predicts {what}, and does not choose from candidates.")
        return self.embed(path, skip_invalid) if is_table(path) else self._embedded(path)

    def n_candidates(self, candidates: Any) -> int:
        """Return the number of candidates, or of training outputs to choose from."""
        if candidates is not None:
            return n_rows(candidates.objects)
        return 0 if self.pool is None else n_rows(self.pool)

    def scores(self, truth: Any, predicted: Any) -> Scores:
        """Return the measures of predictions beside the truth."""
        return Scores(self.outputs.kind, truth, predicted)

    def evaluation(
        self, truth: Any, predicted: Any, proba: np.ndarray | None = None
    ) -> dict[str, Any]:
        """Return the record of `skout evaluate`; `proba` are the probabilities of the `classes`."""
        kind = self.outputs.kind
        record = {
            "rows": n_rows(truth),
            "output": kind.name,
            "metrics": self.scores(truth, predicted).metrics,
        }
        if kind.estimator_type == "classifier":
            names = self.classes or np.unique(predicted).astype(str).tolist()
            record["classes"] = class_scores(truth, predicted, names, proba).record()
        elif hasattr(kind, "labels"):
            names = list(map(str, kind.labels))
            record["classes"] = label_scores(truth, predicted, names, proba).record()
        return record

    def embed(self, path: Path, skip_invalid: bool) -> EmbeddedPool:
        """Return the embedded candidates of a table."""
        table, outputs, skipped, n, blocks = open_with_notes(path), self.outputs, [], 0, []
        parts = table.parts(outputs.numbers, outputs.texts, self.inputs.reading)
        for part in progress(parts, "candidates"):
            n += len(part)
            wrong = outputs.kind.unreadable(outputs.cells_of(part)) if skip_invalid else []
            skipped += [_shown(outputs, part, i) for i in wrong]
            if len(wrong) < len(part):
                right = np.delete(np.arange(len(part)), wrong).tolist()
                blocks.append(outputs.read(table, part.take(right) if wrong else part, True))
        what = f"{len(skipped):,} of {n:,} candidates in {path} are invalid"
        if not blocks:
            raise ValueError(f"{what}: {listed(skipped)}. None is left.")
        if skipped:
            warnings.warn(f"{what} and skipped: {listed(skipped)}.", stacklevel=2)
        try:
            pool: EmbeddedPool = self._chooser.embed(join(blocks))
        except ValueError as error:
            raise ValueError(f"{path}: {error} Give --skip-invalid to leave these out.") from error
        return pool

    def _embedded(self, path: Path) -> EmbeddedPool:
        """Return the pool in a file of `skout embed`, which must be of this model."""
        if not path.is_file():
            raise FileNotFoundError(f"There is no file {str(path)!r}.")
        pool = load(path, mmap=True)
        if not isinstance(pool, EmbeddedPool):
            raise ValueError(
                f"--candidates must be a table, or a file of `skout embed`. Got {str(path)!r}, "
                f"which holds a {type(pool).__name__}."
            )
        try:
            self._chooser.embed(pool)
        except ValueError as error:
            raise ValueError(
                f"{path} was made by `skout embed` with another model. Make it again with this one."
            ) from error
        return pool


def _shown(outputs: Outputs, part: Part, i: int) -> str:
    cell = f"{part.texts[outputs.columns[0]][i]!r} in " if outputs.is_text else ""
    return f"{cell}row {part.start + i}"


def embed_file(saved: SavedModel, data: Path, out: Path, skip_invalid: bool) -> dict[str, Any]:
    """Embed the candidates of a table and save them; return a record of it."""
    if is_table(out):
        raise ValueError(f"--out must end in .skpool, or not as a table does. Got {str(out)!r}.")
    start = time.perf_counter()
    pool = saved.candidates(data, skip_invalid)
    save(pool, out, metadata={"command_line": {"candidates": len(pool)}})
    return {
        "candidates": str(out),
        "rows": len(pool),
        "distinct": len(pool.first),
        "seconds": round(time.perf_counter() - start, 3),
    }


def open_model(path: Path) -> SavedModel:
    """Load a model that `skout fit` saved."""
    metadata = describe_file(path)["about"].get("metadata", {})
    if "fit_spectra" in metadata:
        raise ValueError(f"{path} is a model of spectra: use it with `skout identify`.")
    record = metadata.get("command_line")
    if not isinstance(record, dict):
        raise ValueError(
            f"{path} does not say which columns it takes: it was saved from Python, and not by "
            "`skout fit`. Use it in Python, by skout.load."
        )
    try:
        inputs = Inputs(**record["inputs"])
        targets = [Outputs.opened(entry["outputs"]) for entry in record.get("targets") or [record]]
        names = [name for outputs in targets for name in outputs.columns]
        if not all(isinstance(name, str) for name in (*inputs.columns, *names)):
            raise TypeError("columns have names that are no text")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} describes its columns in a way that this version of skout cannot read: "
            f"{error}. Fit the model again."
        ) from error
    modules = [module for outputs in targets for module in outputs.kind.modules]
    model = load(path, modules=modules)
    models = [model] if len(targets) == 1 else [model.models_[target.name] for target in targets]
    first, *others = (
        SavedModel(fitted, inputs, outputs) for fitted, outputs in zip(models, targets, strict=True)
    )
    return replace(first, others=tuple(others))


def opened_files(
    model: Path, data: Path, candidates: Path | None, skip_invalid: bool
) -> tuple[SavedModel, Table, Any]:
    """Return the model, the table and the candidates that a command names."""
    saved, table = open_model(model), open_with_notes(data)
    if candidates is not None:
        saved.check_one_target("--candidates")
    return saved, table, saved.candidates(candidates, skip_invalid)


def predict_table(
    saved: SavedModel,
    table: Table,
    candidates: Any = None,
    keep: str | None = None,
    proba: bool = False,
) -> Iterator[dict[str, list[Any]]]:
    """Yield the columns of predictions by the block, after the columns that `keep` names.

    At the end, new values of categories are printed.
    """
    inputs = saved.inputs
    if proba:
        saved.check_proba()
    copied = _kept(
        keep, table, [name for target in saved.targets for name in target.outputs.columns]
    )
    parts = table.parts(inputs.numbers, [*inputs.texts, *copied], inputs.reading)
    unseen: Unseen = Counter()
    for part in progress(parts, "predicting"):
        columns, new = predict_part(saved, table, part, candidates, proba)
        unseen += new
        yield {**{name: part.texts[name] for name in copied}, **columns}
    for value in list(unseen_values(unseen, saved.levels))[:_MOST_NOTES]:
        note(f"{value}.")
    if len(unseen) > _MOST_NOTES:
        note(f"{len(unseen) - _MOST_NOTES:,} more values were not in the training rows.")


def _kept(keep: str | None, table: Table, taken: Sequence[str]) -> list[str]:
    """Return the columns of --keep, which may not be `taken` by the result."""
    copied = select(keep, table.names, "--keep") if keep else []
    clash = [name for name in copied if name in set(taken)]
    if clash:
        raise ValueError(f"--keep: {clash[0]!r} is also a column of the result. Leave it out.")
    return copied


def predict_part(
    saved: SavedModel, table: Table, part: Part, candidates: Any, proba: bool = False
) -> tuple[dict[str, list[Any]], Unseen]:
    """Return the columns of predictions for a part, and its new values of categories."""
    X = saved.inputs.read(table, part)
    unseen = unseen_of(X, saved.levels)
    encoder = getattr(saved.model, "encoder_", None)
    if encoder is not None and (saved.others or proba):
        X = EncodedTable.of(encoder.transform(X), encoder)  # once for all targets
    cells: dict[str, list[Any]] = {}
    for target in saved.targets:
        cells |= target.outputs.cells(target.predict(X, candidates))
        probabilities = target.probabilities(X) if proba else None
        if probabilities is not None:
            names = saved.names_of_probabilities(target)
            cells |= dict(zip(names, probabilities.T.tolist(), strict=True))
    return cells, unseen


def rank_table(
    saved: SavedModel, table: Table, candidates: Any, k: int, keep: str | None = None
) -> Iterator[dict[str, list[Any]]]:
    """Yield columns query, rank, candidate and score by the block, after those of `keep`."""
    check_number(k, "-k", low=1, integer=True)
    inputs = saved.inputs
    copied = _kept(keep, table, ("query", "rank", "candidate", "score"))
    parts = table.parts(inputs.numbers, [*inputs.texts, *copied], inputs.reading)
    for part in progress(parts, "ranking"):
        ranked = rank_part(saved, table, part, candidates, k)
        at = [query - part.start for query in ranked["query"]]
        yield {**{name: [part.texts[name][i] for i in at] for name in copied}, **ranked}


def rank_part(
    saved: SavedModel, table: Table, part: Part, candidates: Any, k: int
) -> dict[str, list[Any]]:
    """Return columns query, rank, candidate and score for the rows of a part."""
    saved.check_one_target("rank")
    if not saved.outputs.kind.has_candidates:
        what = saved.outputs.kind.plural
        hint = "predict --proba" if saved.classes else "predict"
        raise ValueError(f"The model predicts {what}, which cannot be ranked. Use `skout {hint}`.")
    indices, scores = saved.model.rank(saved.inputs.read(table, part), candidates, k=k)
    pool = saved.pool if candidates is None else candidates.objects
    distinct, place = np.unique(indices, return_inverse=True)
    words = saved.outputs.kind.write(take(pool, distinct))
    n, width = indices.shape
    return {
        "query": np.repeat(np.arange(part.start, part.start + n), width).tolist(),
        "rank": np.tile(np.arange(1, width + 1), n).tolist(),
        "candidate": [words[j] for j in np.ravel(place)],
        "score": np.ravel(scores).tolist(),
    }


def evaluate_table(saved: SavedModel, table: Table, candidates: Any = None) -> dict[str, Any]:
    """Return the record of `skout evaluate`: rows and metrics, or those of each target."""
    if saved.others:
        scores = {target.outputs.name: evaluate_table(target, table) for target in saved.targets}
        return {"rows": max(score["rows"] for score in scores.values()), "targets": scores}
    return saved.evaluation(*join_parts(list(predicted_parts(saved, table, candidates))))


def join_parts(parts: Sequence["PredictedPart"]) -> tuple[Any, Any, np.ndarray | None]:
    """Join the truth, the predictions and the probabilities of several parts."""
    probas = [part.proba for part in parts if part.proba is not None]
    return (
        join_truth([part.truth for part in parts]),
        join([part.predicted for part in parts]),
        np.concatenate(probas) if probas else None,
    )


def metrics_by_target(evaluations: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the metrics of several targets in one dict, under names for people."""
    return {
        f"{name}: {metric.replace('_', ' ')}" if name else metric: value
        for name, evaluation in evaluations.items()
        for metric, value in {
            **evaluation["metrics"],
            **evaluation.get("classes", {}).get("overall", {}),
        }.items()
    }


def join_truth(parts: Sequence[Any]) -> Any:
    """Join true outputs of several parts, of which some are wider by unknown labels."""
    if sparse.issparse(parts[0]):
        width = max(part.shape[1] for part in parts)
        for part in parts:
            part.resize((part.shape[0], width))
    return join(parts)


@dataclass(frozen=True)
class PredictedPart:
    """Rows of a table with their targets, predictions and probabilities, and the seconds taken."""

    part: Part
    X: Any
    truth: Any
    predicted: Any
    proba: np.ndarray | None
    seconds: float


def predicted_parts(
    saved: SavedModel, table: Table, candidates: Any = None, more: Sequence[str] = ()
) -> Iterator[PredictedPart]:
    """Yield parts of a table with targets and predictions, and `more` columns as text."""
    inputs, outputs = saved.inputs, saved.outputs
    numbers, texts, reading = columns_to_read(inputs, outputs)
    parts = table.parts(numbers, list(dict.fromkeys([*texts, *more])), reading)
    for part in filter(len, map(outputs.observed, progress(parts, "evaluating"))):
        truth, X = outputs.read(table, part), inputs.read(table, part)
        start = time.perf_counter()
        predicted = saved.predict(X, candidates)
        seconds = time.perf_counter() - start
        yield PredictedPart(part, X, truth, predicted, saved.probabilities(X), seconds)
