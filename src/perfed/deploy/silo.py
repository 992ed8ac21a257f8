"""The ClientApp that Flower starts at a silo for every message: this installed library and nothing else."""

from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from ..errors import WireError
from ..transport.flower.messages import Answer, Ask, from_record, to_record

app = ClientApp()


def _answer(message: Message, context: Context) -> Message:
    from .work import Config, Silo

    config = Config.load(Path(str(context.node_config["silo"])))
    try:
        answer: Any = Silo(config).answer(from_record(Ask, message.content))
    except WireError as wrong:
        answer = Answer(experiment="", client=config.client, base=-1, refused=str(wrong))
    return Message(to_record(answer), reply_to=message)


@app.query()
def hello(message: Message, context: Context) -> Message:
    """Say what this silo has."""
    return _answer(message, context)


@app.train()
def work(message: Message, context: Context) -> Message:
    """Score and train."""
    return _answer(message, context)
