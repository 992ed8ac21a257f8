"""A run at the link as its operator sees it: begun, claimed by this process, kept alive; the engine executes nothing for it."""

import logging
import threading
from pathlib import Path

from ...errors import RunError
from .link import credential
from .wire import Headers, Objects, client

log = logging.getLogger("perfed.silos")

_BEAT = 15.0  # seconds between signs of life
_APP = """\
[project]
name = "perfed-deployment"
version = "1.0.0"
description = "The installed perfed, and nothing else"
license = "Apache-2.0"
dependencies = ["perfed[flower]"]

[tool.flwr.app]
publisher = "perfed"

[tool.flwr.app.components]
serverapp = "perfed.silos.flower.clientapp:app"
clientapp = "perfed.silos.flower.clientapp:app"

[tool.flwr.app.config]
"""


class Session:
    """One run: its token, its clients and their headers."""

    def __init__(self, server: Path) -> None:
        from flwr.common.constant import SUPERLINK_NODE_ID
        from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor
        from flwr.supercore.runtime import RuntimeHttpClient

        self.headers = Headers(credential(server))
        self.run, token = _begun(server, self.headers)
        proof = RuntimeTokenHttpInterceptor(token=token)
        self.client = client(RuntimeHttpClient, server, self.headers, proof)
        self._beats = client(RuntimeHttpClient, server, Headers(credential(server)), proof)
        self._claim()
        self.objects = Objects(self.client, SUPERLINK_NODE_ID)
        self._over = threading.Event()
        threading.Thread(target=self._live, daemon=True).start()

    def _claim(self) -> None:
        """Take the run's task: from now on messages of this process are the run's."""
        from flwr.proto.runtime_pb2 import PullTaskInputRequest
        from flwr.supercore.task_identity import TaskIdentity

        given = self.client.PullTaskInput(PullTaskInputRequest())
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = given.task_id, self.run, given.context.node_id

    def _live(self) -> None:
        from flwr.proto.runtime_pb2 import SendTaskHeartbeatRequest

        while not self._over.wait(_BEAT):
            try:
                self._beats.SendTaskHeartbeat(SendTaskHeartbeatRequest())
            except Exception as trouble:  # the next request to the link finds out what it means
                log.info("no sign of life could be given: %s", trouble)

    def close(self, done: bool = False) -> None:
        """End the run, at the link too if it can be reached."""
        from flwr.proto.runtime_pb2 import PushTaskOutputRequest

        self._over.set()
        if done:
            try:
                self.client.PushTaskOutput(PushTaskOutputRequest(sub_status="completed", details=""))
            except Exception as trouble:
                log.info("the run's end could not be told: %s", trouble)
        self.client.close()
        self._beats.close()


def _begun(server: Path, headers: Headers) -> tuple[int, str]:
    """Begin a run and claim it; return its number and its token. Runs of others are never executed here."""
    from flwr.cli.build import build_fab_from_files
    from flwr.proto.control_pb2 import StartRunRequest
    from flwr.proto.fab_pb2 import Fab
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.constant import TaskType
    from flwr.supercore.control import ControlHttpClient
    from flwr.supercore.runtime import RuntimeHttpClient

    bundle, _ = build_fab_from_files({"pyproject.toml": _APP.encode()})
    with client(ControlHttpClient, server, headers) as control:
        run = control.StartRun(StartRunRequest(fab=Fab(content=bundle))).run_id
    with client(RuntimeHttpClient, server, headers) as executor:
        while (found := executor.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP]))).token:
            if found.task.run_id == run:
                return run, found.token
            log.warning("run %d waits at the link and was not begun here; it is not executed", found.task.run_id)
    raise RunError("the link began a run and gave no token for it")
