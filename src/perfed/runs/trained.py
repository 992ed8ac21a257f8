"""One seed brought to its last round: on the transport it began with, and again from its checkpoint when clients are lost."""

from time import sleep

from .. import machine
from ..progress import LOGGER
from ..trackers import following
from ..trackers.tracker import About
from ..transport import SAME, ClientsLost, Transport
from .assemble import Assembled
from .folder import CompareFolder, RunFolder
from .parse import flat
from .seed import OnRound, Seed, Stop

SETTLE = 5.0  # seconds until a cluster knows that a machine is gone, and hands nothing to it any more


def trained(folder: RunFolder, made: Assembled, on_round: OnRound | None, stop: Stop | None) -> tuple[Seed, str]:
    """Return a seed after its last round and its digest; when clients' states are lost it goes on from its checkpoint."""
    place, experiment, lost = folder.seed(made.seed), made.experiment, 0
    while True:
        one = Seed(made, place)
        one.restore()
        place.add_machine(machine.kind(), one.first)
        transport: Transport | None = None
        try:
            transport = _transport(folder, one)
            with following(experiment.track, _about(folder, one), len(made.federation), on_round) as heard:
                return one, one.train(transport, heard, stop)
        except ClientsLost as gone:
            lost = lost + 1 if (place.reached or 0) == one.first else 1
            if lost > experiment.engine.retries:
                raise
            LOGGER.warning("%s, seed %d: %s", experiment.method.name, made.seed, str(gone).replace("`perfed resume`", "it"))
            sleep(SETTLE)
        finally:
            if transport is not None:
                transport.close()


def _about(folder: RunFolder, one: Seed) -> About:
    """Return what trackers are told of a seed."""
    assert one.folder is not None
    beside = CompareFolder.there(folder.path.parent)
    settings = {key: value for key, value in flat(folder.settings).items() if value is not None}
    return About(
        folder=one.folder.path,
        run=folder.path.name,
        seed=one.made.seed,
        settings=settings,
        group=folder.path.parent.name if beside else "",
        first=one.first,
    )


def _transport(folder: RunFolder, one: Seed) -> Transport:
    """Return the transport of a seed: never other arithmetic than it, or a seed beside it, began with."""
    assert one.folder is not None
    asked, told = one.made.experiment.transport, one.folder.transport
    if told:
        alike = asked == "auto" and told["name"] in SAME  # this machine may have other cores
        return one.transport("auto" if alike else told["name"])[0]
    beside = [(seed, found) for seed in folder.seeds.values() if (found := seed.transport)] if asked == "auto" else []
    if beside and beside[0][1]["name"] not in SAME:  # auto chose by a stopwatch once
        seed, told = beside[0]
        transport, why = one.transport(told["name"], f"as measured for {seed.path.name}")
    else:
        transport, why = one.transport(asked)
    one.folder.put_transport({"name": transport.name, **why})
    return transport
