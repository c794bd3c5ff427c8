"""The commands `look`, `fit`, `predict`, `rank`, `embed` and `evaluate`."""

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from .options import (
    DATA,
    AsJson,
    Candidates,
    Data,
    Format,
    Keep,
    Model,
    NewModel,
    Rows,
    SkipInvalid,
    Text,
)
from .results import check_format, check_place, say_written, show, write_rows

Columns = list[str] | None  # an option that may be given again
Flag = bool | None

_TARGET = 'The columns to predict: "y", "a,b" or "tag_*"; give it again for each further target.'
_KIND = (
    "The kind of a column: artist=category, tags=set, year=number, x=drop; give it again for each "
    "further column."
)
_OUTPUT = (
    "The kind of the target: label_sets, rankings, classes, numbers, strings, smiles; default what "
    "the cells suggest."
)
_INPUT_KERNEL = 'The kernel of inputs, with parameters: "gaussian:0.5", "ngram:4".'
_OUTPUT_KERNEL = 'The kernel of outputs: "f1", "tanimoto", "kendall".'
_INPUT_SKETCH = 'The sketch of inputs: "subsample:500" keeps 500 rows, "none" is exact.'
_OUTPUT_SKETCH = 'The sketch of outputs: "p_sparsified:200" has 200 coordinates, "none" is exact.'
_ALPHA = "The ridge penalty, default 0.001; of several, each given by --alpha, the best is chosen."
_DECODER = "How outputs are found: candidates, label_sets, rankings or strings."
_SEPARATORS = "The characters between the labels of a cell; default those that the cells have."
_MEMORY = "MB of the table that are held in memory, default 256; larger tables are streamed."
_INPUTS = (
    "The input columns; default all others but ids, and with --no-tune those of numbers, or the "
    "only one of text."
)
_DROP = "Columns to leave out of the inputs."
_STANDARDIZE = (
    'Center and scale the inputs; default yes, but no for a kernel with a width: "gaussian:0.5".'
)
_MISSING = (
    'Missing input numbers: "error" refuses, "mean" fills them; default the model takes them.'
)
_STRICT = "Refuse cells that are no number in a column of numbers, or no date in one of dates."
_DAY_FIRST = "Read 3/4/2024 as 3 April where its column does not tell; default as March 4."
_TUNE = "Choose the model by validation; default yes, unless an option says what the model is."
_BUDGET = 'The seconds to choose a model in, default 60, or a number of fits: "40 fits".'
_SCORING = "The score to choose by: accuracy, log_loss, roc_auc, f1; default that of the kind."
_CONFIG = "A TOML file with these options; those on the command line win."
_PROBA = "Add a column P(...) for each class or label, with its probability."
_K = "The number of candidates for each row."
_POOL = "The file to write, such as pool.skpool, to be given to --candidates."
_ONE_SCORE = "Print this score alone: accuracy, log_loss, roc_auc, f1_macro, rmse."


def look(
    data: Data,
    target: Annotated[Columns, Option(help=_TARGET)] = None,
    kind: Annotated[Columns, Option(help=_KIND)] = None,
    as_json: AsJson = False,
) -> None:
    """Show the kind of each column of a table, without fitting a model.

    `skout fit` reads columns so, too, unless --kind, --separators, --inputs or --drop overrule it.

    Example: skout look train.csv --target tags
    """
    from .choosing import choose_columns
    from .looking import look_at_table, print_looks
    from .progress import open_with_notes
    from .settings import merge

    settings = merge({"target": target, "kind": kind}, None)
    table = open_with_notes(data)
    outputs = choose_columns(table, settings, mixed=True)[1] if target else []
    looks = look_at_table(table, outputs, settings.kind)
    if as_json:
        print(json.dumps(looks, indent=2, ensure_ascii=False))
    else:
        print_looks(looks)


