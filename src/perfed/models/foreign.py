"""Networks of Hugging Face's libraries (`transformers`, `peft`) as functions of one tensor; neither is imported here."""

from torch import Tensor, nn


def is_foreign(module: nn.Module) -> bool:
    """Return whether a module names its input and answers with a record, as theirs do."""
    return isinstance(getattr(module, "main_input_name", None), str) and type(module).__module__.partition(".")[0] in (
        "transformers",
        "peft",
    )


class PlainOutput(nn.Module):
    """A classifier of theirs that takes pictures or tokens and returns its scores; a token 0 is padding."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.takes = str(inner.main_input_name)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores, or without its last layer the features."""
        mask = {"attention_mask": (x != 0).long()} if self.takes == "input_ids" else {}
        scores: Tensor = self.inner(**{self.takes: x}, **mask).logits
        return scores
