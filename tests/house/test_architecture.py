"""The law of the house: who may import whom, and what no module may do.

The source is read with ``ast``. Each rule is a function from a module to the list of its offences;
``test_rule_catches`` shows every rule an offender that it must catch.
"""

import ast
import compileall
import functools
import graphlib
import inspect
import itertools
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pytest

import skout
from skout.solvers import folds

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "skout"

# From the ground up: a module imports from its own room and from lower layers, with no exception.
# "__init__" is skout as users see it; applications stand on it, see "The boundary" below.
LAYERS = [
    ["_numerics", "formulas"],
    ["rows", "losses"],
    ["kernels", "sketches", "sources", "deep"],
    ["basis", "metrics"],
    ["solvers", "decoding"],
    ["regressors", "kinds"],
    ["predictor", "theory", "datasets", "testing"],
    ["predictors"],
    ["persistence", "dev", "readers", "molecules", "typing"],
    ["__init__", "apps"],
    ["apps.tables"],
    ["apps.tuning", "apps.spectra"],
    ["apps.cli"],
    ["__main__"],
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
# Modules with names of applications, which they import when these are asked for.
FACADES = {"skout", "skout.readers", "skout.molecules", "skout.typing"}
# Rooms and files at the top of the package without the facades, and lines outside of rows/ that ask
# where rows lie.
MOST_ENTRIES = 22
MOST_BRANCHES = 72
# Functions that write into an estimator they were given.
MOST_WRITERS = 0
# What asks where rows lie, or sends them somewhere: to tell engines from each other, or arrays of
# users from each other. Numbers that were computed on a card come back by `numpy_of`, of the array
# namespaces.
WHERE = re.compile(
    r"\.device is\b|\b(rows|source)\.pool is\b|\bon_card\b|\breads_once\b|\brereadable\b"
    r"|\bis_lazy\(|\.is_remote\b|\.resident\b|\.has_shortcuts\b|on_cluster|is_on_disk|is_streamed"
    r"|is_gpu_tensor|OnDevice|\bon_device\(|\bto_host\b|\bin_memory\("
    r"|isinstance\([^)]*\b(Memory|Disk|Dask|Device|Stream|Blocks|Source)\b"
)

OPTIONAL = {
    "torch",
    "pandas",
    "matplotlib",
    "typer",
    "rich",
    "numba",
    "dask",
    "distributed",
    "rdkit",
    "faiss",
    *("networkx", "safetensors", "transformers"),
    *("h5py", "pyarrow", "zarr"),
    *("mlflow", "onnx", "onnxruntime"),
    *("fastapi", "starlette", "uvicorn"),
}
MAY_PRINT = {"apps.cli", "__main__"}
# A class that belongs together may be as long as this, its overloads for type checkers included;
# files are cut by meaning, not by length.
MAX_MODULE_LINES = 730
MAX_FUNCTION_LINES = 60  # without the docstring
# Names of numpy.linalg, scipy.linalg, torch.linalg ... that factorise, openly or inside.
FACTORISATIONS = {
    *("cho_factor", "cholesky", "eig", "eigh", "eigsh", "eigvals", "eigvalsh", "get_lapack_funcs"),
    *("ldl", "lstsq", "lu", "lu_factor", "pinv", "pinvh", "qr", "schur", "solve", "splu", "svd"),
    *("svds", "svdvals"),
}

# Float64 on the host, with care for rank; and large matrices in place, here or on a card. The
# formulas of the papers stand alone.
FACTORISERS = {"skout._numerics.linalg", "skout._numerics.factors", "skout.formulas"}

# What can run code that a file or a user brings; a pickle may be written, to compare objects.
RUNS_CODE = {
    *("pickle", "cloudpickle", "dill", "marshal", "shelve", "subprocess", "eval", "exec"),
    *("compile", "__import__", "os.system", "os.popen", "joblib.load", "yaml"),
    *("pandas.read_pickle", "builtins.eval", "builtins.exec"),
}
HARMLESS = {"pickle", "pickle.dumps"}
# What a call must be given to load plain data only.
LOADERS = {"numpy.load": "allow_pickle=False", "torch.load": "weights_only=True"}


@dataclass(frozen=True)
class Module:
    name: str  # skout.kernels.base
    source: str
    is_package: bool = False

    @property
    def room(self) -> str:
        return room(self.name)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(ast.parse(self.source)))

    @cached_property
    def dotted_names(self) -> list[tuple[str, int]]:
        """Every dotted name in the code, aliases undone: np.linalg.svd is numpy.linalg.svd."""
        known, found = aliases(self), []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found += [(alias.name, node.lineno) for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
            elif parts := attribute_chain(node):
                found.append((".".join([known.get(parts[0], parts[0]), *parts[1:]]), node.lineno))
        return found


def read_package() -> list[Module]:
    modules = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        modules.append(Module(name, path.read_text(encoding="utf-8"), is_package))
    return modules


MODULES = read_package()
KNOWN = {module.name for module in MODULES}


def room(name: str) -> str:
    """The file or folder directly under skout, or under skout.apps, that a module lies in."""
    parts = name.split(".")
    if len(parts) == 1:
        return "__init__"
    return ".".join(parts[1:3]) if parts[1] == "apps" else parts[1]


def is_application(name: str) -> bool:
    return f"{name}.".startswith("skout.apps.")


# Reading a module --------------------------------------------------------------------------------


def own_imports(module: Module) -> Iterator[tuple[str, ast.stmt]]:
    """The modules of skout that a module imports, relative imports made absolute.

    What a facade names for type checkers alone is no import.
    """
    type_only = for_types(module)
    for node in module.nodes:
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = import_base(module, node)
            names = [f"{base}.{alias.name}" for alias in node.names]
            # `from skout import basis` imports a module, `from skout.basis import x` a name of one.
            targets = [name if name in KNOWN else base for name in names]
        else:
            continue
        targets = [t for t in targets if t == "skout" or t.startswith("skout.")]
        if module.name in FACADES and id(node) in type_only:
            targets = [t for t in targets if not is_application(t)]
        yield from ((t, node) for t in targets)


def for_types(module: Module) -> set[int]:
    """The ids of statements that only type checkers see."""
    return {
        id(inner)
        for node in module.nodes
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in node.body
    }


def import_base(module: Module, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    parts = module.name.split(".")
    up = node.level - module.is_package
    return ".".join(parts[: len(parts) - up] + ([node.module] if node.module else []))


def functions(module: Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [n for n in module.nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def aliases(module: Module) -> dict[str, str]:
    """What names in the code stand for, by imports from outside: np is numpy."""
    found = {}
    for node in module.nodes:
        if isinstance(node, ast.Import):
            found |= {a.asname: a.name for a in node.names if a.asname}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return found


def attribute_chain(node: ast.AST) -> list[str]:
    """a.b.c as its parts; empty when the node is not such a chain."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        parts = attribute_chain(node.value)
        return [*parts, node.attr] if parts else []
    return []


# The rules ---------------------------------------------------------------------------------------


def unknown_room(module: Module) -> list[str]:
    if module.room in LEVEL:
        return []
    return [f"{module.name} has no layer: put {module.room!r} into LAYERS, or the code elsewhere"]


def upward_imports(module: Module) -> list[str]:
    return [
        f"{module.name}:{node.lineno} imports {target}, which is not below it"
        for target, node in own_imports(module)
        if not may_import(module.room, room(target))
    ]


def may_import(importer: str, imported: str) -> bool:
    if importer == imported:
        return True
    if importer not in LEVEL or imported not in LEVEL:
        return False
    return LEVEL[imported] < LEVEL[importer]


def hidden_imports(module: Module) -> list[str]:
    if module.room == "apps.cli":  # nothing imports it, and it should start quickly
        return []
    inside = [range(one.lineno, one.end_lineno + 1) for one in functions(module)]
    return [
        f"{module.name}:{node.lineno} imports {target} inside a function; import it at the top"
        for target, node in own_imports(module)
        if room(target) != "deep"  # which imports torch
        and any(node.lineno in lines for lines in inside)
    ]


def prints(module: Module) -> list[str]:
    if module.room in MAY_PRINT:
        return []
    return [
        f"{module.name}:{node.lineno} prints"
        for node in module.nodes
        if isinstance(node, ast.Call) and attribute_chain(node.func) == ["print"]
    ]


def oversize(module: Module) -> list[str]:
    lines = len(module.source.splitlines())
    found = [f"{module.name} has {lines} lines"] if lines > MAX_MODULE_LINES else []
    for function in functions(module):
        length = function.end_lineno - function.lineno + 1
        if ast.get_docstring(function) is not None:
            doc = function.body[0]
            length -= doc.end_lineno - doc.lineno + 1
        if length > MAX_FUNCTION_LINES:
            found.append(f"{module.name}:{function.lineno} {function.name} has {length} lines")
    return found


def hidden_randomness(module: Module) -> list[str]:
    """Functions of the global generators; classes (Generator, RandomState) and default_rng pass."""
    return [
        f"{module.name}:{line} uses {name}, hidden global state; pass a Generator"
        for name, line in module.dotted_names
        for head, _, last in [name.rpartition(".")]
        if head in {"numpy.random", "random"} and last.islower() and last != "default_rng"
    ]


def inverses(module: Module) -> list[str]:
    return [
        f"{module.name}:{line} uses {name}; solve with a factorisation of _numerics.linalg"
        for name, line in module.dotted_names
        if ".linalg.inv" in f".{name}." or name == "torch.inverse"
    ]


def stray_factorisations(module: Module) -> list[str]:
    if module.name in FACTORISERS:
        return []
    return [
        f"{module.name}:{line} uses {name}; only _numerics.linalg and .factors factorise"
        for name, line in module.dotted_names
        for *path, last in [name.split(".")]
        if ("linalg" in path and last in FACTORISATIONS) or "lapack" in (*path, last)
    ]


def code_from_data(module: Module) -> list[str]:
    found = [
        f"{module.name}:{line} uses {name}, which could run code of others"
        for name, line in module.dotted_names
        if name not in HARMLESS and (name in RUNS_CODE or name.split(".")[0] in RUNS_CODE)
    ]
    known = aliases(module)
    for call in (node for node in module.nodes if isinstance(node, ast.Call)):
        parts = attribute_chain(call.func)
        name = ".".join([known.get(parts[0], parts[0]), *parts[1:]]) if parts else ""
        needed = LOADERS.get(name)
        if needed is not None and needed not in {ast.unparse(one) for one in call.keywords}:
            found.append(f"{module.name}:{call.lineno} calls {name} without {needed}")
    return found


# The boundary ------------------------------------------------------------------------------------

# Modules whose public names have pages in docs/api.md; those of skout.dev are in docs/extending.md.
DOCUMENTED = {
    *("skout", "skout.datasets", "skout.decoding", "skout.deep", "skout.dev", "skout.formulas"),
    *(
        "skout.kernels",
        "skout.kinds",
        "skout.losses",
        "skout.metrics",
        "skout.molecules",
        "skout.persistence",
    ),
    *("skout.persistence.card", "skout.persistence.mlflow", "skout.persistence.onnx"),
    *("skout.readers", "skout.sketches", "skout.solvers", "skout.sources", "skout.theory"),
    "skout.testing",
}


@functools.cache
def public_names(name: str) -> frozenset[str]:
    """What a documented module exports: its ``__all__``, which is a literal list."""
    module = next(module for module in MODULES if module.name == name)
    lists = [
        ast.literal_eval(node.value)
        for node in module.nodes
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return frozenset({*itertools.chain.from_iterable(lists), "__version__"})


def names_of_skout(module: Module) -> dict[str, int]:
    """The modules of skout, and names in them, that the code uses; relative imports made absolute.

    Attributes of names are left out, and every one has its line.
    """
    names = dict(module.dotted_names)
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom):
            base = import_base(module, node)
            names |= {f"{base}.{alias.name}": node.lineno for alias in node.names}
    return {
        ".".join(filter(None, place_of(name))): line
        for name, line in names.items()
        if name.split(".")[0] == "skout"
    }


def place_of(name: str) -> tuple[str, str]:
    """The module that a dotted name leads to, and the first name in it, "" for the module."""
    parts = name.split(".")
    stop = next(n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in KNOWN)
    return ".".join(parts[:stop]), "".join(parts[stop : stop + 1])


def is_public(name: str) -> bool:
    """Whether a dotted name is documented: a module, or what is in its ``__all__``."""
    place, rest = place_of(name)
    return place in {*DOCUMENTED, "skout.typing"} and (not rest or rest in public_names(place))


def crossings(module: Module) -> dict[tuple[str, str], int]:
    """Private names that an application uses, applications that the library uses; their lines."""
    if module.name == "skout.__main__":
        return {}
    if is_application(module.name):
        wrong = {
            name: line
            for name, line in names_of_skout(module).items()
            if not is_application(name) and not is_public(name)
        }
    else:
        wrong = {target: n.lineno for target, n in own_imports(module) if is_application(target)}
        wrong |= {
            node.value: node.lineno
            for node in module.nodes
            if module.name not in FACADES  # which import by the text of a name, later
            and isinstance(node, ast.Constant)
            and re.fullmatch(r"skout\.apps[\w.]*", str(node.value))
        }
    return {(module.name, name): line for name, line in wrong.items()}


def boundary(module: Module) -> list[str]:
    law = "which has no page" if is_application(module.name) else "but no application is below it"
    return [f"{user}:{line} uses {name}, {law}" for (user, name), line in crossings(module).items()]


RULES = [
    unknown_room,
    boundary,
    upward_imports,
    hidden_imports,
    prints,
    oversize,
    hidden_randomness,
    inverses,
    stray_factorisations,
    code_from_data,
]


@pytest.fixture(scope="module")
def seen():
    """What each rule finds in the package, and who imports whom: each module is parsed once."""
    offences, imports = {rule: [] for rule in RULES}, {}
    for module in map(replace, MODULES):  # copies, which do not keep what was parsed
        for rule in RULES:
            offences[rule] += rule(module)
        imports[module.name] = {target for target, _ in own_imports(module)} - {module.name}
    return offences, imports


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_package_obeys(rule, seen):
    assert "skout" in KNOWN, f"no package found in {PACKAGE}"
    assert not seen[0][rule], "\n".join(seen[0][rule])


def test_every_layer_names_rooms_that_exist():
    assert set(LEVEL) == {module.room for module in MODULES}


def test_a_house_one_can_see():
    entries = [
        p.name for p in PACKAGE.iterdir() if not p.name.startswith("__") and p.suffix != ".typed"
    ]
    facades = {f"{name.rpartition('.')[2]}.py" for name in FACADES}
    assert len(set(entries) - facades) <= MOST_ENTRIES, sorted(entries)
    library = [rooms for rooms in LAYERS if not any(room.startswith("apps.") for room in rooms)]
    assert len(library) - 1 <= 10  # the longest chain of imports between rooms


def test_only_rows_asks_where_rows_lie():
    asking = [
        f"{module.name}:{number} {line.strip()}"
        for module in MODULES
        if module.room not in ("rows", "sources", "datasets")
        for number, line in enumerate(module.source.splitlines(), 1)
        if WHERE.search(line)
    ]
    assert 0 < len(asking) <= MOST_BRANCHES, "\n".join(asking)


# What estimators are called where a function is given one.
ESTIMATORS = {"model", "estimator", "regressor", "predictor", "basis", "decoder"}


def writers(module: Module) -> list[str]:
    """Functions that assign attributes of an estimator that they were given: they should return."""
    offenders = []
    for function in functions(module):
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        given = {argument.arg for argument in arguments} & ESTIMATORS
        written = {
            target.value.id
            for node in ast.walk(function)
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
            for target in assigned(node)
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)
        } | {
            node.args[0].id
            for node in ast.walk(function)
            if isinstance(node, ast.Call)
            and attribute_chain(node.func) == ["setattr"]
            and isinstance(node.args[0], ast.Name)
        }
        if given & written:
            offenders.append(f"{module.name}:{function.lineno} {function.name}")
    return offenders


def assigned(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> Iterator[ast.expr]:
    """What a statement assigns to, tuples taken apart."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        yield from target.elts if isinstance(target, ast.Tuple) else [target]


def test_functions_return_and_write_into_no_estimator():
    offenders = [line for module in MODULES for line in writers(module)]
    assert len(offenders) <= MOST_WRITERS, "\n".join(offenders)


@pytest.mark.parametrize(
    "source",
    [
        "def f(model):\n    model.coef_ = 1",
        "def f(model, X):\n    model.coef_, n = X, 1",
        "def f(*, regressor):\n    regressor.alpha_ += 1",
        "def f(model):\n    setattr(model, 'coef_', 1)",
    ],
)
def test_a_function_that_writes_into_an_estimator_is_found(source):
    assert writers(Module("skout.regressors.x", source))
    harmless = source.replace("model", "self").replace("regressor.", "self.")  # its own attributes
    assert not writers(Module("skout.regressors.x", harmless))


def callers(names: set[str]) -> set[str]:
    """The functions that use an attribute or a name of these, as module.function."""
    return {
        f"{module.name}.{function.name}"
        for module in MODULES
        for function in functions(module)
        for node in ast.walk(function)
        if (isinstance(node, ast.Attribute) and node.attr in names)
        or (isinstance(node, ast.Name) and node.id in names)
    }


def test_one_function_deals_folds():
    """Splitters of scikit-learn may be given to it; who splits by them is one function."""
    splits = {
        f"{module.name}.{function.name}"
        for module in MODULES
        for function in functions(module)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "split"
        and ({"groups"} & {keyword.arg for keyword in node.keywords} or len(node.args) == 3)
    }
    assert splits == {"skout.solvers.folds.deal"}
    assert callers({"check_cv"}) == {"skout.solvers.folds.deal"}


def test_one_function_computes_a_path():
    """Held-out losses and predictions of all alphas are asked for, and compared, in one place."""
    assert {"losses", "predictions"} <= set(vars(folds.Path))
    assert callers({"losses"}) & callers({"predictions"}) == {"skout.solvers.folds.choose"}
    assert callers({"greatest_score"}) == {"skout.solvers.folds.choose"}
    # the table of a metric that was learned on splits of its own has the same columns
    assert callers({"least_loss"}) == {
        "skout.solvers.folds.choose",
        "skout.regressors.learning.search_after",
    }


@pytest.mark.parametrize("kind", [skout.KernelRidge, skout.KernelMachine])
def test_a_fit_is_seen_on_one_screen(kind):
    """Few bases, a short `fit`, and helpers whose signatures say what they take and return."""
    own = [base for base in kind.__mro__[1:] if base.__module__.startswith("skout")]
    assert len(own) <= 3, own
    pending, seen = ["_fit"], set()
    while pending:
        name = pending.pop()
        function = getattr(kind, name)
        lines = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(lines).body[0]
        if name == "_fit":
            assert tree.end_lineno - tree.body[0].lineno < 30
        assert not re.search(r"\bAny\b", ast.unparse(tree.args) + ast.unparse(tree.returns)), name
        seen.add(name)
        called = {
            node.func.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and re.fullmatch(r"self\._[a-z]\w*", ast.unparse(node.func))
        }
        pending += sorted(called - seen)
    assert {"_read", "_take"} <= seen


def test_a_class_name_means_one_thing():
    places = {}
    for module in MODULES:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(module.name)
    double = {name: where for name, where in places.items() if len(where) > 1}
    assert not double, "\n".join(f"{k}: {v}" for k, v in double.items())


def test_no_import_cycle(seen):
    graphlib.TopologicalSorter(seen[1]).prepare()  # raises CycleError, which names the cycle


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (unknown_room, "skout.utils", ""),
        (upward_imports, "skout.kernels.base", "from skout.basis import KernelBasis"),
        (upward_imports, "skout.kernels.base", "from ..basis import KernelBasis"),
        (upward_imports, "skout.basis.engine", "from skout import KernelRidge"),
        (upward_imports, "skout.decoding.base", "import skout.regressors.ridge"),
        (upward_imports, "skout", "from .apps.cli import main"),
        (upward_imports, "skout.apps.tables.x", "from ..spectra import readers"),
        (upward_imports, "skout.apps.spectra.x", "from ..tuning import Tuned"),
        (boundary, "skout.apps.tuning.x", "from skout._numerics.arrays import n_bytes"),
        (boundary, "skout.apps.tuning.x", "from ..._numerics.arrays import take"),
        (boundary, "skout.apps.tuning.x", "from skout import rows"),
        (boundary, "skout.apps.tuning.x", "from skout.kernels import base"),
        (boundary, "skout.apps.tuning.x", "from skout.dev import nothing_of_the_kind"),
        (boundary, "skout.apps.tuning.x", "import skout.basis.engine"),
        (boundary, "skout.apps.tuning.x", "import skout\nskout.kernels.base.Kernel"),
        (boundary, "skout.apps.cli.x", "def f():\n    from skout.predictor import iokr"),
        (boundary, "skout.regressors.x", "from ..apps.tuning import Tuned"),
        (boundary, "skout.persistence.x", "import_module('skout.apps.tuning')"),
        (boundary, "skout.readers", "from .apps.tables import TableEncoder"),
        (hidden_imports, "skout.predictor", "def f():\n    from skout.basis import KernelBasis"),
        (prints, "skout.basis.engine", "def f():\n    print(1)"),
        (oversize, "skout.basis.engine", "x = 1\n" * 801),
        (oversize, "skout.basis.engine", "def f():\n    '''Doc.'''\n" + "    x = 1\n" * 60),
        (hidden_randomness, "skout.sketches", "import numpy as np\nnp.random.rand(3)"),
        (hidden_randomness, "skout.sketches", "from numpy.random import shuffle"),
        (inverses, "skout._numerics.linalg", "import numpy as np\nnp.linalg.inv(K)"),
        (inverses, "skout._numerics.linalg", "from scipy.linalg import inv"),
        (stray_factorisations, "skout.basis.engine", "import numpy as np\nnp.linalg.eigh(K)"),
        (stray_factorisations, "skout.basis.engine", "import numpy as np\nnp.linalg.eigvalsh(K)"),
        (stray_factorisations, "skout.basis.engine", "from scipy.linalg import cholesky as chol"),
        (stray_factorisations, "skout.basis.engine", "from scipy.linalg.lapack import dpstrf"),
        (stray_factorisations, "skout.basis.engine", "def f(xp, K):\n    return xp.linalg.qr(K)"),
        (code_from_data, "skout.basis.engine", "import pickle\npickle.loads(b)"),
        (code_from_data, "skout.basis.engine", "from pickle import load"),
        (code_from_data, "skout.basis.engine", "from pickle import Unpickler as U"),
        (code_from_data, "skout.basis.engine", "def f(x):\n    return eval(x)"),
        (code_from_data, "skout.basis.engine", "exec(open('f').read())"),
        (code_from_data, "skout.basis.engine", "import subprocess"),
        (code_from_data, "skout.basis.engine", "import os\nos.system('ls')"),
        (code_from_data, "skout.basis.engine", "import yaml"),
        (code_from_data, "skout.basis.engine", "import joblib\njoblib.load('f')"),
        (code_from_data, "skout.basis.engine", "import numpy as np\nnp.load('f')"),
        (
            code_from_data,
            "skout.basis.engine",
            "import numpy as np\nnp.load('f', allow_pickle=True)",
        ),
        (code_from_data, "skout.basis.engine", "import torch\ntorch.load('f')"),
        (
            code_from_data,
            "skout.basis.engine",
            "from torch import load\nload('f', weights_only=False)",
        ),
    ],
)
def test_rule_catches(rule, name, source):
    assert rule(Module(name, source, is_package=name == "skout"))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("skout.apps.tuning.x", "from skout import KernelRidge, __version__, metrics\nmetrics.r2"),
        ("skout.apps.tuning.x", "from skout.dev import take\ntake(X, 1).shape"),
        ("skout.apps.cli.x", "from ..tables.frames import is_frame\nis_frame(X)"),
        ("skout.readers", "if TYPE_CHECKING:\n    from .apps.tables import TableEncoder"),
        ("skout.__main__", "from .apps.cli import main"),
    ],
)
def test_the_boundary_lets_pass(name, source):
    module = Module(name, source)
    assert boundary(module) == upward_imports(module) == []