def fit(
    data: Annotated[Path, Argument(help=f"{DATA} (with X and Y).")],
    out: NewModel = Path("model.skout"),
    target: Annotated[Columns, Option(help=_TARGET)] = None,
    output: Annotated[Text, Option(help=_OUTPUT)] = None,
    kind: Annotated[Columns, Option(help=_KIND)] = None,
    inputs: Annotated[Columns, Option(help=_INPUTS)] = None,
    drop: Annotated[Columns, Option(help=_DROP)] = None,
    input_kernel: Annotated[Text, Option(help=_INPUT_KERNEL)] = None,
    output_kernel: Annotated[Text, Option(help=_OUTPUT_KERNEL)] = None,
    input_sketch: Annotated[Text, Option(help=_INPUT_SKETCH)] = None,
    output_sketch: Annotated[Text, Option(help=_OUTPUT_SKETCH)] = None,
    alpha: Annotated[list[float] | None, Option(help=_ALPHA)] = None,
    decoder: Annotated[Text, Option(help=_DECODER)] = None,
    standardize: Annotated[Flag, Option(help=_STANDARDIZE)] = None,
    missing: Annotated[Text, Option(help=_MISSING)] = None,
    strict: Annotated[Flag, Option("--strict", help=_STRICT)] = None,
    day_first: Annotated[Flag, Option("--day-first/--month-first", help=_DAY_FIRST)] = None,
    separators: Annotated[Text, Option("--separators", "--separator", help=_SEPARATORS)] = None,
    seed: Annotated[int | None, Option(help="Seed of all random draws, default 0.")] = None,
    memory: Annotated[float | None, Option(help=_MEMORY)] = None,
    tune: Annotated[Flag, Option(help=_TUNE)] = None,
    budget: Annotated[Text, Option(help=_BUDGET)] = None,
    scoring: Annotated[Text, Option(help=_SCORING)] = None,
    config: Annotated[Path | None, Option(help=_CONFIG)] = None,
    as_json: AsJson = False,
) -> None:
    """Choose a model for a table, fit it and save it.

    Kernels, forests and boosting are compared on held-out rows, and the best is fitted on all.
    With --no-tune, or with a setting of a model such as --alpha, one kernel ridge is fitted.

    Example: skout fit train.csv --target tags -o model.skout
    """
    given = locals()
    from .settings import merge

    names = ("data", "out", "config", "as_json", "debug")
    settings = merge({k: v for k, v in given.items() if k not in names}, config)
    check_place(out, "--out", [data, config])

    from .fitting import fit_file, for_people

    record = fit_file(data, settings, out)
    show(record if as_json else for_people(record), as_json)


def predict(
    model: Model,
    data: Data,
    out: Rows = "-",
    candidates: Candidates = None,
    skip_invalid: SkipInvalid = False,
    keep: Keep = None,
    proba: Annotated[bool, Option("--proba", help=_PROBA)] = False,
    form: Format = None,
) -> None:
    """Predict the target of each row of a table.

    Example: skout predict model.skout test.csv --proba -o predictions.csv
    """
    form = check_format(out, form, [model, data, candidates])
    from .using import opened_files, predict_table

    rows = predict_table(*opened_files(model, data, candidates, skip_invalid), keep, proba)
    say_written(write_rows(rows, out, form), out)


def rank(
    model: Model,
    data: Data,
    candidates: Candidates = None,
    skip_invalid: SkipInvalid = False,
    k: Annotated[int, Option("-k", help=_K)] = 10,
    out: Rows = "-",
    keep: Keep = None,
    form: Format = None,
) -> None:
    """Rank candidates for each row of a table: query, rank, candidate, score.

    Example: skout rank model.skout test.csv --candidates pool.csv -k 10 -o ranked.csv
    """
    form = check_format(out, form, [model, data, candidates])
    from .using import opened_files, rank_table

    rows = rank_table(*opened_files(model, data, candidates, skip_invalid), k, keep)
    say_written(write_rows(rows, out, form), out)


def embed(
    model: Model,
    data: Annotated[Path, Argument(help="The table of candidates.")],
    out: Annotated[Path, Option("--out", "-o", help=_POOL)],
    skip_invalid: SkipInvalid = False,
    as_json: AsJson = False,
) -> None:
    """Embed candidates once, so that `rank`, `predict` and `evaluate` need not do it again.

    Example: skout embed model.skout pool.csv -o pool.skpool
    """
    check_place(out, "--out", [model, data])
    from .using import embed_file, open_model

    show(embed_file(open_model(model), data, out, skip_invalid), as_json)


def evaluate(
    model: Model,
    data: Annotated[Path, Argument(help=f"{DATA}, with the target.")],
    candidates: Candidates = None,
    skip_invalid: SkipInvalid = False,
    scoring: Annotated[Text, Option(help=_ONE_SCORE)] = None,
    as_json: AsJson = False,
) -> None:
    """Score the predictions for a table that has the target, by the metrics of its kind.

    For classes and labels it prints the scores of each one, too, and for classes a confusion table.

    Example: skout evaluate model.skout test.csv --json
    """
    from .classes import one_score, tables_for_people
    from .using import evaluate_table, metrics_by_target, opened_files

    done = evaluate_table(*opened_files(model, data, candidates, skip_invalid))
    by_target = done.get("targets", {"": done})
    if scoring is not None:
        scores = {name: one_score(evaluation, scoring) for name, evaluation in by_target.items()}
        show(
            {"rows": done["rows"], **(scores if len(scores) > 1 else scores.popitem()[1])}, as_json
        )
    elif as_json:
        show(done, as_json)
    else:
        show({"rows": done["rows"], **metrics_by_target(by_target)}, as_json)
        for name, evaluation in by_target.items():
            if "classes" in evaluation:
                print(f"\n{name}".rstrip() + tables_for_people(evaluation["classes"]))
