"""What a comparison is called: its folder's name follows from everything that decides its results."""

from perfed import comparison


def test_comparisons_of_different_methods_have_different_names() -> None:
    words = ["rounds=3", "clients=4"]
    asked = [
        comparison.load(None, [f"methods={methods}", *words])
        for methods in ("fedavg,fedper", "fedavg,fedcp", "fedavg,fedcp:align=1", "fedper,fedavg")
    ]
    assert len({comparison._folder(one).name for one in asked}) == len(asked)
    assert comparison._folder(asked[0]).name == comparison._folder(comparison.load(None, ["methods=fedavg,fedper", *words])).name
