"""A served model: one route that answers as the command does, limits, a token elsewhere than on loopback, and nothing else."""

import base64
import http.client
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import perfed
from perfed.cli.serve import _token
from perfed.data import load as load_samples
from perfed.errors import InputError
from perfed.serving.export import export
from perfed.serving.predict import load, read
from perfed.serving.route import Answering
from perfed.serving.serve import ModelServer, model_server, near

ROW = {"age": 71.5, "pressure": 150, "sex": "m", "smoker": True}
SECRET = "a token of some length"


@contextmanager
def serving(path: Path, token: str = "", **limits: int) -> Iterator[ModelServer]:
    with model_server(Answering(load(path), **limits), token=token) as found:
        threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield found
        found.shutdown()


@pytest.fixture
def served(exported: Path) -> Iterator[ModelServer]:
    with serving(exported) as found:
        yield found


def ask(served: ModelServer, path: str, body: Any = None, how: str | None = None, **headers: str) -> tuple[int, Any]:
    line = http.client.HTTPConnection("127.0.0.1", served.server_port)
    sent = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Host": f"127.0.0.1:{served.server_port}", "Content-Type": "application/json"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    line.request(how or ("GET" if body is None else "POST"), path, sent, given)
    answer = line.getresponse()
    text = answer.read()
    return answer.status, json.loads(text) if answer.headers["Content-Type"] == "application/json" and text else text.decode()


def refused(served: ModelServer, body: Any, **headers: str) -> tuple[int, str]:
    status, found = ask(served, "/predict", body, **headers)
    return status, found["error"]


def test_the_route_answers_as_the_command_does(served: ModelServer, exported: Path, tables: Path) -> None:
    model = load(exported)
    given = read(tables / "hospitals" / "oslo.csv", model, None, ["patient", "diagnosis"])
    lines = [line.split(",") for line in (tables / "hospitals" / "oslo.csv").read_text().splitlines()[1:]]
    rows = [
        {"age": float(age), "pressure": float(p) if p else None, "sex": sex, "smoker": smoker == "yes"}
        for _, age, p, sex, smoker, _ in lines
    ]
    status, found = ask(served, "/predict", {"inputs": rows})
    assert status == 200 and found["predictions"] == model.answers(model.scores(given.x))


def test_the_schema_says_what_a_question_is(served: ModelServer) -> None:
    status, found = ask(served, "/schema")
    item = found["body"]["properties"]["inputs"]["items"]
    assert status == 200 and item["required"] == ["age", "pressure", "sex", "smoker"]
    assert item["properties"]["sex"] == {"type": ["string", "number", "null"], "examples": ["f", "m"]}
    assert found["model"]["client"] == "rome" and found["model"]["scores"]["count"] == 20 and found["route"] == "POST /predict"
    assert found["limits"] == {"rows": 1000, "bytes": 16 << 20}


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b"{", "the question is no JSON"),
        ([ROW], 'a question is {"inputs": [...]}'),
        ({"inputs": [ROW], "more": 1}, 'a question is {"inputs": [...]}'),
        ({"inputs": []}, "a question has 1 to 3 inputs, this one 0"),
        ({"inputs": [ROW] * 4}, "a question has 1 to 3 inputs, this one 4"),
        ({"inputs": [7]}, "input 0 is no object with the columns age, pressure, sex, smoker"),
        ({"inputs": [ROW, {"age": 1}]}, "input 1 has no 'pressure'"),
        ({"inputs": [ROW | {"weight": 1}]}, "input 0 has 'weight', which the model does not take"),
        ({"inputs": [ROW, ROW | {"age": "old"}]}, "the question: row 1, column 'age': 'old' is no number"),
        ({"inputs": [ROW | {"age": [1]}]}, "the question: row 0, column 'age': it holds a list"),
    ],
)
def test_a_question_that_does_not_fit_is_one_sentence(exported: Path, body: Any, wanted: str) -> None:
    with serving(exported, rows=3) as served:
        status, said = refused(served, body)
        assert status == 400 and wanted in said
        assert ask(served, "/predict", {"inputs": [ROW]})[0] == 200  # and the next one is answered


