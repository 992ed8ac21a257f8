"""The live page's server: what it tells of every run, and that it can be asked for nothing else."""

import http.client
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from handmade import write_run

from perfed.disk import locked
from perfed.errors import InputError, RunError
from perfed.report.read import gather
from perfed.report.tables import comparison
from perfed.watch.find import groups
from perfed.watch.pulse import LOCKS, held, tail
from perfed.watch.serve import WatchServer, server


def ask(served: WatchServer, path: str, how: str = "GET", **headers: str) -> http.client.HTTPResponse:
    line = http.client.HTTPConnection("127.0.0.1", served.server_port)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    line.request(how, path, headers={"Host": f"127.0.0.1:{served.server_port}"} | given)
    return line.getresponse()


def told(served: WatchServer, path: str) -> Any:
    answer = ask(served, path)
    assert answer.status == 200
    return json.loads(answer.read())


def test_every_run_is_found_with_its_state(served: WatchServer) -> None:
    found = {group["id"]: group for group in told(served, "/runs.json")["groups"]}
    assert set(found) == {"compared", "papers/cells/stopped", "silos", "broken"}
    states = {name: group["state"] for name, group in found.items()}
    assert states == {"compared": "finished", "papers/cells/stopped": "stopped", "silos": "finished", "broken": "damaged"}
    assert [run["method"] for run in found["compared"]["runs"]] == ["local", "fedavg", "fedcp"]
    assert found["compared"]["best"]["method"] == "fedcp" and found["compared"]["title"] == "3 methods on digits"
    assert (found["compared"]["done"], found["compared"]["planned"]) == (72, 72)  # 3 methods, 2 seeds, 12 rounds
    assert (found["papers/cells/stopped"]["done"], found["papers/cells/stopped"]["planned"]) == (4, 9)
    assert found["silos"]["missing"] == ["no answer from client 1 in round 6"] and found["silos"]["deployed"]
    assert "is not YAML" in found["broken"]["error"]


def test_a_group_has_the_tables_digits_and_every_seeds_curve(served: WatchServer, folder: Path) -> None:
    found = told(served, "/group.json?id=compared")
    table = comparison(gather([folder / "compared"]))
    place = [column.key for column in table.columns].index("validation.weighted")
    assert found["table"]["columns"][0]["key"] == "validation.weighted"
    assert [row["cells"][0]["text"] for row in found["table"]["rows"]] == [row.cells[place].text for row in table.rows]
    assert [run["label"] for run in found["runs"]] == ["Local", "FedAvg", "FedCP"]
    curve = found["runs"][2]["curves"]["test"]
    assert curve["round"] == list(range(13)) and set(curve["seeds"]) == {"0", "1"}
    assert len(found["runs"][2]["clients"]["score"]) == 4
    assert found["lead"].startswith("FedCP scores highest of 3")


@pytest.mark.skipif(not LOCKS.exists(), reason="needs /proc/locks")
def test_a_seed_that_a_process_holds_is_running_and_looking_does_not_disturb_it(folder: Path) -> None:
    seed = folder / "papers" / "cells" / "stopped" / "seed-0"
    with locked(seed / "lock") as mine:
        assert mine and (seed / "lock").stat().st_ino in held()
        with server(folder) as other:
            found = {group["id"]: group["state"] for group in _overview(other)["groups"]}
        assert found["papers/cells/stopped"] == "running"
    assert (seed / "lock").stat().st_ino not in held()


def _overview(found: WatchServer) -> Any:
    return found.RequestHandlerClass.args[0].overview()  # type: ignore[attr-defined]


def test_what_grows_is_told_again_and_what_does_not_is_not(served: WatchServer, folder: Path) -> None:
    first = ask(served, "/group.json?id=silos")
    before, mark = json.loads(first.read()), first.headers["ETag"]
    assert ask(served, "/group.json?id=silos", If_None_Match=mark).status == 304
    path = folder / "silos" / "seed-0" / "rounds.jsonl"
    line = json.loads(path.read_text().splitlines()[-1]) | {"round": 7}
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n" + '{"round": 8, "te')  # and one that is still being written
    after = ask(served, "/group.json?id=silos", If_None_Match=mark)
    assert after.status == 200
    assert json.loads(after.read())["runs"][0]["curves"]["test"]["round"] == [*before["runs"][0]["curves"]["test"]["round"], 7]


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/compared/local/settings.yaml",
        "/group.json?id=../runs/compared",
        "/group.json?id=/etc",
        "/group.json?id=papers/cells/../cells/stopped",
        "/group.json",
        "/page.py",
        "//page.css/../serve.py",
    ],
)
def test_nothing_else_can_be_asked_for(served: WatchServer, path: str) -> None:
    assert ask(served, path).status == 404


@pytest.mark.parametrize("how", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"])
def test_only_reading_is_possible(served: WatchServer, how: str) -> None:
    assert ask(served, "/", how).status == 501


def test_a_strange_name_that_leads_here_is_refused(served: WatchServer) -> None:
    """A page of elsewhere could make its own name lead to this machine, and read the answers (DNS rebinding)."""
    port = served.server_port
    near = (f"127.0.0.1.evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", "")
    for host in ("evil.example", f"evil.example:{port}", *near):
        assert ask(served, "/runs.json", Host=host).status == 403
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert ask(served, "/runs.json", Host=host).status == 200


def test_head_has_the_headers_and_no_content(served: WatchServer) -> None:
    answer = ask(served, "/", "HEAD")
    assert answer.status == 200 and int(answer.headers["Content-Length"]) > 500 and answer.read() == b""
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff" and answer.headers["Access-Control-Allow-Origin"] is None


def test_the_server_listens_on_loopback_only(served: WatchServer) -> None:
    assert served.server_address[0] == "127.0.0.1"


def test_nothing_is_written(served: WatchServer, folder: Path) -> None:
    def everything() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    before = everything()
    for group in told(served, "/runs.json")["groups"]:
        ask(served, f"/group.json?id={group['id']}").read()
    assert everything() == before


def test_links_are_not_followed(folder: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "elsewhere" / "secret", "fedavg")
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    assert "secret" not in " ".join(group.id for group in groups(folder))


def test_a_run_or_a_comparison_can_be_watched_alone(folder: Path) -> None:
    assert [group.id for group in groups(folder / "compared")] == ["compared"]
    assert [group.id for group in groups(folder / "silos")] == ["silos"]
    with pytest.raises(RunError, match="there is no folder"):
        groups(folder / "nowhere")


def test_a_port_that_is_taken_is_one_sentence(served: WatchServer, folder: Path) -> None:
    with pytest.raises(InputError, match="--port 0 takes a free one"):
        server(folder, served.server_port)


def test_the_end_of_a_long_record_is_found_without_reading_it_all(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_text("".join(json.dumps({"round": n, "pad": "x" * 200_000}) + "\n" for n in range(4)) + '{"round": 4')
    assert [line["round"] for line in tail(path)] == [3]
    path.write_text("")
    assert tail(path) == [] and tail(tmp_path / "none") == []


def test_the_command_says_where_the_page_is(folder: Path) -> None:
    words = [sys.executable, "-c", "from perfed.cli import main; main()", "watch", str(folder), "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        text = "".join(process.stdout.readline() for _ in range(4))
        found = json.loads(text)
        line = http.client.HTTPConnection(found["address"].split("//")[1].strip("/"))
        line.request("GET", "/runs.json")
        assert line.getresponse().status == 200
        process.terminate()
