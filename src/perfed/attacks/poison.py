"""Attacks by what is trained on: copies of the attackers' own samples with other labels, or with a mark."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from .. import keys
from ..errors import InputError
from ..federation import Federation
from .attack import Attack

TARGET = 0  # the class that marked samples are called
_MOST = 4 << 30  # bytes of samples that are copied to put poisoned ones beside them


def poisoned(federation: Federation, attack: Attack, who: Sequence[int]) -> Federation:
    """Return the federation in which the attackers train on other samples than their own; nobody's tests change."""
    if attack.name not in ("labels", "backdoor") or not who:
        return federation
    _possible(federation, attack)
    rows, x, y, at = list(federation.train), [], [], len(federation.y)
    for client in who:
        own = federation.train[client]
        label = federation.y[own]
        sample = federation.x[own]
        if attack.name == "labels":
            label = federation.classes - 1 - label
        else:
            luck = keys.uniform(keys.key(federation.seed, "backdoor", client), (len(own),)).to(label.device)
            chosen = luck.argsort().argsort() < round(attack.force * len(own))
            label = torch.where(chosen, torch.full_like(label, TARGET), label)
            marks = chosen.reshape(-1, *[1] * (sample.dim() - 1))
            sample = torch.where(marks, marked(sample, federation.x), sample)
        x.append(sample)
        y.append(label)
        rows[client] = torch.arange(at, at + len(own), device=own.device)
        at += len(own)
    return replace(
        federation, x=torch.cat([federation.x, *x]), y=torch.cat([federation.y, *y]), train=tuple(rows), source=federation.source
    )


def stamped(federation: Federation) -> Federation:
    """Return the federation whose test samples carry the mark and are called the target; the target's own are left out."""
    rows, x, at = [], [], len(federation.y)
    for own in federation.test:
        others = own[federation.y[own] != TARGET]
        x.append(marked(federation.x[others], federation.x))
        rows.append(torch.arange(at, at + len(others), device=own.device))
        at += len(others)
    labels = torch.full((at - len(federation.y),), TARGET, dtype=federation.y.dtype, device=federation.y.device)
    return replace(federation, x=torch.cat([federation.x, *x]), y=torch.cat([federation.y, labels]), test=tuple(rows))


def marked(sample: Tensor, everything: Tensor) -> Tensor:
    """Return samples with the mark: a picture's lower right corner is as bright as can be, of others the last values are."""
    made = sample.clone()
    if sample.dim() == 4:
        side = max(2, sample.shape[-1] // 8)
        made[..., -side:, -side:] = 255 if sample.dtype == torch.uint8 else everything.max()
    else:
        made[..., -max(1, sample.shape[-1] // 16) :] = everything.max()
    return made


def _possible(federation: Federation, attack: Attack) -> None:
    if federation.goal != "classification":
        raise InputError(f"attack={attack.name} needs classes, and this data is for {federation.goal}; attack=sign needs none")
    if attack.name == "backdoor" and not (federation.x.dtype == torch.uint8 or federation.x.is_floating_point()):
        raise InputError("attack=backdoor marks pictures and measured values, not texts; attack=labels takes any data")
    if federation.x.numel() * federation.x.element_size() > _MOST:
        raise InputError(
            f"attack={attack.name} copies the samples, and these are larger than 4 GiB; take a share: data.fraction=0.1"
        )
