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
# Outputs beyond which a basis is sketched by as many landmarks: the exact basis has a coordinate
# for each distinct output.
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
    #: The name of what `score` returns.
    metric: ClassVar[str] = "similarity"
    #: The name of `baseline`, the prediction that ignores the inputs.
    baseline_name: ClassVar[str] = "the most frequent output"
    #: "classifier" or "regressor" where models are such to scikit-learn. The score of a regressor
    #: is the mean R2 of its coordinates, and the `measures` of a row are errors.
    estimator_type: ClassVar[str | None] = None
    #: Whether an output can be chosen among candidates.
    has_candidates: ClassVar[bool] = True
    #: Whether its basis has `probabilities` and `scores` of predicted coordinates.
    has_probabilities: ClassVar[bool] = False
    #: Whether objects are texts, which kernels on strings and on SMILES take.
    are_texts: ClassVar[bool] = False
    #: Names of the kind in other libraries.
    elsewhere: ClassVar[tuple[str, ...]] = ()
    #: How pages show its words: as "text", "chips", an "order", or "bars" of numbers.
    style: ClassVar[str] = "text"
    #: The beginning of default names of its columns, where it may be in columns of numbers.
    part: ClassVar[str] = ""
    #: The separator between the words of an output in a cell.
    separator: ClassVar[str] = " "
    #: Classes and functions that models of it need in `skout.load`, such as a kernel of your own.
    modules: ClassVar[tuple[Callable[..., object], ...]] = ()

    @property
    def plural(self) -> str:
        """The name of several outputs, in sentences."""
        return self.name.replace("_", " ")

    # Outputs in Python ----------------------------------------------------------------------------

    def recognizes(self, Y: Objects) -> bool:
        """Whether outputs may be of this kind; several kinds may recognize the same outputs."""
        return False

    def check(self, Y: Objects) -> Any:
        """Return outputs in the form that the other methods take, or raise an error."""
        Y = column_of(Y)
        return Y.to_numpy() if hasattr(Y, "to_numpy") else Y

    # Models ---------------------------------------------------------------------------------------

    def basis(self, Y: Objects, random_state: int) -> KernelBasis:
        """Return the basis, not fitted, whose coordinates models of these outputs predict."""
        sketch = SubSample(_LANDMARKS) if n_rows(Y) > _LANDMARKS else None
        return KernelBasis(self.kernel, sketch, random_state=random_state)

    def decoders(self, Y: Objects) -> dict[str, Decoder]:
        """Return decoders of the basis's coordinates by name, of which `Tuned` chooses one."""
        return {"candidates": CandidateDecoder()}

    def is_binary(self, Y: Objects) -> bool:
        """Whether each coordinate has two values, so that logistic models can predict it."""
        return False

    def baseline(self, Y: Objects, sample_weight: np.ndarray | None = None) -> Objects:
        """Return the prediction of a model without inputs, one row: the most frequent output."""
        baseline: Objects = take(Y, most_frequent(self.kernel.encode(Y), sample_weight))
        return baseline

    # Scores: the greater, the better --------------------------------------------------------------

    def row_scores(self, true: Objects, pred: Objects) -> np.ndarray:
        """Return the score of each prediction, shape (n,): here the similarity by the kernel."""
        return similarities(self.kernel, true, pred)

    def score(self, true: Objects, pred: Objects, sample_weight: np.ndarray | None = None) -> float:
        """Return the score of predictions, the greater the better: the mean of `row_scores`.

        It does not depend on parameters of a model, so that models can be chosen by it.
        """
        scores = self.row_scores(true, pred)
        if sample_weight is None:
            return float(np.mean(scores))
        return weighted_mean(scores, sample_weight)

    def decoded_scores(
        self, decoders: Sequence[Decoder], F: np.ndarray, true: Objects
    ) -> np.ndarray:
        """Return `row_scores` of the outputs that each decoder decodes from F, (n_decoders, n).

        Override it where decoders share work: `Tuned` spends its time here.
        """
        F = F.astype(np.float64, copy=False)
        return np.array([self.row_scores(true, decoder.decode(F)) for decoder in decoders])

    def measures(self, true: Objects, pred: Objects) -> dict[str, np.ndarray]:
        """Return the metrics of each row by name, each of shape (n,); the first is the main one."""
        exact = row_matches(self.kernel, true, pred)
        return {self.metric: self.row_scores(true, pred), "exact_matches": exact}

    def evaluate(self, true: Objects, pred: Objects) -> dict[str, float | None]:
        """Return the metrics of all rows by name, the means of `measures`; None is undefined."""
        return {name: float(np.mean(rows)) for name, rows in self.measures(true, pred).items()}

    # Cells of tables ------------------------------------------------------------------------------

    def reads_text(self, n_columns: int) -> bool:
        """Whether outputs in this number of columns are read from text, not from numbers."""
        return True

    def named(self, columns: Sequence[str]) -> Self:
        """Return a copy of the kind with the names of the columns that outputs are in."""
        return self

    def learn(self, cells: Cells, columns: Sequence[str]) -> Self:
        """Return a copy of the kind with what it learns from training cells, such as label names.

        It is called for one block of rows after the other.
        """
        return self.named(columns)

    def read(self, cells: Cells) -> Objects:
        """Return the outputs that cells hold.

        The text of its ValueError continues "row 3 has ...".
        """
        raise TypeError(f"{self.plural} cannot be read from the cells of a table.")

    def read_candidates(self, cells: Cells) -> Objects:
        """Return the outputs in cells, or raise where the model cannot predict one of them."""
        return self.read(cells)

    def unreadable(self, cells: Cells) -> list[int]:
        """Return the numbers, from 0, of the rows that `read_candidates` raises for."""
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
        """Return each output as the text of one cell."""
        return [self.separator.join(words) for words in self.words(objects)]

    def to_columns(self, objects: Objects) -> np.ndarray:
        """Return outputs as columns of numbers, (n, n_columns), of kinds in such columns."""
        return np.reshape(np.asarray(objects), (n_rows(objects), -1))

    # Words and pictures ---------------------------------------------------------------------------

    def words(self, objects: Objects) -> list[list[str]]:
        """Return the words of each output, such as its labels, which pages show in the `style`."""
        return [[str(output)] for output in as_objects(objects)]

    def split(self, cells: Cells) -> list[list[str]]:
        """Return the words of each cell of text: `words` of the output that `read` reads in it."""
        return [[cell.strip()] for cell in cells]

    def names(self, Y: Objects) -> list[str]:
        """Return default names for the columns of outputs."""
        return [f"{self.part}{j}" for j in range(np.shape(Y)[1])] if self.part else [self.name]

    def notice(self) -> str:
        """Return a warning where cells may have been read otherwise than meant, else ""."""
        return ""

    def picture(self, text: str) -> str:
        """Return a drawing as SVG of an output that `write` wrote; "" if the kind has none."""
        return ""


def filled(cells: Cells) -> Cells:
    """Return cells of text, or raise a ValueError where one is empty."""
    if not all(map(str.strip, cells)):
        raise ValueError("nothing in its cell: fill it, or leave out the row.")
    return cells


def most_frequent(rows: Objects, sample_weight: np.ndarray | None = None) -> list[int]:
    """Return the position of the first copy of the most frequent row, in a list.

    Ties go to the earliest row.
    """
    first, number = unique(rows)
    return [int(first[np.argmax(np.bincount(number, sample_weight))])]


def values_of(Y: Objects) -> Any:
    """Return outputs as an array, of one column without missing values.

    Sparse matrices come back as they are, and objects that make no array as an array of objects.
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
    """Return an array of objects as floats, with NaN for missing values."""
    numbers = [np.nan if is_gap(value) else value for value in values.ravel()]
    return np.array(numbers, dtype=np.float64).reshape(values.shape)


class Coordinates(TransformerMixin, PartsByName):
    """Base class of bases whose coordinates have a formula, without landmarks."""

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
