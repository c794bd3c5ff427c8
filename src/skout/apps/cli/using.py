"""`skout predict`, `rank`, `embed` and `evaluate`: what a model in a file says of a table."""

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
from skout.persistence import FileError, describe

from ..tables.encoder import EncodedTable
from ..tables.files import Part, Table, is_table, listed, select
from .classes import class_scores, label_scores
from .columns import Inputs, Outputs, wanted
from .progress import note, opened, progress
from .unseen import Unseen, named, unseen_of

# Samples of the rows that standard errors of what is no mean over rows come from.
_SAMPLES = 200
# Categories that were not in the training rows, of which each has a line.
_MOST_NOTES = 10


@dataclass(frozen=True)
class Scores:
    """Predictions of a kind of output beside the truth."""

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
        """The measure that tells most of one row."""
        return next(iter(self.each))

    @property
    def merit(self) -> float:
        """The main measure, the greater the better."""
        return self.sign * float(self.metrics[self.main])  # type: ignore[arg-type]

    @property
    def sign(self) -> float:
        """-1 where less of the main measure is better."""
        return -1.0 if self.kind.estimator_type == "regressor" else 1.0

    def errors(self, n: int) -> dict[str, float | None]:
        """Return the standard error of each measure of n rows, of which these are a sample."""
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
class Saved:
    """A model of `skout fit`, and what its columns are."""

    model: Any
    inputs: Inputs
    outputs: Outputs
    others: tuple["Saved", ...] = ()  # models of further targets, with the same inputs

    @property
    def targets(self) -> tuple["Saved", ...]:
        """This model and those of further targets."""
        return replace(self, others=()), *self.others

    def check_one_target(self, what: str) -> None:
        """Raise if there are several targets, of which `what` would have to name one."""
        if self.others:
            names = listed([target.outputs.name for target in self.targets])
            raise ValueError(f"{what} is for models of one target, and this one has: {names}.")

    @property
    def _chooser(self) -> Any:
        """What embeds candidates; a tuned model may build its outputs, and has another decoder."""
        return getattr(self.model, "searcher_", self.model)

    @property
    def pool(self) -> Any:
        """The training outputs that are chosen from, None where there are none."""
        return getattr(getattr(self._chooser, "decoder_", self._chooser), "pool_", None)

    @property
    def levels(self) -> Mapping[str, Sequence[str]]:
        """The values of columns of categories, of a model that takes a table."""
        levels: Mapping[str, Sequence[str]] = getattr(
            getattr(self.model, "encoder_", None), "levels_", {}
        )
        return levels

    @property
    def classes(self) -> list[str]:
        """Classes or labels that the model has a probability for; none where it has none."""
        kind = self.outputs.kind
        if not (kind.has_probabilities and callable(getattr(self.model, "predict_proba", None))):
            return []
        labels = getattr(kind, "labels", None)
        return list(map(str, self.model.classes_ if labels is None else labels))

    def probabilities(self, X: Any) -> np.ndarray | None:
        """Return the probability of each of the `classes`, (n, n_classes); None without them."""
        return self.model.predict_proba(X) if self.classes else None

    def names_of_probabilities(self, target: "Saved") -> list[str]:
        """Return the columns of a target's probabilities, with its name where there are more."""
        prefix = f"{target.outputs.name}=" if self.others else ""
        return [f"P({prefix}{name})" for name in target.classes]

    def check_proba(self) -> None:
        """Raise where no target has probabilities, and say why."""
        if not any(target.outputs.kind.has_probabilities for target in self.targets):
            kinds = listed([target.outputs.kind.plural for target in self.targets])
            raise ValueError(
                f"--proba is for classes and label sets, and the model predicts {kinds}."
            )
        if not any(target.classes for target in self.targets):
            raise ValueError(
                "--proba: the model was fitted with settings of its own and has no probabilities. "
                "Fit it without them (--input-kernel, --alpha ...), so that skout chooses it."
            )

    def predict(self, X: Any, candidates: Any) -> Any:
        """Return the output of each row, among candidates if there are any."""
        more = {} if candidates is None else {"candidates": candidates}
        return self.model.predict(X, **more)

    def candidates(self, path: Path | None, skip_invalid: bool = False) -> Any:
        """Return the candidates of a table or of `skout embed`; None for the training outputs."""
        if path is None:
            return None
        if not self.outputs.kind.has_candidates:
            what = self.outputs.kind.plural
            raise ValueError(f"The model predicts {what}, which are not chosen from candidates.")
        return self.embed(path, skip_invalid) if is_table(path) else self._embedded(path)

    def n_candidates(self, candidates: Any) -> int:
        """Return how many candidates there are, 0 for a model that has none."""
        if candidates is not None:
            return n_rows(candidates.objects)
        return 0 if self.pool is None else n_rows(self.pool)

    def scores(self, truth: Any, predicted: Any) -> Scores:
        """Return how good predictions are."""
        return Scores(self.outputs.kind, truth, predicted)

    def evaluation(
        self, truth: Any, predicted: Any, proba: np.ndarray | None = None
    ) -> dict[str, Any]:
        """Return what `skout evaluate` says; `proba` are the probabilities of the `classes`."""
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
        """Return the candidates of a table, embedded."""
        table, outputs, skipped, n, blocks = opened(path), self.outputs, [], 0, []
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
            raise ValueError(f"{path}: {error} On the command line: --skip-invalid.") from error
        return pool

    def _embedded(self, path: Path) -> EmbeddedPool:
        """Return what `skout embed` wrote, if it is of this model."""
        if not path.is_file():
            raise FileNotFoundError(f"There is no file {str(path)!r}.")
        pool = load(path, mmap=True)
        if not isinstance(pool, EmbeddedPool):
            raise ValueError(
                f"--candidates must be a table, or what `skout embed` wrote. Got {str(path)!r}, "
                f"which holds a {type(pool).__name__}."
            )
        try:
            self._chooser.embed(pool)
        except ValueError as error:
            raise ValueError(
                f"{path} was embedded by another model, whose coordinates mean something else: "
                "make it again by `skout embed` with this model."
            ) from error
        return pool


