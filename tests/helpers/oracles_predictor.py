"""Slow truths, straight from the formulas of the thesis; nothing here comes from skout.

Dense matrices only, and every inverse is a pseudo-inverse, so that duplicated rows and
rank-deficient kernels need no special case.
"""

import numpy as np


def gaussian(A, B, gamma):
    """k(a, b) = exp(-gamma ||a - b||^2), by explicit differences."""
    return np.exp(-gamma * ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2))


def linear(A, B):
    return A @ B.T


def polynomial(A, B, degree, gamma, coef0):
    return (gamma * (A @ B.T) + coef0) ** degree


def pinv(A):
    """Pseudo-inverse of a symmetric matrix."""
    return np.linalg.pinv(A, rcond=1e-12, hermitian=True)


def ridge_weights(K_te, K, lam):
    """alpha(x)' of every test row: K_te (K + n lam I)^-1 (2.32)."""
    n = len(K)
    return np.linalg.solve(K + n * lam * np.eye(n), K_te.T).T


def sketched_ridge_weights(K_te, K, R, lam):
    """K_te R' (R K^2 R' + n lam K~)^+ R K, the input side of (4.10)."""
    inner = R @ K @ K @ R.T + len(K) * lam * (R @ K @ R.T)
    return K_te @ R.T @ pinv(inner) @ R @ K


def iokr_scores(K_te, K, K_Yc, lam):
    """S of IOKR (2.34): (n_te, n_c)."""
    return ridge_weights(K_te, K, lam) @ K_Yc


def siokr_scores(K_te, K, K_Yc, R_X, lam):
    """S with the input sketched alone: (4.11) with R_Y = I."""
    return sketched_ridge_weights(K_te, K, R_X, lam) @ K_Yc


def isokr_scores(K_te, K, K_Y, K_Yc, R_Y, lam):
    """S with the output sketched alone: (4.9) with the exact input side."""
    K_tilde = R_Y @ K_Y @ R_Y.T
    return ridge_weights(K_te, K, lam) @ K_Y @ R_Y.T @ pinv(K_tilde) @ R_Y @ K_Yc


def sisokr_scores(K_te, K_X, K_Y, K_Yc, R_X, R_Y, lam):
    """S of SISOKR: K_te R_X' Omega' R_Y K_Yc (4.11), Omega as in (4.10)."""
    n = len(K_X)
    K_tilde_X, K_tilde_Y = R_X @ K_X @ R_X.T, R_Y @ K_Y @ R_Y.T
    inner = R_X @ K_X @ K_X @ R_X.T + n * lam * K_tilde_X
    omega = pinv(K_tilde_Y) @ R_Y @ K_Y @ K_X @ R_X.T @ pinv(inner)  # (m_Y, m_X)
    return K_te @ R_X.T @ omega.T @ R_Y @ K_Yc


def decode(S, norms):
    """arg min over candidates of k(c, c) - 2 S (4.5), by a loop; ties to the lower index."""
    best = []
    for row in S:
        costs = [norm - 2.0 * s for norm, s in zip(norms, row, strict=True)]
        best.append(min(range(len(costs)), key=costs.__getitem__))
    return np.array(best)


def projected_kernel(K_a, K_b, K_tilde):
    """<P psi(a), P psi(b)> = (R k_a)' K~^+ (R k_b) (2.72); K_a is k(a, .) R' of shape (n_a, m)."""
    return K_a @ pinv(K_tilde) @ K_b.T


def ridge_with_intercept(Z, T, w, alpha):
    """Minimise sum w/(2 sum w) ||t - B'z - b||^2 + alpha/2 ||B||^2 by an unpenalised column."""
    A = np.column_stack([Z, np.ones(len(Z))])
    penalty = np.sqrt(w.sum() * alpha) * np.eye(Z.shape[1] + 1)[:-1]
    root = np.sqrt(w)[:, None]
    left, right = (
        np.vstack([root * A, penalty]),
        np.vstack([root * T, np.zeros((len(penalty), T.shape[1]))]),
    )
    solution = np.linalg.lstsq(left, right, rcond=None)[0]
    return solution[:-1], solution[-1]


def coordinate_ridge(Z, T, alpha):
    """(Z'Z + n alpha I)^-1 Z'T by QR of [Z; sqrt(n alpha) I]: no squared condition number."""
    n, p = Z.shape
    left = np.vstack([Z, np.sqrt(n * alpha) * np.eye(p)])
    Q, R = np.linalg.qr(left)
    return np.linalg.solve(R, Q[:n].T @ T)


def top_k(S, k):
    """Indices of the k largest of each row by a full stable sort."""
    return np.array(
        [sorted(range(len(row)), key=lambda j: (-row[j], j))[:k] for row in S], dtype=int
    ).reshape(len(S), k)
