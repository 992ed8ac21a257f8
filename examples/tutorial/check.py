"""Step 3: check a method, then compare it with others."""

from my_method import Keepsake

import perfed
from perfed import Budget, testing

testing.check_method(Keepsake(budget=Budget(lr=0.1, batch_size=8)))

found = perfed.compare(
    ["local", "fedavg", Keepsake()],
    data="digits",
    clients=10,
    partition={"name": "dirichlet", "alpha": 0.1},
    rounds=15,
    budget={"lr": 0.05},
)
print(found.table()[["method", "last.weighted", "last.std"]])
