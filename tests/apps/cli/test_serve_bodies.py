"""Bodies that are made to cost memory and time: what is refused, and what others see of it."""

import contextlib
import gc
import http.client
import json
import random
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer.testing")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from pydantic import ValidationError
from serving import HEAD, Odd, fit, queries, raw, running, served

from skout.apps.cli.serve import outline
from skout.apps.cli.serve.limits import Limits, Refused
from skout.apps.cli.serve.models import Models
from skout.apps.cli.serve.schemas import PredictRequest, RankRequest, RowsRequest, parse

ROWS = [{name: row[name] for name in ("x1", "x2", "x3")} for row in queries()]
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return fit("label sets", tmp_path_factory.mktemp("bodies"))


# Parsing ------------------------------------------------------------------------------------------

TEXTS = ['"', "\\", '\\"', "{[,]}", "", "é𝄞", "a,b", "\\\\\\", "x1", "\n"]


def random_body(rng):
    """Return a request of random rows, with brackets, quotes and backslashes in its texts."""
    cells = [*TEXTS, 0, -1.5, 1e300, None, True]
    rows = [
        {rng.choice(TEXTS) + str(i): rng.choice(cells) for i in range(rng.randrange(9))}
        for _ in range(rng.randrange(6))
    ]
    body = {"rows": rows, "top": 3} if rng.random() < 0.5 else {"top": 3, "rows": rows}
    if rng.random() < 0.2:
        body = {"table": "".join(rng.choices(TEXTS, k=20))}
    return json.dumps(body, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 1])).encode()


def spoilt(body, rng):
    """Return a body with a byte that is gone, or another one there."""
    i = rng.randrange(len(body))
    return body[:i] + rng.choice([b"", b'"', b"\\", b"{", b"]", b",", b"1", b" "]) + body[i + 1 :]


@pytest.mark.parametrize(("chunk", "cells"), [(5, 1), (17, 3), (40, 2), (2**18, 4096)])
def test_a_body_in_pieces_is_read_as_in_one(chunk, cells, monkeypatch):
    """What pydantic reads at once is the truth; what it refuses is refused."""
    monkeypatch.setattr(outline, "_CHUNK", chunk)
    monkeypatch.setattr(outline, "_CELLS", cells)
    rng = random.Random(chunk)
    refused = 0
    for _ in range(300):
        body = random_body(rng)
        if rng.random() < 0.5:
            body = spoilt(body, rng)
        try:
            wanted = RankRequest.model_validate_json(body)
        except ValidationError:
            refused += 1
            with pytest.raises(Refused):
                parse(RankRequest, body)
        else:
            assert parse(RankRequest, body) == wanted
    assert 60 < refused < 150


def test_rows_and_cells_are_counted_exactly():
    limits = Limits(megabytes=1e-3, rows=4)  # 125 commas between cells
    row = {f"{i}": 0 for i in range(30)}
    assert len(parse(RowsRequest, json.dumps({"rows": [row] * 4}).encode(), limits).rows) == 4
    with pytest.raises(Refused, match="may have 4 rows") as error:
        parse(RowsRequest, json.dumps({"rows": [row] * 5}).encode(), limits)
    assert error.value.status == 413
    wide = {f"{i}": 0 for i in range(127)}
    with pytest.raises(Refused, match="may have 125 cells") as error:
        parse(RowsRequest, json.dumps({"rows": [wide]}).encode(), limits)
    assert error.value.status == 413
    table = {"table": "a,b\n" + "1,2\n" * 200}  # commas of a text are no cells
    assert parse(RowsRequest, json.dumps(table).encode(), limits).table == table["table"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b'{"rows": [{}, 1]}', 422, "rows.1: Input should be an object"),
        (b'{"rows": [{"x": 1}, {"x": -}]}', 400, "rows.1: Invalid JSON"),
        (b'{"rows": [{"x": [1]}]}', 422, "a cell must be a number, a text or null"),
        (b'{"rows": [{"x": [[1]]}]}', 400, "nested too deep"),
        (b'{"rows": [{}], "rows": [{}]}', 422, "rows: the field is given more than once"),
        (b'{"rows": {"x": 1}}', 422, "rows: Input should be a valid array"),
        (b'{"rows": [{}', 400, "ends within a bracket or a text"),
        (b'{"rows": []]}', 400, "Invalid JSON"),
        (b"{}}", 400, "a bracket is closed that was not opened"),
        (b"{" + b",".join(b'"%d": 1' % i for i in range(20)) + b"}", 422, "at most 16 fields"),
    ],
)
def test_what_is_wrong_is_said(body, status, message):
    with pytest.raises(Refused, match=message) as error:
        parse(RowsRequest, body)
    assert error.value.status == status


def wide(n, value=b"0"):
    return b"{" + b",".join(b'"%x":%s' % (i, value) for i in range(n)) + b"}"