def _shown(outputs: Outputs, part: Part, i: int) -> str:
    cell = f"{part.texts[outputs.columns[0]][i]!r} in " if outputs.is_text else ""
    return f"{cell}row {part.start + i}"


def embed_file(saved: Saved, data: Path, out: Path, skip_invalid: bool) -> dict[str, Any]:
    """Embed the candidates of a table and save them; return what was done."""
    if is_table(out):
        raise ValueError(f"--out {str(out)!r} would be read as a table: end it in .skpool, say.")
    start = time.perf_counter()
    pool = saved.candidates(data, skip_invalid)
    save(pool, out, metadata={"command_line": {"candidates": len(pool)}})
    return {
        "candidates": str(out),
        "rows": len(pool),
        "distinct": len(pool.first),
        "seconds": round(time.perf_counter() - start, 3),
    }


def open_model(path: Path) -> Saved:
    """Load a model that `skout fit` saved."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no model {str(path)!r}.")
    try:
        metadata = describe(path, parts=False)["about"].get("metadata", {})
    except FileError as error:
        raise FileError(f"{path}: {error}") from error
    if "fit_spectra" in metadata:
        raise ValueError(f"{path} is a model of spectra: use it with `skout identify`.")
    record = metadata.get("command_line")
    if not isinstance(record, dict):
        raise ValueError(
            f"{path} does not say which columns it takes: it was saved from Python, not by "
            "`skout fit`. Use it with skout.load."
        )
    try:
        inputs = Inputs(**record["inputs"])
        targets = [Outputs.opened(entry["outputs"]) for entry in record.get("targets") or [record]]
        names = [name for outputs in targets for name in outputs.columns]
        if not all(isinstance(name, str) for name in (*inputs.columns, *names)):
            raise TypeError("columns have names that are no text")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} has columns that this skout does not know: {error}.") from error
    modules = [module for outputs in targets for module in outputs.kind.modules]
    model = load(path, modules=modules)
    models = [model] if len(targets) == 1 else [model.models_[target.name] for target in targets]
    first, *others = (
        Saved(fitted, inputs, outputs) for fitted, outputs in zip(models, targets, strict=True)
    )
    return replace(first, others=tuple(others))


def opened_files(
    model: Path, data: Path, candidates: Path | None, skip_invalid: bool
) -> tuple[Saved, Table, Any]:
    """Return the model, the table and the candidates that a command names."""
    saved, table = open_model(model), opened(data)
    if candidates is not None:
        saved.check_one_target("--candidates")
    return saved, table, saved.candidates(candidates, skip_invalid)


def predict_table(
    saved: Saved,
    table: Table,
    candidates: Any = None,
    keep: str | None = None,
    proba: bool = False,
) -> Iterator[dict[str, list[Any]]]:
    """Yield columns of predictions, with some of the table's own before them.

    At the end, categories that the training rows did not have are named.
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
    for value in list(named(unseen, saved.levels))[:_MOST_NOTES]:
        note(f"{value}.")
    if len(unseen) > _MOST_NOTES:
        note(f"{len(unseen) - _MOST_NOTES:,} more values were not in the training rows.")


