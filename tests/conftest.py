"""The same tests every time: one torch thread, examples and draws that repeat, arithmetic of one kind; helpers on the path."""

import os
import sys
from pathlib import Path

# Before torch is imported: every x86 processor computes as one with AVX2 does, so that kept digests hold on newer ones too.
os.environ.update(ATEN_CPU_CAPABILITY="avx2", ONEDNN_MAX_CPU_ISA="AVX2", MKL_ENABLE_INSTRUCTIONS="AVX2")

import pytest
import torch
from hypothesis import HealthCheck, settings

for own in ("golden", "helpers", "race"):
    sys.path.insert(0, str(Path(__file__).parent / own))

# Neither profile knows a clock: a busy machine must not fail a claim.
PATIENT = {"deadline": None, "database": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("steady", derandomize=True, max_examples=60, **PATIENT)
settings.register_profile("random", max_examples=2000, print_blob=True, **PATIENT)  # make test-random
settings.load_profile("steady")


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def same_draws() -> None:
    """Start every test from the same global generator, whichever test ran before it."""
    torch.manual_seed(0)
