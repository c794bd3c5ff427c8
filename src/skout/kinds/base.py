"""`Kind`: the interface of kinds of outputs, which `Tuned`, `score`, tables and reports use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import TransformerMixin

from .._numerics.arrays import n_rows, take, unique
from .._numerics.estimators import PartsByName
from .._numerics.objects import as_objects, column_of, is_gap
from .._numerics.typing import Objects
from ..basis import KernelBasis
from ..decoding import CandidateDecoder, Decoder
from ..kernels import Kernel
from ..metrics._checks import weighted_mean
from ..metrics.objects import similarities
from ..metrics.scoring import row_matches
from ..rows import Source
from ..sketches import SubSample

#: Cells of a table: those of one column of text, or numbers of shape (n, n_columns).
Cells = Sequence[str] | np.ndarray
# Distinct outputs that coordinates are those of, at most: the exact basis is as wide as they are
# many.
_LANDMARKS = 1000


@dataclass(frozen=True)
class Kind:
    """A kind of output: how it is recognized, read, predicted, measured and shown.

    `Tuned`, `score`, the commands, their reports and pages use this interface, and know nothing
    else about an output. One of your own is a subclass with a `name`, a `kernel`, and `read` and
    `write` if it is in tables; all else has a default. ``KINDS["intervals"] = Intervals()``
    registers it, and `skout.testing.check_kind` checks it.

    Outputs are what a user has n of: an array, a sparse matrix or a list of objects. A kind with
    fields, such as the names of labels, is a frozen dataclass of text, numbers and lists of these:
    models of the command line keep them in their files.
    """

    #: Its key in `KINDS`, and what `Kernel.compares` of kernels on its objects is.
    name: ClassVar[str]
    #: The similarity of two outputs. Kinds with coordinates of their own do not use it.
    kernel: ClassVar[Kernel]
    #: What `score` is called.
    metric: ClassVar[str] = "similarity"
    #: What the prediction that ignores the inputs is called, see `baseline`.
    baseline_name: ClassVar[str] = "the most frequent output"
    #: "classifier" or "regressor" where scikit-learn has a word for its models. Of a regressor the
    #: score is the mean over coordinates of their R2, and the `measures` of a row are errors.
    estimator_type: ClassVar[str | None] = None
    #: Whether an output can be chosen among candidates.
    has_candidates: ClassVar[bool] = True
    #: Whether its basis has `probabilities` and `scores` of predicted coordinates.
    has_probabilities: ClassVar[bool] = False
    #: Whether objects are texts, which kernels on strings and on SMILES take.
    are_texts: ClassVar[bool] = False
    #: What other libraries call the kind.
    elsewhere: ClassVar[tuple[str, ...]] = ()
    #: How pages show its words: as "text", "chips", an "order", or "bars" of numbers.
    style: ClassVar[str] = "text"
    #: What each of the columns of numbers that it may be in is called, such as a label.
    part: ClassVar[str] = ""
    #: What is between the words of an output in a cell.
    separator: ClassVar[str] = " "
    #: Classes and functions that models of it need in `skout.load`, such as a kernel of your own.
    modules: ClassVar[tuple[Callable[..., object], ...]] = ()

    @property
    def plural(self) -> str:
        """What outputs are called."""
        return self.name.replace("_", " ")

    # Outputs in Python ----------------------------------------------------------------------------

    def recognizes(self, Y: Objects) -> bool:
        """Whether outputs may be of this kind; where several kinds fit, the user must name one."""
        return False

    def check(self, Y: Objects) -> Any:
        """Return outputs as all other methods take them, or raise and say what is wrong."""
        Y = column_of(Y)
        return Y.to_numpy() if hasattr(Y, "to_numpy") else Y

    # Models ---------------------------------------------------------------------------------------

    def basis(self, Y: Objects, random_state: int) -> KernelBasis:
        """Return the coordinates that models of these outputs predict."""
        sketch = SubSample(_LANDMARKS) if n_rows(Y) > _LANDMARKS else None
        return KernelBasis(self.kernel, sketch, random_state=random_state)

    def decoders(self, Y: Objects) -> dict[str, Decoder]:
        """Return decoders of these coordinates by name, of which `Tuned` chooses one."""
        return {"candidates": CandidateDecoder()}

    def is_binary(self, Y: Objects) -> bool:
        """Whether each coordinate has two values, so that logistic models can predict it."""
        return False

    def baseline(self, Y: Objects, sample_weight: np.ndarray | None = None) -> Objects:
        """Return the output, one row, that a model without inputs predicts: the most frequent."""
        baseline: Objects = take(Y, most_frequent(self.kernel.encode(Y), sample_weight))
        return baseline

    # Scores: the greater, the better --------------------------------------------------------------

    def row_scores(self, true: Objects, pred: Objects) -> np.ndarray:
        """Return the score of each prediction, shape (n,): here the similarity by the kernel."""
        return similarities(self.kernel, true, pred)

    def score(self, true: Objects, pred: Objects, sample_weight: np.ndarray | None = None) -> float:
        """Return how good predictions are: the mean of `row_scores`.

        It depends on no parameter of a model, so that models can be chosen by it.
        """
        scores = self.row_scores(true, pred)
        if sample_weight is None:
            return float(np.mean(scores))
        return weighted_mean(scores, sample_weight)

    def decoded_scores(
        self, decoders: Sequence[Decoder], F: np.ndarray, true: Objects
    ) -> np.ndarray:
        """Return `row_scores` of what each decoder makes of coordinates F, (n_decoders, n).

        To override is for kinds whose decoders share work: `Tuned` spends its time here.
        """
        F = F.astype(np.float64, copy=False)
        return np.array([self.row_scores(true, decoder.decode(F)) for decoder in decoders])

    def measures(self, true: Objects, pred: Objects) -> dict[str, np.ndarray]:
        """Return what evaluations say of each row, (n,) by name; the first is the main one."""
        exact = row_matches(self.kernel, true, pred)
        return {self.metric: self.row_scores(true, pred), "exact_matches": exact}

    def evaluate(self, true: Objects, pred: Objects) -> dict[str, float | None]:
        """Return what evaluations say of all rows: the means of `measures`; None is no value."""
        return {name: float(np.mean(rows)) for name, rows in self.measures(true, pred).items()}

    # Cells of tables ------------------------------------------------------------------------------

    def reads_text(self, n_columns: int) -> bool:
        """Whether so many columns hold text; if so, they are one column."""
        return True

    def named(self, columns: Sequence[str]) -> Self:
        """Return the kind with the names of the columns that outputs are in."""
        return self

    def learn(self, cells: Cells, columns: Sequence[str]) -> Self:
        """Return the kind with what it needs to know of training cells, such as label names.

        It is called for one block of rows after the other.
        """
        return self.named(columns)

    def read(self, cells: Cells) -> Objects:
        """Return the outputs in cells.

        Raises a ValueError that says what a cell has, to be read after "row 3 has".
        """
        raise TypeError(f"{self.plural} cannot be read from the cells of a table.")

    def read_candidates(self, cells: Cells) -> Objects:
        """Return outputs which a model that learned from other cells must be able to predict."""
        return self.read(cells)

    def unreadable(self, cells: Cells) -> list[int]:
        """Return the rows, from 0, whose cells can be no candidates."""
        try:
            self.read_candidates(cells)
        except ValueError:
            if len(cells) == 1:
                return [0]
            half = len(cells) // 2
            second = [half + i for i in self.unreadable(cells[half:])]
            return self.unreadable(cells[:half]) + second
        return []

    def write(self, objects: Objects) -> list[str]:
        """Return each output as one text: the cell of a column, a candidate of a list."""
        return [self.separator.join(words) for words in self.words(objects)]

    def to_columns(self, objects: Objects) -> np.ndarray:
        """Return outputs as columns of numbers, (n, n_columns), if they are in such columns."""
        return np.reshape(np.asarray(objects), (n_rows(objects), -1))

    # Words and pictures ---------------------------------------------------------------------------

    def words(self, objects: Objects) -> list[list[str]]:
        """Return each output as words, such as labels, as pages show them in their `style`."""
        return [[str(output)] for output in as_objects(objects)]

    def split(self, cells: Cells) -> list[list[str]]:
        """Return cells of text as words, as `words` would return what `read` makes of them."""
        return [[cell.strip()] for cell in cells]

    def names(self, Y: Objects) -> list[str]:
        """Return names of the columns of outputs that have none."""
        return [f"{self.part}{j}" for j in range(np.shape(Y)[1])] if self.part else [self.name]

    def notice(self) -> str:
        """Return a remark where cells may have been read otherwise than meant, else ""."""
        return ""

    def picture(self, text: str) -> str:
        """Return the drawing of an output, as `write` writes it, as SVG; empty if there is none."""
        return ""


def filled(cells: Cells) -> Cells:
    """Return cells of text, or raise where one is empty."""
    if not all(map(str.strip, cells)):
        raise ValueError("nothing in its cell: fill it, or leave out the row.")
    return cells


def most_frequent(rows: Objects, sample_weight: np.ndarray | None = None) -> list[int]:
    """Return where the most frequent row is first, in a list; ties go to the earliest row."""
    first, number = unique(rows)
    return [int(first[np.argmax(np.bincount(number, sample_weight))])]


def values_of(Y: Objects) -> Any:
    """Return outputs as an array, without what is missing if they are one column.

    Sparse matrices come back as they are, and objects that make no array as an array of them.
    """
    outputs: Any = column_of(Y)
    outputs = outputs.to_numpy() if hasattr(outputs, "to_numpy") else outputs
    if sparse.issparse(outputs):
        return outputs
    try:
        values = np.asarray(outputs)
        if values.dtype != object or values.ndim == 0:
            return values
        if values.ndim > 1:
            return floats(values)
        filled = np.array([value for value in values if not is_gap(value)])
        return filled if filled.dtype != object else filled.astype(np.float64)
    except (ValueError, TypeError):
        return as_objects(list(outputs))


def floats(values: np.ndarray) -> np.ndarray:
    """Return numbers in an array of objects; those that are missing are NaN."""
    numbers = [np.nan if is_gap(value) else value for value in values.ravel()]
    return np.array(numbers, dtype=np.float64).reshape(values.shape)


class Coordinates(TransformerMixin, PartsByName):
    """A basis whose coordinates have a formula, and need no landmarks."""

    rank_: int
    kernel_: Any
    landmarks_: Any
    device = None

    def coordinates(self, rows: Source, out: np.ndarray | None = None) -> np.ndarray:
        Z: np.ndarray = self.transform(rows.load())
        if out is None:
            return Z
        out[...] = Z
        return out
