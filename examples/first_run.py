"""From data to a client's own model in a dozen lines."""

import perfed

clients = perfed.federate("digits", clients=8, partition="dirichlet", alpha=0.3)
common = perfed.train(clients, "fedavg", rounds=15, budget={"lr": 0.05})
personal = perfed.train(clients, "ditto", rounds=15, budget={"lr": 0.05})

for name, accuracy in personal.accuracies().items():
    print(f"{name}: {common.accuracies()[name]:.3f} with the common model, {accuracy:.3f} with its own")

model = personal.model(3)  # an ordinary torch.nn.Module
samples = clients.x[clients.test[3]][:5]
print("client 3 predicts", model.raw(samples).argmax(1).tolist(), "for", clients.y[clients.test[3]][:5].tolist())
