"""The page: everything on it, nothing from elsewhere, small enough to send."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from perfed.errors import RunError
from perfed.report import page
from perfed.report.canvas import sheet, svg
from perfed.report.figures import costs
from perfed.report.page import render, write
from perfed.report.read import gather
from perfed.report.sections import command
from perfed.report.tables import comparison


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.headings, self.open, self.links, self.seen = [], [], [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.seen.add(tag)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found[key] for key in ("href", "src", "xlink:href") if key in found]
        self.open.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2" and data.strip():
            self.headings.append(data.strip())

    def handle_endtag(self, tag):
        self.open.append("")


@pytest.fixture(scope="module")
def compared(tmp_path_factory, run_writer):
    folder = tmp_path_factory.mktemp("compared")
    for method in ("local", "fedavg", "fedcp"):
        options = {"align": 5} if method == "fedcp" else {}
        run_writer(folder / method, method, seeds=(0, 1), rounds=12, options=options)
    return folder


@pytest.fixture(scope="module")
def text(compared, tmp_path_factory):
    return write([compared], tmp_path_factory.mktemp("page") / "page.html").read_text(encoding="utf-8")


def test_a_comparison_has_every_section(text):
    assert Tags(text).headings == [
        "At a glance",
        "What was run",
        "Results",
        "Curves",
        "Who gains, who loses",
        "Every client's accuracy",
        "Data of the clients",
        "Bytes and seconds",
        "How to repeat it",
    ]
    assert text.count("<svg") == 7
    assert "above Local" in text and "above FedAvg" in text
    assert "perfed run method=fedcp partition.alpha=0.1" in text
    assert "method.align=5" in text
    assert "<b>" in text and "<u>" in text


def test_a_single_run_has_no_empty_sections(make_run):
    text = render(gather([make_run("lone", "fedcp")]))
    assert "Who gains, who loses" not in text
    assert "<h1>FedCP on digits</h1>" in text
    assert "Local was not run" in text


def test_the_page_needs_no_network_and_its_names_are_unique(text):
    tags = Tags(text)
    assert len(tags.ids) == len(set(tags.ids))
    assert all(link.startswith(("#", "data:")) for link in tags.links)
    assert {link[1:] for link in tags.links if link.startswith("#")} <= set(tags.ids)
    assert "@import" not in text


def test_the_page_prints_the_tables_figures(compared, text):
    bare = re.sub(r"<[^>]*>", "", text)
    for row in comparison(gather([compared])).rows:
        assert all(cell.both in bare for cell in row.cells)


def test_the_same_runs_make_the_same_page(compared, text):
    assert render(gather([compared])) == text


def test_a_page_that_grows_too_large_turns_its_largest_figures_into_pictures(make_run, monkeypatch):
    heavy, axis = sheet(5, 3)
    axis.plot(*np.random.default_rng(0).random((2, 5000)), ".")
    monkeypatch.setattr(page, "LIMIT", 300_000)
    text = render(gather([make_run()]), extra=[("Heavy", heavy)])
    assert len(svg(heavy)) > 350_000 > len(text)
    assert text.count('src="data:image/png') == 1
    assert text.count("<svg") == 4


def test_hundreds_of_clients_fit_into_three_megabytes(make_run, tmp_path):
    for method in ("local", "fedcp"):
        make_run(f"wide/{method}", method, clients=400, classes=40, rounds=3)
    written = write([tmp_path / "wide"], tmp_path)
    assert written == tmp_path / "report.html"
    assert written.stat().st_size < 1_500_000
    assert "the first 200 of 400 clients" in written.read_text(encoding="utf-8")


def test_extra_sections_stand_before_how_to_repeat_it(compared):
    runs = gather([compared])
    added = [("Notes", "<p>by <em>hand</em></p>"), ("Cost", costs(runs)), ("Table", comparison(runs).pick("last"))]
    text = render(runs, title="A <title>", extra=added)
    assert Tags(text).headings[-4:] == ["Notes", "Cost", "Table", "How to repeat it"]
    assert "<p>by <em>hand</em></p>" in text
    assert "<h1>A &lt;title&gt;</h1>" in text


def test_who_wants_the_same_bits_learns_which_transport_was_chosen(make_run, tmp_path):
    for method, name in (("local", "serial"), ("fedcp", "stacked"), ("gpfl", "stacked")):
        folder = make_run(f"both/{method}", method)
        for file, more in (("settings.yaml", "transport: auto\n"), ("manifest.json", None)):
            text = (folder / file).read_text()
            note = json.dumps(json.loads(text) | {"transport": {"0": {"name": name}}}) if more is None else text + more
            (folder / file).write_text(note)
    text = render(gather([tmp_path / "both"]))
    assert "transport=auto chose serial for Local; stacked for FedCP, GPFL." in text
    assert "transport=auto chose" not in render(gather([tmp_path / "both" / "local"]))  # serial is the reference


def test_names_from_outside_are_escaped(make_run, tmp_path):
    """Whoever names a client, a class, a setting or a machine writes text, never elements."""
    evil, seen = "<script>alert(1)</script>", []
    for word, mark in (("plain", "text"), (evil, "<img src=x onerror=a()>")):
        place = tmp_path / mark[1:4]
        for method in ("local", word):
            folder = make_run(f"{place.name}/{method[1:7]}", method, options={"field": f"{mark}{method}"})
            described = json.loads((folder / "seed-0" / "clients.json").read_text())
            described["names"][0] = described["classes"][0] = word
            (folder / "seed-0" / "clients.json").write_text(json.dumps(described))
            manifest = json.loads((folder / "manifest.json").read_text())
            (folder / "manifest.json").write_text(json.dumps(manifest | {"machine": word, "command": word, "commit": word}))
        seen.append(Tags(render(gather([place]), title=word)).seen)
    assert "table" in seen[0] and seen[0] == seen[1]


def test_the_first_sentence_quotes_the_validated_round_else_the_last(make_run):
    # best on test data is round 1 with 90 of 100, on validation data round 2 with 80, the last has 70
    correct = {0: [[0, 0], [90, 90], [80, 80], [70, 70]]}
    folder = make_run("chosen", "fedcp", clients=2, rounds=3, correct=correct)
    lines = [json.loads(line) for line in (folder / "seed-0" / "rounds.jsonl").read_text().splitlines()]
    for line, right in zip(lines, (0, 5, 9, 4), strict=True):
        line["validation"]["accuracy"] = [right / 10, right / 10]
    (folder / "seed-0" / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "FedCP reaches 80.00\u00a0% in the round chosen on validation data; guessing" in render(gather([folder]))
    for line in lines:
        del line["validation"]
    (folder / "seed-0" / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "FedCP reaches 70.00\u00a0% in the last round; guessing" in render(gather([folder]))


def test_captions_speak_of_what_is_drawn(make_run, tmp_path):
    """Names stand below the bars only where they fit, and the axis is cut only where there are rounds enough."""
    for method in ("local", "fedcp"):
        make_run(f"few/{method}", method, seeds=(0, 1), clients=3, rounds=20)
        make_run(f"many/{method}", method, seeds=(0, 1), clients=60, rounds=4)
    few, many = (render(gather([tmp_path / name])) for name in ("few", "many"))
    assert "A bar is a client of one seed (below it: client/seed):" in few and "The axis begins where" in few
    assert "A bar is a client of one seed:" in many and "below it" not in many and "The axis begins where" not in many


def test_the_runs_own_rule_is_the_pages(make_run):
    folder = make_run()
    settings = folder / "settings.yaml"
    settings.write_text(settings.read_text() + "best: per_client\n")
    assert "best per client (optimistic)" in render(gather([folder]))
    assert "best per client (optimistic)" not in render(gather([folder]), best="round")


def test_a_run_without_a_recorded_command_is_rebuilt_from_its_settings(make_run):
    folder = make_run(options={"align": 5}, seeds=(0, 1))
    (folder / "manifest.json").unlink()
    (run,) = gather([folder])
    assert command(run).startswith("perfed run method=fedavg method.align=5 model=mlp data=digits partition=dirichlet")
    assert "seeds=0,1" in command(run)
    assert str(folder.parent) not in command(run)


def test_a_page_that_cannot_be_written_leaves_nothing_behind(make_run, tmp_path):
    folder = make_run()
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(RunError, match="cannot write '.*page.html'"):
        write([folder], tmp_path / "taken" / "page.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "taken"]
