"""Decode strings without candidates, from the scores of their n-grams (Cortes et al., 2007).

Predicted coordinates stand for a vector g of expected n-gram counts. A string is a path in the de
Bruijn graph, whose nodes are (n - 1)-grams and whose edges are n-grams, that takes each edge as
often as the string has the n-gram. So the string nearest to g is the connected, balanced choice of
edges nearest to g, walked along an Euler path.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from .._numerics.objects import as_objects
from .._numerics.typing import Candidates, Floats, Objects
from .._numerics.validation import check_choice
from ..basis import KernelBasis
from ..kernels import Kernel, Normalized
from ..kernels.bags import Bags
from ..kernels.strings import NGram, string_of
from .base import Decoder
from .candidates import CandidateDecoder
from .euler import Graph, nearest_trail

# A built string must score more than a training output by more than rounding, relative to k(c, c).
_ROUNDING = 1e-9
# Norms of strings that are tried, where the kernel is normalized: the time grows with them. A
# convention.
_SCALES = 16


class StringDecoder(Decoder):
    """Find the string nearest to predicted coordinates, among all that training n-grams make.

    With the features phi of an `NGram` kernel the coordinates f stand for g = f D, D the basis
    functions as vectors of n-gram counts, and the string sought is arg max of 2 g . phi(c) - k(c,
    c), that is, nearest to g:

    - Where the rounded counts have an Euler path, it is that path.
    - Elsewhere the nearest counts that do are found by integer programming: a flow, and cuts that
      forbid pieces without connection. No n-gram is taken more than once more than its rounded
      count.

    "abcdbec" and "abecdbc" have the same counts of n-grams. Of several Euler paths one that is a
    training output is taken, else one that has few (n + 1)-grams which no training output has, then
    the lowest; a circle is cut where training outputs often start and end. So results repeat.

    Parameters
    ----------
    known : bool, default True
        Whether a training output is returned where no built string is nearer. If not, only where
        none can be built.
    ends : "any" or "known", default "any"
        Where strings may start and end: anywhere, or only with n - 1 characters that a training
        output starts and ends with. With marks around the strings, as in "<word>", "known" gives
        strings that have them.

    Attributes
    ----------
    basis_ : KernelBasis
    ngrams_ : list of str or bytes, q of them
        Those of the training outputs, in the order of the columns of `directions_`.
    directions_ : ndarray of shape (p, q)
        D, the n-grams that each coordinate stands for.

    Notes
    -----
    Kernels are NGram(n), with counts or presence, and Normalized(NGram(n)), for which strings of
    up to 16 norms, taken from the training outputs, are tried. With several lengths n the longest
    n-grams build the string, and all decide between it and the training outputs.

    Far from the training inputs, predicted counts can be huge. Where the rounded counts have an
    Euler path, strings of up to 100,000 n-grams are built; elsewhere no n-gram counts more than 300
    times, nothing is built beyond 10,000 in all, and beyond 1,000 the best connected piece is
    taken for the whole. The program has one variable an n-gram that may be taken, which are nearly
    all of the training outputs, and its time grows faster than their number (1 s for 12,000):
    beyond 20,000 those of greatest expected counts are used, and a warning says so.

    Examples
    --------
    >>> from skout import KernelBasis
    >>> from skout.decoding import StringDecoder
    >>> from skout.kernels import NGram
    >>> Y = ["stone", "tones", "onset", "sets", "nest", "notes", "ton", "net"]
    >>> basis = KernelBasis(NGram(2)).fit(Y)
    >>> decoder = StringDecoder().fit(basis, Y)
    >>> decoder.decode(basis.transform(["stones", "nets"]))  # neither is a training output
    ['stones', 'nets']
    """

    directions_: Floats

    def __init__(self, known: bool = True, ends: str = "any") -> None:
        self.known = known
        self.ends = ends

    def fit(self, basis: KernelBasis, Y: Objects, coordinates: np.ndarray | None = None) -> Self:
        check_choice(self.known, "known", (False, True))
        check_choice(self.ends, "ends", ("any", "known"))
        kernel = _ngram(basis.kernel_)
        strings = as_objects(Y).tolist()
        features, codes = kernel.vocabulary(strings)
        if len(features) == 0:
            raise ValueError(
                f"No training output has an n-gram of length n={kernel.lengths[-1]}, so that no "
                "string can be built. Choose a smaller n."
            )
        self.basis_ = basis
        self._kind = bytes if isinstance(strings[0], bytes) else str
        self._container = Y.dtype.kind if isinstance(Y, np.ndarray) else None
        self.ngrams_: list[str | bytes] = [string_of(row, self._kind) for row in codes]
        bags: Any = basis.landmarks_  # Bags, as both kernels encode strings
        landmarks = _columns(bags, features)
        if isinstance(basis.kernel_, Normalized):
            norms = np.sqrt(kernel.diag(bags))
            landmarks = sparse.diags_array(1.0 / np.where(norms > 0, norms, 1.0)) @ landmarks
        self.directions_ = basis.combine(landmarks.tocsr())
        number = {ngram: j for j, ngram in enumerate(self.ngrams_)}
        self._graph = _graph(codes, _ends_seen(strings, number), self.ends == "any")._replace(
            presence=kernel.presence, turns=_turns_seen(strings, number)
        )
        self._codes = codes
        self._scales = _scales(basis.kernel_, strings)
        self._outputs = CandidateDecoder().fit(basis, Y, coordinates)
        return self

    def without_pool(self) -> Self:
        """Raise: where no string can be built, a training output is returned."""
        raise ValueError(
            "StringDecoder cannot work without its training outputs: save with candidates=True."
        )

    def scores(self, F: Floats) -> Floats:
        """Return the expected counts g of the n-grams `ngrams_`, shape (n, q).

        Those of a normalized kernel are relative to the norm of the string.

        Parameters
        ----------
        F : ndarray of shape (n, p)
            Predicted coordinates.

        Returns
        -------
        G : ndarray of shape (n, q)
        """
        check_is_fitted(self)
        return F @ self.directions_

    def decode(self, F: np.ndarray, candidates: Candidates = None) -> Any:
        check_is_fitted(self)
        self._refuse(candidates)
        if len(F) == 0:
            return self._like_outputs([])
        positions, best = self._outputs.rank(F, k=1)
        pool = as_objects(self._outputs.pool_)
        strings, best = list(pool[positions[:, 0]]), best[:, 0]
        if not self.known:
            best = np.full(len(F), -np.inf)
        G = self.scores(F)
        for scale in self._scales:
            targets, floors = self._at_scale(G, best, scale)
            built = [
                self._string(nearest_trail(self._graph, g, floor))
                for g, floor in zip(targets, floors, strict=True)
            ]
            self._keep_better(F, built, strings, best)
        return self._like_outputs(strings)

    def _at_scale(
        self, G: np.ndarray, best: np.ndarray, scale: float | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return target counts g, and the value of 2 g . c - c . c that a built string must exceed.

        With a normalized kernel the best string has the largest g . c / ||c||: among strings of
        norm t it is the one nearest to t g / ||g||, and has the value t^2 (2 cos - 1).
        """
        if scale is None:
            single = len(_ngram(self.basis_.kernel_).lengths) == 1
            return G, best if single else np.full(len(G), -np.inf)
        norms = np.linalg.norm(G, axis=1)
        norms[norms == 0.0] = 1.0
        cosine = (best + 1.0) / (2.0 * norms)
        return scale * G / norms[:, None], scale**2 * (2.0 * cosine - 1.0)

    def _string(self, trail: list[int] | None) -> Any:
        """Return the string that takes these n-grams, each overlapping the one before."""
        if trail is None:
            return None
        codes = np.concatenate([self._codes[trail[0]], self._codes[trail[1:], -1]])
        return string_of(codes, self._kind)

    def _keep_better(
        self, F: np.ndarray, built: list[Any], strings: list[Any], best: np.ndarray
    ) -> None:
        """Replace strings and their scores, in place, by built strings that score better."""
        rows = np.array([i for i, string in enumerate(built) if string is not None], dtype=np.intp)
        if len(rows) == 0:
            return
        encoded = self.basis_.kernel_.encode([built[i] for i in rows])
        Z, norms = self.basis_.transform(encoded), self.basis_.kernel_.diag(encoded)
        score = 2.0 * np.einsum("ij,ij->i", F[rows], Z) - norms
        better = score > best[rows] + _ROUNDING * norms
        for i, value in zip(rows[better], score[better], strict=True):
            strings[i], best[i] = built[i], value

    def _like_outputs(self, strings: list[Any]) -> Any:
        """Return strings in the container of the training outputs: an array or a list."""
        if self._container is None:
            return strings
        if self._container != "O":
            return np.array(strings, dtype=self._container)
        return as_objects(strings)


