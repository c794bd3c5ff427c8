"""Kernels on graphs with labels, molecules among them, by explicit features; and with attributes.

The definitions are those of appendix C.2 of the thesis. Every kernel but `AttributedPaths` counts
features of a graph that do not depend on how its nodes are numbered; all graphs of a data set are
worked on together.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.base import clone

from .._numerics.arrays import row_slices, take
from .._numerics.objects import Joint, Ragged, as_objects, pointers
from .._numerics.typing import Objects, Rng, Weights
from .._numerics.validation import check_number
from ..rows import Survey
from ..rows.encode import check_matrix
from .bags import BagKernel, Bags, mix, work_slices
from .base import Block, Kernel, KernelLike, Resolved
from .graph_balls import ball_hashes
from .graph_rows import (
    Graph,
    Graphs,
    NodePairs,
    core_numbers,
    pair_distances,
    reached_work,
    read_graphs,
    refine,
)

# Occurrences of features: the graph, the feature, and how much each counts (or one number for all).
Occurrences: TypeAlias = tuple[np.ndarray, np.ndarray, float | np.ndarray]

# Nodes, or pairs of nodes where the kernel compares pairs, that are worked on at a time. Half takes
# 1.09 times as long, double 0.93, four times 1.14 (2,000 graphs of 20 nodes).
_BLOCK = 2**18
# Cores with the same nodes, from which on features are counted before they are repeated. For 300
# graphs of 14 and of 30 nodes the times with 1 to 8 are within noise.
_REPEATS = 2
# Nodes and edges of balls, at most, that are worked on at a time (a quarter takes 1.2 times as
# long, more gains nothing); and edges of balls from which on a warning is due: they take minutes.
_BALLS, _MANY_EDGES = 2**21, 1e9
# Pairs of nodes whose attributes are compared at a time (32 MB), and graphs that a width is
# resolved on. Conventions.
_PAIRS, _SAMPLE = 2**22, 1000


class GraphKernel(BagKernel):
    """Base of the kernels on graphs. Their authors write `_occurrences`.

    Graphs are (edges, node_labels, edge_labels) triples, networkx graphs, RDKit molecules or SMILES
    strings; `skout.kernels.read_graphs` says how they are read.
    """

    compares = "graphs"
    #: whether time and memory grow with the pairs of nodes
    _of_pairs: bool = False

    @abstractmethod
    def _occurrences(self, graphs: Graphs) -> Occurrences:
        """Return the features of graphs, in any order; a graph may be without nodes."""

    def _count(self, graphs: Graphs) -> Bags:
        """Return the bags of features of the graphs."""
        return Bags.collect(len(graphs), *self._occurrences(graphs))

    def _check_params(self) -> None:
        """Raise if a parameter is not valid."""

    def _bags(self, objects: Objects) -> Bags:
        self._check_params()
        graphs = read_graphs(objects)
        work = graphs.sizes ** (2 if self._of_pairs else 1)
        return Bags.concatenate([self._count(graphs[part]) for part in work_slices(work, _BLOCK)])


class VertexHistogram(GraphKernel):
    """Vertex histogram kernel: products of the counts of each node label, summed (definition .31).

    Examples
    --------
    >>> from skout.kernels import VertexHistogram
    >>> ethanol = ([(0, 1), (1, 2)], ["C", "C", "O"], None)
    >>> methanol = ([(0, 1)], ["C", "O"], None)
    >>> VertexHistogram()([ethanol, methanol])
    array([[5., 3.],
           [3., 2.]])
    """

    def _occurrences(self, graphs: Graphs) -> Occurrences:
        return graphs.graph, graphs.labels, 1.0


class ShortestPath(GraphKernel):
    """Shortest path kernel: counts pairs of nodes with equal labels and distance (definition .32).

    A feature is (label of u, label of v, D(u, v)) of an ordered pair of different nodes; D is the
    number of edges of a shortest path, and pairs without a path are left out.

    Notes
    -----
    Time grows with the square of the nodes of a graph.

    Examples
    --------
    >>> from skout.kernels import ShortestPath
    >>> ethanol = ([(0, 1), (1, 2)], ["C", "C", "O"], None)
    >>> methanol = ([(0, 1)], ["C", "O"], None)
    >>> ShortestPath()([ethanol, methanol])
    array([[8., 2.],
           [2., 2.]])
    """

    _of_pairs = True

    def _occurrences(self, graphs: Graphs) -> Occurrences:
        work = graphs.sizes[graphs.graph]
        return _by_blocks(graphs, work, lambda nodes: self._of_sources(graphs, nodes))

    @staticmethod
    def _of_sources(graphs: Graphs, nodes: slice) -> Occurrences:
        pairs = pair_distances(graphs, nodes=nodes)
        met = pairs.distance > 0
        source, target = pairs.source[met], pairs.target[met]
        features = _pair_features(graphs.labels, source, target, pairs.distance[met])
        return graphs.graph[source], features, 1.0


def _by_blocks(
    graphs: Graphs, work: np.ndarray, occurrences: Callable[[slice], Occurrences]
) -> Occurrences:
    """Return the occurrences at all nodes, block by block; several blocks are counted first."""
    blocks = list(work_slices(work, _BLOCK))
    if len(blocks) <= 1:
        return occurrences(slice(None))
    return _joined([_counted(len(graphs), occurrences(nodes)) for nodes in blocks])


def _counted(n: int, occurrences: Occurrences) -> Occurrences:
    """Return each feature of a graph once, with its count."""
    bags = Bags.collect(n, *occurrences)
    return bags.row_numbers, bags.features, bags.counts


def _joined(parts: list[Occurrences]) -> Occurrences:
    """Return the occurrences of all parts."""
    rows, features, counts = zip(*parts, strict=True)
    if all(np.ndim(count) == 0 for count in counts):  # then all of them are one
        if all(np.array_equal(row, rows[0]) for row in rows[1:]):
            # one of each part in turn, so that features come in the order of the graphs
            return np.repeat(rows[0], len(rows)), np.stack(features, axis=1).ravel(), counts[0]
        return np.concatenate(rows), np.concatenate(features), counts[0]
    each = [np.broadcast_to(count, len(row)) for row, count in zip(rows, counts, strict=True)]
    return np.concatenate(rows), np.concatenate(features), np.concatenate(each)


def _pair_features(
    hashes: np.ndarray, source: np.ndarray, target: np.ndarray, tags: np.ndarray
) -> np.ndarray:
    """Return hashes of (hash of the source, hash of the target, tag)."""
    first, second = mix(hashes, salt=11), mix(hashes, salt=12)
    both = first[source] + second[target]
    both += mix(tags.astype(np.uint64), salt=13)
    return mix(both)


class _OverGraphs(GraphKernel):
    """Base of the kernels that sum another one, `base`, over graphs derived from each graph."""

    parts: tuple[str, ...] = ("base",)
    base: Any

    @property
    def _of_pairs(self) -> bool:  # type: ignore[override]
        return self._kernel()._of_pairs

    def _kernel(self) -> GraphKernel:
        base = self._part("base")
        if not isinstance(base, GraphKernel):
            raise TypeError(f"base must be a kernel on graphs. Got {base!r} instead.")
        return base

    def _check_params(self) -> None:
        self._kernel()._check_params()


class WeisfeilerLehman(_OverGraphs):
    """Weisfeiler-Lehman kernel: a sum over graphs relabeled by neighbors (definition .34, (402)).

    In each iteration, the label of a node becomes the pair of its label and the multiset of the
    labels of its neighbors. Labels of edges do not count, unless the base kernel compares them.

    Parameters
    ----------
    n_iter : int, default 5
        Number of iterations; with the labels as they are given, n_iter + 1 kernels.
    base : graph kernel or str, default "vertex_histogram"
        Vertex histograms give the subtree kernel, "shortest_path" the shortest path kernel of
        Shervashidze et al. (2011).

    Examples
    --------
    >>> from skout.kernels import ShortestPath, WeisfeilerLehman
    >>> ethanol = ([(0, 1), (1, 2)], ["C", "C", "O"], None)
    >>> methanol = ([(0, 1)], ["C", "O"], None)
    >>> WeisfeilerLehman(n_iter=1)([ethanol, methanol])
    array([[8., 4.],
           [4., 4.]])
    >>> WeisfeilerLehman(n_iter=1, base=ShortestPath())([ethanol, methanol])
    array([[14.,  2.],
           [ 2.,  4.]])
    """

    def __init__(self, n_iter: int = 5, base: KernelLike = "vertex_histogram") -> None:
        self.n_iter = n_iter
        self.base = base

    def _maker(self) -> str:
        # files have bags of vertex histograms from before there were other bases
        name, base = f"[('n_iter', {self.n_iter})]WeisfeilerLehman", self._kernel()._maker()
        return name if base == VertexHistogram()._maker() else f"{name} of {base}"

    def _check_params(self) -> None:
        check_number(self.n_iter, "n_iter", integer=True)
        super()._check_params()

    def _occurrences(self, graphs: Graphs) -> Occurrences:
        base, parts = self._kernel(), []
        for level in range(self.n_iter + 1):
            graphs = graphs.relabel(refine(graphs)) if level else graphs
            row, features, counts = base._occurrences(graphs)
            parts.append((row, mix(features, salt=100 + level), counts))
        return _joined(parts)


class Core(_OverGraphs):
    """Core kernel: a kernel summed over the k-cores of the graphs, k = 0, 1, ... (definition .35).

    The k-core is the largest subgraph whose nodes all have k neighbors in it; the 0-core is the
    graph itself. Where one of two graphs has no k-core, nothing is added. Self loops do not count
    as neighbors.

    Parameters
    ----------
    base : graph kernel or str, default "weisfeiler_lehman"
        The kernel on graphs that is summed over the cores.

    Examples
    --------
    >>> from skout.kernels import Core, VertexHistogram
    >>> triangle = ([(0, 1), (1, 2), (2, 0)], ["C", "C", "C"], None)
    >>> path = ([(0, 1), (1, 2)], ["C", "C", "C"], None)
    >>> Core(VertexHistogram())([triangle, path])
    array([[27., 18.],
           [18., 18.]])
    """

    def __init__(self, base: KernelLike = "weisfeiler_lehman") -> None:
        self.base = base

    def _maker(self) -> str:
        # a base that is given by name makes the same bags as the kernel of that name
        return f"Core of {self._kernel()._maker()}"

    def _occurrences(self, graphs: Graphs) -> Occurrences:
        base, cores = self._kernel(), core_numbers(graphs)
        parts, last = [], -1
        for core in np.unique(cores) if len(cores) else [0]:
            part = base._occurrences(graphs.subgraph(cores >= core))
            if core - last > _REPEATS:
                part = _counted(len(graphs), part)
            for k in range(last + 1, core + 1):  # whose cores have the same nodes
                parts.append((part[0], mix(part[1], salt=1000 + k), part[2]))
            last = core
        return _joined(parts)


class NeighborhoodSubgraph(GraphKernel):
    """Counts pairs of equal neighborhoods at equal distance (NSPD, definition .33).

    For r = 0 to `radius` and d = 0 to `distance`, k_{r,d}(G, G') is the number of pairs of nodes
    (v, u) of G and (v', u') of G', D(v, u) = D(v', u') = d, whose neighborhoods are alike: the
    subgraphs that the nodes within distance r of v and v' induce are isomorphic, with v and v' as
    roots and with the labels of nodes and edges, and so are those of u and u'. Pairs are ordered.
    The kernel is the sum of k_{r,d}(G, G') / sqrt(k_{r,d}(G, G) k_{r,d}(G', G')), where 0 / 0 is 0.

    Parameters
    ----------
    radius : int, default 3
        Largest radius of neighborhoods: larger ones are more specific, and cost more.
    distance : int, default 4
        Largest distance between the two nodes of a pair.

    Notes
    -----
    Isomorphic neighborhoods always count as equal, so the numbering of the nodes never matters.
    The converse: colors of nodes (label, distance to the root) are refined by those of their
    neighbors. Where this leaves nodes of one color that cannot be swapped as twins can, and the
    neighborhood is no tree, each node of a smallest class of them is singled out, colors are
    refined again, and so once more. Trees, and neighborhoods whose nodes are all told apart by
    then, are told from all that are not isomorphic, but for collisions of 64-bit hashes: nearly all
    parts of molecules are of this kind. Others, strongly regular graphs for one or very symmetric
    ones of hundreds of nodes, for which singling out would take too long, may wrongly be taken as
    equal.

    Time and memory grow with the nodes and edges of all neighborhoods: like the nodes of a graph
    if none has many neighbors, like its nodes times its edges if neighborhoods of `radius` reach
    most of it. A warning says so before the work where that takes minutes.

    References
    ----------
    Costa and De Grave, "Fast neighborhood subgraph pairwise distance kernel" (2010).

    Examples
    --------
    >>> from skout.kernels import NeighborhoodSubgraph
    >>> ethanol = ([(0, 1), (1, 2)], ["C", "C", "O"], ["SINGLE", "SINGLE"])
    >>> ethanal = ([(0, 1), (1, 2)], ["C", "C", "O"], ["SINGLE", "DOUBLE"])
    >>> NeighborhoodSubgraph(radius=1, distance=1)([ethanol, ethanal]).round(3)
    array([[4.   , 2.333],
           [2.333, 4.   ]])
    """

    _of_pairs = True

    def __init__(self, radius: int = 3, distance: int = 4) -> None:
        self.radius = radius
        self.distance = distance

    def _check_params(self) -> None:
        check_number(self.radius, "radius", integer=True)
        check_number(self.distance, "distance", integer=True)

    def _occurrences(self, graphs: Graphs) -> Occurrences:
        bags = self._count(graphs)
        return bags.row_numbers, bags.features, bags.counts

    def _count(self, graphs: Graphs) -> Bags:
        source, target, d, balls = self._neighborhoods(graphs)
        n_terms = (self.radius + 1) * (self.distance + 1)
        low = np.uint64(2 ** int(n_terms - 1).bit_length() - 1)
        features = []
        for r, hashes in enumerate(balls):
            term = (r * (self.distance + 1) + d).astype(np.uint64)
            # the last bits of a feature say which (r, d) it is of
            features.append(_pair_features(hashes, source, target, term) & ~low | term)
        # pair by pair, so that features come in the order of the graphs
        row = np.repeat(graphs.graph[source], self.radius + 1)
        bags = Bags.collect(len(graphs), row, np.stack(features, axis=1).ravel())
        # (graph, term) of each feature, and k_{r,d}(G, G)
        part = bags.row_numbers * n_terms + (bags.features & low).astype(np.int64)
        norms = np.sqrt(np.bincount(part, weights=bags.counts**2))
        return Bags(bags.indptr, bags.features, bags.counts / norms[part])

    def _neighborhoods(
        self, graphs: Graphs
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
        """Return the pairs of nodes within `distance`, as columns, and hashes of balls by radius.

        Few nodes are worked on at a time.
        """
        reach = max(self.radius, self.distance)
        met, balls = [], []
        for nodes in work_slices(reached_work(graphs, reach), _BALLS):
            pairs = pair_distances(graphs, reach, nodes)
            if nodes.start == 0:
                self._warn_if_slow(graphs, pairs)
            within = pairs.distance <= self.distance
            met.append((pairs.source[within], pairs.target[within], pairs.distance[within]))
            balls.append(ball_hashes(graphs, pairs, self.radius))
        source, target, d = (np.concatenate(column) for column in zip(*met, strict=True))
        return source, target, d, [np.concatenate(each) for each in zip(*balls, strict=True)]

    def _warn_if_slow(self, graphs: Graphs, pairs: NodePairs) -> None:
        """Warn if the balls of all nodes have very many edges, estimated from the first ones."""
        inside = pairs.distance <= self.radius
        degree = np.diff(graphs.edge_indptr)
        share = len(graphs.labels) / max(1, len(pairs.row))
        edges = share * float(degree[pairs.target[inside]].sum())
        if edges > _MANY_EDGES:
            warnings.warn(
                f"The neighborhoods of radius {self.radius} in graphs of up to "
                f"{graphs.sizes.max()} nodes have about {edges:.1g} edges, which takes minutes. "
                "Lower radius, or use WeisfeilerLehman, whose time grows like the edges.",
                UserWarning,
                stacklevel=2,
            )


# Attributes have no features to count: graphs are compared by products of matrices --------------


class AttributedPaths(Kernel):
    """Shortest path kernel of graphs whose nodes have attributes, vectors (definition .32, (399)).

    k(G, G') is the sum over ordered pairs of different nodes (u, v) of G and (u', v') of G' at the
    same distance of kappa(u, u') kappa(v, v'). There kappa is the kernel of the attributes where
    the labels are equal, and zero where they are not. Pairs without a path are left out. With equal
    attributes it is `ShortestPath`.

    Parameters
    ----------
    kernel : kernel or str, default "gaussian"
        Of the attributes, which are vectors. Words such as gamma="scale" are resolved on the nodes
        of at most 1,000 graphs.

    Notes
    -----
    Graphs are (edges, node_labels, edge_labels, attributes), where `attributes` is an array of
    shape (nodes, q) and `node_labels` may be None, or networkx graphs whose nodes have
    "attributes" and perhaps "label". Time grows with the product of the nodes of both sets of
    graphs, for each distance.

    Examples
    --------
    >>> from skout.kernels import AttributedPaths, Gaussian
    >>> short = ([(0, 1)], ["C", "O"], None, [[0.0], [1.0]])
    >>> wide = ([(0, 1)], ["C", "O"], None, [[0.0], [2.0]])
    >>> AttributedPaths(Gaussian(1.0))([short, wide]).round(3)
    array([[2.   , 0.736],
           [0.736, 2.   ]])
    """

    compares = "graphs"
    parts: tuple[str, ...] = ("kernel",)

    def __init__(self, kernel: KernelLike = "gaussian") -> None:
        self.kernel = kernel

    def encode(self, objects: Objects) -> Joint:
        """Return labels and attributes of the nodes, and the distances of their pairs."""
        if isinstance(objects, Joint):
            return objects
        parts = [_parted(graph, i) for i, graph in enumerate(as_objects(objects))]
        graphs = read_graphs([triple for triple, _ in parts])
        sizes = graphs.sizes
        attributes = _stacked([values for _, values in parts], sizes)
        pairs = pair_distances(graphs)
        of_node = sizes[graphs.graph]  # cells of each node: its distances to all of its graph
        cells = np.full(int(of_node.sum()), -1, dtype=np.int32)
        first = pointers(of_node)[pairs.source] - graphs.indptr[graphs.graph[pairs.source]]
        cells[first + pairs.target] = pairs.distance
        nodes = Ragged(graphs.indptr, graphs.labels, *np.ascontiguousarray(attributes.T))
        return Joint(nodes, Ragged(pointers(sizes**2), cells))

    def surveyed(self, survey: Survey, rng: Rng, weights: Weights = None) -> Resolved:
        n = len(survey.source)
        index = np.sort(rng.choice(n, min(n, _SAMPLE), replace=False))
        sample, kernel = survey.take(index), self._part("kernel")
        return lambda: clone(self).set_params(kernel=kernel.resolve(_attributes(sample()), rng))

    def against(self, B: Joint) -> Block:
        paths = _paths(B)
        most = max(1, _PAIRS // max(1, len(B.left.columns[0])))  # nodes of A at a time

        def block(A: Joint, out: np.ndarray | None = None) -> np.ndarray:
            out = np.zeros((len(A), len(B))) if out is None else out
            size = max(1, most // max(1, int(A.left.lengths.max(initial=1))))
            for rows in row_slices(len(A), size):
                out[rows] = self._compared(take(A, rows), B, paths)
            return out

        return block

    def _compared(self, A: Joint, B: Joint, paths_B: list[sparse.csr_matrix]) -> np.ndarray:
        # sum_d sum_{u, u'} kappa(u, u') (A_d kappa B_d)(u, u'), A_d(u, v) = 1 if D(u, v) = d
        if len(A) == 0 or len(B) == 0:
            return np.zeros((len(A), len(B)))
        kappa = self._part("kernel")(_attributes(A), _attributes(B)).astype(np.float64)
        kappa *= A.left.columns[0][:, None] == B.left.columns[0]  # labels
        total = np.zeros_like(kappa)
        for A_d, B_d in zip(_paths(A), paths_B, strict=False):
            total += (B_d @ (A_d @ kappa).T).T
        total *= kappa
        by_graph = np.add.reduceat(total, A.left.indptr[:-1], axis=0)
        return np.add.reduceat(by_graph, B.left.indptr[:-1], axis=1)

    def diag(self, A: Joint) -> np.ndarray:
        graphs = (take(A, slice(i, i + 1)) for i in range(len(A)))
        return np.array([self._compared(graph, graph, _paths(graph))[0, 0] for graph in graphs])


def _attributes(rows: Any) -> np.ndarray:
    """Return the attributes of the nodes of all graphs, shape (nodes, q)."""
    return np.stack(rows.left.columns[1:], axis=1)


def _paths(rows: Joint) -> list[sparse.csr_matrix]:
    """Return for d = 1, 2, ... the matrix of the pairs of nodes at distance d, of all graphs."""
    sizes, (cells,) = rows.left.lengths, rows.right.columns
    n = int(sizes.sum())
    source = np.repeat(np.arange(n), np.repeat(sizes, sizes))
    number = np.arange(len(cells)) - np.repeat(rows.right.indptr[:-1], sizes**2)
    target = number % np.repeat(sizes, sizes**2) + np.repeat(rows.left.indptr[:-1], sizes**2)
    at_distance = (cells == d for d in range(1, int(cells.max(initial=0)) + 1))
    return [
        sparse.csr_matrix((np.ones(int(at.sum())), (source[at], target[at])), shape=(n, n))
        for at in at_distance
    ]


def _parted(graph: Graph, i: int) -> tuple[Graph, Objects]:
    """Return a graph as `read_graphs` takes it, and the attributes of its nodes."""
    if isinstance(graph, tuple | list) and len(graph) == 4:
        edges, labels, edge_labels, attributes = graph
        labels = [0] * len(attributes) if labels is None else labels
        return (edges, labels, edge_labels), attributes
    if hasattr(graph, "is_directed") and hasattr(graph, "nodes"):
        attributes = [value for _, value in graph.nodes(data="attributes")]
        if not any(value is None for value in attributes):
            if any(label is None for _, label in graph.nodes(data="label")):
                graph = graph.copy()
                for node in graph.nodes:
                    graph.nodes[node]["label"] = 0
            return graph, attributes
    raise TypeError(
        "AttributedPaths takes graphs (edges, node_labels, edge_labels, attributes), or networkx "
        f"graphs whose nodes have 'attributes'. Graph {i} is a {type(graph).__name__} without."
    )


def _stacked(attributes: list[Objects], sizes: np.ndarray) -> np.ndarray:
    """Return the attributes of all nodes, shape (nodes, q)."""
    tables = [np.asarray(values, dtype=np.float64) for values in attributes]
    widths = {table.shape[1:] for table in tables}
    for i, (table, size) in enumerate(zip(tables, sizes, strict=True)):
        if table.ndim != 2 or len(table) != size or len(widths) > 1:
            raise ValueError(
                "attributes must be arrays of shape (nodes, q), of one q for all graphs. Graph "
                f"{i} has {size} nodes and attributes of shape {table.shape}."
            )
    return check_matrix(np.concatenate(tables)) if tables else np.empty((0, 1))
