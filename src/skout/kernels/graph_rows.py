"""Many graphs as a few long arrays: how they are read, and what kernels do with all at once.

Users give triples, networkx graphs, molecules or SMILES. Labels and colors of nodes are hashes of
64 bits. A multiset of hashes is hashed by the sum of its members, each of them mixed first, so that
the order of nodes and neighbors never matters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from .._numerics.objects import as_objects, pointers, ranges
from .._numerics.typing import Index, Objects
from .bags import ODD, mix
from .molecules import Molecule, chemistry, molecules, refuse

# Graphs of so many nodes, and this share of all possible edges, are dense: products of matrices
# find their distances faster than a search over edges: of 32 nodes and a share of 0.1 they take 1.4
# times as long, of 0.2 0.8; of 64 nodes and 0.1 0.8, of 128 0.2, of 16 nodes always more.
_DENSE_NODES, _DENSE_SHARE = 32, 0.1


def segment_sums(values: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Return the sums of values[indptr[i] : indptr[i + 1]], in integers that may wrap around."""
    totals = np.zeros(len(values) + 1, dtype=values.dtype)
    np.cumsum(values, out=totals[1:])
    return np.diff(totals[indptr])


@dataclass(frozen=True, eq=False)
class Graphs:
    """Undirected graphs with labels, one after the other; made by `read_graphs`.

    Each edge is there twice, once from each end; a self loop once. Graph i has the nodes indptr[i]
    to indptr[i + 1] - 1, and the edges edge_indptr[v] to edge_indptr[v + 1] - 1 leave node v.
    """

    indptr: np.ndarray  # int64, (n + 1,)
    labels: np.ndarray  # uint64, one hash a node
    edge_indptr: np.ndarray  # int64
    target: np.ndarray  # int64, the node at the other end of each edge
    edge_labels: np.ndarray  # uint64, one hash an edge

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)

    @property
    def sizes(self) -> np.ndarray:
        """The number of nodes of each graph."""
        return np.diff(self.indptr)

    @cached_property
    def graph(self) -> np.ndarray:
        """The number of the graph that each node belongs to."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @cached_property
    def source(self) -> np.ndarray:
        """The node that each edge leaves."""
        return np.repeat(np.arange(len(self.labels)), np.diff(self.edge_indptr))

    def relabel(self, labels: np.ndarray) -> Graphs:
        """Return the same graphs with other labels of the nodes."""
        return replace(self, labels=labels)

    def __getitem__(self, index: Index) -> Graphs:
        """Return graphs by a slice, a mask or positions, which may repeat."""
        chosen = np.atleast_1d(np.arange(len(self))[index])
        sizes = self.sizes[chosen]
        nodes = ranges(self.indptr[chosen], sizes)
        degrees = np.diff(self.edge_indptr)[nodes]
        indptr = pointers(sizes)
        first = self.edge_indptr[self.indptr]
        n_edges = np.diff(first)[chosen]
        edges = ranges(first[chosen], n_edges)
        moved = np.repeat(indptr[:-1] - self.indptr[chosen], n_edges)
        return Graphs(
            indptr,
            self.labels[nodes],
            pointers(degrees),
            self.target[edges] + moved,
            self.edge_labels[edges],
        )

    def subgraph(self, keep: np.ndarray) -> Graphs:
        """Return the graphs that the marked nodes induce; some may be left without nodes."""
        number = pointers(keep)
        kept = np.repeat(keep, np.diff(self.edge_indptr))
        kept &= keep[self.target]
        n_kept = pointers(kept)
        starts = n_kept[self.edge_indptr[:-1]][keep]
        return Graphs(
            number[self.indptr],
            self.labels[keep],
            np.append(starts, n_kept[-1]),
            number[self.target[kept]],
            self.edge_labels[kept],
        )


def refine(graphs: Graphs, *, edge_labels: bool = False) -> np.ndarray:
    """Return new labels of the nodes: hashes of the old one and those of the neighbors.

    With `edge_labels`, a neighbor counts together with the label of the edge that leads to it.
    """
    seen = mix(graphs.labels, salt=1)[graphs.target]
    if edge_labels:
        seen = mix(seen + graphs.edge_labels, salt=2)
    around = segment_sums(seen, graphs.edge_indptr)
    # an odd factor, so that a label counts otherwise than those of the neighbors
    return mix(graphs.labels * np.uint64(ODD) + around, salt=3)


@dataclass(frozen=True, eq=False)
class NodePairs:
    """Ordered pairs of nodes that have a path, for all or some first nodes, and their distances.

    The pairs with the i-th source are indptr[i] to indptr[i + 1] - 1, their targets in order. The
    number of the pair of the i-th source and node v is table[row[i] + v]; -1 if there is none.
    """

    source: np.ndarray  # int64
    target: np.ndarray  # int64
    distance: np.ndarray  # int32, edges of a shortest path
    indptr: np.ndarray  # int64
    row: np.ndarray  # int64
    table: np.ndarray  # int32


def reached_work(graphs: Graphs, reach: int) -> np.ndarray:
    """Return an upper bound of the nodes and edges within a distance of each node.

    No more than its graph has, and no more than if each node on the way had the most neighbors.
    """
    degrees = np.diff(graphs.edge_indptr).astype(np.float64)
    most = np.zeros(len(graphs))
    np.maximum.at(most, graphs.graph, degrees)
    steps = np.minimum(reach, graphs.sizes)
    nodes = np.where(most > 1, (np.maximum(most, 2.0) + 1.0) ** np.minimum(steps, 20), steps + 1)
    whole = graphs.sizes + np.diff(graphs.edge_indptr[graphs.indptr])
    work = np.minimum(whole, nodes * (1.0 + most)) + graphs.sizes / 8  # its row of the table
    bounds: np.ndarray = np.ceil(work).astype(np.int64)[graphs.graph]
    return bounds


def pair_distances(
    graphs: Graphs, limit: int | None = None, nodes: slice = slice(None)
) -> NodePairs:
    """Return the distances from some nodes, by a breadth-first search from all of them at once.

    Pairs farther apart than `limit` are left out.
    """
    sources = np.arange(len(graphs.labels))[nodes]
    graph = graphs.graph[sources]
    cells = pointers(graphs.sizes[graph])
    row = cells[:-1] - graphs.indptr[:-1][graph]
    table = np.full(cells[-1], -1, dtype=np.int32)  # of distances
    dense = _are_dense(graphs)[graph]
    for i in np.unique(graph[dense]):
        centers = np.flatnonzero(graph == i)  # which lie together
        block = slice(cells[centers[0]], cells[centers[-1] + 1])
        table[block] = _by_products(graphs, int(i), sources[centers], limit).ravel()
    _search(graphs, sources, row, np.flatnonzero(~dense), limit, table)
    reached = np.flatnonzero(table >= 0)
    number = np.searchsorted(cells, reached, side="right") - 1
    distance = table[reached]
    table[reached] = np.arange(len(reached), dtype=np.int32)
    indptr = np.searchsorted(reached, cells)
    return NodePairs(sources[number], reached - row[number], distance, indptr, row, table)


def _search(
    graphs: Graphs,
    sources: np.ndarray,
    row: np.ndarray,
    number: np.ndarray,
    limit: int | None,
    table: np.ndarray,
) -> None:
    """Write distances from sources[number] into the table, that of node v at row[number] + v."""
    writer = np.empty(len(table), dtype=np.int32)
    end = sources[number]
    table[row[number] + end] = 0
    d = 0
    while len(end) and d != limit:
        d += 1
        degree = graphs.edge_indptr[end + 1] - graphs.edge_indptr[end]
        number = np.repeat(number, degree)
        end = graphs.target[ranges(graphs.edge_indptr[end], degree)]
        cell = row[number] + end
        new = np.flatnonzero(table[cell] < 0)
        cell = cell[new]
        table[cell] = d
        # a pair that was reached several times goes on once: the last to write its name there
        name = np.arange(len(cell), dtype=np.int32)
        writer[cell] = name
        new = new[writer[cell] == name]
        number, end = number[new], end[new]


def _are_dense(graphs: Graphs) -> np.ndarray:
    """Return for each graph whether matrix products find its distances faster than a search."""
    n_edges = np.diff(graphs.edge_indptr[graphs.indptr])
    dense: np.ndarray = (graphs.sizes >= _DENSE_NODES) & (n_edges >= _DENSE_SHARE * graphs.sizes**2)
    return dense


def _by_products(graphs: Graphs, i: int, centers: np.ndarray, limit: int | None) -> np.ndarray:
    """Return the distances from some nodes of graph i to all of them, shape (b, n)."""
    start, n = graphs.indptr[i], graphs.sizes[i]
    edges = slice(graphs.edge_indptr[start], graphs.edge_indptr[start + n])
    adjacency = np.zeros((n, n), dtype=np.float32)
    adjacency[graphs.source[edges] - start, graphs.target[edges] - start] = 1.0
    distance = np.full((len(centers), n), -1, dtype=np.int32)
    frontier = np.zeros(distance.shape, dtype=np.float32)
    frontier[np.arange(len(centers)), centers - start] = 1.0
    d = 0
    while frontier.any():
        distance[frontier > 0] = d
        if d == limit:
            break
        d += 1
        frontier = ((frontier @ adjacency > 0) & (distance < 0)).astype(np.float32)
    return distance


def core_numbers(graphs: Graphs) -> np.ndarray:
    """Return for each node the largest k such that it is in the k-core; self loops do not count."""
    number = np.zeros(len(graphs.labels), dtype=np.int64)
    alive = np.ones(len(number), dtype=bool)
    proper = graphs.source != graphs.target
    source, target = graphs.source[proper], graphs.target[proper]
    k = 1
    while alive.any():
        degree = np.bincount(source, minlength=len(number))
        weak = alive & (degree < k)
        if not weak.any():
            number[alive] = k
            k += 1
            continue
        alive &= ~weak
        kept = alive[source] & alive[target]
        source, target = source[kept], target[kept]
    return number


# Reading ---------------------------------------------------------------------------------------

# A graph of a user: a triple, a networkx graph, an RDKit molecule or SMILES, as those libraries
# have no types. Then what it is read into: pairs of nodes, numbered from 0; a label a node; a label
# an edge, or None.
Graph: TypeAlias = Any
Label: TypeAlias = str | int | None
_Triple: TypeAlias = tuple[list[Any], list[Label], list[Label] | None]


def read_graphs(objects: Objects) -> Graphs:
    """Return graphs as one structure that every kernel on graphs takes.

    Kernels call it themselves. Call it where several kernels are to see the same graphs.

    Parameters
    ----------
    objects : sequence of graphs
        Each of them one of

        - a triple (edges, node_labels, edge_labels): pairs of nodes as a list or an array of shape
          (e, 2); labels of the nodes 0, 1, ... as a list or array, or as a dict from node to label;
          labels of the edges in their order, as a dict from pair to label, or None,
        - a networkx graph, undirected, with the attribute "label" on the nodes and, if edges are
          labeled, on the edges,
        - an RDKit molecule or a SMILES string (`pip install "skout[chem]"`): atoms without
          hydrogens, labeled by symbol; bonds labeled "SINGLE", "DOUBLE", ..., as they are after
          Kekulization, the same for all ways to write a molecule.

        Labels are strings or integers, of one kind for all graphs. An edge that is given twice, or
        in both directions, is one edge. A self loop makes a node its own neighbor.

    Examples
    --------
    >>> from skout.kernels import read_graphs
    >>> water, carbon_monoxide = ([], ["O"], None), ([(0, 1)], ["C", "O"], ["TRIPLE"])
    >>> graphs = read_graphs([water, carbon_monoxide])
    >>> len(graphs), graphs.sizes.tolist()
    (2, [1, 2])
    """
    if isinstance(objects, Graphs):
        return objects
    if hasattr(objects, "is_directed") or hasattr(objects, "GetAtoms"):
        raise TypeError("Expected a list of graphs. Got a single graph: put it into a list.")
    items = _as_list(as_objects(objects))
    graphs = molecules(items) if any(isinstance(item, str) for item in items) else items
    triples, invalid = [], []
    for i, graph in enumerate(graphs):
        if graph is None and isinstance(items[i], str):
            invalid.append(i)
        else:
            triples.append(_as_triple(graph, i))
    refuse(invalid, items)  # all strings that are not SMILES
    return _join(triples)


def _as_triple(item: Graph, i: int) -> _Triple:
    """Return one graph as lists."""
    if isinstance(item, (tuple, list)) and len(item) == 3:
        return _from_triple(item, i)
    if hasattr(item, "GetAtoms"):
        return _from_molecule(item)
    if hasattr(item, "is_directed") and hasattr(item, "nodes"):
        return _from_networkx(item, i)
    raise TypeError(
        "A graph must be a triple (edges, node_labels, edge_labels), a networkx graph, an RDKit "
        f"molecule or a SMILES string. Graph {i} is a {type(item).__name__}."
    )


def _as_list(values: Iterable[Any]) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _from_triple(item: tuple[Any, Any, Any] | list[Any], i: int) -> _Triple:
    edges, node_labels, edge_labels = item
    allowed = {"edges": "a list, an array or a dict", "node_labels": "a list, an array or a dict"}
    allowed["edge_labels"] = "a list, a dict or None"
    for part, (name, kinds) in zip(item, allowed.items(), strict=True):
        if not hasattr(part, "__len__") and not (part is None and name == "edge_labels"):
            raise TypeError(f"{name} must be {kinds}. Graph {i} has a {type(part).__name__}.")
    edges = _as_list(edges)
    if isinstance(edge_labels, Mapping):
        _check_pairs(edges, i)
        keys = [(u, v) if (u, v) in edge_labels else (v, u) for u, v in edges]
        for (u, v), key in zip(edges, keys, strict=True):
            if key not in edge_labels:
                pair = f"({u!r}, {v!r})"
                raise ValueError(f"edge_labels of graph {i} has no label for the edge {pair}.")
        edge_labels = [edge_labels[key] for key in keys]
    elif edge_labels is not None:
        edge_labels = _as_list(edge_labels)
        if len(edge_labels) != len(edges):
            raise ValueError(
                f"edge_labels must hold one label an edge. Graph {i} has {len(edges)} edges and "
                f"{len(edge_labels)} labels."
            )
    if isinstance(node_labels, Mapping):
        _check_pairs(edges, i)
        edges = _renumber(edges, node_labels, i)
        node_labels = node_labels.values()
    return edges, _as_list(node_labels), edge_labels


def _check_pairs(edges: list[Any], i: int) -> None:
    for pair in edges:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"An edge must be a pair of nodes. Graph {i} has {pair!r}.")


def _renumber(edges: list[Any], nodes: Iterable[object], i: int) -> list[tuple[int, int]]:
    """Return the edges with the places of their ends among the nodes."""
    place = {node: j for j, node in enumerate(nodes)}
    try:
        return [(place[u], place[v]) for u, v in edges]
    except KeyError as error:
        raise ValueError(
            f"Edges must join nodes of their graph. An edge of graph {i} has the end "
            f"{error.args[0]!r}, which has no label."
        ) from None


def _from_networkx(graph: Graph, i: int) -> _Triple:
    if graph.is_directed():
        raise ValueError(f"Graphs must be undirected. Graph {i} is not: try .to_undirected().")
    labels = dict(graph.nodes(data="label"))
    bare = [node for node, label in labels.items() if label is None]
    if bare:
        raise ValueError(
            f"Node {bare[0]!r} of graph {i} has no attribute 'label'. If nodes have no labels, set "
            "networkx.set_node_attributes(graph, 0, 'label')."
        )
    ends = list(graph.edges(data="label"))
    edge_labels = [label for *_, label in ends]
    are_labeled = any(label is not None for label in edge_labels)
    if are_labeled and None in edge_labels:
        u, v, _ = ends[edge_labels.index(None)]
        raise ValueError(
            f"The edge ({u!r}, {v!r}) of graph {i} has no attribute 'label', other edges have one."
        )
    edges = _renumber([(u, v) for u, v, _ in ends], labels, i)
    return edges, list(labels.values()), edge_labels if are_labeled else None


def _from_molecule(molecule: Molecule) -> _Triple:
    edges, symbols, kinds = _atoms_and_bonds(molecule)
    if "H" not in symbols and "AROMATIC" not in kinds:
        return edges, symbols, kinds
    chem = chemistry()
    if "H" in symbols:
        molecule = chem.RemoveHs(molecule)
    if "AROMATIC" in kinds:
        # which bonds become double depends on the order of the atoms, so they are brought into an
        # order that RDKit gives to equal molecules
        molecule = chem.Mol(molecule)
        chem.RemoveStereochemistry(molecule)
        molecule = chem.MolFromSmiles(chem.MolToSmiles(molecule)) or molecule
        chem.Kekulize(molecule, clearAromaticFlags=True)
    return _atoms_and_bonds(molecule)


def _atoms_and_bonds(molecule: Molecule) -> tuple[list[Any], list[Label], list[Label]]:
    # by index: RDKit's own iterators are slower
    atoms = map(molecule.GetAtomWithIdx, range(molecule.GetNumAtoms()))
    bonds = [molecule.GetBondWithIdx(j) for j in range(molecule.GetNumBonds())]
    edges = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in bonds]
    return edges, [atom.GetSymbol() for atom in atoms], [bond.GetBondType().name for bond in bonds]


# Joining -----------------------------------------------------------------------------------------


def _join(triples: list[_Triple]) -> Graphs:
    """Return many graphs as one structure, and say which of them is not well formed."""
    sizes = np.array([len(labels) for _, labels, _ in triples], dtype=np.int64)
    if not sizes.all():
        raise ValueError(f"A graph must have a node. Graph {np.argmin(sizes)} has none.")
    indptr = pointers(sizes)
    n_edges = np.array([len(edges) for edges, _, _ in triples], dtype=np.int64)
    ends = _ends(triples, n_edges, sizes)
    ends += np.repeat(indptr[:-1], n_edges)[:, None]
    node_labels = _hash_labels([labels for _, labels, _ in triples], "node_labels")
    edge_labels = _hash_labels(
        [[None] * len(edges) if labels is None else labels for edges, _, labels in triples],
        "edge_labels",
    )
    return _adjacency(indptr, node_labels, ends, edge_labels)


def _ends(triples: list[_Triple], n_edges: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the ends of all edges, numbered within their graphs, shape (e, 2)."""
    pairs = list(chain.from_iterable(edges for edges, _, _ in triples))
    flat: list[Any] = []
    if set(map(type, pairs)) <= {tuple, list} and set(map(len, pairs)) <= {2}:
        flat = list(chain.from_iterable(pairs))
    if len(flat) < 2 * len(pairs) or not all(issubclass(t, Integral) for t in set(map(type, flat))):
        for i, (edges, _, _) in enumerate(triples):
            _check_pairs(edges, i)
            for pair in edges:
                if not all(isinstance(end, Integral) for end in pair):
                    raise TypeError(
                        "Where node_labels is no dict, nodes are numbered from 0. "
                        f"Graph {i} has the edge {tuple(pair)!r}."
                    )
    # no graph is as large as that, but the number must fit to be reported
    flat = [min(max(end, -(2**62)), 2**62) for end in flat]
    ends = np.array(flat, dtype=np.int64).reshape(-1, 2)
    graph = np.repeat(np.arange(len(sizes)), n_edges)
    wrong = ((ends < 0) | (ends >= sizes[graph][:, None])).any(axis=1)
    if wrong.any():
        e = int(np.argmax(wrong))
        raise ValueError(
            f"Edges must join nodes of their graph. Graph {graph[e]} has {sizes[graph[e]]} nodes, "
            f"numbered from 0, and the edge {tuple(ends[e].tolist())}."
        )
    return ends


