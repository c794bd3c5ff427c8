"""`skout serve` over real HTTP: latency of single rows, and eight clients for a minute.

    python -m benchmarks.serve [--quick] [--part bibtex pool load] [--seconds 60]
    python -m benchmarks.serve --part spectra --spectra m.skout pool.skpool unknown.mgf
    python -m benchmarks.serve --part hostile [--seconds 60]

bibtex   Single rows of bibtex (1,836 columns), one after the other: /api/predict.
pool     The same model with 100,000 label sets to choose from, embedded: /api/rank, the best 10.
spectra  Single spectra of a file against a pool of molecules: /api/identify. It needs files.
load     Eight clients on the bibtex model with the pool: rows, tables and rankings of 1 to 20 rows.
         Each answer is compared with that of the model in Python; the server must make no error.
hostile  Eight clients that send bodies of 8 MB made to cost memory and time, and then 60 that send
         7 MB and wait; beside them one client asks /health, and one predicts a row. A record of
         its own, serve_hostile, has the memory of the server above idle, and the latencies.

The server is a process of its own on this computer. Besides latencies as clients see them it
records the processor time of a request, which other work on the computer changes less.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import http.client
import io
import json
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from tqdm import tqdm

from benchmarks.measure import print_table, write_record
from skout import datasets
from skout.apps.cli.serve.server import open_served

SEED, POOL, CLIENTS, REQUESTS, TOP = 0, 100_000, 8, 500, 10
PARTS = ["bibtex", "pool", "load"]
HEADERS = {"Content-Type": "application/json"}
SKOUT = [sys.executable, "-m", "skout"]
BIBTEX = {"gamma": 0.00926, "alpha": 3e-5, "landmarks": 300, "output_features": 100}


def export(path: Path, X: Any, Y: Any) -> None:
    """Write dense inputs and a column of joined labels."""
    dense, bits = (A.toarray() if hasattr(A, "toarray") else np.asarray(A) for A in (X, Y))
    sets = (";".join(f"label{j:03}" for j in np.flatnonzero(row)) for row in bits)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"word{j}" for j in range(dense.shape[1])), "labels"])
        writer.writerows([*row, words] for row, words in zip(dense.tolist(), sets, strict=True))


class Client:
    """A connection that is kept."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Return the status and the body of an answer."""
        self._connection.request("GET" if body is None else "POST", path, body, HEADERS)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def metric(self, name: str) -> float:
        """Return a count of the server."""
        text = self.ask("/metrics")[1].decode()
        found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0