def _kept(keep: str | None, table: Table, taken: Sequence[str]) -> list[str]:
    """Return the columns of --keep, none of which may be one of those that are written."""
    copied = select(keep, table.names, "--keep") if keep else []
    clash = [name for name in copied if name in set(taken)]
    if clash:
        raise ValueError(f"--keep: {clash[0]!r} is the name of a predicted column.")
    return copied


def predict_part(
    saved: Saved, table: Table, part: Part, candidates: Any, proba: bool = False
) -> tuple[dict[str, list[Any]], Unseen]:
    """Return columns of predictions for some rows, and the values that are new in them."""
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
    saved: Saved, table: Table, candidates: Any, k: int, keep: str | None = None
) -> Iterator[dict[str, list[Any]]]:
    """Yield columns query, rank, candidate and score, one row a query and rank, after columns of
    the table that are to be kept."""
    check_number(k, "-k", low=1, integer=True)
    inputs = saved.inputs
    copied = _kept(keep, table, ("query", "rank", "candidate", "score"))
    parts = table.parts(inputs.numbers, [*inputs.texts, *copied], inputs.reading)
    for part in progress(parts, "ranking"):
        ranked = rank_part(saved, table, part, candidates, k)
        at = [query - part.start for query in ranked["query"]]
        yield {**{name: [part.texts[name][i] for i in at] for name in copied}, **ranked}


def rank_part(
    saved: Saved, table: Table, part: Part, candidates: Any, k: int
) -> dict[str, list[Any]]:
    """Return columns query, rank, candidate and score for some rows."""
    saved.check_one_target("rank")
    if not saved.outputs.kind.has_candidates:
        what = saved.outputs.kind.plural
        hint = "predict --proba" if saved.classes else "predict"
        raise ValueError(f"The model predicts {what}: there is nothing to rank. Use {hint}.")
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


def evaluate_table(saved: Saved, table: Table, candidates: Any = None) -> dict[str, Any]:
    """Return the number of rows, and the metrics of the model's kind of output, by target."""
    if saved.others:
        scores = {target.outputs.name: evaluate_table(target, table) for target in saved.targets}
        return {"rows": max(score["rows"] for score in scores.values()), "targets": scores}
    return saved.evaluation(*joined(list(predicted_parts(saved, table, candidates))))


def joined(parts: Sequence["PredictedPart"]) -> tuple[Any, Any, np.ndarray | None]:
    """Return the truth, the predictions and the probabilities of several blocks as one."""
    probas = [part.proba for part in parts if part.proba is not None]
    return (
        join_truth([part.truth for part in parts]),
        join([part.predicted for part in parts]),
        np.concatenate(probas) if probas else None,
    )


def metrics_by_target(evaluations: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the metrics of several targets, as people read them."""
    return {
        f"{name}: {metric.replace('_', ' ')}" if name else metric: value
        for name, evaluation in evaluations.items()
        for metric, value in {
            **evaluation["metrics"],
            **evaluation.get("classes", {}).get("overall", {}),
        }.items()
    }


def join_truth(parts: Sequence[Any]) -> Any:
    """Return true outputs of several blocks as one; unknown labels may widen single blocks."""
    if sparse.issparse(parts[0]):
        width = max(part.shape[1] for part in parts)
        for part in parts:
            part.resize((part.shape[0], width))
    return join(parts)


@dataclass(frozen=True)
class PredictedPart:
    """Some rows of a table with what a model says of them, and in how many seconds."""

    part: Part
    X: Any
    truth: Any
    predicted: Any
    proba: np.ndarray | None
    seconds: float


def predicted_parts(
    saved: Saved, table: Table, candidates: Any = None, more: Sequence[str] = ()
) -> Iterator[PredictedPart]:
    """Yield rows with their target and the prediction, and `more` columns as text."""
    inputs, outputs = saved.inputs, saved.outputs
    numbers, texts, reading = wanted(inputs, outputs)
    parts = table.parts(numbers, list(dict.fromkeys([*texts, *more])), reading)
    for part in filter(len, map(outputs.observed, progress(parts, "evaluating"))):
        truth, X = outputs.read(table, part), inputs.read(table, part)
        start = time.perf_counter()
        predicted = saved.predict(X, candidates)
        seconds = time.perf_counter() - start
        yield PredictedPart(part, X, truth, predicted, saved.probabilities(X), seconds)