def test_the_library_imports_no_application():
    code = (
        "import sys, skout, skout.dev, skout.molecules, skout.persistence, skout.readers;"
        "print(*(name for name in sys.modules if name.startswith('skout.apps')))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_import_and_demo_need_no_extra():
    # scikit-learn itself imports pandas and rich where they are installed
    code = (
        "import sys; sys.modules |= dict.fromkeys(['typer', 'rich', 'matplotlib']);"
        "import sklearn.gaussian_process, sklearn.model_selection; before = set(sys.modules);"
        "import skout, skout.rows.device, skout.decoding.search, skout.apps.cli.demo;"
        f"print(*sorted({OPTIONAL!r} & (sys.modules.keys() - before)));"
        "assert 'theory' in dir(skout); print(skout.datasets.load)  # imported later"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    extras, later = run.stdout.splitlines()
    assert extras == ""
    assert later.startswith("<function")


IMPORTS = """
import time

start = time.process_time()
import sklearn

between = time.process_time()
import skout
from skout.solvers import folds

print(skout.__file__, (time.process_time() - start) / (between - start))
"""


def test_import_takes_hardly_longer_than_that_of_scikit_learn(tmp_path):
    # of a copy that is compiled, as pip compiles what it installs; what is compiled stays so
    shutil.copytree(PACKAGE, tmp_path / "skout")
    assert compileall.compile_dir(tmp_path, quiet=1)
    ratios = []
    for _ in range(3):
        command, env = [sys.executable, "-c", IMPORTS], os.environ | {"PYTHONPATH": str(tmp_path)}
        run = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert run.returncode == 0, run.stderr
        path, ratio = run.stdout.split()
        assert Path(path).is_relative_to(tmp_path)
        ratios.append(float(ratio))
        if ratios[-1] < 1.2:
            break  # slower ones were disturbed
    assert min(ratios) < 1.2, "look for slow imports: python -X importtime -c 'import skout'"


def test_no_part_is_made_up():
    with pytest.raises(AttributeError, match="module 'skout' has no attribute 'nonsense'"):
        skout.nonsense  # noqa: B018
