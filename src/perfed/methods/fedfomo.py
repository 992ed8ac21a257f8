"""FedFomo (Zhang et al., ICLR 2021): clients try each other's models and take from those that help them."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import keys, trees
from ..errors import MethodError
from ..local import Shard, descend
from ..method import Method, positive
from ..method.search import linear
from ..server import Uploads, mean
from ..task import Task
from ..trees import Params


class Server(NamedTuple):
    models: tuple[Params, ...]  # what each client answered last
    fresh: Tensor  # N, whether that was in the last round: only then it is on offer
    affinity: Tensor  # P, N×N, how much each client has gained from each other one
    tickets: Tensor  # N, random numbers drawn by the clients: they break ties and decide on exploration
    chosen: Tensor  # N×M, whose models each client is sent next; −1 for an empty place
    round: Tensor


class Down(NamedTuple):
    models: tuple[Params, ...]
    sent: Tensor  # M, 0 for an empty place


class Kept(NamedTuple):
    """A client's own state where its gains are counted from the model before its last training."""

    trained: Params
    before: Params


class Up(NamedTuple):
    params: Params
    gains: Tensor  # M, what each model would have brought, before clipping
    ticket: Tensor


@dataclass(frozen=True, kw_only=True)
class FedFomo(Method[Server, Down, Up, Params | Kept]):
    """Move towards the models that lower the loss on held-out samples, in proportion to gain per distance."""

    crosses = "models sent | gains params ticket | body head"  # fields that go down, go up and stay
    guarded = (
        "no: it uploads how much others' models lower its loss on held-out samples, and its own model for others to try, "
        "with nothing common to clip them around | no: the gains that it uploads are losses on held-out samples, which "
        "are not noised"
    )
    search = {"held_out": linear(0.1, 0.3)}  # worth tuning, and in which range
    newcomer = (
        "the models that the others gained most from in all | "
        "begins at their mean, moves by what each brings it, and trains on | "
        "ours: affinities are learned by taking part"
    )

    cost = 1.5

    models: int = 5  # M, models sent to each client
    held_out: float = 0.2  # share of the training samples that judge models and are never trained on
    explore: float = 0.3  # ε, chance that a client is sent models at random instead of those that helped it most
    cooling: float = 0.05  # how much ε drops each round
    baseline: Literal["trained", "before"] = "trained"  # gains over one's last model, or over the one before its training
    explore_by: Literal["client", "place"] = "client"  # whether chance decides on all M models at once or one by one

    reveals = "the client's own model, which the server passes on to others"

    def __post_init__(self) -> None:
        positive("FedFomo", "models (M)", self.models, "without models from others it is Local; 5 is usual")
        if not 0 < self.held_out < 1:
            raise MethodError(f"FedFomo needs held_out in (0, 1), got {self.held_out:g}; 0.2 is usual")
        if not 0 <= self.explore <= 1 or self.cooling < 0:
            raise MethodError(f"FedFomo needs explore (ε) in [0, 1] and cooling ≥ 0, got {self.explore:g}, {self.cooling:g}")

    def check(self, task: Task, sizes: list[int], participants: int) -> None:
        if task.has_norm and min(sizes) < 3:
            raise MethodError(
                "FedFomo holds samples out and BatchNorm trains on two at least: every client needs 3, "
                f"client {sizes.index(min(sizes))} has {min(sizes)}"
            )

    def init(self, task: Task, clients: int) -> tuple[Server, Params | Kept]:
        start, places = task.params(), min(self.models, clients - 1)
        nobody, none = torch.zeros(clients, dtype=torch.bool), torch.full((clients, places), -1)
        tickets, number = torch.zeros(clients, dtype=torch.int64), torch.zeros((), dtype=torch.int64)
        return Server((start,) * clients, nobody, torch.eye(clients).double(), tickets, none, number), self._kept(start, start)

    def _kept(self, trained: Params, before: Params) -> Params | Kept:
        return trained if self.baseline == "trained" else Kept(trained, before)

    def send(self, server: Server, client: int) -> Down:
        ids = server.chosen[client].tolist()
        where = next(iter(server.models[client].values())).device  # who was chosen is on the processor, models may be elsewhere
        sent = (server.chosen[client] >= 0).float().to(where)
        return Down(tuple(server.models[i if i >= 0 else client] for i in ids), sent)

    def local(self, task: Task, down: Down, mine: Params | Kept, data: Shard) -> tuple[Up, Params | Kept]:
        rest, aside = data.hold_out(self.held_out)
        own, base = _both(mine)
        models, sent = down.models, down.sent
        if self.baseline == "before":  # then one's own training is a step like the others' models, and is judged like them
            models, sent = (*models, own), torch.cat([sent, sent.new_ones(1)])
        gains = self._gains(task, models, base, aside) * sent
        useful = gains.clamp(min=0)
        if self.baseline == "before":  # here that is at one's own trained model, the last one
            useful = torch.where(useful.sum() > 0, useful, torch.arange(len(sent), device=sent.device) == len(sent) - 1)
        share = useful / torch.where(useful.sum() > 0, useful.sum(), 1.0)  # nobody helps: stay where you are
        start = own | trees.weights(base)
        for i, other in enumerate(models):
            start |= {k: start[k] + share[i] * (other[k] - base[k]) for k in trees.weights(base)}
        w = descend(task.loss, start, rest.epochs(self.budget.epochs), self.budget)
        return Up(w, gains[: len(down.models)], keys.fold(data.key, "ticket")), self._kept(w, start)

    def admit(self, server: Server) -> Server:
        """Offer the newcomer the models that the others gained most from in all, of those that are on offer."""
        start = mean(server.models, [1.0] * len(server.models))
        gained = server.affinity.sum(0).masked_fill(~server.fresh, -torch.inf)
        best = gained.argsort(descending=True, stable=True)[: min(self.models, len(server.models))]
        offered = torch.where(server.fresh[best], best, -1)
        wide = F.pad(server.chosen, (0, len(offered) - server.chosen.shape[1]), value=-1)
        return Server(
            (*server.models, start),
            F.pad(server.fresh, (0, 1)),
            F.pad(server.affinity, (0, 1, 0, 1)) + torch.diag(F.pad(torch.zeros_like(gained), (0, 1), value=1.0)),
            F.pad(server.tickets, (0, 1)),
            torch.cat([wide, offered[None]]),
            server.round,
        )

    def join(self, task: Task, down: Down, mine: Params | Kept, data: Shard) -> tuple[Down, Params | Kept]:
        if bool(down.sent.any()):
            begin = mean(down.models, down.sent)
            mine = self._kept(begin, begin)
        return down, self.local(task, down, mine, data)[1]

    def _gains(self, task: Task, models: tuple[Params, ...], base: Params, aside: Shard) -> Tensor:
        """Return, per model, how much lower its loss is than that of ``base``, over its distance: Eq. (4)."""
        loss, gains = _loss(task, base, aside), []
        for other in models:
            far = trees.square_distance(trees.weights(other), trees.weights(base)).sqrt()
            gains.append((loss - _loss(task, other, aside)) / (far + 1e-5))
        return torch.stack(gains) if gains else loss.new_zeros(0)

    def merge(self, server: Server, ups: Uploads[Up]) -> Server:
        models, affinity, tickets = list(server.models), server.affinity.clone(), server.tickets.clone()
        fresh, number = torch.zeros_like(server.fresh), server.round + 1
        for i, up in zip(ups.ids, ups, strict=True):
            sent = server.chosen[i] >= 0
            affinity[i, server.chosen[i][sent]] += up.gains.cpu()[sent]
            models[i], tickets[i], fresh[i] = up.params, up.ticket, True
        chosen = self._choose(affinity, fresh, tickets, max(self.explore - self.cooling * int(number), 0.0))
        return Server(tuple(models), fresh, affinity, tickets, chosen, number)

    def _choose(self, affinity: Tensor, fresh: Tensor, tickets: Tensor, chance: float) -> Tensor:
        """Return whose models each client is sent: those it has most affinity with or, by chance, any."""
        luck = keys.fold(tickets[:, None], tickets[None, :]) & (2**63 - 1)
        offered = fresh[None, :] & ~torch.eye(len(fresh), dtype=torch.bool)  # one's own model is at home already
        places = min(self.models, len(fresh) - 1)
        shuffled = luck.argsort(1)

        def ranked(score: Tensor) -> Tensor:
            score = score.masked_fill(~offered, -torch.inf)
            return shuffled.gather(1, score.gather(1, shuffled).argsort(dim=1, descending=True, stable=True))

        if self.explore_by == "client":
            best = ranked(torch.where(_by_chance(keys.fold(tickets, "explore"), chance)[:, None], 0.0, affinity))
        else:
            best = _by_place(ranked(affinity), ranked(torch.zeros_like(affinity)), tickets, chance, places)
        chosen = best[:, :places]
        return torch.where(offered.gather(1, chosen), chosen, -1)

    def predict(self, task: Task, down: Down, mine: Params | Kept, x: Tensor) -> Tensor:
        return task.logits(_both(mine)[0], x)

    def after(self, down: Down, up: Up) -> Down:
        return down


