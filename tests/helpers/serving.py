"""What the tests of `skout serve` share: models of every kind, and a server in a thread."""

import contextlib
import csv
import http.client
import io
import json
import socket
import threading
import time
from pathlib import Path

import numpy as np

from skout._numerics.threads import single_thread
from skout.apps.cli.fitting import fit_file
from skout.apps.cli.results import write_rows
from skout.apps.cli.serve import server
from skout.apps.cli.settings import merge
from skout.apps.cli.spectra.work import fit_library
from skout.datasets import load
from skout.kinds import Numbers
from skout.molecules import MoleculePool

N = 60
X = np.random.default_rng(0).uniform(-1, 1, (N, 3)).round(3)
BITS = (X > 0).astype(int)
WHICH = np.digitize(X[:, 0], [-0.3, 0.4])
RANKS = np.argsort(np.argsort(X, axis=1), axis=1)
COLUMNS = {
    **{f"x{j + 1}": X[:, j].tolist() for j in range(3)},
    "tags": [";".join(f"t{j}" for j in np.flatnonzero(row)) for row in BITS],
    **{f"label_{j}": BITS[:, j].tolist() for j in range(3)},
    "order": [">".join("abc"[j] for j in np.argsort(row)) for row in X],
    **{f"rank_{c}": (RANKS[:, j] + 1).tolist() for j, c in enumerate("abc")},
    "word": [("banana", "orange", "bandana")[j] for j in WHICH],
    "mol": [("CCO", "c1ccccc1", "CC(=O)Nc1ccc(O)cc1")[j] for j in WHICH],
    "y": (X[:, 0] * X[:, 1]).tolist(),
    "z": X.sum(axis=1).tolist(),
}
SMALL = {"input_sketch": "subsample:20", "output_sketch": "p_sparsified:10"}
# What `skout fit` is told for each kind of model.
KINDS = {
    "label sets": {"target": "tags", "output": "label_sets", "inputs": "x*", **SMALL},
    "columns of labels": {"target": "label_*", "output": "label_sets", "inputs": "x*", **SMALL},
    "built label sets": {
        **{"target": "label_*", "output": "label_sets", "inputs": "x*", "decoder": "label_sets"},
        **SMALL,
    },
    "rankings": {"target": "order", "output": "rankings", "inputs": "x*", **SMALL},
    "columns of ranks": {"target": "rank_*", "output": "rankings", "inputs": "x*", **SMALL},
    "strings": {"target": "word", "output": "strings", "inputs": "x*", **SMALL},
    "molecules": {"target": "mol", "output": "smiles", "inputs": "x*", **SMALL},
    "molecules of a text": {"target": "mol", "output": "smiles", "inputs": "word", **SMALL},
    "numbers": {"target": "y,z", "inputs": "x*", "alpha": 1e-3},
    "numbers of a molecule": {"target": "y", "inputs": "mol", "input_kernel": "tanimoto"},
    "tuned": {"target": "tags", "output": "label_sets", "inputs": "word", "budget": "1 fits"},
    "tuned numbers": {"target": "y", "inputs": "mol", "budget": "1 fits"},
}


def fit(kind: str, folder: Path, name: str = "model.skout", **more) -> Path:
    """Fit a model of a kind; return its file."""
    table = folder / "train.csv"
    if not table.exists():
        write_rows([COLUMNS], str(table), "csv")
    path = folder / name
    fit_file(table, merge({**KINDS[kind], **more}, None), path)
    return path


def queries(n: int = 3) -> list[dict]:
    """Return rows of the table, as a request has them."""
    return [{name: cells[i] for name, cells in COLUMNS.items()} for i in range(n)]


