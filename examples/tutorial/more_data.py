"""Step 2: a data frame, and a data set of PyTorch."""

import pandas as pd
from torch import rand
from torch.utils.data import TensorDataset

import perfed

table = pd.DataFrame({"age": range(120), "pressure": range(300, 420), "ill": [0, 1] * 60, "ward": ["a", "b", "c"] * 40})
run = perfed.run(data=perfed.Samples.of(table, "ill", group="ward"), method="ditto", rounds=3)
print(run.accuracies())  # by ward

pictures = TensorDataset((rand(90, 1, 8, 8) * 255).byte(), (rand(90) * 3).long())
run = perfed.run(data=perfed.Samples.of(pictures), partition="iid", clients=3, method="fedper", model="cnn", rounds=2)
print(run)