def _both(mine: Params | Kept) -> tuple[Params, Params]:
    """Return the client's trained model and the one that others are compared with."""
    return (mine.trained, mine.before) if isinstance(mine, Kept) else (mine, mine)


def _by_chance(drawn: Tensor, chance: float) -> Tensor:
    """Return where numbers drawn at random fall below ``chance``."""
    return (drawn >> 11 & (2**52 - 1)).double() * 2**-52 < chance


def _by_place(best: Tensor, anyone: Tensor, tickets: Tensor, chance: float, places: int) -> Tensor:
    """Return N×M clients: each place goes, by chance, to the next of ``anyone``, else to the next of ``best``."""
    rows = []
    for top, lot, ticket in zip(best.tolist(), anyone.tolist(), tickets, strict=True):
        taken: list[int] = []
        for place in range(places):
            explores = bool(_by_chance(keys.fold(keys.fold(ticket, "explore"), place), chance))
            taken.append(next(i for i in (lot if explores else top) if i not in taken))
        rows.append(taken)
    return torch.tensor(rows, dtype=best.dtype).reshape(len(rows), places)


def _loss(task: Task, params: Params, data: Shard) -> Tensor:
    """Return the mean loss over a client's samples as they are served; zero if it has none."""
    total = count = torch.zeros((), device=data.rows.device)
    for batch in data.passes():
        losses = task.fit_each(task.served.logits(params, batch.x), batch.y, batch.mask)
        mask = torch.ones_like(losses) if batch.mask is None else batch.mask
        total, count = total + (losses * mask).sum(), count + mask.sum()
    return total / count.clamp(min=1)
