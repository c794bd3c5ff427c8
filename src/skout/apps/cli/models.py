"""Commands that fit and use a model: `fit`, `predict`, `rank`, `embed` and `evaluate`."""

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from .options import (
    FORMATS,
    AsJson,
    Candidates,
    Data,
    Debug,
    Format,
    Keep,
    Model,
    NewModel,
    Rows,
    SkipInvalid,
    Text,
)
from .results import check_format, check_place, show, tell, write_rows

Columns = list[str] | None  # a flag may be given again
Flag = bool | None

_TARGET = 'Columns to predict: "y", "a,b", "tag_*". Give it again for targets of other kinds.'
_KIND = "What a column is: artist=category, tags=set, year=number, x=drop; give it again for more."
_OUTPUT = "What they hold: label_sets, rankings, classes, numbers, strings, smiles ..., a kind."
_INPUT_KERNEL = '"gaussian:0.5", "ngram:4" ...: name:parameters.'
_INPUT_SKETCH = '"subsample:500" (rows that are kept), or "none": exact.'
_OUTPUT_SKETCH = '"p_sparsified:200" (output coordinates), or "none".'
_ALPHA = "Penalty, default 0.001; give it again for more, the best is chosen."
_SEPARATORS = "Characters between labels of a cell, default what the cells have."
_MEMORY = "MB of the table to hold, default 256; larger ones are streamed."
_INPUTS = "Input columns; default all others but ids, and with --no-tune numbers or one of text."
_STANDARDIZE = 'Center and scale inputs; default yes, but not for a width such as "gaussian:0.5".'
_MISSING = 'Missing input numbers: "error", or "mean" fills them; default the model takes them.'
_STRICT = "Refuse cells that are no numbers or dates in columns of them; default they are missing."
_DAY_FIRST = "How 3/4/2024 is read where its column does not tell; default the month is first."
_TUNE = "Choose the model by validation; default yes, but not where a kernel, --alpha ... is given."
_SCORING = "What the model is chosen by: accuracy, log_loss, roc_auc, f1 ...; default its kind's."
_PROBA = "Add a column P(...) for each class or label: its probability."
_ONE_SCORE = "Print this score alone: accuracy, log_loss, roc_auc, f1_macro, rmse ..."
_BUDGET = 'Seconds to choose in, default 60, or "40 fits".'


def look(
    data: Data,
    target: Annotated[Columns, Option(help=_TARGET)] = None,
    kind: Annotated[Columns, Option(help=_KIND)] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show what the columns of a table are taken for, without fitting anything.

    `skout fit` says so too, and --kind, --separators, --inputs and --drop overrule it.

    Example: skout look train.csv --target tags
    """
    from .choosing import choose_columns
    from .looking import look_at_table, print_looks
    from .progress import opened
    from .settings import merge

    settings = merge({"target": target, "kind": kind}, None)
    table = opened(data)
    outputs = choose_columns(table, settings, mixed=True)[1] if target else []
    looks = look_at_table(table, outputs, settings.kind)
    if as_json:
        print(json.dumps(looks, indent=2, ensure_ascii=False))
    else:
        print_looks(looks)


def fit(
    data: Annotated[Path, Argument(help=f"{FORMATS} (X, Y).")],
    out: NewModel = Path("model.skout"),
    target: Annotated[Columns, Option(help=_TARGET)] = None,
    output: Annotated[Text, Option(help=_OUTPUT)] = None,
    kind: Annotated[Columns, Option(help=_KIND)] = None,
    inputs: Annotated[Columns, Option(help=_INPUTS)] = None,
    drop: Annotated[Columns, Option(help="Columns to leave out, such as an id.")] = None,
    input_kernel: Annotated[Text, Option(help=_INPUT_KERNEL)] = None,
    output_kernel: Annotated[Text, Option(help='"f1", "tanimoto", "kendall" ...')] = None,
    input_sketch: Annotated[Text, Option(help=_INPUT_SKETCH)] = None,
    output_sketch: Annotated[Text, Option(help=_OUTPUT_SKETCH)] = None,
    alpha: Annotated[list[float] | None, Option(help=_ALPHA)] = None,
    intercept: Annotated[Flag, Option(help="An unpenalised constant.")] = None,
    decoder: Annotated[Text, Option(help="candidates, label_sets, rankings, strings.")] = None,
    standardize: Annotated[Flag, Option(help=_STANDARDIZE)] = None,
    missing: Annotated[Text, Option(help=_MISSING)] = None,
    strict: Annotated[Flag, Option("--strict", help=_STRICT)] = None,
    day_first: Annotated[Flag, Option("--day-first/--month-first", help=_DAY_FIRST)] = None,
    separators: Annotated[Text, Option("--separators", "--separator", help=_SEPARATORS)] = None,
    seed: Annotated[int | None, Option(help="Seed of all draws, default 0.")] = None,
    memory: Annotated[float | None, Option(help=_MEMORY)] = None,
    tune: Annotated[Flag, Option(help=_TUNE)] = None,
    budget: Annotated[Text, Option(help=_BUDGET)] = None,
    scoring: Annotated[Text, Option(help=_SCORING)] = None,
    config: Annotated[Path | None, Option(help="TOML with these names; flags win.")] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Choose a model for a table, fit it and save it.

    Kernels, forests and boosting are compared on rows that are held out, and the best is fitted
    on all. --no-tune, or any setting of a model such as --alpha, fits a kernel ridge as it is.

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
    debug: Debug = False,
) -> None:
    """Predict the target of each row of a table.

    Example: skout predict model.skout test.csv --proba -o predictions.csv
    """
    form = check_format(out, form, [model, data, candidates])
    from .using import opened_files, predict_table

    rows = predict_table(*opened_files(model, data, candidates, skip_invalid), keep, proba)
    tell(write_rows(rows, out, form), out)


def rank(
    model: Model,
    data: Data,
    candidates: Candidates = None,
    skip_invalid: SkipInvalid = False,
    k: Annotated[int, Option("-k", help="How many for each row.")] = 10,
    out: Rows = "-",
    keep: Keep = None,
    form: Format = None,
    debug: Debug = False,
) -> None:
    """Rank candidates for each row of a table: query, rank, candidate, score.

    Example: skout rank model.skout test.csv --candidates pool.csv -k 10 -o ranked.csv
    """
    form = check_format(out, form, [model, data, candidates])
    from .using import opened_files, rank_table

    rows = rank_table(*opened_files(model, data, candidates, skip_invalid), k, keep)
    tell(write_rows(rows, out, form), out)


def embed(
    model: Model,
    data: Annotated[Path, Argument(help="A table of candidates.")],
    out: Annotated[Path, Option("--out", "-o", help="The file to give to --candidates.")],
    skip_invalid: SkipInvalid = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Prepare candidates once, so that `rank`, `predict` and `evaluate` begin at once.

    Example: skout embed model.skout pool.csv -o pool.skpool
    """
    check_place(out, "--out", [model, data])
    from .using import embed_file, open_model

    show(embed_file(open_model(model), data, out, skip_invalid), as_json)


def evaluate(
    model: Model,
    data: Annotated[Path, Argument(help=f"{FORMATS}, with the target.")],
    candidates: Candidates = None,
    skip_invalid: SkipInvalid = False,
    scoring: Annotated[Text, Option(help=_ONE_SCORE)] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Compare predictions with the target, by the metrics of its kind.

    Of classes and labels, the scores of each are printed too, and the confusion table.

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
