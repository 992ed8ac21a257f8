"""What a comparison is called: its folder's name follows from everything that decides its results."""

from perfed.runs import compare


def test_comparisons_of_different_methods_have_different_names() -> None:
    words = ["rounds=3", "clients=4"]
    different = ("fedavg,fedper", "fedavg,fedcp", "fedavg,fedcp:align=1", "fedper,fedavg")
    names = [compare.load(None, [f"methods={methods}", *words]).stem for methods in different]
    assert len(set(names)) == len(names)
    assert compare.load(None, [f"methods={different[0]}", *words]).stem == names[0]