def test_limits_and_forms_are_kept(exported: Path) -> None:
    with serving(exported, body=100) as served:
        assert refused(served, b"x" * 101) == (413, "a question has at most 100 bytes, this one 101")
        assert refused(served, b"{}", Content_Type="text/plain")[0] == 415
        assert ask(served, "/predict")[0] == 405 and ask(served, "/else")[0] == 404
        assert ask(served, "/schema", b"{}")[0] == 404
        for how in ("PUT", "DELETE", "OPTIONS"):
            assert ask(served, "/predict", how=how)[0] == 501
    with pytest.raises(InputError, match="at least one row"):
        Answering(load(exported), rows=0)


def test_the_page_and_the_health(served: ModelServer) -> None:
    assert ask(served, "/health") == (200, {"status": "ok", "token": False})
    status, page = ask(served, "/")
    assert status == 200 and "http" not in page.replace("http-equiv", "") and 'src="page.js"' in page
    assert ask(served, "/page.py")[0] == 404 and ask(served, "/../serve.py")[0] == 404
    assert ask(served, "/", how="HEAD") == (200, "")


def test_a_strange_name_that_leads_here_is_refused(served: ModelServer) -> None:
    for host in (f"evil.example:{served.server_port}", "127.0.0.1"):
        assert ask(served, "/schema", Host=host)[0] == 403
        assert refused(served, {"inputs": [ROW]}, Host=host)[0] == 403


def test_a_token_is_needed_where_one_is_set(exported: Path) -> None:
    with serving(exported, token=SECRET) as served:
        assert ask(served, "/health") == (200, {"status": "ok", "token": True})
        for given in ("", SECRET, f"Bearer {SECRET}x", "Bearer "):
            assert refused(served, {"inputs": [ROW]}, Authorization=given)[0] == 401
            assert ask(served, "/schema", Authorization=given)[0] == 401
        assert ask(served, "/predict", {"inputs": [ROW]}, Authorization=f"Bearer {SECRET}")[0] == 200


def test_elsewhere_than_on_loopback_nothing_is_served_without_a_token(exported: Path, tmp_path: Path) -> None:
    assert near("127.0.0.1") and near("::1") and near("localhost") and not near("0.0.0.0") and not near("some.host")
    with pytest.raises(InputError, match=r"'0\.0\.0\.0' can be reached by others, so a token is needed"):
        model_server(Answering(load(exported)), "0.0.0.0")
    assert len(_token(None, needed=True)) >= 32 and _token(None, needed=False) == ""
    (tmp_path / "token").write_text(SECRET.replace(" ", "-") + "\n")
    assert _token(tmp_path / "token", needed=True) == SECRET.replace(" ", "-")
    (tmp_path / "token").write_text("short\n")
    with pytest.raises(InputError, match="holds no token"):
        _token(tmp_path / "token", needed=True)


def test_a_port_that_is_taken_is_one_sentence(served: ModelServer, exported: Path) -> None:
    with pytest.raises(InputError, match="--port 0 takes a free one"):
        model_server(Answering(load(exported)), port=served.server_port)


def test_pictures_are_asked_for_in_base64(tmp_path: Path) -> None:
    digits = load_samples("digits", fraction=0.2)
    done = perfed.train(perfed.federate(digits, clients=2, partition="iid"), "fedavg", rounds=1, transport="serial")
    export(done.model(0), tmp_path / "own.safetensors")
    model = load(tmp_path / "own.safetensors")
    desk = Answering(model)
    shown = []
    for picture in digits.x[:3]:
        file = io.BytesIO()
        Image.fromarray(picture[0].numpy()).save(file, "PNG")
        shown.append(base64.b64encode(file.getvalue()).decode())
    found = desk.answer(json.dumps({"inputs": shown}).encode())
    assert found["predictions"] == model.answers(model.scores(digits.x[:3]))
    for wrong, said in (("%%", "input 1 is no picture in base64"), ("aGVsbG8=", "input 1 is no readable picture")):
        with pytest.raises(perfed.errors.DataError, match=said):
            desk.answer(json.dumps({"inputs": [shown[0], wrong]}).encode())
