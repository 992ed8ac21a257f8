"""Step 1: train a federation, compare, and take one client's model."""

import perfed

settings = {
    "data": "digits",
    "clients": 8,
    "partition": {"name": "dirichlet", "alpha": 0.3},
    "rounds": 15,
    "budget": {"lr": 0.1},
}

run = perfed.run(method="ditto", **settings)
print(run.table()[["method", "last.weighted", "last.std"]])
print(run.accuracies())  # each client's own, by name

model = run.model(3)  # client 3's model: an ordinary torch.nn.Module
perfed.export(model, "three.safetensors")

both = perfed.compare(["local", "fedavg", "ditto"], **settings)
print(both.table()[["method", "last.weighted", "last.std"]])
