"""Step 2: samples of your own, one client per clinic."""

import numpy as np

import perfed

rng = np.random.default_rng(0)
clinic = np.repeat(["leeds", "york", "hull", "bath"], 100)
y = np.where(rng.random(400) < 0.5, "ill", "well")
x = rng.normal(size=(400, 12)).astype("float32")
x[:, 0] += 3 * (y == "ill")
x[:, 1] += 2 * (clinic == "york")

samples = perfed.Samples.of(x, y, group=clinic, name="clinics")
run = perfed.run(data=samples, partition="natural", method="ditto", model="mlp", rounds=15, budget={"lr": 0.05})

print(run.table()[["method", "last.weighted", "last.std"]])
print(run.accuracies())  # {"bath": …, "hull": …, "leeds": …, "york": …}
scores = run.model("york")(perfed.Samples.of(x[:5], y[:5]).x)
print(scores.argmax(1))
