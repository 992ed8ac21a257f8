# %% [markdown]
# # First run
# From data to a client's own model. Open this file as a notebook (VS Code, PyCharm, JupyterLab with jupytext) or run it.

# %%
"""From data to a client's own model in a dozen lines."""

import perfed

settings = {"data": "digits", "clients": 8, "partition": "dirichlet", "alpha": 0.3, "rounds": 15, "budget": {"lr": 0.1}}
common = perfed.run(method="fedavg", **settings)
personal = perfed.run(method="ditto", **settings)
print(personal.table()[["method", "last.weighted", "last.std"]])

# %% [markdown]
# Who gains? Every client has its own samples, its own model and its own accuracy.

# %%
for name, accuracy in personal.accuracies().items():
    print(f"{name}: {common.accuracies()[name]:.3f} with the common model, {accuracy:.3f} with its own")

# %% [markdown]
# One client's model is an ordinary `torch.nn.Module`. It takes samples as they are stored through `raw`.

# %%
clients = perfed.federate("digits", clients=8, partition="dirichlet", alpha=0.3)
samples, labels = clients.x[clients.test[3]][:5], clients.y[clients.test[3]][:5]
model = personal.model(3)
print("client 3 predicts", model.raw(samples).argmax(1).tolist(), "for", labels.tolist())
