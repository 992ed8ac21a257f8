"""Where a part of a deployment finds the link."""

from pathlib import Path
from typing import Any

from ...disk import get_yaml
from ...errors import InputError


def address(folder: Path) -> dict[str, Any]:
    """Return host, port and what else a part's ``address.yaml`` says."""
    found = get_yaml(folder / "address.yaml")
    if not isinstance(found.get("host"), str) or type(found.get("port")) is not int:
        raise InputError(f"'{folder / 'address.yaml'}' needs `host: NAME` and `port: NUMBER`")
    return found
