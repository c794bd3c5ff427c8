"""The graph edit distance straight from its definition, over all ways to map nodes."""

from itertools import combinations, permutations


def edges_of(graph):
    """The labels of the edges by their ends, the lower first."""
    edges, _, labels = graph
    labels = [None] * len(edges) if labels is None else labels
    return {tuple(sorted(pair)): label for pair, label in zip(edges, labels, strict=True)}


def partial_maps(n, m):
    """All maps of some of n nodes to different ones of m; the others are deleted or inserted."""
    for size in range(min(n, m) + 1):
        for kept in combinations(range(n), size):
            for images in permutations(range(m), size):
                yield dict(zip(kept, images, strict=True))


def edit_cost(a, b, kept, edge_labels=True):
    """The edits that a map asks for, counted one by one."""
    (_, nodes_a, _), (_, nodes_b, _) = a, b
    edges_a, edges_b = edges_of(a), edges_of(b)
    cost = len(nodes_a) + len(nodes_b) - 2 * len(kept)
    cost += sum(nodes_a[i] != nodes_b[j] for i, j in kept.items())
    survived = 0
    for (i, j), label in edges_a.items():
        image = tuple(sorted((kept.get(i, -1), kept.get(j, -1))))
        if image not in edges_b:
            cost += 1
            continue
        survived += 1
        cost += edge_labels and edges_b[image] != label
    return cost + len(edges_b) - survived


def graph_edit_distance(a, b, edge_labels=True):
    maps = partial_maps(len(a[1]), len(b[1]))
    return min(edit_cost(a, b, kept, edge_labels) for kept in maps)


def isomorphic(a, b):
    """Whether some numbering of the nodes makes two graphs the same."""
    (_, nodes_a, _), (_, nodes_b, _) = a, b
    if len(nodes_a) != len(nodes_b):
        return False
    return any(
        all(nodes_a[i] == nodes_b[p[i]] for i in range(len(p)))
        and edges_of(b)
        == {tuple(sorted((p[i], p[j]))): label for (i, j), label in edges_of(a).items()}
        for p in permutations(range(len(nodes_a)))
    )