HOSTILE = {
    "numbers for rows": b'{"rows":[' + b"1," * 3_900_000 + b"1]}",
    "lists for rows": b'{"rows":[' + b"[]" * 3_900_000 + b"]}",
    "many fields": b"{" + b",".join(b'"%d":[]' % i for i in range(640_000)) + b"}",
    "lists for cells": b'{"rows":[' + wide(700_000, b"[]") + b"]}",
    "deep lists": b'{"rows":' + b"[" * 3_900_000 + b"]" * 3_900_000 + b"}",
    "cut off": b'{"rows":[' + wide(700_000),
    "backslashes": b'{"rows":"' + b"\\\\" * 3_900_000 + b'"}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_refused_costs_little(name):
    start = time.thread_time()
    with pytest.raises(Refused):
        parse(RowsRequest, HOSTILE[name])
    assert time.thread_time() - start < 1.0


# Under attack -------------------------------------------------------------------------------------


def megabytes():
    """Return the memory of this process that no file backs."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1e3 for line in file if line.startswith("RssAnon:"))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read there")
def test_others_are_answered_while_hostile_bodies_come(model):
    """`benchmarks/serve.py --part hostile` does it for a minute, in processes of their own."""
    bodies, peak, statuses = list(HOSTILE.values())[:5], 0.0, set()
    bodies.append(b'{"rows":[' + wide(400_000) + b"]}")
    with running(served(model), Limits(workers=2)) as ask:
        assert ask("POST", "/api/predict", {"rows": ROWS})[0] == 200
        idle, end = megabytes(), time.monotonic() + 2.5

        def attack(i):
            while time.monotonic() < end:
                i += 1
                statuses.add(ask("POST", "/api/predict", bodies[i % len(bodies)], **JSON)[0])

        threads = [threading.Thread(target=attack, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        seconds = []
        while time.monotonic() < end:
            for what in (("GET", "/health"), ("POST", "/api/predict", {"rows": ROWS})):
                start = time.monotonic()
                assert ask(*what)[0] == 200
                seconds.append(time.monotonic() - start)
            peak = max(peak, megabytes())
        for thread in threads:
            thread.join()
    assert statuses <= {400, 413, 422}
    assert peak - idle < 500
    assert len(seconds) >= 6
    assert np.median(seconds) < 1.0


def wait_for(ask, *gauges):
    """Wait until the server says so."""
    until = time.monotonic() + 30
    while not {*gauges} <= {*ask("GET", "/metrics")[2].decode().splitlines()}:
        assert time.monotonic() < until


@contextlib.contextmanager
def sending(ask, size, sent):
    """Keep a connection open over which some of a body has come."""
    with socket.create_connection(("127.0.0.1", ask.port), timeout=30) as connection:
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % size + b" " * sent)
        yield connection


def test_bodies_of_all_connections_have_a_total(model):
    large = json.dumps({"rows": ROWS}).encode().ljust(190_000)
    with running(served(model), Limits(megabytes=0.2)) as ask, contextlib.ExitStack() as stack:
        # eight of the largest may be held: these are 8 * 190 of 1,600 kB
        held = [stack.enter_context(sending(ask, 200_000, 190_000)) for _ in range(8)]
        wait_for(ask, "skout_body_bytes 1520000")
        found = raw(ask, HEAD + b"Content-Length: %d\r\n\r\n" % len(large) + large)
        assert found.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in found.lower()
        assert b"connection: close" in found.lower()
        assert b"Too many large requests" in found
        assert ask("POST", "/api/predict", {"rows": ROWS})[0] == 200  # small ones always come in
        for connection in held:
            connection.close()
        wait_for(ask, "skout_body_bytes 0")
        assert ask("POST", "/api/predict", large, **JSON)[0] == 200


def test_connections_without_a_request_give_way(model):
    with running(served(model), Limits(connections=5)) as ask, contextlib.ExitStack() as stack:
        address = "127.0.0.1", ask.port
        silent = [stack.enter_context(socket.create_connection(address)) for _ in range(12)]
        for _ in range(3):
            assert ask("POST", "/api/predict", {"rows": ROWS})[0] == 200
        silent[0].settimeout(5)
        assert silent[0].recv(1) == b""  # the oldest was closed


def test_large_bodies_leave_a_thread_to_others():
    odd, statuses = Odd(), []
    small = json.dumps({"rows": ROWS}).encode()
    threads = [
        threading.Thread(
            target=lambda body=body: statuses.append(ask("POST", "/api/predict", body, **JSON)[0])
        )
        for body in (small.ljust(2**20 + 1), small.ljust(2**20 + 1), small)
    ]
    with running(Models([], lambda: odd), Limits(workers=2)) as ask:
        threads[0].start()
        wait_for(ask, "skout_running 1", "skout_waiting 0")
        threads[1].start()
        wait_for(ask, "skout_running 1", "skout_waiting 1")
        threads[2].start()
        wait_for(ask, "skout_running 2", "skout_waiting 1")
        odd.going.set()
        for thread in threads:
            thread.join()
        wait_for(ask, "skout_running 0", "skout_waiting 0")
    assert statuses == [200] * 3


def test_refused_rows_are_not_kept(model):
    """A traceback would hold them until the collector comes."""
    with running(served(model)) as ask:
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                assert ask("POST", "/api/predict", {"rows": [{"other": 1}]})[0] == 422
            # of weak references that are dead, isinstance would raise
            assert not any(type(kept) is PredictRequest for kept in gc.get_objects())
        finally:
            gc.enable()


def test_a_refusal_does_not_hold_the_connection(model):
    body = json.dumps({"rows": ROWS * 400}).encode()
    with running(served(model)) as ask:
        connection = http.client.HTTPConnection("127.0.0.1", ask.port, timeout=30)
        with contextlib.closing(connection):
            start = time.monotonic()
            for path, sent, expected in (("/api/predict", body, 413), ("/health", None, 200)):
                connection.request("POST" if sent else "GET", path, sent, JSON)
                answer = connection.getresponse()
                answer.read()
                assert answer.status == expected
            assert time.monotonic() - start < 1.5


def test_a_body_of_two_lengths_ends_the_connection(model):
    """RFC 9112, 6.1: a proxy may have seen another end of it."""
    both = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = json.dumps({"rows": ROWS}).encode()
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    with running(served(model)) as ask:
        found = raw(ask, HEAD + both + chunked + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert found.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in found.lower()
