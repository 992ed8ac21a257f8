"""Step 2: a file that perfed reads: samples, labels, and whose they are."""

import numpy as np

rng = np.random.default_rng(0)
group = np.repeat(["leeds", "york", "hull", "bath"], 100)  # whose sample it is
y = rng.integers(0, 3, 400)  # three classes
x = rng.normal(size=(400, 12)).astype("float32")  # twelve measurements
x[:, 0] += 3 * y  # what tells classes apart
x[:, 1] += 2 * (group == "york")  # York measures differently
np.savez("clinics.npz", x=x, y=y, group=group)
