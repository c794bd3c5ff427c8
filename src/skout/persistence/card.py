"""Model cards: descriptions of saved models, as the README.md that model hubs show."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._numerics.typing import Estimator, PathLike
from ..kinds import KINDS
from . import describe, save

__all__ = ["model_card"]

# Characters up to which a value is shown, and columns up to which their names are.
_LONGEST, _MOST_NAMES = 300, 40
_MARKS = str.maketrans({"&": "&amp;", "<": "&lt;", "|": "&#124;", "`": "'", "[": "&#91;"})


def model_card(
    model: Estimator | PathLike,
    *,
    name: str | None = None,
    data: str | None = None,
    license: str | None = None,
    evaluation: Mapping[str, object] | None = None,
) -> str:
    """Return the model card of a model: a header in YAML that hubs read, and Markdown.

    Parameters
    ----------
    model : what `skout.save` saves, or the path of what it saved
        Files of `skout fit` also say columns, rows, and the score by validation.
    name : str, optional
        The title; default the name of the file, or of the class.
    data : str, optional
        The training data, in words.
    license : str, optional
        The license of the model, such as "mit".
    evaluation : dict, optional
        Metrics of rows that the model has not seen, as `skout evaluate --json` and
        `skout report --json` print them:
        {"metrics": {name: value}, "rows": n, "standard_errors": {name: value}}.

    Returns
    -------
    card : str
        Markdown.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelRidge
    >>> from skout.persistence.card import model_card
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> model = KernelRidge("gaussian").fit(X, X[:, 0])
    >>> print(model_card(model, name="slope", license="mit").partition("##")[0].rstrip())
    ---
    library_name: "skout"
    tags: ["skout", "kernel-methods"]
    license: "mit"
    ---
    <BLANKLINE>
    # slope
    """
    if isinstance(model, str | os.PathLike):
        facts, file, title = describe(model), Path(model).name, Path(model).stem
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.skout"
            save(model, path)
            facts, file, title = describe(path), path.name, type(model).__name__
    return _Card(facts, name or title, file, data, license, evaluation or {}).text()


@dataclass(frozen=True)
class _CardTarget:
    """The record of `skout fit` of a target: kind, columns, and the choice of its model."""

    kind: str
    columns: list[str]
    validation: dict[str, Any]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> _CardTarget:
        outputs = _dict(record.get("outputs"))
        kind = outputs.get("kind")
        kind = kind if isinstance(kind, str) else ""
        plural = KINDS[kind].plural if kind in KINDS else kind
        return cls(plural, _names(outputs.get("columns")), _dict(record.get("validation")))


@dataclass
class _Card:
    """The sections of a card, from a `describe`d file; its metadata may be of any form."""

    facts: dict[str, Any]
    name: str
    file: str
    data: str | None
    license: str | None
    evaluation: Mapping[str, Any]

    def __post_init__(self) -> None:
        self.about = self.facts["about"]
        notes = _dict(self.about.get("metadata"))
        self.notes = {key: value for key, value in notes.items() if key != "command_line"}
        self.fit = _dict(notes.get("command_line"))  # the record of `skout fit`
        several = self.fit.get("targets")
        records = several if isinstance(several, list) and several else [self.fit]
        self.targets = [_CardTarget.of(_dict(record)) for record in records]
        self.kind = ", ".join(dict.fromkeys(target.kind for target in self.targets if target.kind))
        self.inputs = _names(_dict(self.fit.get("inputs")).get("columns"))

    def text(self) -> str:
        """Return the model card as Markdown."""
        sections = [
            ("What it is", self._is()),
            ("What it was trained on", self._trained_on()),
            ("How good it is", self._scores()),
            ("How to use it", self._use()),
            ("Notes", (f"- {_plain(k)}: {_plain(json.dumps(v))}" for k, v in self.notes.items())),
            ("Made with", self._versions()),
        ]
        parts = [
            f"## {title}\n\n{body}\n" for title, lines in sections if (body := "\n".join(lines))
        ]
        return "\n".join([self._header(), f"# {_plain(self.name)}\n", *parts])

    def _header(self) -> str:
        """Return the header that hubs read, as JSON, which is YAML for names of any form."""
        kinds = dict.fromkeys(target.kind for target in self.targets if target.kind)
        tags = ["skout", "kernel-methods", *(kind.replace(" ", "-") for kind in kinds)]
        fields: dict[str, Any] = {"library_name": "skout", "tags": tags}
        fields |= {"license": self.license} if self.license else {}
        metrics = [
            {"type": metric, "name": f"{metric}, {where}", "value": value}
            for metric, value, _, where in self._measured()
            if value is not None
        ]
        if metrics:
            kind = self.kind or "prediction"
            task = {
                "type": kind.replace(", ", "+").replace(" ", "-"),
                "name": f"prediction of {kind}",
            }
            where = {"type": "tabular", "name": self.data or "not named"}
            result = {"task": task, "dataset": where, "metrics": metrics}
            fields["model-index"] = [{"name": self.name, "results": [result]}]
        lines = [f"{key}: {json.dumps(value)}" for key, value in fields.items()]
        return "\n".join(["---", *lines, "---", ""])

    def _is(self) -> Iterator[str]:
        if self.kind:
            parts = [f"{_plain(t.kind)}{_listed(t.columns)}" for t in self.targets if t.kind]
            yield f"It predicts {'; '.join(parts)}.\n"
        yield f"- class: `{_plain(self.about.get('class'))}`"
        for target in self.targets:
            chosen, name = target.validation.get("chosen"), self._of(target).removesuffix(": ")
            what = f"chosen by validation{' for ' if name else ''}{name}"
            for choice in chosen if isinstance(chosen, list) else []:
                kept = {key: value for key, value in _dict(choice).items() if value is not None}
                said = ", ".join(f"{key} {_short(value)}" for key, value in kept.items())
                yield f"- {what}: {_plain(said)}"
        for fact, value in _dict(self.about.get("facts")).items():
            yield f"- {_plain(fact.strip('_').replace('_', ' '))}: {_plain(_short(value))}"
        yield f"- file: {self.facts['bytes'] / 1e6:.3g} MB, in which nothing can be executed"

    def _of(self, target: _CardTarget) -> str:
        """Return the name of a target and a colon, "" where there is only one."""
        name = _plain(", ".join(target.columns[:_MOST_NAMES]))
        return f"{name}: " if len(self.targets) > 1 else ""

    def _trained_on(self) -> Iterator[str]:
        if self.data:
            yield f"{_plain(self.data)}\n"
        if isinstance(self.fit.get("rows"), int):
            yield f"- {self.fit['rows']:,} rows"
        kinds = _dict(self.fit.get("columns"))
        if self.inputs:
            named = [f"{name} ({kinds[name]})" if name in kinds else name for name in self.inputs]
            yield f"- {len(self.inputs):,} input columns{_listed(named)}"
        if not self.data:
            yield "- The source of the data is not stated."

    def _measured(self) -> Iterator[tuple[str, Any, Any, str]]:
        """Yield metric, value, standard error, and the rows of each measurement."""
        errors = _dict(self.evaluation.get("standard_errors"))
        rows = self.evaluation.get("rows")
        where = f"{rows:,} test rows" if isinstance(rows, int) else "test rows"
        for metric, value in _dict(self.evaluation.get("metrics")).items():
            yield metric, value, errors.get(metric), where
        for target in self.targets:
            validation = target.validation
            if "metric" in validation:
                error = validation.get("standard_error")
                metric = f"{self._of(target)}{validation['metric']}"
                yield metric, validation.get("score"), error, "validation"

    def _scores(self) -> Iterator[str]:
        measured = list(self._measured())
        if not measured:
            yield "It was not measured: see `skout evaluate` and `skout report`."
            return
        yield "| metric | value | standard error | measured on |\n|---|---:|---:|---|"
        for metric, value, error, where in measured:
            yield f"| {_plain(metric)} | {_number(value)} | {_number(error)} | {where} |"
        for target in self.targets:
            metric = f"{self._of(target)}{_plain(target.validation.get('metric'))}"
            for name, value in _dict(target.validation.get("baselines")).items():
                yield f"| {metric} of a rival: {_plain(name)} | {_number(value)} | | validation |"
        if any("metric" in target.validation for target in self.targets):
            yield "\nValidation is cross-validation of the training rows, by which it was chosen."

    def _use(self) -> Iterator[str]:
        extras = "skout[cli]" if self.fit else "skout"
        yield f'    pip install "{extras}"\n'
        if self.fit:
            yield f"    skout predict {self.file} new.csv -o predictions.csv\n"
        needs = self.about["needs"]
        more = f", modules=[{', '.join(_plain(name) for name in needs)}]" if needs else ""
        yield "In Python, with inputs as the model was fitted on:\n"
        yield f'    import skout\n\n    model = skout.load("{self.file}"{more})'
        yield "    model.predict(X)"

    def _versions(self) -> Iterator[str]:
        versions = _dict(self.about.get("versions"))
        yield ", ".join(
            f"{_plain(package)} {_plain(version)}" for package, version in versions.items()
        )
        yield f"\nSaved {_plain(self.about.get('saved'))}."


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else dict(value) if isinstance(value, Mapping) else {}


def _names(value: object) -> list[str]:
    return [str(name) for name in value] if isinstance(value, list) else []


def _listed(names: list[str]) -> str:
    """Return a colon and names, of many the first and the number of the others."""
    if not names:
        return ""
    more = [f"and {len(names) - _MOST_NAMES:,} more"] if len(names) > _MOST_NAMES else []
    return ": " + ", ".join([*map(_plain, names[:_MOST_NAMES]), *more])


def _number(value: object) -> str:
    return _short(value) if isinstance(value, int | float) else ""


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _plain(value: object) -> str:
    """Return a text on one line, shortened and escaped for Markdown and HTML."""
    text = " ".join(str(value).split())
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + " …"
    return text.translate(_MARKS)
