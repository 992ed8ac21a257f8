"""Operations are counted as one counts them by hand."""

from perfed.local import Budget
from perfed.methods import find
from perfed.testing import federation, task
from perfed.transport import Site
from perfed.transport.flops import per_step


def steps(method: str, **options: object) -> float:
    site, server, first = Site.of(find(method)(budget=Budget(batch_size=8), **options), task(), federation())
    return per_step(site, server, first)


def test_a_step_of_a_small_network_by_hand() -> None:
    # layers 6×16, 16×8 and 8×3: each weighs in forward and for its weights, and for its inputs unless they are the data
    layers = [6 * 16, 16 * 8, 8 * 3]
    assert steps("fedavg") == 2 * 8 * (3 * sum(layers) - layers[0])


def test_what_a_method_adds_is_counted() -> None:
    assert steps("ditto") == 2 * steps("fedavg")  # the common and the personal model
    assert steps("moon") > steps("fedavg")