@contextmanager
def server(*words: Any) -> Iterator[tuple[int, int]]:
    """Run `skout serve`, and yield its port and the number of its process."""
    command = [*SKOUT, "serve", *map(str, words), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        threading.Thread(target=process.stderr.read, daemon=True).start()  # or it would wait
        yield int(json.loads(line)["address"].rpartition(":")[2]), process.pid
    finally:
        process.terminate()
        process.wait()


def latency(port: int, path: str, bodies: list[bytes], n: int) -> dict[str, float]:
    """Return milliseconds of requests that follow each other, and processor time of the server."""
    client = Client(port)
    for body in bodies[:20]:
        assert client.ask(path, body)[0] == 200
    before, seconds = client.metric("process_cpu_seconds_total"), []
    for i in range(n):
        start = time.perf_counter()
        status, _ = client.ask(path, bodies[i % len(bodies)])
        seconds.append(time.perf_counter() - start)
        assert status == 200
    spent = client.metric("process_cpu_seconds_total") - before
    p50, p99 = np.percentile(seconds, [50, 99])
    return {
        "requests": n,
        "p50_ms": 1e3 * float(p50),
        "p99_ms": 1e3 * float(p99),
        "cpu_ms": 1e3 * spent / n,
    }


# Eight clients ------------------------------------------------------------------------------------


def requests(rows: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Return requests of every form: one row, some rows, a table, a ranking."""
    found: list[tuple[str, dict[str, Any]]] = []
    for i in range(0, len(rows), 20):
        some = rows[i : i + 20]
        found += [("/api/predict", {"rows": [row]}) for row in some[:4]]
        found += [("/api/rank", {"rows": some[4:5], "top": TOP})]
        found += [("/api/predict", {"table": table_of(some[:5])}), ("/api/predict", {"rows": some})]
    return found


def table_of(rows: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def expected(
    model: Path, pool: Path, X: np.ndarray, asked: list[tuple[str, dict[str, Any]]]
) -> list[Any]:
    """Return the answers that Python gives, from arrays, without a server."""
    served: Any = open_served(model, pool)
    saved, candidates = served.saved, served.candidates
    answers: list[Any] = []
    for number, (path, body) in enumerate(asked):
        group, form = divmod(number, 7)
        first = 20 * group + (form if form < 5 else 0)
        n = {5: 5, 6: 20}.get(form, 1)
        some = X[first : first + n]
        if path == "/api/predict":
            words = saved.outputs.words(saved.predict(some, candidates))
            answers.append([{saved.outputs.columns[0]: word} for word in words])
        else:
            indices, scores = saved.chooser.rank(some, candidates, k=body["top"])
            words = saved.outputs.words(candidates.objects[indices[0]])
            answers.append([words, scores[0].tolist()])
    return answers


def is_right(path: str, answer: dict[str, Any], wanted: Any) -> bool:
    """Whether an answer is the one of Python; scores to the rounding of other block sizes."""
    if path == "/api/predict":
        return bool(answer["rows"] == wanted)
    found = answer["rows"][0]["candidates"]
    words, scores = wanted
    close = np.allclose([one["score"] for one in found], scores, rtol=1e-9, atol=1e-9)
    return bool(close) and [one["candidate"] for one in found] == words


def load(
    port: int, asked: list[tuple[str, dict[str, Any]]], wanted: list[Any], seconds: float
) -> dict[str, Any]:
    """Return what eight clients saw."""
    bodies = [(path, json.dumps(body).encode()) for path, body in asked]
    seen: list[list[tuple[float, str]]] = [[] for _ in range(CLIENTS)]
    end = time.perf_counter() + seconds

    def work(number: int) -> None:
        client, i = Client(port), number * 7
        while time.perf_counter() < end:
            i = (i + 1) % len(bodies)
            start, said = time.perf_counter(), "right"
            try:
                status, content = client.ask(*bodies[i])
                if status != 200:
                    said = "error"
                elif not is_right(bodies[i][0], json.loads(content), wanted[i]):
                    said = "wrong"
            except (OSError, http.client.HTTPException):
                client, said = Client(port), "error"
            seen[number].append((time.perf_counter() - start, said))

    watcher = Client(port)
    names = ("process_cpu_seconds_total", "skout_rows_total")
    before = [watcher.metric(name) for name in names]
    threads = [threading.Thread(target=work, args=(number,)) for number in range(CLIENTS)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in tqdm(threads, desc="clients"):
        thread.join()
    passed = time.perf_counter() - start
    spent, rows = (Client(port).metric(n) - b for n, b in zip(names, before, strict=True))
    times = [one for mine in seen for one, _ in mine]
    said = [word for mine in seen for _, word in mine]
    p50, p99 = np.percentile(times, [50, 99])
    return {
        "clients": CLIENTS,
        "seconds": passed,
        "requests": len(times),
        "wrong": said.count("wrong"),
        "errors": said.count("error"),
        "p50_ms": 1e3 * float(p50),
        "p99_ms": 1e3 * float(p99),
        "requests_per_second": len(times) / passed,
        "rows_per_second": rows / passed,
        "cpu_ms": 1e3 * spent / len(times),
    }


# Hostile clients ----------------------------------------------------------------------------------


def hostile_bodies() -> dict[str, bytes]:
    """Return bodies of almost 8 MB, within what a request may have, that are costly to read."""

    def row(n: int, value: bytes) -> bytes:
        return b"{" + b",".join(b'"%x":%s' % (i, value) for i in range(n)) + b"}"

    return {
        "numbers for rows": b'{"rows":[' + b"1," * 3_900_000 + b"1]}",
        "lists for rows": b'{"rows":[' + b"[]," * 2_600_000 + b"[]]}",
        "many fields": b"{" + b",".join(b'"%d":[]' % i for i in range(640_000)) + b"}",
        "lists for cells": b'{"rows":[' + row(700_000, b"[]") + b"]}",
        "one row of many cells": b'{"rows":[' + row(790_000, b"0") + b"]}",
        "many rows of many cells": b'{"rows":[' + b",".join([row(1000, b"0")] * 999) + b"]}",
        "deep lists": b'{"rows":' + b"[" * 3_900_000 + b"]" * 3_900_000 + b"}",
        "a table of commas": b'{"table":"' + b"," * 7_900_000 + b'"}',
        "a table of many columns": b'{"table":"'
        + row(700_000, b"")[1:-1].replace(b'"', b"")
        + b'"}',
        "a table of empty lines": b'{"table":"x\\n' + b"\\n" * 3_900_000 + b'"}',
        "backslashes": b'{"table":"' + b"\\\\" * 3_900_000 + b'"}',
    }


def memory(pid: int) -> float:
    """Return the megabytes of a process that no file backs."""
    found = psutil.Process(pid).memory_info()
    return (found.rss - found.shared) / 1e6


def hostile(
    port: int, pid: int, body: bytes, seconds: float, attack: Callable[[float], None]
) -> dict[str, Any]:
    """Return what others see of a server, and its memory above idle, during an attack."""
    end = time.perf_counter() + seconds
    peaks, errors = [0.0], 0
    times: dict[str, list[float]] = {"/health": [], "/api/predict": []}

    def watch() -> None:
        while time.perf_counter() < end:
            peaks.append(memory(pid))
            time.sleep(0.01)

    def ask(path: str) -> None:
        nonlocal errors
        client = Client(port)
        while time.perf_counter() < end:
            start = time.perf_counter()
            try:
                errors += client.ask(path, body if path == "/api/predict" else None)[0] != 200
            except (OSError, http.client.HTTPException):
                client, errors = Client(port), errors + 1
            times[path].append(time.perf_counter() - start)
            time.sleep(0.02)

    for _ in range(20):
        assert Client(port).ask("/api/predict", body)[0] == 200
    idle = memory(pid)
    threads = [threading.Thread(target=ask, args=(path,)) for path in times]
    threads.append(threading.Thread(target=watch))
    for thread in threads:
        thread.start()
    attack(end)
    for thread in threads:
        thread.join()
    found: dict[str, Any] = {
        "seconds": seconds,
        "idle_mb": idle,
        "above_idle_mb": max(peaks) - idle,
    }
    for path, spent in times.items():
        p50, p99 = np.percentile(spent, [50, 99])
        name = path.rpartition("/")[2]
        found |= {f"{name}_requests": len(spent), f"{name}_p50_ms": 1e3 * float(p50)}
        found |= {f"{name}_p99_ms": 1e3 * float(p99), f"{name}_max_ms": 1e3 * max(spent)}
    return found | {"errors": errors}


def send_again_and_again(
    port: int, bodies: dict[str, bytes], end: float
) -> dict[str, dict[str, int]]:
    """Let eight clients send bodies; return how often each was answered by what."""
    names, said = list(bodies), Counter[tuple[str, int]]()

    def work(number: int) -> None:
        client, i = Client(port), number
        while time.perf_counter() < end:
            i, status = i + 1, 0  # 0: the connection was cut
            name = names[i % len(names)]
            try:
                status = client.ask("/api/predict", bodies[name])[0]
            except (OSError, http.client.HTTPException):
                client = Client(port)
            said[name, status] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {name: {str(s): n for (one, s), n in said.items() if one == name} for name in names}


def hold(port: int, end: float, n: int = 60, size: int = 7_000_000) -> None:
    """Send most of a body over each of many connections, and wait."""
    head = "POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    sent = f"{head}Content-Length: {size}\r\n\r\n".encode() + b" " * (size - 1)

    def work() -> None:
        while time.perf_counter() < end:
            address = "127.0.0.1", port
            with contextlib.suppress(OSError), socket.create_connection(address) as connection:
                connection.sendall(sent)
                connection.settimeout(max(0.1, end - time.perf_counter()))
                connection.recv(2**16)
            time.sleep(1.0)  # as Retry-After says

    threads = [threading.Thread(target=work) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def on_hostile(seconds: float) -> list[dict[str, Any]]:
    """Return the results of both attacks."""
    answers: dict[str, Any] = {}
    bodies = hostile_bodies()
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        model, _, X = prepare(Path(name), 1000)
        body = json.dumps({"rows": records(X[:1])}).encode()
        with server(model) as (port, pid):
            attack = lambda end: answers.update(send_again_and_again(port, bodies, end))  # noqa: E731
            found = hostile(port, pid, body, seconds, attack)
            results.append({"what": "hostile bodies", "clients": CLIENTS, **found})
        with server(model) as (port, pid):
            found = hostile(port, pid, body, seconds / 2, lambda end: hold(port, end))
            results.append({"what": "held bodies", "clients": 60, **found})
    results[0]["answers"] = answers
    return results


# The model and the pool ---------------------------------------------------------------------------


def prepare(folder: Path, n_pool: int) -> tuple[Path, Path, np.ndarray]:
    """Fit bibtex by the command line, embed a pool, and return both files and rows to ask."""
    data = datasets.load("bibtex")
    train, model, pool = folder / "train.csv", folder / "model.skout", folder / "pool.skpool"
    export(train, *data.train)
    words = ["--target", "labels", "--output", "label_sets", "--output-kernel", "f1"]
    words += ["--input-kernel", f"gaussian:{BIBTEX['gamma']}", "--alpha", BIBTEX["alpha"]]
    words += ["--input-sketch", f"subsample:{BIBTEX['landmarks']}", "-o", model]
    words += ["--output-sketch", f"p_sparsified:{BIBTEX['output_features']}"]
    run("fit", train, *words)
    write_pool(folder / "pool.csv", data.train[1], n_pool)
    run("embed", model, folder / "pool.csv", "-o", pool)
    X = data.test[0]
    return model, pool, np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)


def run(*words: Any) -> None:
    subprocess.run([*SKOUT, *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def write_pool(path: Path, Y: Any, n: int) -> None:
    """Write distinct label sets: unions of those of two rows, without some labels."""
    rng = np.random.default_rng(SEED)
    bits = np.asarray(Y.toarray() if hasattr(Y, "toarray") else Y, dtype=bool)
    used = np.flatnonzero(bits.any(axis=0))
    sets: dict[tuple[int, ...], None] = {}
    while len(sets) < n:
        i, j = rng.integers(len(bits), size=2)
        labels = np.intersect1d(np.flatnonzero(bits[i] | bits[j]), used)
        kept = labels[rng.random(len(labels)) < 0.8]
        if len(kept):
            sets[tuple(kept.tolist())] = None
    with open(path, "w", newline="") as file:
        file.write("labels\n")
        file.writelines(";".join(f"label{j:03}" for j in one) + "\n" for one in sets)


def records(X: np.ndarray) -> list[dict[str, Any]]:
    names = [f"word{j}" for j in range(X.shape[1])]
    return [dict(zip(names, row, strict=True)) for row in X.astype(int).tolist()]


def spectra(paths: list[str], n: int) -> dict[str, Any]:
    """Return the latency of single spectra."""
    model, pool, asked = map(Path, paths)
    texts = re.findall(r"BEGIN IONS.*?END IONS\n", asked.read_text(), flags=re.DOTALL)
    bodies = [json.dumps({"spectra": text, "top": TOP}).encode() for text in texts]
    with server(model, "--pool", pool) as (port, _):
        size = json.loads(Client(port).ask("/api/model")[1])["candidates"]
        return {"what": "spectra", "candidates": size} | latency(port, "/api/identify", bodies, n)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few requests, no record")
    parser.add_argument("--part", nargs="+", default=PARTS)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--spectra", nargs=3, metavar=("MODEL", "POOL", "MGF"))
    options = parser.parse_args()
    n = 100 if options.quick else REQUESTS
    results: list[dict[str, Any]] = []
    if options.spectra:
        results.append(spectra(options.spectra, n))
    if "hostile" in options.part:
        attacks = on_hostile(5.0 if options.quick else options.seconds)
        print_table(attacks, [name for name in attacks[0] if name != "answers"])
        print(json.dumps(attacks[0]["answers"], indent=1))
        if not options.quick:
            print("record:", write_record("serve_hostile", {"seed": SEED}, attacks))
    if not set(options.part) & {*PARTS, "spectra"}:
        return
    if set(options.part) & set(PARTS):
        results += on_bibtex(options, n)
    columns = ["what", "requests", "p50_ms", "p99_ms", "cpu_ms", "wrong", "errors"]
    print_table(results, [*columns, "requests_per_second", "rows_per_second"])
    if not options.quick and set(PARTS) <= set(options.part):
        settings = {"seed": SEED, "pool": POOL, "top": TOP, "bibtex": BIBTEX}
        print("record:", write_record("serve", settings, results))


def on_bibtex(options: argparse.Namespace, n: int) -> list[dict[str, Any]]:
    """Return the results of the model of bibtex."""
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        model, pool, X = prepare(Path(name), POOL // 10 if options.quick else POOL)
        rows = records(X[:400])
        single: Callable[..., list[bytes]] = lambda **more: [  # noqa: E731
            json.dumps({"rows": [row], **more}).encode() for row in rows
        ]
        if "bibtex" in options.part:
            with server(model) as (port, _):
                found = latency(port, "/api/predict", single(), n)
            results.append({"what": "bibtex"} | found)
        with server(model, "--pool", pool) as (port, _):
            size = json.loads(Client(port).ask("/api/model")[1])["candidates"]
            if "pool" in options.part:
                found = latency(port, "/api/rank", single(top=TOP), n)
                results.append({"what": "pool", "candidates": size} | found)
            if "load" in options.part:
                asked = requests(rows)
                wanted = expected(model, pool, X, asked)
                seconds = 5.0 if options.quick else options.seconds
                results.append({"what": "load"} | load(port, asked, wanted, seconds))
    return results


if __name__ == "__main__":
    main()