def _hash_labels(labels: list[list[Label]], name: str) -> np.ndarray:
    """Return hashes of 64 bits that are the same in every process and every data set."""
    flat = list(chain.from_iterable(labels))
    kinds = {_kind(kind, name) for kind in set(map(type, flat))}
    if len(kinds) > 1 or "other" in kinds:
        _report_labels(labels, name)
    table = {label: _hash(label) for label in set(flat)}
    return np.fromiter(map(table.__getitem__, flat), dtype=np.uint64, count=len(flat))


def _hash(label: Label) -> int:
    # "C" is C, 6 is #6, and so is True, which a dict takes for 1; no label is #
    text = str.__str__(label) if isinstance(label, str) else "#"
    text += str(int(label)) if isinstance(label, Integral) else ""
    code = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(code.digest(), "little")


def _kind(kind: type, name: str) -> str:
    if issubclass(kind, str):
        return "string"
    if issubclass(kind, Integral):
        return "integer"
    return "none" if kind is type(None) and name == "edge_labels" else "other"


def _report_labels(labels: list[list[Label]], name: str) -> None:
    """Raise an error that shows a label that is neither, or one of each kind."""
    examples: dict[str, str] = {}
    for i, labels_of_graph in enumerate(labels):
        for label in labels_of_graph:
            examples.setdefault(_kind(type(label), name), f"{label!r} in graph {i}")
    shown = examples.get("other", " and ".join(examples.values()))
    raise TypeError(f"{name} must be strings or integers, of one kind for all graphs. Got {shown}.")


