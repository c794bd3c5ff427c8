"""`skout predict`, `rank`, `embed` and `evaluate`: what a model in a file says of a table."""

import time
import warnings
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from skout import load, save
from skout.decoding import EmbeddedPool
from skout.dev import check_number, join, n_rows, take
from skout.persistence import FileError, describe

from ..tables.files import Part, Table, is_table, listed, select
from .columns import NOT_CHOSEN, OUTPUTS, Inputs, Outputs
from .progress import opened, progress
from .scoring import MeanScore, NumberScore, new_score
from .settings import MODULES

__all__ = [
    "Judged",
    "Saved",
    "embed_file",
    "evaluate_table",
    "judged_parts",
    "open_model",
    "opened_files",
    "predict_part",
    "predict_table",
    "rank_part",
    "rank_table",
]


@dataclass(frozen=True)
class Saved:
    """A model of `skout fit`, and what its columns are."""

    model: Any
    inputs: Inputs
    outputs: Outputs

    @cached_property
    def chooser(self) -> Any:
        """The model as one that chooses among candidates; a tuned one may build its outputs."""
        searcher = getattr(self.model, "searcher_", None)
        if searcher is None:
            return self.model
        chooser = copy(self.model.best_estimator_)
        chooser.decoder_ = searcher
        return chooser

    def predict(self, X: Any, candidates: Any) -> Any:
        """Return the output of each row, among candidates if there are any."""
        if candidates is None:
            return self.model.predict(X)
        return self.chooser.predict(self.rows(X), candidates=candidates)

    def rows(self, X: Any) -> Any:
        """Return what the chooser takes: the numbers of a table, or X."""
        encoder = getattr(self.model, "encoder_", None)
        return X if encoder is None else encoder.transform(X)

    def candidates(self, path: Path | None, skip_invalid: bool = False) -> Any:
        """Return the candidates of a table or of `skout embed`; None for the training outputs."""
        if path is None:
            return None
        if self.outputs.kind in NOT_CHOSEN:
            raise ValueError(
                f"The model predicts {self.outputs.kind}, which are not chosen from candidates."
            )
        return self.embed(path, skip_invalid) if is_table(path) else self._embedded(path)

    def n_candidates(self, candidates: Any) -> int:
        """Return how many candidates there are, 0 for a model that has none."""
        if candidates is not None:
            return n_rows(candidates.objects)
        pool = getattr(getattr(self.chooser, "decoder_", None), "pool_", None)
        return 0 if pool is None else n_rows(pool)

    def new_score(self) -> MeanScore | NumberScore:
        """Return what gathers the metrics of the kind of output."""
        return new_score(self.outputs.kind, self.chooser)

    def evaluation(self, score: MeanScore | NumberScore) -> dict[str, Any]:
        """Return what `skout evaluate` says."""
        return {"rows": score.n, "output": self.outputs.kind, "metrics": score.result()}

    def embed(self, path: Path, skip_invalid: bool) -> EmbeddedPool:
        """Return the candidates of a table, embedded."""
        table, outputs, skipped, n, found = opened(path), self.outputs, [], 0, []
        parts = table.parts(outputs.numbers, outputs.texts, self.inputs.reading)
        for part in progress(parts, "candidates"):
            n += len(part)
            unfit = outputs.unfit(part) if skip_invalid else []
            skipped += [_shown(outputs, part, i) for i in unfit]
            if len(unfit) < len(part):
                fit = np.delete(np.arange(len(part)), unfit).tolist()
                found.append(outputs.candidates(table, part.take(fit) if unfit else part))
        if skipped:
            _tell_of(skipped, n, path)
        try:
            pool: EmbeddedPool = self.chooser.embed(join(found))
        except ValueError as error:
            if outputs.kind != "smiles":
                raise
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
            self.chooser.embed(pool)
        except ValueError as error:
            raise ValueError(
                f"{path} was embedded by another model, whose coordinates mean something else: "
                "make it again by `skout embed` with this model."
            ) from error
        return pool


def _shown(outputs: Outputs, part: Part, i: int) -> str:
    cell = f"{part.texts[outputs.columns[0]][i]!r} in " if outputs.is_text else ""
    return f"{cell}row {part.start + i}"


