"""`skout predict`, `rank`, `embed` and `evaluate`: what a model in a file says of a table."""

import time
import warnings
from collections.abc import Iterator, Sequence
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

from ..tables.encoder import EncodedRows
from ..tables.files import Part, Table, is_table, listed, select
from .columns import Inputs, Outputs, wanted
from .progress import opened, progress

# Samples of the rows that standard errors of what is no mean over rows come from.
_SAMPLES = 200


@dataclass(frozen=True)
class Scores:
    """Predictions of a kind of output beside the truth."""

    kind: Kind
    truth: Any
    found: Any

    @cached_property
    def each(self) -> dict[str, np.ndarray]:
        """The measures of each row; the first is the main one."""
        return self.kind.measures(self.truth, self.found)

    @cached_property
    def metrics(self) -> dict[str, float | None]:
        """The measures of all rows together."""
        return self.kind.evaluate(self.truth, self.found)

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
            drawn = self.kind.evaluate(take(self.truth, rows), take(self.found, rows))
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
            names = listed([one.outputs.name for one in self.targets])
            raise ValueError(f"{what} is for models of one target, and this one has: {names}.")

    @property
    def _chooser(self) -> Any:
        """What embeds candidates; a tuned model may build its outputs, and has another decoder."""
        return getattr(self.model, "searcher_", self.model)

    @property
    def pool(self) -> Any:
        """The training outputs that are chosen from, None where there are none."""
        return getattr(getattr(self._chooser, "decoder_", self._chooser), "pool_", None)

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

    def scores(self, truth: Any, found: Any) -> Scores:
        """Return how good predictions are."""
        return Scores(self.outputs.kind, truth, found)

    def evaluation(self, truth: Any, found: Any) -> dict[str, Any]:
        """Return what `skout evaluate` says."""
        metrics = self.scores(truth, found).metrics
        return {"rows": n_rows(truth), "output": self.outputs.kind.name, "metrics": metrics}

    def embed(self, path: Path, skip_invalid: bool) -> EmbeddedPool:
        """Return the candidates of a table, embedded."""
        table, outputs, skipped, n, found = opened(path), self.outputs, [], 0, []
        parts = table.parts(outputs.numbers, outputs.texts, self.inputs.reading)
        for part in progress(parts, "candidates"):
            n += len(part)
            wrong = outputs.kind.unreadable(outputs.cells_of(part)) if skip_invalid else []
            skipped += [_shown(outputs, part, i) for i in wrong]
            if len(wrong) < len(part):
                right = np.delete(np.arange(len(part)), wrong).tolist()
                found.append(outputs.read(table, part.take(right) if wrong else part, True))
        what = f"{len(skipped):,} of {n:,} candidates in {path} are invalid"
        if not found:
            raise ValueError(f"{what}: {listed(skipped)}. None is left.")
        if skipped:
            warnings.warn(f"{what} and skipped: {listed(skipped)}.", stacklevel=2)
        try:
            pool: EmbeddedPool = self._chooser.embed(join(found))
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
        targets = [Outputs.opened(one["outputs"]) for one in record.get("targets") or [record]]
        names = [name for outputs in targets for name in outputs.columns]
        if not all(isinstance(name, str) for name in (*inputs.columns, *names)):
            raise TypeError("columns have names that are no text")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} has columns that this skout does not know: {error}.") from error
    modules = [module for outputs in targets for module in outputs.kind.modules]
    model = load(path, modules=modules)
    models = [model] if len(targets) == 1 else [model.models_[one.name] for one in targets]
    first, *others = (
        Saved(one, inputs, outputs) for one, outputs in zip(models, targets, strict=True)
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
    saved: Saved, table: Table, candidates: Any = None, keep: str | None = None
) -> Iterator[dict[str, list[Any]]]:
    """Yield columns of predictions, with some of the table's own before them."""
    inputs = saved.inputs
    copied = select(keep, table.names, "--keep") if keep else []
    predicted = {name for one in saved.targets for name in one.outputs.columns}
    clash = [name for name in copied if name in predicted]
    if clash:
        raise ValueError(f"--keep: {clash[0]!r} is the name of a predicted column.")
    parts = table.parts(inputs.numbers, [*inputs.texts, *copied], inputs.reading)
    for part in progress(parts, "predicting"):
        found = predict_part(saved, table, part, candidates)
        yield {**{name: part.texts[name] for name in copied}, **found}


def predict_part(saved: Saved, table: Table, part: Part, candidates: Any) -> dict[str, list[Any]]:
    """Return columns of predictions for some rows."""
    X = saved.inputs.read(table, part)
    encoder = getattr(saved.model, "encoder_", None)
    if saved.others and encoder is not None:
        X = EncodedRows.of(encoder.transform(X), encoder)  # once for all targets
    cells = {}
    for one in saved.targets:
        cells |= one.outputs.cells(one.predict(X, candidates))
    return cells


def rank_table(
    saved: Saved, table: Table, candidates: Any, k: int
) -> Iterator[dict[str, list[Any]]]:
    """Yield columns query, rank, candidate and score: one row a query and rank."""
    check_number(k, "-k", low=1, integer=True)
    inputs = saved.inputs
    for part in progress(table.parts(inputs.numbers, inputs.texts, inputs.reading), "ranking"):
        yield rank_part(saved, table, part, candidates, k)


def rank_part(
    saved: Saved, table: Table, part: Part, candidates: Any, k: int
) -> dict[str, list[Any]]:
    """Return columns query, rank, candidate and score for some rows."""
    saved.check_one_target("rank")
    if not saved.outputs.kind.has_candidates:
        what = saved.outputs.kind.plural
        raise ValueError(f"The model predicts {what}: there is nothing to rank. Use predict.")
    indices, scores = saved.model.rank(saved.inputs.read(table, part), candidates, k=k)
    pool = saved.pool if candidates is None else candidates.objects
    found, place = np.unique(indices, return_inverse=True)
    words = saved.outputs.kind.write(take(pool, found))
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
        found = {one.outputs.name: evaluate_table(one, table) for one in saved.targets}
        return {"rows": max(one["rows"] for one in found.values()), "targets": found}
    parts = [(one.truth, one.found) for one in predicted_parts(saved, table, candidates)]
    truth, found = zip(*parts, strict=True)
    return saved.evaluation(join_truth(truth), join(found))


def metrics_by_target(evaluations: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the metrics of several targets, as people read them."""
    return {
        f"{name}: {metric.replace('_', ' ')}": value
        for name, evaluation in evaluations.items()
        for metric, value in evaluation["metrics"].items()
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
    found: Any
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
        found = saved.predict(X, candidates)
        yield PredictedPart(part, X, truth, found, time.perf_counter() - start)
