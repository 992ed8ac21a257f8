"""Which Flower is installed, whether its inner interfaces are the ones perfed speaks, and the headers of perfed's own."""

from importlib.metadata import PackageNotFoundError, version

TRIED = "1.41"  # the version whose Fleet, Control and Runtime interfaces were tried

OPERATOR = "x-perfed-operator"  # the operator's credential: opens the link's control and runtime routes
HOLD = "x-perfed-hold"  # "KEY SEEN SECONDS": answer when KEY's bell has rung more than SEEN times, or after SECONDS
SEEN = "x-perfed-seen"  # in the answer: how often the bell had rung
RING = "x-perfed-ring"  # "KEY,KEY": ring these bells once the request is done
DROP = "x-perfed-drop"  # "NAME,NAME": messages that the operator has done with
SERVER = "server"  # the server's bell; a node's is its number

BEAT = 10.0  # seconds between a silo's signs of life; after two without one the link takes it for lost. The engine's have 30
INLINE = 1 << 22  # bytes up to which a body travels inside its message, to those who look there


def installed() -> str:
    """Return Flower's version, or nothing."""
    try:
        return version("flwr")
    except PackageNotFoundError:
        return ""


def misfit() -> str:
    """Return why perfed cannot speak the engine's interfaces itself, or nothing."""
    found = installed()
    if found.split(".")[:2] == TRIED.split("."):
        return ""
    return f"perfed speaks the interfaces of flwr {TRIED}, installed is {found or 'none'}"
