"""What this machine and this installation are, for records and for `perfed doctor`."""

import ctypes
import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

from .errors import install

EXTRAS = {
    "pillow": "images",
    "scipy": "test",
    "flwr": "flower",
    "cryptography": "flower",
    "onnxscript": "onnx",
    "tensorboard": "tensorboard",
    "mlflow": "mlflow",
    "wandb": "wandb",
    "ray": "ray",
}

_ASKED = "mkl_serv_intel_cpu_true"  # MKL asks this function whether the processor is Intel's


def cores() -> int:
    """Return how many cores this process may use: a scheduler or `taskset` may have given it fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def facts() -> dict[str, Any]:
    """Return what a record says of where it was made."""
    names = ("perfed", "torch", "numpy", "safetensors")
    return {
        "commit": _commit(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in names}},
        "machine": {"system": platform.platform(), "processor": _processor(), "cores": os.cpu_count(), "kernels": kernels()},
        "threads": 1,
    }


def kind() -> dict[str, Any]:
    """Return what a record says of a machine that rounds were run on: its name, and what its arithmetic depends on."""
    system = f"{platform.system()} {platform.machine()}"
    return {
        "name": platform.node(),
        "processor": _processor(),
        "system": system,
        "torch": version("torch"),
        "kernels": kernels(),
    }


def kernels() -> str:
    """Return the instructions by which torch computes here, and whether MKL uses them as on Intel: others round differently."""
    import torch

    own = ", MKL as on Intel" if _says_intel(_torch()) or mkl_told() else ""
    return torch.backends.cpu.get_cpu_capability() + own


def mkl_told() -> bool:
    """Return whether a library loaded before torch tells MKL that this processor is Intel's (docs/performance.md, "AMD")."""
    return _says_intel(None) is True and _says_intel(_torch()) is False


def mkl_holds_back() -> bool:
    """Return whether torch's MKL takes its slow kernels, as it does by itself on processors that are not Intel's."""
    return _says_intel(_torch()) is False and not mkl_told()


def _torch() -> str:
    return str(Path(str(files("torch"))) / "lib" / "libtorch_cpu.so")


def _says_intel(library: str | None) -> bool | None:
    """Return what a library, or all that were loaded for everyone, answers to MKL's own question; nothing where it has none."""
    if sys.platform != "linux" or (library and not Path(library).exists()):
        return None
    asked = getattr(ctypes.CDLL(library), _ASKED, None)
    return None if asked is None else bool(asked())


def _commit() -> str | None:
    asked = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or None


def _processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def device(name: str, setting: str = "device") -> None:
    """Refuse a device that torch does not have here."""
    import torch

    from .errors import InputError

    kinds = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    kind, _, number = name.partition(":")
    if kind not in kinds:
        meant = {"gpu": "cuda", "nvidia": "cuda", "rocm": "cuda", "metal": "mps", "apple": "mps"}.get(kind.lower(), "")
        hint = f"did you mean '{meant}'?" if meant else f"there are {', '.join(kinds)}, with a number behind a colon"
        raise InputError(f"no device '{name}'; {hint}")
    if not (number == "" or number.isdigit()) or int(number or 0) >= kinds[kind]:
        here = ", ".join(own for own, count in kinds.items() if count)
        raise InputError(f"{setting}={name}: there is no such device here; torch finds {here} (`perfed doctor` says more)")


def checkup() -> dict[str, Any]:
    """Return what this machine and installation can do."""
    import torch

    from .local.private import bf16

    slow = mkl_holds_back()
    checks = [
        _check("python", platform.python_version() >= "3.11", platform.python_version()),
        _check("torch", True, torch.__version__),
        _check("cores", True, f"{cores()}; one worker process each, one torch thread per worker"),
        _check(
            "cuda",
            torch.cuda.is_available(),
            "device=cuda works" if torch.cuda.is_available() else "no GPU: device=cpu",
            need=False,
        ),
        _check(
            "bf16",
            bf16(),
            "precision=bf16 pays off only with bf16 instructions",
            need=False,
        ),
        _check(
            "mkl",
            not slow,
            "linear layers can be about twice as fast here: docs/performance.md, AMD" if slow else kernels(),
            need=False,
        ),
        _check("disk", shutil.disk_usage(".").free > 2**30, f"{shutil.disk_usage('.').free >> 30} GiB free here"),
        _check(
            "data",
            bool(os.environ.get("PERFED_DATA")),
            os.environ.get("PERFED_DATA") or "PERFED_DATA is not set; embedded data only",
            need=False,
        ),
    ]
    for package, extra in EXTRAS.items():
        try:
            checks.append(_check(package, True, version(package)))
        except PackageNotFoundError:
            checks.append(_check(package, False, install(extra), need=False))
    return {"ok": all(c["state"] != "missing" for c in checks), "checks": checks}


def _check(what: str, fine: bool, note: str, *, need: bool = True) -> dict[str, str]:
    return {"what": what, "state": "ok" if fine else "missing" if need else "absent", "note": note}
