"""Figures: what is drawn, and that a file repeats bit for bit."""

import json
import warnings

import numpy as np
import pytest

from perfed.errors import InputError
from perfed.methods import CATALOGUE
from perfed.report import figures, pictures
from perfed.report.canvas import png, save, svg
from perfed.report.gains import compared
from perfed.report.names import shorten, title
from perfed.report.read import gather
from perfed.report.style import LOOKS


@pytest.fixture
def three(tmp_path, make_run):
    for method, last in {"local": [50, 60], "fedavg": [40, 60], "fedcp": [70, 50]}.items():
        make_run(f"three/{method}", method, clients=2, rounds=1, correct={0: [[10, 10], last]})
    return gather([tmp_path / "three"])


def test_gains_are_differences_client_by_client(three):
    found = {entry.name: entry for entry in compared(three, "local")}
    assert set(found) == {"FedAvg", "FedCP"}
    assert found["FedCP"].gain == pytest.approx([0.2, -0.1])
    assert found["FedCP"].clients == ["0", "1"]
    assert compared(three, "ditto") == []


def test_clients_are_averaged_over_seeds_only_where_they_are_the_same(make_run, tmp_path):
    for method, shift in {"local": 0, "fedcp": 10}.items():
        correct = {0: [[0, 0], [50 + shift, 60]], 1: [[0, 0], [50, 60 + shift]]}
        folder = make_run(f"two/{method}", method, seeds=(0, 1), clients=2, rounds=1, correct=correct)
    (gain,) = compared(gather([tmp_path / "two"]))
    assert gain.clients == ["0/0", "1/0", "0/1", "1/1"]
    assert gain.gain == pytest.approx([0.1, 0.0, 0.0, 0.1])
    same = (folder / "seed-0" / "clients.json").read_text()
    (folder / "seed-1" / "clients.json").write_text(same)
    (gain,) = compared(gather([tmp_path / "two"]))
    assert gain.gain == pytest.approx([0.05, 0.05])


def test_bars_are_sorted_and_labelled(three):
    axes = figures.gains(three, "local").axes
    heights = [[bar.get_height() for bar in axis.patches] for axis in axes]
    assert heights[1] == pytest.approx([20, -10])
    assert "1 gain, 1 lose, mean +5.0" in [text.get_text() for text in axes[1].texts]
    assert figures.gains(three, "ditto") is None


def test_a_mean_that_rounds_to_nothing_has_no_minus(make_run, tmp_path):
    for method, last in {"local": [5001, 5000], "fedcp": [5000, 5000]}.items():
        make_run(f"near/{method}", method, clients=2, rounds=1, correct={0: [[0, 0], [n / 100 for n in last]]})
    (axis,) = figures.gains(gather([tmp_path / "near"]), "local").axes
    assert [text.get_text() for text in axis.texts] == ["0 gain, 1 lose, mean +0.0"]


def test_a_name_with_dollar_signs_is_a_name(make_run, tmp_path):
    folder = make_run("odd", clients=2)
    described = json.loads((folder / "seed-0" / "clients.json").read_text())
    described["names"] = ["$clinic$", "$\\frac$"]  # mathematics to matplotlib, and broken at that
    (folder / "seed-0" / "clients.json").write_text(json.dumps(described))
    (run,) = gather([folder])
    clients = run.clients[0]
    assert svg(pictures.bubbles(clients["labels"], clients["names"], clients["classes"])).startswith("<svg")


def test_a_method_has_its_colour_in_every_figure(three):
    lines = figures.curves(three).axes[0].lines
    assert {line.get_label(): line.get_color() for line in lines}["FedCP"] == LOOKS["fedcp"].colour
    assert figures.gains(three).axes[1].patches[0].get_facecolor() == pytest.approx(
        tuple(int(LOOKS["fedcp"].colour[i : i + 2], 16) / 255 for i in (1, 3, 5)) + (1,)
    )


def test_curves_show_means_bands_and_the_majority_class(make_run):
    folder = make_run(seeds=(0, 1), clients=1, rounds=2, correct={0: [[10], [50], [60]], 1: [[10], [70], [60]]})
    axis = figures.curves(gather([folder])).axes[0]
    curve, guess = axis.lines
    assert list(curve.get_ydata()) == pytest.approx([10, 60, 60])
    assert guess.get_label() == "Majority class"
    assert len(axis.collections) == 1
    band = axis.collections[0].get_paths()[0].vertices
    assert band[band[:, 0] == 1, 1].max() == pytest.approx(70)


def test_many_methods_get_a_panel_each(make_run, tmp_path):
    methods = list(CATALOGUE)[: figures.CROWD + 1]
    for method in methods:
        make_run(f"many/{method}", method, clients=2, rounds=3)
    page = figures.curves(gather([tmp_path / "many"]))
    assert [axis.get_title(loc="left") for axis in page.axes if axis.get_visible()] == [title(name) for name in methods]


