"""`skout serve`: answers are those of the command line, and no request does harm."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("typer.testing")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from serving import (
    HEAD,
    KINDS,
    Odd,
    X,
    as_csv,
    fit,
    fit_spectra,
    queries,
    raw,
    running,
    served,
)

from skout.apps import cli
from skout.apps.cli.serve import server as server_module
from skout.apps.cli.serve.drawing import Picture, draw_all, picture_of
from skout.apps.cli.serve.limits import Deadline, Gate, Limits, Refused
from skout.apps.cli.serve.models import Models
from skout.apps.cli.serve.tables import table_of_records, table_of_text
from skout.apps.tables.files import Reading
from skout.kinds import Smiles

ROOT = Path(__file__).resolve().parents[3]
ROWS = [{name: row[name] for name in ("x1", "x2", "x3")} for row in queries()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("serve")


@pytest.fixture(scope="module")
def label_sets(folder):
    """A server of a model of label sets, with small limits."""
    path = fit("label sets", folder, "label_sets.skout")
    limits = Limits(megabytes=2.0, rows=50, candidates=5, seconds=2.0, workers=2, queue=8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_module, "_KEEP_ALIVE", 1)
        with running(served(path), limits) as ask:
            yield ask


# The answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_the_command_line(kind, folder, capsys):
    if "mol" in KINDS[kind].values():
        pytest.importorskip("rdkit")
    path = fit(kind, folder, f"{kind}.skout")
    rows = queries(7)
    (folder / "rows.csv").write_text(as_csv(rows))
    expected = {}
    for command in ("predict", "rank"):
        words = ["-k", "2"] if command == "rank" else []
        with pytest.raises(SystemExit) as end:
            cli.main([command, str(path), str(folder / "rows.csv"), *words])
        expected[command] = None if end.value.code else capsys.readouterr().out
    with running(served(path)) as ask:
        _, about = ask.json("GET", "/api/model")
        assert bool(about["candidates"]) == (expected["rank"] is not None)
        for body in ({"rows": rows}, {"table": as_csv(rows)}):
            for command, more in (("predict", {}), ("rank", {"top": 2})):
                status, headers, content = ask(
                    "POST", f"/api/{command}", {**body, **more}, Accept="text/csv"
                )
                if expected[command] is None:
                    assert status == 422
                    continue
                assert (status, headers["x-skout-model"]) == (200, about["model"])
                assert content.decode() == expected[command]
                status, found = ask.json("POST", f"/api/{command}", {**body, **more})
                assert status == 200
                assert len(found["rows"]) == len(rows)
        assert list(found["rows"][0]) == (
            ["query", "candidates"] if expected["rank"] else about["outputs"]["columns"]
        )


def test_rankings_of_a_pool(folder, capsys):
    path = fit("label sets", folder, "pooled.skout")
    (folder / "pool.csv").write_text("tags\nt0\nt1;t2\nt0;t1;t2\n")
    with pytest.raises(SystemExit):
        cli.main(["embed", str(path), str(folder / "pool.csv"), "-o", str(folder / "p.skpool")])
    capsys.readouterr()
    found = []
    for pool in ("pool.csv", "p.skpool"):
        with running(served(path, folder / pool)) as ask:
            _, about = ask.json("GET", "/api/model")
            assert about["candidates"] == 3
            found.append(ask.json("POST", "/api/rank", {"rows": ROWS})[1]["rows"])
    assert found[0] == found[1]
    words = [one["candidate"] for one in found[0][0]["candidates"]]
    assert sorted(words) == ["t0", "t0;t1;t2", "t1;t2"]


def test_molecules_are_drawn_when_asked(folder):
    pytest.importorskip("rdkit")
    with running(served(fit("molecules", folder, "drawn.skout"))) as ask:
        _, plain = ask.json("POST", "/api/rank", {"rows": ROWS[:1], "top": 2})
        _, drawn = ask.json("POST", "/api/rank", {"rows": ROWS[:1], "top": 2, "draw": True})
    assert "svg" not in plain["rows"][0]["candidates"][0]
    for one in drawn["rows"][0]["candidates"]:
        assert one["svg"].startswith("<svg")
        assert "<script" not in one["svg"]
    bad = draw_all(Smiles().picture, ["C1CC", "C" * 9999, "CCO"], Deadline(30.0))
    assert [bool(svg) for svg in bad.values()] == [False, False, True]


# Spectra ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spectra(tmp_path_factory):
    """A server of a model of spectra, and what it is to be asked."""
    pytest.importorskip("rdkit")
    folder = tmp_path_factory.mktemp("spectra")
    model, pool, asked = fit_spectra(folder)
    (folder / "asked.mgf").write_text(asked)
    with running(served(model, pool), Limits(rows=20, candidates=10)) as ask:
        yield ask, asked, folder


def as_msp(mgf):
    """Return the same spectra in another format."""
    text = mgf.replace("BEGIN IONS\n", "").replace("TITLE=", "Name: ").replace("\nEND IONS", "")
    text = text.replace("PEPMASS=", "PrecursorMZ: ").replace("ADDUCT=", "Precursor_type: ")
    records = [one.strip() for one in text.split("\n\n") if one.strip()]
    sizes = [len(one.splitlines()) - 3 for one in records]
    split = [one.split("\n", 3) for one in records]
    lines = [[*h[:3], f"Num Peaks: {n}", h[3]] for h, n in zip(split, sizes, strict=True)]
    return "\n\n".join("\n".join(one) for one in lines) + "\n"


def test_spectra_are_named_as_by_the_command_line(spectra, capsys):
    ask, asked, folder = spectra
    words = ["--model", folder / "spectra.skout", "--pool", folder / "pool.skpool", "--top", 5]
    with pytest.raises(SystemExit) as end:
        cli.main(["identify", str(folder / "asked.mgf"), *map(str, words)])
    assert not end.value.code
    expected = capsys.readouterr().out
    body = {"spectra": asked, "top": 5}
    status, _, content = ask("POST", "/api/identify", body, Accept="text/csv")
    assert (status, content.decode()) == (200, expected)
    same = {"spectra": as_msp(asked), "top": 5}
    status, _, content = ask("POST", "/api/identify", same, Accept="text/csv")
    assert (status, content.decode()) == (200, expected)
    status, found = ask.json("POST", "/api/identify", body)
    assert status == 200
    assert [one["query"] for one in found["spectra"]] == re.findall("TITLE=(.*)", asked)
    assert all("svg" not in hit for one in found["spectra"] for hit in one["hits"])
    assert all(one["explanations"] == [] for one in found["spectra"])


def test_hits_are_drawn_and_peaks_explained(spectra):
    ask, asked, _ = spectra
    _, found = ask.json("POST", "/api/identify", {"spectra": asked, "draw": True, "explain": 2})
    one = found["spectra"][0]
    assert one["n_candidates"] >= len(one["hits"]) > 1
    assert all(hit["svg"].startswith("<svg") for hit in one["hits"])
    assert sum(hit["in_set"] for hit in one["hits"]) <= one["n_in_set"]
    assert one["hits"][0]["in_set"]
    assert len(one["explanations"]) == 2
    first = one["explanations"][0]
    assert first["smiles"] == one["hits"][0]["smiles"]
    n_peaks = len(re.findall(r"^\d", asked.split("END IONS")[0], flags=re.MULTILINE))
    assert len(first["peaks"]) == n_peaks
    assert 0 <= first["share"] <= 1


BAD_SPECTRA = {
    "nothing": ({"spectra": ""}, 422),
    "a path": ({"spectra": "/etc/passwd"}, 422),
    "no spectra": ({}, 422),
    "a list": ({"spectra": []}, 422),
    "no end": ({"spectra": "BEGIN IONS\nPEPMASS=100\n50 1\n"}, 422),
    "no number": ({"spectra": "BEGIN IONS\nPEPMASS=100\n50 x\nEND IONS\n"}, 422),
    "NaN": ({"spectra": "BEGIN IONS\nPEPMASS=100\nnan 1\nEND IONS\n"}, 422),
    "infinity": ({"spectra": "BEGIN IONS\nPEPMASS=100\n1e999 1\nEND IONS\n"}, 422),
    "a negative peak": ({"spectra": "BEGIN IONS\nPEPMASS=100\n50 -1\nEND IONS\n"}, 422),
    "many spectra": ({"spectra": "BEGIN IONS\nPEPMASS=99\n50 1\nEND IONS\n" * 21}, 413),
    "many peaks": (
        {"spectra": "BEGIN IONS\nPEPMASS=99\n" + "50 1\n" * 10_001 + "END IONS\n"},
        413,
    ),
    "a wide window": ({"spectra": "BEGIN IONS", "ppm": 1e6}, 422),
    "no window": ({"spectra": "BEGIN IONS", "ppm": 0}, 422),
    "a long adduct": ({"spectra": "BEGIN IONS", "adduct": "M" * 100}, 422),
    "many hits": ({"spectra": "BEGIN IONS\nPEPMASS=9\n5 1\nEND IONS\n", "top": 11}, 422),
    "rows": ({"rows": ROWS}, 422),
}


@pytest.mark.parametrize("name", BAD_SPECTRA)
def test_bad_spectra_are_refused(name, spectra):
    body, expected = BAD_SPECTRA[name]
    ask, asked, _ = spectra
    status, found = ask.json("POST", "/api/identify", body)
    assert status == expected, found
    assert "Traceback" not in found["error"]["message"]
    assert "on_error" not in found["error"]["message"]
    assert ask("POST", "/api/identify", {"spectra": asked})[0] == 200


@pytest.mark.parametrize(
    "text",
    [
        "BEGIN IONS\nTITLE=<script>alert(1)</script>\nPEPMASS=195.08\n50 1\nEND IONS\n",
        "BEGIN IONS\nPEPMASS=195.08\nADDUCT=[M+Xx]+\n50 1\nEND IONS\n",
        "BEGIN IONS\nPEPMASS=1e300\nADDUCT=[M+H]+\n50 1\nEND IONS\n",
        "BEGIN IONS\nADDUCT=[M+H]+\n50 1\nEND IONS\n",
        "BEGIN IONS\nPEPMASS=0.5\nADDUCT=[M+H]+\n50 1\nEND IONS\n",
    ],
    ids=["script", "adduct", "heavy", "no precursor", "light"],
)
def test_spectra_that_cannot_be_searched_have_a_note(text, spectra):
    status, found = spectra[0].json("POST", "/api/identify", {"spectra": text, "explain": 1})
    assert status == 200
    [one] = found["spectra"]
    assert one["hits"] == []
    assert one["note"]


def test_a_model_answers_what_it_can(spectra, label_sets):
    ask, asked, _ = spectra
    for path in ("/api/predict", "/api/rank"):
        status, found = ask.json("POST", path, {"rows": ROWS})
        assert (status, found["error"]["message"]) == (
            404,
            "The model takes spectra: see /api/model.",
        )
    assert label_sets.json("POST", "/api/identify", {"spectra": asked})[0] == 404
    _, about = ask.json("GET", "/api/model")
    assert about["kind"] == "spectra"
    assert about["coverage"] == 0.9
    assert "MRR@25" in about["summary"]


def test_spectra_need_a_pool(spectra, capsys):
    with pytest.raises(SystemExit):
        cli.main(["serve", str(spectra[2] / "spectra.skout")])
    assert "--pool is missing" in capsys.readouterr().err


# More of the API ----------------------------------------------------------------------------------


def test_images_need_as_many_pixels_as_columns(folder):
    path = fit("columns of labels", folder, "image.skout")
    model = server_module.open_served(path, input_image=picture_of("1x3:-1,1", "--input-image"))
    assert model.about()["inputs"]["image"] == {"height": 1, "width": 3, "low": -1.0, "high": 1.0}
    with pytest.raises(ValueError, match="has 4 pixels, and the model 3 columns"):
        server_module.open_served(path, output_image=Picture(2, 2))
    with pytest.raises(ValueError, match="--output-image must be HEIGHTxWIDTH"):
        picture_of("16", "--output-image")


def test_cells_of_records_are_read_as_those_of_a_file():
    rows = [{"a": 1, "b": "2.5", "c": "x"}, {"a": None, "b": 3.0, "c": None}]
    [part] = table_of_records(rows).parts(["b", "a"], ["c"], Reading(["a"]))
    text = "a\tb\tc\n1\t2.5\tx\n\t3.0\t\n"
    [same] = table_of_text(text).parts(["b", "a"], ["c"], Reading(["a"]))
    assert part.numbers.tolist()[0] == same.numbers.tolist()[0] == [2.5, 1.0]
    assert str(part.numbers[1, 1]) == str(same.numbers[1, 1]) == "nan"
    assert part.texts == same.texts == {"c": ["x", ""]}


def test_openapi_describes_the_api(label_sets):
    status, found = label_sets.json("GET", "/openapi.json")
    assert status == 200
    for path, name in (("/api/predict", "Predictions"), ("/api/rank", "RankedRows")):
        post = found["paths"][path]["post"]
        schema = post["requestBody"]["content"]["application/json"]["schema"]
        assert {"rows", "table"} <= set(schema["properties"])
        answer = post["responses"]["200"]["content"]["application/json"]["schema"]
        assert answer == {"$ref": f"#/components/schemas/{name}"}
        assert {"413", "422", "503"} <= set(post["responses"])


# Refusals -----------------------------------------------------------------------------------------

SCRIPT = "<script>alert(1)</script>"
DEEP = b'{"rows": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
WIDE = b'{"rows": [{"a": ' + b'{"a": ' * 50_000 + b"1" + b"}" * 50_000 + b"}]}"
MANY = b'{"rows": [' + b",".join([b"{}"] * 10**5) + b"]}"
BAD = {
    "nothing": ("/api/predict", b"", 400),
    "no JSON": ("/api/predict", b"{", 400),
    "no UTF-8": ("/api/predict", b'{"table": "\xff\xfe"}', 400),
    "half a character": ("/api/predict", b'{"table": "x1,x2,x3\\n\\ud800,1,1"}', 400),
    "a zero byte": ("/api/predict", b'{"table": "x1,x2,x3\\n\\u0000,1,1"}', 422),
    "a list": ("/api/predict", b"[]", 422),
    "a number": ("/api/predict", b"1e999", 422),
    "neither": ("/api/predict", b"{}", 422),
    "both": ("/api/predict", {"rows": ROWS, "table": as_csv(ROWS)}, 422),
    "an unknown field": ("/api/predict", {"rows": ROWS, "path": "/etc/passwd"}, 422),
    "no rows": ("/api/predict", {"rows": []}, 422),
    "an empty table": ("/api/predict", {"table": " \n"}, 422),
    "a header": ("/api/predict", {"table": "x1,x2,x3\n"}, 422),
    "a path for a table": ("/api/predict", {"table": "/etc/passwd"}, 422),
    "a path for a cell": ("/api/predict", {"rows": [{**ROWS[0], "x1": "../../etc/passwd"}]}, 422),
    "a script for a cell": ("/api/predict", {"rows": [{**ROWS[0], "x1": SCRIPT}]}, 422),
    "a script for a column": ("/api/predict", {"rows": [{SCRIPT: 1}]}, 422),
    "a list for a cell": ("/api/predict", {"rows": [{**ROWS[0], "x1": [1]}]}, 422),
    "an object for a cell": ("/api/predict", {"rows": [{**ROWS[0], "x1": {"a": 1}}]}, 422),
    "text for rows": ("/api/predict", {"rows": "x1"}, 422),
    "rows for a table": ("/api/predict", {"table": ROWS}, 422),
    "a missing column": ("/api/predict", {"rows": [{"x1": 1, "x2": 2}]}, 422),
    "a column missing later": ("/api/predict", {"rows": [*ROWS, {"x1": 1}]}, 422),
    "a missing number": ("/api/predict", {"rows": [{**ROWS[0], "x1": None}]}, 422),
    "NaN": ("/api/predict", {"rows": [{**ROWS[0], "x1": float("nan")}]}, 422),
    "infinity": ("/api/predict", {"rows": [{**ROWS[0], "x1": float("inf")}]}, 422),
    "a huge integer": ("/api/predict", {"rows": [{**ROWS[0], "x1": 10**400}]}, 422),
    "NaN in a table": ("/api/predict", {"table": "x1,x2,x3\nnan,1,1\n"}, 422),
    "an open quote": ("/api/predict", {"table": 'x1,x2,x3\n"1,1,1\n'}, 422),
    "a column twice": ("/api/predict", {"table": "x1,x1,x2,x3\n1,1,1,1\n"}, 422),
    "a long row": ("/api/predict", {"table": "x1,x2,x3\n1,1,1,1\n"}, 422),
    "a large cell": ("/api/predict", {"table": f"x1,x2,x3\n{'1' * 200_000},1,1\n"}, 422),
    "many rows": ("/api/predict", {"rows": ROWS * 17}, 413),
    "many lines": ("/api/predict", {"table": "x1,x2,x3\n" + "1,1,1\n" * 51}, 413),
    "a hundred thousand rows": ("/api/predict", MANY, 413),
    "deep lists": ("/api/predict", DEEP, 400),
    "deep objects": ("/api/predict", WIDE, 400),
    "no candidates": ("/api/rank", {"rows": ROWS, "top": 0}, 422),
    "many candidates": ("/api/rank", {"rows": ROWS, "top": 6}, 422),
    "half a candidate": ("/api/rank", {"rows": ROWS, "top": 1.5}, 422),
    "top as text": ("/api/rank", {"rows": ROWS, "top": "many"}, 422),
}


def works(ask):
    status, found = ask.json("POST", "/api/predict", {"rows": ROWS})
    return status == 200 and len(found["rows"]) == len(ROWS)


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_are_refused(name, label_sets):
    path, body, expected = BAD[name]
    status, headers, content = label_sets("POST", path, body, Content_Type="application/json")
    assert status == expected, content
    error = json.loads(content)["error"]
    assert error["status"] == expected
    assert 0 < len(error["message"]) <= 1000
    assert "Traceback" not in error["message"]
    assert "root:" not in error["message"]
    assert headers["content-type"] == "application/json"  # a script in it is no HTML
    assert works(label_sets)


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        *(("GET", path, 404) for path in ("/../../etc/passwd", "/page/index.html", "/static/..")),
        *(("GET", path, 404) for path in ("/%2e%2e/%2e%2e/etc/passwd", "/docs", "/redoc", "//")),
        *((method, "/api/predict", 405) for method in ("GET", "PUT", "DELETE", "OPTIONS", "X" * 9)),
        ("POST", "/", 405),
        ("POST", "/health", 405),
    ],
)
def test_other_addresses_and_methods(method, path, expected, label_sets):
    status, _, content = label_sets(method, path)
    assert status == expected
    assert json.loads(content)["error"]["status"] == expected
    assert works(label_sets)


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "", "text/csv"])
def test_only_json_is_taken(kind, label_sets):
    """Pages of others can make a browser send these without asking the server first."""
    status, _, _ = label_sets("POST", "/api/predict", b'{"rows": []}', Content_Type=kind)
    assert status == 415


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example"])
def test_other_hosts_are_not_served(host, label_sets):
    """A name of a stranger may lead a browser here (DNS rebinding)."""
    assert label_sets("GET", "/api/model", Host=host)[0] == 400
    for mine in ("localhost", "127.0.0.1:8000", "[::1]:80"):
        assert label_sets("GET", "/api/model", Host=mine)[0] == 200


def test_a_hundred_megabytes_are_refused(label_sets):
    block = b" " * 2**20
    size = b"Content-Length: %d\r\n\r\n" % (100 * len(block))
    found = raw(label_sets, HEAD + size, *[block] * 100)
    assert found.startswith(b"HTTP/1.1 413 ")
    assert b"A request may have 2 MB." in found
    assert works(label_sets)


def test_a_body_without_a_length_is_refused_when_it_is_too_large(label_sets):
    block = b"100000\r\n" + b" " * 2**20 + b"\r\n"
    found = raw(
        label_sets, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[block] * 4, b"0\r\n\r\n"
    )
    assert found.startswith(b"HTTP/1.1 413 ")
    assert works(label_sets)


def test_a_slow_body_is_refused(label_sets):
    start = time.perf_counter()
    found = raw(label_sets, HEAD + b"Content-Length: 100\r\n\r\n{", *[b" "] * 3, wait=0.9)
    assert found.startswith(b"HTTP/1.1 408 ")
    assert time.perf_counter() - start < 15
    assert works(label_sets)


def test_a_slow_head_is_cut_off(label_sets, monkeypatch):
    monkeypatch.setattr(server_module, "_HEAD", 0.3)
    for sent in ([], [HEAD[:20]], [HEAD, b"X: 1\r\n"]):
        assert raw(label_sets, *sent, wait=0.1) == b""
    good = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    found = raw(label_sets, good + HEAD[:30])  # the head of a second request
    assert found.startswith(b"HTTP/1.1 200 ")
    assert works(label_sets)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00" * 100,
        b"GET / HTTP/9.9\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nContent-Length: 9\r\n\r\n{}",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=["zeros", "version", "negative", "two lengths", "long path", "many headers", "TLS"],
)
def test_what_is_no_http_is_refused(sent, label_sets):
    found = raw(label_sets, sent)
    assert found == b"" or found.startswith(b"HTTP/1.1 400 ")
    assert works(label_sets)


def test_a_body_that_ends_early(label_sets):
    with socket.create_connection(("127.0.0.1", label_sets.port)) as connection:
        connection.sendall(HEAD + b'Content-Length: 100\r\n\r\n{"ro')
    assert works(label_sets)


# Headers, logs, counts ----------------------------------------------------------------------------


def test_answers_have_headers_that_keep_the_page_safe(label_sets):
    for method, path in (("GET", "/"), ("GET", "/api/model"), ("GET", "/none"), ("POST", "/")):
        _, headers, _ = label_sets(method, path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers


def test_the_page_needs_nothing_of_others(label_sets):
    _, headers, page = label_sets("GET", "/")
    assert headers["content-type"] == "text/html; charset=utf-8"
    sources = re.findall(rb'(?:src|href)="([^"]*)"', page)
    assert all(not re.match(rb"https?:|//", source) for source in sources)
    assert b"<style" not in page
    assert b" style=" not in page
    assert not re.search(rb"<script(?! src)", page)
    assert not re.search(rb"\son\w+=", page)
    for name, kind in (("page.js", "text/javascript"), ("page.css", "text/css")):
        assert name.encode() in sources
        status, headers, content = label_sets("GET", f"/{name}")
        assert status == 200
        assert headers["content-type"].startswith(kind)
        assert not re.search(rb"innerHTML|outerHTML|insertAdjacent|document\.write|eval", content)
        assert not re.search(rb"https?://(?!www\.w3\.org/2000/svg)", content)


def test_requests_are_counted_and_logged(folder, caplog):
    caplog.set_level("INFO", "skout.serve")
    with running(served(fit("label sets", folder, "counted.skout"))) as ask:
        for _ in range(3):
            assert works(ask)
        assert ask("POST", "/api/predict", b"{", Content_Type="application/json")[0] == 400
        assert ask("GET", '/x"%0a}/{route="1')[0] == 404
        _, headers, content = ask("GET", "/metrics")
        _, health = ask.json("GET", "/health")
    text = content.decode()
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    line = re.compile(
        r'(# TYPE \w+ \w+|[a-z_]+(\{[a-z]+="[^"{}]*"(,[a-z]+="[^"{}]*")*\})? [\d.e+-]+)'
    )
    assert all(line.fullmatch(one) for one in text.splitlines())
    assert 'skout_requests_total{route="/api/predict",status="200"} 3' in text
    assert 'skout_requests_total{route="/api/predict",status="400"} 1' in text
    assert 'skout_request_seconds_count{route="/api/predict"} 4' in text
    assert 'skout_request_seconds_bucket{route="/api/predict",le="+Inf"} 4' in text
    assert "skout_rows_total 9" in text
    assert 'skout_loads_total{result="ok"} 1' in text
    assert health["status"] == "ok"
    assert health["reload_error"] is None
    texts = [server_module.JsonLines().format(r) for r in caplog.records if r.msg == "request"]
    assert all("\n" not in text for text in texts)
    first = next(one for one in map(json.loads, texts) if one.get("model") == health["model"])
    assert (first["path"], first["status"], first["rows"]) == ("/api/predict", 200, 3)
    assert first["ms"] > 0


@pytest.fixture
def odd():
    model = Odd()
    yield model
    model.going.set()


def test_a_failure_inside_is_not_shown(odd, caplog):
    caplog.set_level("INFO", "skout.serve")
    odd.going.set()
    odd.error = RuntimeError("the password is 12345")
    with running(Models([], lambda: odd)) as ask:
        status, _, content = ask("POST", "/api/predict", {"rows": ROWS})
        assert status == 500
        assert b"12345" not in content
        assert b"Traceback" not in content
        odd.error = None
        assert ask("POST", "/api/predict", {"rows": ROWS})[0] == 200
        assert ask.json("POST", "/api/rank", {"rows": ROWS})[0] == 404  # it does not rank
    texts = [server_module.JsonLines().format(record) for record in caplog.records]
    [trace] = [json.loads(text)["trace"] for text in texts if "trace" in text]
    assert "the password is 12345" in trace


def in_threads(n, function):
    """Start a function in threads; return these, and where they put what it returns."""
    found = []
    threads = [threading.Thread(target=lambda: found.append(function())) for _ in range(n)]
    for thread in threads:
        thread.start()
    return threads, found


def test_requests_wait_for_their_turn_and_no_more_than_some(odd):
    limits = Limits(workers=2, queue=1)
    with running(Models([], lambda: odd), limits) as ask:
        threads, found = in_threads(3, lambda: ask("POST", "/api/predict", {"rows": ROWS}))
        assert odd.started.acquire(timeout=30)
        assert odd.started.acquire(timeout=30)
        until = time.monotonic() + 30
        while "skout_waiting 1" not in ask("GET", "/metrics")[2].decode():
            assert time.monotonic() < until
        status, headers, content = ask("POST", "/api/predict", {"rows": ROWS})
        assert (status, headers["retry-after"]) == (503, "1")
        assert "busy" in json.loads(content)["error"]["message"]
        assert ask("GET", "/health")[0] == 200  # which does not wait
        odd.going.set()
        for thread in threads:
            thread.join()
        assert [status for status, _, _ in found] == [200] * 3
        assert "skout_running 0" in ask("GET", "/metrics")[2].decode()


@pytest.mark.parametrize("turns", range(6))
def test_who_has_just_got_a_thread_holds_no_place_in_the_queue(turns):
    going = threading.Event()

    async def come():
        gate, asked = Gate(Limits(workers=2, queue=1)), []
        for _ in range(4):
            job = gate.run(lambda _: going.wait(30), Deadline(30.0))
            asked.append(asyncio.create_task(job))
            for _ in range(turns):  # the next one comes while this one is let in
                await asyncio.sleep(0)
        with pytest.raises(Refused, match="busy"):
            await asked.pop()
        going.set()
        assert await asyncio.gather(*asked) == [True] * 3
        gate.close()

    asyncio.run(come())


def test_a_request_that_takes_too_long_is_given_up(odd):
    limits = Limits(workers=1, queue=4, seconds=0.3)
    with running(Models([], lambda: odd), limits) as ask:
        status, found = ask.json("POST", "/api/predict", {"rows": ROWS})
        assert status == 503
        assert "longer than 0.3 s" in found["error"]["message"]
        assert ask("POST", "/api/predict", {"rows": ROWS})[0] == 503  # the thread is still busy
        odd.going.set()
        until = time.monotonic() + 30
        while ask("POST", "/api/predict", {"rows": ROWS})[0] != 200:
            assert time.monotonic() < until


WATCHED = {"on": False, "opened": []}


def watch(event, details):
    if not WATCHED["on"] or "/proc/self/maps" in details:  # threadpoolctl looks for libraries
        return
    if event in ("open", "os.remove", "os.rename", "os.mkdir", "subprocess.Popen"):
        WATCHED["opened"].append((event, str(details)))


def test_requests_open_no_file(label_sets):
    sys.addaudithook(watch)  # for good, so that it has a switch
    requests = [("POST", "/api/predict", {"rows": ROWS}), ("POST", "/api/rank", {"rows": ROWS})]
    requests += [("POST", path, body) for path, body, _ in BAD.values()]
    requests += [("GET", path, None) for path in ("/", "/page.js", "/health", "/metrics", "/a/..")]
    WATCHED["opened"].clear()
    for i, (method, path, body) in enumerate(requests * 2):
        WATCHED["on"] = i >= len(requests)  # the first time modules may be imported
        label_sets(method, path, body, Content_Type="application/json")
        WATCHED["on"] = False
    assert WATCHED["opened"] == []
    WATCHED["on"] = True
    with open(os.devnull):  # it can see one
        WATCHED["on"] = False
    assert len(WATCHED["opened"]) == 1


# Models are replaced ------------------------------------------------------------------------------


def test_a_replaced_file_is_loaded_under_load(tmp_path):
    """Twenty times, with clients that ask all the while: each answer is of one of both models."""
    path = fit("numbers", tmp_path)
    other = fit("numbers", tmp_path, "other.skout", alpha=0.5)
    contents = [path.read_bytes(), other.read_bytes()]
    body, expected = {"rows": ROWS}, {}
    for one in (path, other):
        with running(served(one)) as ask:
            found = ask.json("POST", "/api/predict", body)[1]
            expected[found["model"]] = found["rows"]
    assert len(expected) == 2
    assert len({str(rows) for rows in expected.values()}) == 2
    ends, answers = threading.Event(), []

    def load():
        mine = []
        while not ends.is_set():
            mine.append(ask.json("POST", "/api/predict", body))
        return mine

    with running(served(path), reload_seconds=0.01) as ask:
        threads, answers = in_threads(2, load)
        for i in range(20):
            temporary = tmp_path / "new"
            temporary.write_bytes(contents[(i + 1) % 2])
            before = ask.json("GET", "/health")[1]["model"]
            os.replace(temporary, path)
            until = time.monotonic() + 30
            while ask.json("GET", "/health")[1]["model"] == before:
                assert time.monotonic() < until, "the new file was not loaded"
        ends.set()
        for thread in threads:
            thread.join()
        assert 'skout_loads_total{result="ok"} 21' in ask("GET", "/metrics")[2].decode()
    answers = [answer for mine in answers for answer in mine]
    assert len(answers) > 40
    for status, found in answers:
        assert status == 200
        assert found["rows"] == expected[found["model"]]
    assert {found["model"] for _, found in answers} == set(expected)


def test_a_damaged_file_changes_nothing(tmp_path, caplog):
    path = fit("numbers", tmp_path)
    content = path.read_bytes()
    with running(served(path), reload_seconds=0.01) as ask:
        _, before = ask.json("POST", "/api/predict", {"rows": ROWS})

        def wait_for(wanted):
            until = time.monotonic() + 30
            while wanted != bool((health := ask.json("GET", "/health")[1])["reload_error"]):
                assert time.monotonic() < until
            return health

        for bad in (content[:-100], b"", b"PK\x03\x04", None):
            if bad is None:
                path.unlink()
            else:
                path.write_bytes(bad)
            health = wait_for(True)
            assert health["status"] == "ok"
            assert str(tmp_path) not in health["reload_error"]
            assert ask.json("POST", "/api/predict", {"rows": ROWS}) == (200, before)
            path.write_bytes(content)
            wait_for(False)
        text = ask("GET", "/metrics")[2].decode()
        assert int(re.search(r'loads_total\{result="failed"\} (\d+)', text)[1]) >= 4
    assert any("the new model is not used" in record.getMessage() for record in caplog.records)


def test_a_model_of_two_files_is_never_mixed(tmp_path):
    """The files change while they are read: then they are read again."""
    path, reads = tmp_path / "file", []
    path.write_bytes(b"1")

    def open_all():
        content = path.read_bytes()
        reads.append(content)
        if content == b"1":
            path.write_bytes(b"22")
        if content == b"22":
            path.write_bytes(b"333")
            raise ValueError("half of it")
        return content

    assert Models([path], open_all).current == b"333"
    assert reads == [b"1", b"22", b"333"]


# The command --------------------------------------------------------------------------------------


@contextlib.contextmanager
def command(*words):
    """Run `skout serve` as a process; yield it and its port."""
    src = str(Path(server_module.__file__).parents[4])
    process = subprocess.Popen(
        [sys.executable, "-m", "skout", "serve", *map(str, words), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": src},
    )
    try:
        line = json.loads(process.stderr.readline())
        assert line["event"] == "serving"
        yield process, int(line["address"].rpartition(":")[2]), line["address"]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
def test_sigterm_lets_running_requests_end(folder):
    path = fit("numbers", folder, "term.skout")
    body = json.dumps({"rows": ROWS}).encode()
    with command(path) as (process, port, address):
        assert address.startswith("http://127.0.0.1:")
        head = HEAD + b"Content-Length: %d\r\n\r\n" % len(body)
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(head + body[:10])
            time.sleep(0.3)  # until the request has begun
            process.send_signal(signal.SIGTERM)
            until = time.monotonic() + 30
            while True:  # until nobody is let in any more
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=5).close()
                except ConnectionError:
                    break
                assert time.monotonic() < until
            connection.sendall(body[10:])
            found = b""
            while part := connection.recv(2**16):
                found += part
        assert found.startswith(b"HTTP/1.1 200 ")
        assert b'"rows"' in found
        assert process.wait(timeout=30) in (0, -signal.SIGTERM)
        lines = [json.loads(line) for line in process.stderr.read().splitlines()]
    assert [line["status"] for line in lines if line["event"] == "request"] == [200]


def test_the_port_may_be_taken(folder, capsys):
    path = fit("numbers", folder, "port.skout")
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(SystemExit) as end:
        cli.main(["serve", str(path), "--port", str(other.getsockname()[1])])
    assert end.value.code == 1
    assert "skout: Cannot listen at 127.0.0.1, port" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.skout"], "There is no model 'none.skout'"),
        (["{model}", "--pool", "none.csv"], "There is no file 'none.csv'"),
        (["{model}", "--max-rows", "0"], "--max-rows must be an integer >= 1"),
        (["{model}", "--max-seconds", "0"], "--max-seconds must be a finite number > 0"),
        (["{model}", "--input-image", "9x9"], "An image of 9x9 has 81 pixels, and the model 3"),
        (["{model}", "--input-image", "x"], "--input-image must be HEIGHTxWIDTH"),
    ],
)
def test_mistakes_are_told_before_it_starts(words, message, folder, capsys):
    model = folder / "words.skout"
    if not model.exists():
        fit("label sets", folder, model.name)
    with pytest.raises(SystemExit) as end:
        cli.main(["serve", *(word.format(model=model) for word in words)])
    assert end.value.code == 1
    assert message in capsys.readouterr().err


def test_without_the_extra_it_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with pytest.raises(SystemExit):
        cli.main(["serve", "model.skout"])
    assert 'pip install "skout[serve]"' in capsys.readouterr().err


@pytest.mark.skipif(not (ROOT / "Dockerfile").exists(), reason="a source distribution has none")
def test_the_image_is_made_of_files_that_exist():
    """It cannot be built here: what it copies, installs and runs is compared with what there is."""
    text = (ROOT / "Dockerfile").read_text()
    sources = re.findall(r"^COPY (?!--from)(.*) \S+$", text, flags=re.MULTILINE)
    names = [name for line in sources for name in line.split()]
    assert {"pyproject.toml", "src", "constraints.txt"} <= set(names)
    assert all((ROOT / name).exists() for name in names)
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {f"!{name}" for name in names} <= set(ignored)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [installed] = re.findall(r"\.\[([\w,]+)\]", text)
    assert set(installed.split(",")) <= set(extras["optional-dependencies"])
    [entry] = re.findall(r"^ENTRYPOINT (.*)$", text, flags=re.MULTILINE)
    assert json.loads(entry)[1:4] == ["serve", "--host", "0.0.0.0"]


def test_inputs_are_what_the_tests_think():
    assert [list(row.values()) for row in ROWS] == X[:3].tolist()
