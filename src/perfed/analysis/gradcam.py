"""Where in an image a score looks: Grad-CAM (Selvaraju et al., 2017; FedCP, Figure 3)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..errors import InputError


def last_convolution(network: nn.Module) -> nn.Module:
    """Return the convolution that is declared last in ``network``."""
    found = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    if not found:
        raise InputError(f"Grad-CAM needs a convolution over images, {type(network).__name__} has none")
    return found[-1]


def gradcam(score: Callable[[Tensor], Tensor], layer: nn.Module, images: Tensor) -> Tensor:
    """Return one map per image (samples × height × width) in [0, 1] of what raises ``score``.

    ``score`` gives one number per image and runs ``layer`` on the way, for instance the logit of the true class with
    only the personal head switched on. A map is 0 everywhere if no channel of ``layer`` raises the score.
    """
    seen: list[Tensor] = []

    def keep(_module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        # A fresh leaf needs no gradient of the weights, and a copy survives an in-place activation behind the layer.
        seen.append(output.detach().requires_grad_())
        return seen[-1].clone()

    hook = layer.register_forward_hook(keep)
    try:
        with torch.enable_grad():
            scores = score(images)
    finally:
        hook.remove()
    if not seen:
        raise InputError("the score never ran the layer whose maps were asked for")
    if scores.shape != (len(images),):
        raise InputError(f"the score must give one number per image ({len(images)}), got shape {tuple(scores.shape)}")
    maps = seen[-1]
    (slope,) = torch.autograd.grad(scores.sum(), maps)
    raised = (slope.mean((2, 3), keepdim=True) * maps).sum(1, keepdim=True).relu().detach()
    raised = nn.functional.interpolate(raised, size=images.shape[-2:], mode="bilinear", align_corners=False).squeeze(1)
    peak = raised.amax((1, 2), keepdim=True)
    return torch.where(peak > 0, raised / peak.clamp(min=1e-30), 0.0)
