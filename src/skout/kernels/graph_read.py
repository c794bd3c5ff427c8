"""From the graphs that users have to `Graphs`: triples, networkx graphs, molecules, SMILES."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from itertools import chain
from numbers import Integral
from typing import Any

import numpy as np

from .._numerics.objects import as_objects, pointers
from .graph_rows import Graphs
from .smiles import chemistry, molecules, refuse

__all__ = ["read_graphs"]

# One graph: pairs of nodes, numbered from 0; a label a node; a label an edge, or None.
_Triple = tuple[list[Any], list[Any], list[Any] | None]


def read_graphs(objects: Any) -> Graphs:
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
          labelled, on the edges,
        - an RDKit molecule or a SMILES string (`pip install skout[chem]`): atoms without hydrogens,
          labelled by symbol; bonds labelled "SINGLE", "DOUBLE", ..., as they are after
          Kekulisation, the same for all ways to write a molecule.

        Labels are strings or integers, of one kind for all graphs. An edge that is given twice, or
        in both directions, is one edge. A self loop makes a node its own neighbour.

    Returns
    -------
    graphs : Graphs

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
    items = as_objects(objects)
    items = items.tolist() if isinstance(items, np.ndarray) else list(items)
    return _join(_triples(items))


def _triples(items: list[Any]) -> list[_Triple]:
    """Return graphs as lists; report all strings that are not SMILES."""
    triples, invalid = [], []
    for i, graph in enumerate(_parsed(items)):
        if graph is None and isinstance(items[i], str):
            invalid.append(i)
        else:
            triples.append(_as_triple(graph, i))
    refuse(invalid, items)
    return triples


def _parsed(items: list[Any]) -> Iterable[Any]:
    """Return graphs, of which SMILES are made molecules; None where they are invalid."""
    return molecules(items) if any(isinstance(item, str) for item in items) else items


def _as_triple(item: Any, i: int) -> _Triple:
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


def _as_list(values: Any) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _from_triple(item: Any, i: int) -> _Triple:
    edges, node_labels, edge_labels = item
    for part, name in ((edges, "edges"), (node_labels, "node_labels")):
        if not hasattr(part, "__len__"):
            kind = type(part).__name__
            raise TypeError(f"{name} must be a list, an array or a dict. Graph {i} has a {kind}.")
    edges = _as_list(edges)
    if isinstance(edge_labels, Mapping):
        _check_pairs(edges, i)
        edge_labels = [_look_up(edge_labels, pair, i) for pair in edges]
    elif edge_labels is not None:
        if not hasattr(edge_labels, "__len__"):
            kind = type(edge_labels).__name__
            raise TypeError(f"edge_labels must be a list, a dict or None. Graph {i} has a {kind}.")
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


def _look_up(edge_labels: Mapping[Any, Any], pair: Any, i: int) -> Any:
    u, v = pair
    for key in ((u, v), (v, u)):
        if key in edge_labels:
            return edge_labels[key]
    raise ValueError(f"edge_labels of graph {i} has no label for the edge ({u!r}, {v!r}).")


def _renumber(edges: list[Any], nodes: Iterable[Any], i: int) -> list[tuple[int, int]]:
    """Return the edges with the places of their ends among the nodes."""
    place = {node: j for j, node in enumerate(nodes)}
    try:
        return [(place[u], place[v]) for u, v in edges]
    except KeyError as error:
        raise ValueError(
            f"Edges must join nodes of their graph. An edge of graph {i} has the end "
            f"{error.args[0]!r}, which has no label."
        ) from None


def _from_networkx(graph: Any, i: int) -> _Triple:
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
    are_labelled = any(label is not None for label in edge_labels)
    if are_labelled and None in edge_labels:
        u, v, _ = ends[edge_labels.index(None)]
        raise ValueError(
            f"The edge ({u!r}, {v!r}) of graph {i} has no attribute 'label', other edges have one."
        )
    edges = _renumber([(u, v) for u, v, _ in ends], labels, i)
    return edges, list(labels.values()), edge_labels if are_labelled else None


def _from_molecule(molecule: Any) -> _Triple:
    edges, symbols, kinds = _atoms_and_bonds(molecule)
    if "H" not in symbols and "AROMATIC" not in kinds:
        return edges, symbols, kinds
    chem = chemistry()
    if "H" in symbols:
        molecule = chem.RemoveHs(molecule)
    if "AROMATIC" in kinds:
        molecule = _kekulised(molecule, chem)
    return _atoms_and_bonds(molecule)


def _atoms_and_bonds(molecule: Any) -> tuple[list[Any], list[str], list[str]]:
    # by index: RDKit's own iterators are slower
    atoms = map(molecule.GetAtomWithIdx, range(molecule.GetNumAtoms()))
    bonds = [molecule.GetBondWithIdx(j) for j in range(molecule.GetNumBonds())]
    edges = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in bonds]
    return edges, [atom.GetSymbol() for atom in atoms], [bond.GetBondType().name for bond in bonds]


def _kekulised(molecule: Any, chem: Any) -> Any:
    """Return a copy with single and double bonds in the place of aromatic ones.

    Which bonds become double depends on the order of the atoms, so they are brought into an order
    that RDKit gives to equal molecules.
    """
    molecule = chem.Mol(molecule)
    chem.RemoveStereochemistry(molecule)
    molecule = chem.MolFromSmiles(chem.MolToSmiles(molecule)) or molecule
    chem.Kekulize(molecule, clearAromaticFlags=True)
    return molecule


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
    if pairs and set(map(type, pairs)) <= {tuple, list} and set(map(len, pairs)) == {2}:
        flat = list(chain.from_iterable(pairs))
        if all(issubclass(kind, Integral) for kind in set(map(type, flat))):
            # no graph is as large as that, but the number must fit to be reported
            flat = [min(max(end, -(2**62)), 2**62) for end in flat]
            return _checked(np.array(flat, dtype=np.int64).reshape(-1, 2), n_edges, sizes)
    for i, (edges, _, _) in enumerate(triples):
        _check_pairs(edges, i)
        for pair in edges:
            if not all(isinstance(end, Integral) for end in pair):
                raise TypeError(
                    "Where node_labels is no dict, nodes are numbered from 0. "
                    f"Graph {i} has the edge {tuple(pair)!r}."
                )
    return np.empty((0, 2), dtype=np.int64)


def _checked(ends: np.ndarray, n_edges: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    graph = np.repeat(np.arange(len(sizes)), n_edges)
    wrong = ((ends < 0) | (ends >= sizes[graph][:, None])).any(axis=1)
    if wrong.any():
        e = int(np.argmax(wrong))
        raise ValueError(
            f"Edges must join nodes of their graph. Graph {graph[e]} has {sizes[graph[e]]} nodes, "
            f"numbered from 0, and the edge {tuple(ends[e].tolist())}."
        )
    return ends


def _hash_labels(labels: list[list[Any]], name: str) -> np.ndarray:
    """Return hashes of 64 bits that are the same in every process and every data set."""
    flat = list(chain.from_iterable(labels))
    kinds = {_kind(kind, name) for kind in set(map(type, flat))}
    if len(kinds) > 1 or "other" in kinds:
        _report_labels(labels, name)
    table = {label: _hash(label) for label in set(flat)}
    return np.fromiter(map(table.__getitem__, flat), dtype=np.uint64, count=len(flat))


def _hash(label: Any) -> int:
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


def _report_labels(labels: list[list[Any]], name: str) -> None:
    """Raise an error that shows a label that is neither, or one of each kind."""
    examples: dict[str, str] = {}
    for i, some in enumerate(labels):
        for label in some:
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
