# %% [markdown]
# # Own data
# Four clinics, twelve measurements, ill or well. One clinic's device measures differently.

# %%
"""Samples of one's own: who gains, and by how much."""

import numpy as np

import perfed

rng = np.random.default_rng(0)
clinic = np.repeat(["bath", "hull", "leeds", "york"], 150)
y = np.where(rng.random(600) < 0.5, "ill", "well")
x = rng.normal(size=(600, 12)).astype("float32")
x[:, :3] += np.where(y == "ill", 1, -1)[:, None] * np.where(clinic == "york", -1, 1)[:, None]  # York's sign is turned round
samples = perfed.Samples.of(x, y, group=clinic, name="clinics")

# %% [markdown]
# Everybody alone, one model for all, a model each. All on the same split.

# %%
found = perfed.compare(["local", "fedavg", "ditto"], data=samples, partition="natural", rounds=20, budget={"lr": 0.05})
print(found.table()[["method", "last.weighted", "last.std"]])

# %% [markdown]
# York is the clinic that the common model fails. Its own model knows better.

# %%
for method in ("fedavg", "ditto"):
    run = perfed.run(method=method, data=samples, partition="natural", rounds=20, budget={"lr": 0.05})
    print(method, {name: round(value, 2) for name, value in run.accuracies().items()})