def _ngram(kernel: Kernel) -> NGram:
    """Return the NGram kernel inside, or raise."""
    inner = kernel.kernel if isinstance(kernel, Normalized) else kernel
    if not isinstance(inner, NGram):
        raise TypeError(
            f"StringDecoder takes the kernels NGram and Normalized(NGram). Got {kernel!r} "
            'instead, for which use decoder="candidates".'
        )
    return inner


def _columns(bags: Bags, features: np.ndarray) -> sparse.csr_matrix:
    """Return bags as a matrix whose columns are these features, without the others."""
    place = np.searchsorted(features, bags.features)
    place[place == len(features)] = 0
    known = features[place] == bags.features
    cells = (bags.counts[known], (bags.row_numbers[known], place[known]))
    return sparse.coo_matrix(cells, shape=(len(bags), len(features))).tocsr()


def _ends_seen(strings: list[Any], number: dict[Any, int]) -> tuple[list[int], list[int]]:
    """Return the numbers of the n-grams that strings start with, and that they end with."""
    n = len(next(iter(number)))
    long = [string for string in strings if len(string) >= n]
    return [number[string[:n]] for string in long], [number[string[-n:]] for string in long]


def _turns_seen(strings: list[Any], number: dict[Any, int]) -> frozenset[tuple[int, int]]:
    """Return the pairs of n-grams, by number, that follow each other in strings."""
    n = len(next(iter(number)))
    _, codes = NGram(n + 1).vocabulary(strings)
    longer = [string_of(row, type(next(iter(number)))) for row in codes]
    return frozenset((number[string[:-1]], number[string[1:]]) for string in longer)