def _tell_of(skipped: list[str], n: int, path: Path) -> None:
    what = f"{len(skipped):,} of {n:,} candidates in {path} are invalid"
    if len(skipped) == n:
        raise ValueError(f"{what}: {listed(skipped)}. None is left.")
    warnings.warn(f"{what} and skipped: {listed(skipped)}.", stacklevel=3)


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
        fields = dict(record["outputs"])
        kind = fields["kind"] = OUTPUTS.spelled(str(fields["kind"]))
        if OUTPUTS[kind].kind == kind:  # which is no field of these
            del fields["kind"]
        outputs = OUTPUTS[kind](**fields)
        if not all(isinstance(name, str) for name in (*inputs.columns, *outputs.columns)):
            raise TypeError("columns have names that are no text")
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} has columns that this skout does not know: {error}.") from error
    return Saved(load(path, modules=MODULES), inputs, outputs)


def opened_files(
    model: Path, data: Path, candidates: Path | None, skip_invalid: bool
) -> tuple[Saved, Table, Any]:
    """Return the model, the table and the candidates that a command names."""
    saved, table = open_model(model), opened(data)
    return saved, table, saved.candidates(candidates, skip_invalid)


def predict_table(
    saved: Saved, table: Table, candidates: Any = None, keep: str | None = None
) -> Iterator[dict[str, list[Any]]]:
    """Yield columns of predictions, with some of the table's own before them."""
    inputs, outputs = saved.inputs, saved.outputs
    copied = select(keep, table.names, "--keep") if keep else []
    clash = [name for name in copied if name in set(outputs.columns)]
    if clash:
        raise ValueError(f"--keep: {clash[0]!r} is the name of a predicted column.")
    parts = table.parts(inputs.numbers, [*inputs.texts, *copied], inputs.reading)
    for part in progress(parts, "predicting"):
        found = predict_part(saved, table, part, candidates)
        yield {**{name: part.texts[name] for name in copied}, **found}


def predict_part(saved: Saved, table: Table, part: Part, candidates: Any) -> dict[str, list[Any]]:
    """Return columns of predictions for some rows."""
    return saved.outputs.cells(saved.predict(saved.inputs.read(table, part), candidates))


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
    if saved.outputs.kind in NOT_CHOSEN:
        raise ValueError(
            f"The model predicts {saved.outputs.kind}: there is nothing to rank. Use predict."
        )
    model = saved.chooser
    indices, scores = model.rank(saved.rows(saved.inputs.read(table, part)), candidates, k=k)
    pool = model.decoder_.pool_ if candidates is None else candidates.objects
    found, place = np.unique(indices, return_inverse=True)
    words = saved.outputs.words(take(pool, found))
    n, width = indices.shape
    return {
        "query": np.repeat(np.arange(part.start, part.start + n), width).tolist(),
        "rank": np.tile(np.arange(1, width + 1), n).tolist(),
        "candidate": [words[j] for j in np.ravel(place)],
        "score": np.ravel(scores).tolist(),
    }


def evaluate_table(saved: Saved, table: Table, candidates: Any = None) -> dict[str, Any]:
    """Return the number of rows, and the metrics of the model's kind of output."""
    score = saved.new_score()
    for one in judged_parts(saved, table, candidates):
        score.add(one.truth, one.found)
    return saved.evaluation(score)


@dataclass(frozen=True)
class Judged:
    """Some rows of a table with what a model says of them, and in how many seconds."""

    part: Part
    X: Any
    truth: Any
    found: Any
    seconds: float


def judged_parts(
    saved: Saved, table: Table, candidates: Any = None, more: Sequence[str] = ()
) -> Iterator[Judged]:
    """Yield rows with their target and the prediction, and `more` columns as text."""
    inputs, outputs = saved.inputs, saved.outputs
    texts = list(dict.fromkeys([*inputs.texts, *outputs.texts, *more]))
    parts = table.parts([*inputs.numbers, *outputs.numbers], texts, inputs.reading)
    for part in progress(parts, "evaluating"):
        truth, X = outputs.read(table, part), inputs.read(table, part)
        start = time.perf_counter()
        found = saved.predict(X, candidates)
        yield Judged(part, X, truth, found, time.perf_counter() - start)
