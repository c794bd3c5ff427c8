"""Models in MLflow, where it is installed: what was logged predicts as before."""

import sys

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_array_equal

import skout
from skout.persistence import describe
from skout.persistence import mlflow as hook

mlflow = extra("mlflow")
# its own modules warn as they are imported
pytestmark = pytest.mark.filterwarnings("ignore")

X = np.random.default_rng(0).standard_normal((30, 3))
Y = (X[:, :2] > 0).astype(int)


@pytest.fixture
def model():
    return skout.iokr("gaussian", "tanimoto", alpha=1e-2).fit(X, Y)


@pytest.fixture
def tracked(tmp_path, monkeypatch):
    """Track in a folder, and tell nobody."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield
    mlflow.set_tracking_uri(before)


@pytest.mark.usefixtures("tracked")
def test_a_logged_model_comes_back(model):
    with mlflow.start_run() as run:
        info = hook.log_model(model, metadata={"data": "flowers"})
    assert info.run_id == run.info.run_id
    assert info.flavors["skout"]["model_class"] == "skout.StructuredPredictor"
    again = hook.load_model(info.model_uri)
    assert type(again) is type(model)
    assert_array_equal(again.predict(X), model.predict(X))
    function = mlflow.pyfunc.load_model(info.model_uri)
    assert_array_equal(function.predict(X), model.predict(X))
    assert type(function.get_raw_model()) is type(model)


@pytest.mark.usefixtures("tracked")
def test_folders(model, tmp_path):
    hook.save_model(model, tmp_path / "new" / "model", metadata={"data": "flowers"})
    file = tmp_path / "new" / "model" / "model.skout"
    assert describe(file)["about"]["metadata"] == {"data": "flowers"}
    assert f"numpy=={np.__version__}\n" in (file.parent / "requirements.txt").read_text()
    assert "-r requirements.txt" in (file.parent / "python_env.yaml").read_text()
    hook.save_model(file, tmp_path / "copy")  # of a file, without loading it
    assert (tmp_path / "copy" / "model.skout").read_bytes() == file.read_bytes()
    for folder in (file.parent, tmp_path / "copy"):
        assert_array_equal(hook.load_model(folder).predict(X), model.predict(X))


@pytest.mark.usefixtures("tracked")
def test_functions_of_the_user_are_given_again(tmp_path):
    model = skout.iokr(skout.kernels.Mapped(doubled, "gaussian"), "tanimoto").fit(X, Y)
    hook.save_model(model, tmp_path / "model")
    with pytest.raises(ValueError, match="The model needs doubled"):
        hook.load_model(tmp_path / "model")
    again = hook.load_model(tmp_path / "model", modules=[doubled])
    assert_array_equal(again.predict(X), model.predict(X))


def doubled(rows):
    return 2.0 * np.asarray(rows)


@pytest.mark.usefixtures("tracked")
def test_mistakes(model, tmp_path):
    skout.save(model, tmp_path / "model.skout")
    with pytest.raises(ValueError, match="metadata are those of the file"):
        hook.save_model(tmp_path / "model.skout", tmp_path / "one", metadata={"a": 1})
    spec = mlflow.models.Model()
    spec.add_flavor("other", data="x")
    (tmp_path / "other").mkdir()
    spec.save(str(tmp_path / "other" / "MLmodel"))
    with pytest.raises(ValueError, match="has no model of skout, but one of other"):
        hook.load_model(tmp_path / "other")


def test_a_library_that_is_not_there_is_named(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match=r'takes MLflow: pip install "skout\[mlflow\]'):
        hook.save_model(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()