def _graph(codes: np.ndarray, seen: tuple[list[int], list[int]], any_ends: bool) -> Graph:
    """Return the de Bruijn graph of n-grams: an edge from the first n - 1 codes to the last."""
    q, n = codes.shape
    nodes = np.zeros(2 * q, dtype=np.intp)  # n = 1 has a single node, the empty string
    if n > 1:
        both = np.concatenate([codes[:, :-1], codes[:, 1:]])
        nodes = np.unique(both, axis=0, return_inverse=True)[1].ravel()
    tail, head = nodes[:q], nodes[q:]
    n_nodes = int(nodes.max()) + 1
    starts, ends = (
        np.bincount(side[seen_ends], minlength=n_nodes) + any_ends
        for side, seen_ends in zip((tail, head), seen, strict=True)
    )
    return Graph(tail, head, starts, ends)


def _scales(kernel: Kernel, strings: list[Any]) -> list[float | None]:
    """Return the norms that predictions are scaled to before the search; None keeps their own."""
    if not isinstance(kernel, Normalized):
        return [None]
    inner = _ngram(kernel)
    norms = np.unique(np.sqrt(inner.diag(inner.encode(strings))))
    norms = norms[norms > 0.0]
    chosen = np.linspace(0, len(norms) - 1, min(_SCALES, len(norms))).round().astype(int)
    return list(norms[chosen])