def as_csv(rows: list[dict]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def fit_spectra(folder: Path, n_library: int = 60, n_asked: int = 3) -> tuple[Path, Path, str]:
    """Fit a model of real spectra; return its file, a pool of molecules, and spectra as MGF."""
    data = load("massbank-sample")
    rows = np.flatnonzero(data.candidates.sizes > 2)
    rows = np.random.default_rng(0).permutation(rows)
    sizes = data.X.indptr[1:] - data.X.indptr[:-1]
    rest = rows[n_library:]
    rest = rest[(sizes[rest] > 12) & (data.candidates.sizes[rest] > 8)]  # which show something
    rows = np.concatenate([rows[:n_library], rest[:n_asked]])
    smiles = sorted({str(text) for i in rows for text in data.candidates[i]})
    pool, model = folder / "pool.skpool", folder / "spectra.skout"
    MoleculePool.build([(text, f"molecule {i}") for i, text in enumerate(smiles)], pool)
    library, asked = (
        "".join(_mgf(data, i, known) for i in some)
        for some, known in ((rows[:n_library], True), (rows[n_library:], False))
    )
    (folder / "library.mgf").write_text(library)
    fit_library([folder / "library.mgf"], model, pool=pool, folds=2)
    return model, pool, asked


def _mgf(data, i: int, known: bool) -> str:
    """Return a spectrum of MassBank as MGF, with its molecule if that is known."""
    one = data.X[i : i + 1]
    peaks = zip(one.mz, one.intensity, strict=True)
    fields = [f"TITLE=spectrum {i}", f"PEPMASS={one.precursor[0]}", "ADDUCT=[M+H]+"]
    fields += [f"SMILES={data.Y[i]}"] if known else []
    lines = [*fields, *(f"{mz:.5f} {height:.6g}" for mz, height in peaks)]
    return "\n".join(["BEGIN IONS", *lines, "END IONS", "", ""])


class Client:
    """Speaks HTTP with a server."""

    def __init__(self, port: int) -> None:
        self.port = port

    def __call__(self, method, path, body=None, **headers):
        """Return the status, the headers and the body of an answer."""
        if isinstance(body, dict | list):
            body = json.dumps(body).encode()
            headers.setdefault("Content_Type", "application/json")
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def json(self, method, path, body=None, **headers):
        """Return the status and the JSON of an answer."""
        status, _, content = self(method, path, body, **headers)
        return status, json.loads(content)


@contextlib.contextmanager
def running(models, limits=None, **options):
    """Run a server in a thread, and yield a client of it."""
    limits = limits or server.Limits()
    made, place = server.prepare(models, limits, "127.0.0.1", 0, **options)
    port = place.getsockname()[1]

    def run():
        with single_thread():
            made.run(sockets=[place])

    thread = threading.Thread(target=run)
    thread.start()
    try:
        while not made.started and thread.is_alive():
            time.sleep(0.01)
        yield Client(port)
    finally:
        made.should_exit = True
        thread.join()


def served(path, pool=None, **options):
    """Return the models of a file."""
    paths = [path] if pool is None else [path, pool]
    return server.Models(paths, lambda: server.open_served(path, pool, **options))


def raw(ask, *chunks, wait=0.0, timeout=30.0):
    """Send bytes, with a pause before each chunk but the first; return what comes back."""
    with socket.create_connection(("127.0.0.1", ask.port), timeout=timeout) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for i, chunk in enumerate(chunks):
                time.sleep(wait if i else 0.0)
                connection.sendall(chunk)
        found = b""
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(2**16):
                found += part
        return found


HEAD = b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


class Odd:
    """A model that waits, or fails, as it is told."""

    kind, id = "odd", "odd"

    def __init__(self):
        self.going, self.error, self.started = threading.Event(), None, threading.Semaphore(0)

    def about(self):
        return {}

    def predict(self, asked, limits, deadline):
        self.started.release()
        assert self.going.wait(30)
        if self.error is not None:
            raise self.error
        return [{"y": [1.0]}], []

    def as_rows(self, blocks):
        return [{"y": 1.0} for _ in blocks]

    class saved:
        class outputs:
            kind = Numbers()

    saved.targets = (saved,)
