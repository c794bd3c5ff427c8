"""`OnnxGraph`, the nodes and constants of a graph, and the registry of parts that are exported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from ..._numerics.extras import extra
from ..._numerics.typing import ArrayLike, DType, Estimator, Json

# Versions that runtimes of 2022 and later read; a file of protobuf is smaller than 2 GB.
_OPSET, _IR_VERSION, _MOST_BYTES = 17, 8, 2_000_000_000
# Versions of operators and files in which texts can be split and joined.
_OPSET_OF_TEXTS, _IR_OF_TEXTS = 20, 9
#: Versions of other domains of operators: those of machine learning, and those of ONNX Runtime,
#: which alone have tokens and hashes of texts.
_DOMAINS = {"ai.onnx.ml": 3, "com.microsoft": 1}
#: Rows: a dimension whose size is known when the graph runs.
ROWS = "n"
Shape = list[int | str]

#: A function (graph, part, name of its input) -> name of its result, of shape (n, p): it adds the
#: nodes of a part of a model to a graph.
Converter = Callable[["OnnxGraph", Any, str], str]
_CONVERTERS: dict[str, tuple[Converter, bool]] = {}


def converts(*names: str, has_inputs: bool = False) -> Callable[[Converter], Converter]:
    """Register a function that adds parts of these classes to a graph.

    Parameters
    ----------
    *names : str
        The package and the class, e.g. "sklearn.StandardScaler": nothing is imported for it.
    has_inputs : bool, default False
        Whether the function adds inputs to the graph, such as the columns of a table, where it is
        the first part.

    Returns
    -------
    decorator : callable
        Of a function (graph, part, name of the input) -> name of the result, both of shape (n, p).

    Examples
    --------
    >>> from skout.persistence.onnx import converts
    >>> @converts("skout.MyDoubling")
    ... def doubled(graph, part, X):
    ...     return graph.node("Add", X, X)
    """

    def register(function: Converter) -> Converter:
        _CONVERTERS.update(dict.fromkeys(names, (function, has_inputs)))
        return function

    return register


def add_part(graph: OnnxGraph, part: Estimator, X: str) -> str:
    """Add a fitted part of a model to a graph.

    Parameters
    ----------
    graph : OnnxGraph
    part : estimator
        Of a class that has a form in ONNX, or whose parent class has.
    X : str
        The name of its input in the graph; "" for the first part, which adds an input to it.

    Returns
    -------
    name : str
        Of its result in the graph, of shape (n, p).

    Raises
    ------
    TypeError
        For a part that has no form in ONNX; the message has its name.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skout.persistence.onnx import OnnxGraph, add_part
    >>> graph = OnnxGraph("float64")
    >>> X = graph.input("X", ["n", 2])
    >>> add_part(graph, StandardScaler().fit(np.eye(2)), X)
    'Div_1_0'
    """
    for kind in type(part).__mro__:
        known = _CONVERTERS.get(f"{kind.__module__.split('.')[0]}.{kind.__name__}")
        if known is not None:
            converter, has_inputs = known
            if not (X or has_inputs):
                X = graph.input("X", [ROWS, part.n_features_in_])
            return converter(graph, part, X)
    raise TypeError(
        f"{type(part).__name__} has no form in ONNX: the page on models elsewhere says what has; "
        "or give its form with skout.persistence.onnx.converts."
    )


class OnnxGraph:
    """Nodes, constants, inputs and outputs of an ONNX graph.

    Parameters
    ----------
    dtype : "float64" or "float32"
        Precision of all computed numbers.

    Examples
    --------
    >>> from skout.persistence.onnx import OnnxGraph
    >>> graph = OnnxGraph("float64")
    >>> doubled = graph.node("Mul", graph.input("X", ["n", 3]), graph.constant(2.0))
    >>> graph.output("prediction", doubled, ["n", 3])
    >>> [value.name for value in graph.model().graph.output]
    ['prediction']
    """

    dtype: np.dtype
    onnx: ModuleType

    def __init__(self, dtype: str = "float64") -> None:
        with extra("onnx", "ONNX graphs need onnx"):
            import onnx
        self.onnx, self.dtype = onnx, np.dtype(dtype)
        self.kind: int = onnx.helper.np_dtype_to_tensor_dtype(self.dtype)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.bytes: int = 0
        self._domains: set[str] = set()

    def node(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one result, and return the name of this."""
        return self.nodes_of(operation, *inputs, **attributes)[0]

    def nodes_of(
        self, operation: str, *inputs: str, count: int = 1, **attributes: Any
    ) -> list[str]:
        """Add a node with several results, and return their names."""
        names = [f"{operation}_{len(self.nodes)}_{j}" for j in range(count)]
        self.nodes.append(self.onnx.helper.make_node(operation, list(inputs), names, **attributes))
        if attributes.get("domain"):
            self._domains.add(str(attributes["domain"]))
        return names

    def constant(self, value: ArrayLike, dtype: DType | None = None) -> str:
        """Add an array, by default of the graph's type, and return its name."""
        array = np.asarray(value, dtype=dtype or self.dtype, order="C")
        return self._keep(self.onnx.numpy_helper.from_array(array), array.nbytes)

    def numbers(self, *values: int) -> str:
        """Add whole numbers, such as axes and sizes, and return their name."""
        return self.constant(list(values), np.int64)

    def texts(self, values: Sequence[str]) -> str:
        """Add a list of texts, and return its name."""
        coded: Any = [value.encode() for value in values]
        kind = self.onnx.TensorProto.STRING
        tensor = self.onnx.helper.make_tensor("", kind, [len(coded)], coded)
        return self._keep(tensor, sum(map(len, coded)))

    def _keep(self, tensor: Any, size: int) -> str:
        tensor.name = f"constant_{len(self.constants)}"
        self.constants.append(tensor)
        self.bytes += size
        if self.bytes > _MOST_BYTES:
            raise ValueError(
                f"The graph has more than {_MOST_BYTES / 1e9:g} GB, the most that an ONNX file can "
                "have: give fewer candidates, a sketch, or dtype='float32'."
            )
        return str(tensor.name)

    def cast(self, value: str, dtype: DType | None = None) -> str:
        """Add a cast, by default to the graph's type, and return its name."""
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype or self.dtype))
        return self.node("Cast", value, to=kind)

    def sum(self, value: str, axis: int, keepdims: bool = True) -> str:
        """Add the sum over an axis, and return its name."""
        return self.node("ReduceSum", value, self.numbers(axis), keepdims=int(keepdims))

    def input(self, name: str, shape: Shape, *, is_text: bool = False) -> str:
        """Add an input of numbers or of texts, and return its name."""
        kind = self.onnx.TensorProto.STRING if is_text else self.kind
        self.inputs.append(self.value(name, shape, kind))
        return name

    def output(self, name: str, source: str, shape: Shape, kind: int | None = None) -> None:
        """Add an output, by default of the graph's type."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [source], [name]))
        self.outputs.append(self.value(name, shape, kind))

    def value(self, name: str, shape: Shape, kind: int | None = None) -> Json:
        """Return the description of a value that has a name."""
        return self.onnx.helper.make_tensor_value_info(name, kind or self.kind, shape)

    def model(self) -> Any:
        """Return the graph as an onnx.ModelProto, checked."""
        helper = self.onnx.helper
        graph = helper.make_graph(self.nodes, "skout", self.inputs, self.outputs, self.constants)
        has_texts = "com.microsoft" in self._domains
        opsets = {"": _OPSET_OF_TEXTS if has_texts else _OPSET}
        opsets |= {domain: _DOMAINS[domain] for domain in sorted(self._domains)}
        made = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(*opset) for opset in opsets.items()],
            ir_version=_IR_OF_TEXTS if has_texts else _IR_VERSION,
            producer_name="skout",
        )
        self.onnx.checker.check_model(made)
        return made
