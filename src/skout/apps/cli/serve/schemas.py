"""The schemas of requests and answers, for parsing and for the OpenAPI description."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from .limits import Limits, Refused
from .outline import outline

_Row = dict[str, int | float | str | None]
_ROW: TypeAdapter[_Row] = TypeAdapter(_Row)
Request = TypeVar("Request", bound=BaseModel)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RowsRequest(_Strict):
    """Rows to predict: give `rows` or `table`."""

    rows: list[_Row] | None = Field(
        None, description="Each row is an object from the names of columns to numbers or text."
    )
    table: str | None = Field(None, description="The text of a CSV or TSV file with a header.")


class PredictRequest(RowsRequest):
    """Rows to predict, with probabilities of classes or labels if they are requested."""

    proba: bool = Field(
        False, description="Whether to add the probability of each class to each row."
    )


class RankRequest(RowsRequest):
    """Rows to rank candidates for."""

    top: int = Field(10, description="How many candidates for each row.")
    draw: bool = Field(False, description="Whether to draw molecules, as SVG.")


class SpectraRequest(_Strict):
    """Spectra to identify."""

    spectra: str = Field(description="Text of MGF, MSP, MassBank, .ms or JSON of GNPS.")
    ppm: float = Field(10.0, gt=0, le=100, description="Largest error of a candidate's mass.")
    top: int = Field(10, description="How many candidates for each spectrum.")
    adduct: str | None = Field(
        None,
        max_length=40,
        description="The adduct of spectra without one: [M+H]+, or by polarity [M+H]+,[M-H]-.",
    )
    draw: bool = Field(False, description="Whether to draw the molecules of the first 25 spectra.")
    explain: int = Field(
        0, ge=0, le=10, description="The number of hits of each of these whose peaks are explained."
    )


class UnseenCategory(BaseModel):
    """A value of a category that no training row had."""

    column: str
    value: str
    rows: int = Field(description="The number of rows with it.")
    nearest: str | None = Field(
        description="The training value that is spelled most like it, if any."
    )
    note: str


class Predictions(BaseModel):
    """What the model predicts: the columns that `skout predict` writes."""

    model: str = Field(description="The start of the checksum of the model's file.")
    output: str
    rows: list[dict[str, Any]] = Field(
        description="Predicted columns, and `probabilities` by class if `proba` was true."
    )
    unseen: list[UnseenCategory]


class Candidate(BaseModel):
    """A candidate of a ranking."""

    rank: int
    candidate: str
    score: float | None
    svg: str | None = None


class Ranking(BaseModel):
    """The candidates of a row, best first."""

    query: int = Field(description="Number of the row, from 1.")
    candidates: list[Candidate]


class RankedRows(BaseModel):
    """The best candidates of each row, as from `skout rank`."""

    model: str
    output: str
    rows: list[Ranking]


class IdentifiedMolecule(BaseModel):
    """A molecule that a spectrum may be of."""

    rank: int
    smiles: str
    name: str
    formula: str
    mass: float | None
    score: float | None
    confidence: float | None = Field(description="Probability, if the molecule is in the pool.")
    in_set: bool = Field(description="Whether it is in the prediction set.")
    index: int = Field(description="Its row in the pool.")
    svg: str | None = None


class IdentifiedSpectrum(BaseModel):
    """The candidates of a spectrum, best first."""

    query: str
    record: int
    precursor_mz: float | None
    adduct: str
    mass: float | None
    hits: list[IdentifiedMolecule]
    n_candidates: int
    n_in_set: int
    seconds: float
    note: str = Field(description="Why there are no hits.")
    explanations: list[dict[str, Any] | None] = Field(description="Peaks, of the first hits.")


class Identifications(BaseModel):
    """The best candidates of each spectrum, as from `skout identify`."""

    model: str
    spectra: list[IdentifiedSpectrum]


class Reason(BaseModel):
    """Why a request was refused."""

    status: int
    message: str


class Failure(BaseModel):
    """The answer to a refused request."""

    error: Reason


def parse(schema: type[Request], body: bytes, limits: Limits | None = None) -> Request:
    """Return the request in a body, or refuse it and say what is wrong.

    Rows and cells are counted before anything is built. Then rows are parsed one after the other,
    up to the first that is wrong, so that other threads can run between them.
    """
    parts = outline(body, limits or Limits())
    try:
        request = schema.model_validate_json(parts.shell)
    except ValidationError as error:
        raise _refused(error) from None
    if len(parts.lists) > 1:
        raise Refused(422, "rows: the field is given more than once.")
    if isinstance(request, RowsRequest) and request.rows is not None:
        request.rows.extend(_row(pieces, i) for i, pieces in enumerate(parts.rows()))
    return request


def _row(pieces: list[bytes], i: int) -> _Row:
    """Return the row that the pieces of a body make."""
    try:
        parts = [_ROW.validate_json(piece) for piece in pieces]
    except ValidationError as error:
        raise _refused(error, "rows", i) from None
    if len(parts) > 1 and not all(parts):
        raise Refused(400, f"rows.{i}: Invalid JSON: nothing before or after a comma.")
    row = parts[0]
    for part in parts[1:]:
        row.update(part)
    return row


def _refused(error: ValidationError, *place: str | int) -> Refused:
    """Return the refusal for the first of the errors, with its place in the body."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(name)[:80] for name in (*place, *first["loc"]))
    status = 400 if first["type"] == "json_invalid" else 422
    is_extra = first["type"] == "extra_forbidden"
    reason = "there is no such field, see /openapi.json" if is_extra else first["msg"]
    return Refused(status, f"{where}: {reason}" if where else reason)
