"""Kernels on graphs straight from their definitions, one pair of graphs at a time.

A graph is (neighbours, labels, edge_labels): a dict from node to the set of its neighbours, a dict
from node to label, a dict from (u, v), both ways, to label.
"""

from collections import Counter


def graph_of(triple):
    edges, labels, edge_labels = triple
    neighbours = {v: set() for v in range(len(labels))}
    told = {}
    for e, (u, v) in enumerate(edges):
        neighbours[u].add(v)
        neighbours[v].add(u)
        told[u, v] = told[v, u] = None if edge_labels is None else edge_labels[e]
    return neighbours, dict(enumerate(labels)), told


def common(left, right):
    """Sum over features of the products of their counts."""
    return float(sum(count * right[feature] for feature, count in left.items()))


def vertex_histogram(a, b):
    return float(sum(x == y for x in a[1].values() for y in b[1].values()))


def distances(graph):
    """D(u, v) of the pairs that a path joins."""
    neighbours = graph[0]
    found = {}
    for start in neighbours:
        found[start, start] = 0
        frontier, d = {start}, 0
        while frontier:
            d += 1
            frontier = {w for v in frontier for w in neighbours[v] if (start, w) not in found}
            found |= {(start, w): d for w in frontier}
    return found


def shortest_path(a, b):
    def paths(graph):
        labels = graph[1]
        return Counter(
            (labels[u], labels[v], d) for (u, v), d in distances(graph).items() if u != v
        )

    return common(paths(a), paths(b))


def weisfeiler_lehman(n_iter, base=vertex_histogram):
    def kernel(a, b):
        labels = [a[1], b[1]]
        total = 0.0
        for _ in range(n_iter + 1):
            total += base(*((g[0], own, g[2]) for g, own in zip((a, b), labels, strict=True)))
            labels = [
                {v: (old[v], tuple(sorted(old[w] for w in graph[0][v]))) for v in old}
                for graph, old in zip((a, b), labels, strict=True)
            ]
        return total

    return kernel


def induced(graph, nodes):
    neighbours, labels, told = graph
    return (
        {v: neighbours[v] & nodes for v in nodes},
        {v: labels[v] for v in nodes},
        {(u, v): label for (u, v), label in told.items() if u in nodes and v in nodes},
    )


def k_core(graph, k):
    """The largest subgraph whose nodes all have k neighbours in it; None where there is none."""
    nodes = set(graph[0])
    while True:
        weak = {v for v in nodes if len((graph[0][v] & nodes) - {v}) < k}
        if not weak:
            return induced(graph, nodes) if nodes else None
        nodes -= weak


def core(base):
    def kernel(a, b):
        total, k = 0.0, 0
        while (core_a := k_core(a, k)) and (core_b := k_core(b, k)):
            total += base(core_a, core_b)
            k += 1
        return total

    return kernel


def rooted_isomorphic(a, root_a, b, root_b):
    """Whether a one-to-one map takes root to root, labels to labels and edges to edges."""
    if len(a[0]) != len(b[0]) or len(a[2]) != len(b[2]):
        return False

    def fits(partial, u, v):
        if a[1][u] != b[1][v] or a[2].get((u, u), "none") != b[2].get((v, v), "none"):
            return False
        return all(
            (w in a[0][u]) == (x in b[0][v]) and (w not in a[0][u] or a[2][u, w] == b[2][v, x])
            for w, x in partial.items()
        )

    def extend(partial):
        if len(partial) == len(a[0]):
            return True
        # a node next to one that has its image, so that wrong images show early
        u = next(w for v in partial for w in a[0][v] if w not in partial)
        used = set(partial.values())
        return any(v not in used and fits(partial, u, v) and extend(partial | {u: v}) for v in b[0])

    return fits({}, root_a, root_b) and extend({root_a: root_b})


class Neighbourhoods:
    """Numbers neighbourhoods: isomorphic ones, with their roots, have the same number."""

    def __init__(self):
        self.known = []

    def number(self, graph, D, root, r):
        ball = induced(graph, {v for v in graph[0] if D.get((root, v), r + 1) <= r})
        for number, (other, other_root) in enumerate(self.known):
            if rooted_isomorphic(ball, root, other, other_root):
                return number
        self.known.append((ball, root))
        return len(self.known) - 1


def neighborhood_subgraph_gram(graphs, radius, distance):
    """The Gram matrix of (401), each k_{r,d} normalised; 0 / 0 is 0."""
    n, paths = len(graphs), [distances(graph) for graph in graphs]
    K = [[0.0] * n for _ in range(n)]
    for r in range(radius + 1):
        known = Neighbourhoods()
        numbers = [
            {v: known.number(graph, D, v, r) for v in graph[0]}
            for graph, D in zip(graphs, paths, strict=True)
        ]
        for d in range(distance + 1):
            # the ordered pairs (A_v, B_u) with D(u, v) = d
            found = [
                Counter((number[v], number[u]) for (v, u), at in D.items() if at == d)
                for number, D in zip(numbers, paths, strict=True)
            ]
            norms = [common(own, own) ** 0.5 for own in found]
            for i in range(n):
                for j in range(n):
                    if norms[i] * norms[j] > 0:
                        K[i][j] += common(found[i], found[j]) / (norms[i] * norms[j])
    return K