def _adjacency(
    indptr: np.ndarray, labels: np.ndarray, ends: np.ndarray, edge_labels: np.ndarray
) -> Graphs:
    """Return graphs whose edges are there from both ends, sorted, each once."""
    source = np.concatenate([ends[:, 0], ends[:, 1]])
    target = np.concatenate([ends[:, 1], ends[:, 0]])
    edge_labels = np.concatenate([edge_labels, edge_labels])
    order = np.argsort(source * len(labels) + target, kind="stable")
    source, target, edge_labels = source[order], target[order], edge_labels[order]
    again = np.zeros(len(source), dtype=bool)
    again[1:] = (source[1:] == source[:-1]) & (target[1:] == target[:-1])
    clash = np.flatnonzero(again[1:] & (edge_labels[1:] != edge_labels[:-1]))
    if len(clash):
        u, v = source[clash[0]], target[clash[0]]
        i = int(np.searchsorted(indptr, u, side="right")) - 1
        raise ValueError(
            f"The edge ({u - indptr[i]}, {v - indptr[i]}) of graph {i} has two different labels; "
            "nodes are counted in the order of node_labels."
        )
    kept = ~again
    degrees = np.bincount(source[kept], minlength=len(labels))
    return Graphs(indptr, labels, pointers(degrees), target[kept], edge_labels[kept])
