"""Where rounds were run, and by which arithmetic, stands in the record."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perfed import machine
from perfed.runs.place import SeedFolder, kinds_of

HERE = {"name": "one", "processor": "P", "system": "Linux", "torch": "2", "kernels": "AVX2"}


def seed(folder: Path) -> SeedFolder:
    folder.mkdir()
    return SeedFolder(folder)


def test_other_kernels_are_another_kind_of_machine(tmp_path: Path) -> None:
    one, other = seed(tmp_path / "seed-0"), seed(tmp_path / "seed-1")
    one.add_machine(HERE, 0)
    other.add_machine(HERE | {"kernels": "AVX512"}, 0)
    assert kinds_of([one, other]) == ["P, Linux, torch 2, AVX2", "P, Linux, torch 2, AVX512"]


def test_a_record_that_does_not_tell_its_kernels_is_of_the_same_kind(tmp_path: Path) -> None:
    former, now = seed(tmp_path / "seed-0"), seed(tmp_path / "seed-1")
    former.add_machine({name: value for name, value in HERE.items() if name != "kernels"}, 0)
    former.add_machine(HERE, 5)
    now.add_machine(HERE, 0)
    assert len(former.machines) == 1
    assert kinds_of([former, now]) == ["P, Linux, torch 2"]


@pytest.mark.skipif(shutil.which("gcc") is None or sys.platform != "linux", reason="needs gcc on Linux")
def test_kernels_tell_whether_mkl_was_told_to_use_them(tmp_path: Path) -> None:
    source, library = tmp_path / "intel.c", tmp_path / "intel.so"
    source.write_text("int mkl_serv_intel_cpu_true(void) { return 1; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    asked = "from perfed import machine; print(machine.kernels(), machine.mkl_holds_back(), sep=';')"
    told = subprocess.run(
        [sys.executable, "-c", asked],
        env=os.environ | {"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == "AVX2, MKL as on Intel;False"
    intel = "GenuineIntel" in Path("/proc/cpuinfo").read_text()  # where nobody need be told
    assert machine.kernels() == ("AVX2, MKL as on Intel" if intel else "AVX2")
