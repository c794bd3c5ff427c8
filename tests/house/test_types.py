"""The law of types: how often a parameter of the library may be `Any`, and where never.

An alias that is `Any` counts as `Any`. Aliases and protocols that mean something are in
`_numerics.typing`; `skout.typing` is what users see of them.
"""

import ast
import functools
import inspect
import typing
from pathlib import Path

import pytest

import skout
from skout import decoding, kernels, losses, regressors, sketches

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "skout"
# Parameters that are `Any`, of all that are annotated outside of apps; it may only fall.
MOST_ANY = 0.02


@functools.cache
def modules():
    paths = [path for path in PACKAGE.rglob("*.py") if "apps" not in path.parts]
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def is_any(annotation, loose):
    """Return whether an annotation, or a member of its union, is one of the names in `loose`."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return is_any(ast.parse(annotation.value, mode="eval").body, loose)
    if isinstance(annotation, ast.BinOp):
        return is_any(annotation.left, loose) or is_any(annotation.right, loose)
    return isinstance(annotation, ast.Name) and annotation.id in loose


def aliases(tree, loose):
    """Return the names of a module that stand for `Any`, by an alias or by an import."""
    names = {"Any"}
    for node in ast.walk(tree):
        is_alias = isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias"
        if is_alias and is_any(node.value, names):
            names.add(node.target.id)
        if isinstance(node, ast.ImportFrom):
            origin = (node.module or "").rpartition(".")[2]
            names |= {
                alias.asname or alias.name
                for alias in node.names
                if alias.name in loose.get(origin, ())
            }
    return names


def parameters(tree):
    """Yield the annotated parameters of all functions, with the function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            every = node.args
            given = [*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg]
            yield from ((node, arg) for arg in given if arg is not None and arg.annotation)


def count():
    """Return how many parameters are `Any`, how many there are, and the first ones."""
    loose = {path.stem: aliases(tree, {}) for path, tree in modules().items()}
    bad, n = [], 0
    for path, tree in modules().items():
        names = aliases(tree, loose)
        for function, arg in parameters(tree):
            n += 1
            if is_any(arg.annotation, names):
                bad.append(f"{path.relative_to(PACKAGE)}:{function.name}:{arg.arg}")
    return bad, n


def test_few_parameters_are_any():
    bad, n = count()
    assert len(bad) <= MOST_ANY * n, f"{len(bad)} of {n}: {bad[:20]}"


def public_callables():
    """Yield the classes and functions that users call, by name."""
    for module in (skout, kernels, sketches, losses, decoding, regressors):
        for name in module.__all__:
            part = getattr(module, name)
            if inspect.isfunction(part) or inspect.isclass(part):
                yield f"{module.__name__}.{name}", part


def public_functions(part):
    if inspect.isfunction(part):
        yield part
        return
    for name, method in inspect.getmembers(part, inspect.isfunction):
        is_ours = method.__module__.startswith("skout")
        if is_ours and (not name.startswith("_") or name in ("__init__", "__call__")):
            yield inspect.unwrap(method)


def anys_of(function):
    """Return the parameters of a function that are `Any` at run time."""
    spaces = function.__globals__ | vars(typing)
    for name, text in function.__annotations__.items():
        try:
            kind = eval(text, spaces) if isinstance(text, str) else text
        except NameError:  # imported for type checkers only
            continue
        if kind is typing.Any or typing.Any in typing.get_args(kind):
            yield name


def test_no_public_signature_has_any():
    bad = set()
    for _, part in public_callables():
        for function in public_functions(part):
            names = [arg for arg in anys_of(function) if arg != "return"]
            if names:
                bad.add(f"{function.__qualname__}({', '.join(names)})")
    assert not bad, "\n".join(sorted(bad))


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(x: Any, y: int): ...", ["x"]),
        ("Rows: TypeAlias = Any\ndef f(x: Rows | None): ...", ["x"]),
        ("from .._numerics.typing import Json\ndef f(x: Json): ...", ["x"]),
        ("from .._numerics.typing import Array\ndef f(x: Array): ...", []),
    ],
)
def test_an_any_is_caught(source, names):
    loose = {path.stem: aliases(tree, {}) for path, tree in modules().items()}
    tree = ast.parse(source)
    found = aliases(tree, loose)
    assert [arg.arg for _, arg in parameters(tree) if is_any(arg.annotation, found)] == names
