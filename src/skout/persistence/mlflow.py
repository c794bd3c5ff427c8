"""Models in MLflow (`pip install "skout[mlflow]"`): logged with a run, loaded by their URI.

What is logged is the file of `skout.save`, so no pickle. It has two flavors: "skout", which
`load_model` here gives back as it was, and "python_function", which `mlflow.pyfunc.load_model` and
`mlflow models serve` use.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .._numerics.extras import extra
from .._numerics.typing import Estimator, Json, PathLike, Rows, State
from . import describe, load, save

__all__ = ["load_model", "log_model", "save_model"]

_FLAVOR, _FILE, _NEEDED, _PYTHON = "skout", "model.skout", "requirements.txt", "python_env.yaml"


def save_model(
    model: Estimator,
    path: PathLike,
    mlflow_model: Any = None,
    *,
    signature: object = None,
    metadata: dict[str, Json] | None = None,
) -> None:
    """Write a model as a folder in the format of MLflow.

    Parameters
    ----------
    model : what `skout.save` saves, or the path of what it saved
    path : path
        The folder, which must not exist.
    mlflow_model : mlflow.models.Model, optional
        The model that flavors are added to; MLflow itself passes it.
    signature : mlflow.models.ModelSignature, optional
        The columns of inputs and outputs.
    metadata : dict, optional
        Anything that JSON can hold, stored in the file.
    """
    mlflow, folder = _mlflow(), Path(path)
    folder.mkdir(parents=True)
    if isinstance(model, str | os.PathLike):
        if metadata is not None:
            raise ValueError("metadata are those of the file: give a model, or no metadata.")
        shutil.copyfile(model, folder / _FILE)
    else:
        save(model, folder / _FILE, metadata=metadata)
    about = describe(folder / _FILE, parts=False)["about"]
    _write_needs(about["versions"], folder)
    spec = mlflow.models.Model() if mlflow_model is None else mlflow_model
    if signature is not None:
        spec.signature = signature
    mlflow.pyfunc.add_to_model(spec, loader_module=__name__, data=_FILE, python_env=_PYTHON)
    spec.add_flavor(
        _FLAVOR, data=_FILE, skout_version=about["versions"]["skout"], model_class=about["class"]
    )
    spec.save(str(folder / "MLmodel"))


def _write_needs(versions: dict[str, str], folder: Path) -> None:
    """Write the versions that the model was saved with, from which MLflow builds environments."""
    needed = [
        f"{name}=={v}\n" for name, v in versions.items() if name != "python" and v != "unknown"
    ]
    (folder / _NEEDED).write_text("".join(needed), encoding="utf-8")
    python = f"python: {versions['python']}\ndependencies:\n- -r {_NEEDED}\n"
    (folder / _PYTHON).write_text(python, encoding="utf-8")


def log_model(model: Estimator, name: str = "model", **params: object) -> Any:
    """Log a model with the active run of MLflow, or with a new one.

    Parameters
    ----------
    model : what `skout.save` saves, or the path of what it saved
    name : str, default "model"
        The name of the logged model.
    **params
        Parameters of `save_model` (signature, metadata) and of `mlflow.models.Model.log`, such as
        registered_model_name.

    Returns
    -------
    info : mlflow.models.model.ModelInfo
        Its `model_uri` is what `load_model` takes.

    Examples
    --------
    >>> import mlflow  # doctest: +SKIP
    >>> from skout.persistence.mlflow import load_model, log_model  # doctest: +SKIP
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     info = log_model(model, registered_model_name="tags of tours")
    >>> load_model(info.model_uri).predict(X)  # doctest: +SKIP
    """
    log = _mlflow().models.Model.log
    return log(None, sys.modules[__name__], name=name, model=model, **params)


def load_model(uri: str, *, modules: Mapping[str, object] | Iterable[object] | None = None) -> Any:
    """Load a model that `log_model` or `save_model` wrote.

    Parameters
    ----------
    uri : str
        The URI of a logged or registered model, "runs:/.../model" or "models:/tags/1", or a
        folder.
    modules : list or dict, optional
        Functions and classes of your own, as in `skout.load`.

    Returns
    -------
    model : object
    """
    mlflow = _mlflow()
    folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=os.fspath(uri)))
    flavors = mlflow.models.Model.load(str(folder)).flavors
    if _FLAVOR not in flavors:
        raise ValueError(f"{uri} has no model of skout, but one of {', '.join(flavors)}.")
    return load(folder / flavors[_FLAVOR]["data"], modules=modules)


def _load_pyfunc(path: str) -> _Function:
    """Return a model with the interface of `mlflow.pyfunc`, which calls this function."""
    return _Function(load(path))


class _Function:
    """A model with the interface of `mlflow.pyfunc`; `params` are those of a request."""

    def __init__(self, model: Estimator) -> None:
        self.model = model

    def predict(self, rows: Rows, params: State | None = None) -> Any:
        return self.model.predict(rows, **(params or {}))

    def get_raw_model(self) -> Estimator:
        """Return the model itself."""
        return self.model


def _mlflow() -> Any:
    with extra("mlflow", "This takes MLflow"):
        import mlflow
        import mlflow.artifacts
        import mlflow.models
        import mlflow.pyfunc
    return mlflow
