from typing import Any

from numpy.typing import NDArray

def dtrmm(
    alpha: float,
    a: NDArray[Any],
    b: NDArray[Any],
    *,
    side: int = ...,
    lower: int = ...,
    trans_a: int = ...,
) -> NDArray[Any]: ...
def dtrsv(
    a: NDArray[Any], x: NDArray[Any], *, lower: int = ..., trans: int = ...
) -> NDArray[Any]: ...