def test_long_names_of_variants_stay_within_their_panels(make_run, tmp_path):
    for number in range(figures.CROWD + 1):
        given = {"personal_loss": 10.0 + number, "entropy": 0.001 * number, "distil": 10.0 - number}
        make_run(f"many/{number}", "fedpick", clients=2, rounds=3, options=given)
    page = figures.curves(gather([tmp_path / "many"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns where titles leave panels no room
        page.draw_without_rendering()
    shown = [axis for axis in page.axes if axis.get_visible()]
    boxes = [(axis.get_window_extent(), axis._left_title.get_window_extent()) for axis in shown]
    assert all("distil" in axis.get_title(loc="left") for axis in shown)
    assert all(said.width < 1.1 * panel.width for panel, said in boxes)


def test_long_runs_are_thinned_and_keep_their_ends(make_run):
    axis = figures.curves(gather([make_run(clients=2, rounds=600)])).axes[0]
    rounds = axis.lines[0].get_xdata()
    assert len(rounds) == figures.POINTS
    assert (rounds[0], rounds[-1]) == (0, 600)


def test_the_loss_has_a_curve_and_nonsense_has_none(three):
    assert figures.curves(three, figure="loss").axes[0].get_ylabel() == "loss"
    with pytest.raises(InputError, match="no curve of 'lsos'"):
        figures.curves(three, figure="lsos")


def test_costs_are_the_recorded_bytes(three):
    left, right = figures.costs(three).axes
    assert [bar.get_width() for bar in left.patches] == pytest.approx([2.0] * 3 + [4.0] * 3)  # KiB
    assert [bar.get_width() for bar in right.patches[:3]] == pytest.approx([0.8] * 3)
    assert left.get_xlabel() == "whole run (KiB): filled = up, hatched = down"


def test_every_client_is_a_mark(three):
    axis = figures.spread(three).axes[0]
    marks = [line.get_xdata() for line in axis.lines[::2]]
    assert [sorted(values) for values in marks[1:]] == [pytest.approx(v) for v in ([50, 60], [40, 60], [50, 70])]
    assert [tick.get_text() for tick in axis.get_yticklabels()] == ["Majority class", "Local", "FedAvg", "FedCP"]


def test_the_area_of_a_bubble_is_the_number_of_samples():
    page = pictures.bubbles([[100, 0], [25, 50]], ["client 0", "client 1"], ["cat", "dog"])
    (dots,) = page.axes[0].collections
    sizes = dots.get_sizes()
    assert sizes / sizes.max() == pytest.approx([1.0, 0.25, 0.5])
    assert [tuple(place) for place in dots.get_offsets()] == [(0, 0), (1, 0), (1, 1)]
    assert page.axes[0].get_xlabel() == "client"


def test_many_clients_become_shades():
    page = pictures.bubbles(np.ones((60, 10)))
    assert page.axes[0].images[0].get_array().shape == (10, 60)
    with pytest.raises(InputError, match="clients × classes"):
        pictures.bubbles([1, 2, 3])


def test_numbered_names_are_shortened_and_others_kept():
    assert shorten(["client 3", "client 10"]) == ("client", ["3", "10"])
    assert shorten(["0", "1"]) == ("client", ["0", "1"])
    assert shorten(["mnist", "svhn"]) == ("", ["mnist", "svhn"])


def test_examples_stand_in_rows():
    grey = np.full((2, 4, 4), 255, np.uint8)
    colour = np.zeros((3, 3, 4, 4), np.uint8)
    colour[:, 0] = 255
    page = pictures.examples([grey, colour], ["grey", "red"], columns=3)
    paper = page.axes[0].images[0].get_array()
    assert paper.shape == (12, 18, 3)
    assert tuple(paper[7, 13]) == (1, 0, 0)
    assert [tick.get_text() for tick in page.axes[0].get_yticklabels()] == ["grey", "red"]
    with pytest.raises(InputError, match="one name per row"):
        pictures.examples([grey], [])
    with pytest.raises(InputError, match="shape"):
        pictures.examples([np.zeros((2, 5, 4, 4))], ["five channels"])


@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
def test_a_figure_drawn_twice_is_the_same_file(kind, tmp_path, three):
    first = save(figures.curves(three), tmp_path / f"a.{kind}").read_bytes()
    assert first == save(figures.curves(three), tmp_path / f"b.{kind}").read_bytes()
    assert len(first) > 2000


def test_a_figure_is_not_written_as_something_else(tmp_path, three):
    with pytest.raises(InputError, match="must end in .pdf, .png, .svg"):
        save(figures.curves(three), tmp_path / "figure.docx")


def test_names_inside_a_page_do_not_clash(three):
    page = figures.costs(three)
    text = svg(page, "f1")
    assert text.startswith("<svg")
    assert 'id="figure_1"' not in text and 'id="f1-figure_1"' in text
    assert 'href="#f1-' in text and 'href="#D' not in text
    assert png(page).startswith("data:image/png;base64,iVBOR")
