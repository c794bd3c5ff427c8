"""The settings of `skout fit`, from options and TOML files, and the model that they describe."""

import inspect
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from skout import KernelClassifier, KernelRidge, StructuredPredictor, iokr
from skout.decoding import DECODERS
from skout.dev import check_alphas, check_choice, check_number, resolve
from skout.kernels import (
    KERNELS,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Mapped,
    Matern,
    Normalized,
    Polynomial,
)
from skout.kinds import Kind
from skout.molecules import fingerprints
from skout.sketches import SKETCHES, Sketch

from .columns import known_kind

T = TypeVar("T")
# Kernels that compare these take texts, strings or SMILES; others take fingerprints of SMILES.
_ON_TEXTS = ("strings", "graphs")
# Kernels that depend on the scale of single columns, and take any numbers.
_OF_SCALES = (Gaussian, Laplacian, Linear, Matern, Polynomial)
# The default kernels of inputs.
_ON_NUMBERS, _ON_TEXT = "gaussian", "ngram:3,short=keep"
# Settings that describe a model: where one is given, no model is chosen.
_OF_A_MODEL = (
    *("input_kernel", "output_kernel", "input_sketch", "output_sketch"),
    *("alpha", "decoder", "standardize"),
)


@dataclass
class Settings:
    """The settings of `skout fit` and their defaults.

    Kernels and sketches are given by a name and parameters: "gaussian:0.5",
    "p_sparsified:200,distribution=gaussian" or "none".
    """

    target: list[str] | None = None  # columns or patterns, one for each target
    output: str | None = None
    kind: dict[str, str] | None = None  # of columns, by their names
    inputs: str | None = None
    drop: str | None = None
    input_kernel: str | None = None
    output_kernel: str | None = None
    input_sketch: str = "subsample"
    output_sketch: str = "p_sparsified"
    alpha: Any = 1e-3
    decoder: str = "candidates"
    standardize: bool | None = None
    missing: str | None = None
    strict: bool = False
    day_first: bool | None = None
    separators: str | None = None
    seed: int = 0
    memory: Any = 256.0
    tune: bool = True
    budget: Any = 60
    scoring: str | None = None

    def check(self) -> None:
        """Raise for the first setting that is wrong whatever the table has."""
        for setting in fields(self):
            value = getattr(self, setting.name)
            kind, *_ = get_args(setting.type) or (setting.type,)
            kind = get_origin(kind) or kind
            if value is not None and kind is not Any and type(value) is not kind:
                raise ValueError(
                    f"{_flag(setting.name)} must be of type {kind.__name__}. Got {value!r} instead."
                )
        for target in self.target or []:
            if not isinstance(target, str):
                raise ValueError(f"--target must be of type str. Got {target!r} instead.")
        if self.separators == "":
            raise ValueError("--separators must have at least one character.")
        check_alphas(self.alpha)
        check_number(self.seed, "--seed", integer=True)
        check_number(self.memory, "--memory")
        check_budget(self.budget)
        if self.output is not None:
            known_kind(self.output, "kind in --output:")
        check_choice(self.decoder, "--decoder", tuple(DECODERS))
        if self.missing is not None:
            check_choice(self.missing, "--missing", ("error", "mean"))
        for side in ("input", "output"):
            parse_sketch(getattr(self, f"{side}_sketch"), f"--{side}-sketch")
            kernel = getattr(self, f"{side}_kernel")
            if kernel is not None:
                parse(kernel, KERNELS, "kernel", f"--{side}-kernel")

    @property
    def wants_text(self) -> bool:
        """Whether the input kernel is one of strings or graphs."""
        kernel = parse(self.input_kernel or _ON_NUMBERS, KERNELS, "kernel", "--input-kernel")
        return kernel.compares in _ON_TEXTS

    @property
    def standardizes(self) -> bool:
        """Whether to scale columns of numbers.

        By default for kernels that depend on scales, but not for one with a number as its width,
        which is meant for the inputs as they are.
        """
        if self.standardize is not None:
            return self.standardize
        kernel = parse(self.input_kernel or _ON_NUMBERS, KERNELS, "kernel", "--input-kernel")
        has_width = isinstance(getattr(kernel, "gamma", None), int | float)
        return isinstance(kernel, _OF_SCALES) and not has_width


def merge(flags: dict[str, Any], config: Path | None) -> Settings:
    """Return the settings: options win over the TOML file, and the file over the defaults.

    An option that was not given is None; the file has the names of options, with - or _.
    """
    from_file: dict[str, Any] = {}
    if config is not None:
        try:
            from_file = tomllib.loads(config.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"--config: {config} is not a TOML file: {error}.") from error
        from_file = {name.replace("-", "_"): value for name, value in from_file.items()}
        names = {setting.name: setting for setting in fields(Settings)}
        for name in from_file:
            resolve(name, names, f"setting in {config}:")
    given = {**from_file, **{name: value for name, value in flags.items() if value is not None}}
    if not isinstance(given.get("target", []), list):
        given["target"] = [given["target"]]
    given |= {"kind": _pairs(given["kind"])} if isinstance(given.get("kind"), list) else {}
    for name in ("inputs", "drop"):
        if isinstance(given.get(name), list):
            given[name] = ",".join(map(str, given[name]))
    of_model = [_flag(name) for name in _OF_A_MODEL if name in given]
    wanted = [_flag(name) for name in ("tune", "budget", "scoring") if given.get(name)]
    if of_model and wanted:
        raise ValueError(
            f"{wanted[0]} lets skout choose the model, and {of_model[0]} says what it is. "
            "Leave one of them out."
        )
    settings = Settings(**{"tune": not of_model, **given})
    settings.check()
    return settings


