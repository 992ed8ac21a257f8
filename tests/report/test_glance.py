"""The figure that a page opens with says who is above Local and FedAvg in the quoted round."""

from perfed.report.glance import glance, marks, said
from perfed.report.read import gather, options
from perfed.report.tables import comparison, quoted


def test_methods_are_ordered_by_the_quoted_round_and_counted_against_both(make_run, tmp_path):
    for method, right in {"local": [50, 50], "fedavg": [60, 60], "fedcp": [70, 72], "gpfl": [55, 54]}.items():
        make_run(f"all/{method}", method, clients=2, rounds=1, correct={0: [[0, 0], right]})
    runs = gather([tmp_path / "all"])
    asked = options(runs)
    found = marks(runs, quoted(comparison(runs, **asked)), asked)
    assert [(name, round(mean, 1)) for name, _, _, mean, _ in found] == [
        ("FedCP", 71.0),
        ("FedAvg", 60.0),
        ("GPFL", 54.5),
        ("Local", 50.0),
    ]
    assert said(found) == "2 of 2 are above Local, FedCP by 21.0 points; 1 of 2 are above FedAvg, FedCP by 11.0 points"
    drawn = glance({"one": found, "other": found})
    assert [tick.get_text() for tick in drawn.axes[0].get_yticklabels()] == ["FedCP", "FedAvg", "GPFL", "Local"]
