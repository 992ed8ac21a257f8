"""TensorBoard: event files in the seed's own folder, so that `tensorboard --logdir runs` finds every run."""

from collections.abc import Mapping

from .tracker import About


class TensorBoard:
    """Writes event files."""

    def __init__(self, about: About) -> None:
        from torch.utils.tensorboard import SummaryWriter

        after = about.first + 1 if about.first else 0  # what an earlier file says of later rounds is forgotten
        self.writer = SummaryWriter(str(about.folder / "tensorboard"), purge_step=after)
        if not after:
            self.writer.add_text("settings", "\n".join(f"    {name}={value}" for name, value in about.settings.items()), 0)

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Write the numbers of a round."""
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        """End the file."""
        self.writer.close()


begin = TensorBoard