def _pairs(words: list[str]) -> dict[str, str]:
    """Return the kinds of columns by name, from words such as "artist=category"."""
    kinds = {}
    for word in words:
        name, equals, kind = str(word).rpartition("=")
        if not (name and equals and kind.strip()):
            raise ValueError(f"--kind must be such as artist=category. Got {word!r} instead.")
        kinds[name.strip()] = kind.strip()
    return kinds


def check_budget(text: object) -> float | str:
    """Return a budget as `skout.Tuned` takes it, seconds or "40 fits", or raise.

    Examples
    --------
    >>> from skout.apps.cli.settings import check_budget
    >>> check_budget("30"), check_budget("3 fits")
    (30.0, '3 fits')
    """
    budget = _value(text) if isinstance(text, str) else text
    if isinstance(budget, str) and re.fullmatch(r"0*[1-9]\d* fits?", budget):
        return budget
    if isinstance(budget, int | float) and not isinstance(budget, bool) and 0 < budget < math.inf:
        return float(budget)
    raise ValueError(f'--budget must be a number of seconds, or of fits: "40 fits". Got {text!r}.')


def build_model(
    settings: Settings, kind: Kind, is_text: bool
) -> KernelRidge | KernelClassifier | StructuredPredictor:
    """Return the unfitted estimator that the settings describe, for a kind of output."""
    spec = settings.input_kernel or (_ON_TEXT if is_text else _ON_NUMBERS)
    inputs = _kernel(spec, "--input-kernel", is_text)
    sketch = parse_sketch(settings.input_sketch, "--input-sketch")
    alphas = check_alphas(settings.alpha)
    shared: dict[str, Any] = {
        "alpha": alphas if len(alphas) > 1 else alphas[0],
        "random_state": settings.seed,
    }
    if kind.estimator_type is not None:
        model = KernelRidge if kind.estimator_type == "regressor" else KernelClassifier
        return model(inputs, sketch, fit_intercept=True, **shared)
    outputs = kind.kernel
    if settings.output_kernel is not None:
        outputs = _kernel(settings.output_kernel, "--output-kernel", kind.are_texts)
    elif kind.are_texts and not outputs.normalized:
        outputs = Normalized(outputs)
    return iokr(
        inputs,
        outputs,
        input_sketch=sketch,
        output_sketch=parse_sketch(settings.output_sketch, "--output-sketch"),
        decoder=settings.decoder,
        **shared,
    )


def _kernel(text: str, option: str, on_text: bool) -> Kernel:
    """Return the kernel of a specification; on texts it is normalized, or sees fingerprints."""
    kernel = parse(text, KERNELS, "kernel", option)
    if not on_text:
        return kernel
    if kernel.compares not in _ON_TEXTS:
        return Mapped(fingerprints, kernel)
    return kernel if kernel.normalized else Normalized(kernel)


def parse_sketch(text: str, option: str) -> Sketch | None:
    """Return the sketch of a specification such as "subsample:500", None for "none".

    Examples
    --------
    >>> from skout.apps.cli.settings import parse_sketch
    >>> parse_sketch("subsample:500", "--input-sketch")
    SubSample(size=500)
    """
    return None if text == "none" else parse(text, SKETCHES, "sketch", option)


def parse(text: str, registry: Mapping[str, Callable[..., T]], kind: str, option: str) -> T:
    """Return the object of a specification, "name" or "name:value,name=value".

    Examples
    --------
    >>> from skout.kernels import KERNELS
    >>> from skout.apps.cli.settings import parse
    >>> parse("polynomial:2,coef0=1.5", KERNELS, "kernel", "--input-kernel")
    Polynomial(coef0=1.5, degree=2)
    """
    if not isinstance(text, str):
        raise ValueError(f"{option} must be the name of a {kind}. Got {text!r} instead.")
    name, _, rest = text.partition(":")
    make = resolve(name.strip(), registry, f"{kind} in {option}:")
    values, named = [], {}
    for word in rest.split(",") if rest else []:
        key, equals, value = word.partition("=")
        if equals:
            named[key.strip()] = _value(value)
        else:
            values.append(_value(word))
    try:
        inspect.signature(make).bind(*values, **named)
    except TypeError as error:
        takes = ", ".join(inspect.signature(make).parameters)
        raise ValueError(
            f"{option}: {text!r} does not fit {name}, whose parameters are: {takes} ({error})."
        ) from None
    return make(*values, **named)


def _value(word: str) -> float | str | bool | None:
    """Return a number, or the word itself."""
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(word.strip().lower(), word.strip())


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def as_record(settings: Settings) -> dict[str, Any]:
    """Return the settings as JSON has them."""
    return {**asdict(settings), "alpha": check_alphas(settings.alpha)}
