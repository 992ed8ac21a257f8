"""From a record to a paper: a table for LaTeX, every number for pandas, and a page."""

import perfed

asked = {"data": "digits", "clients": 6, "rounds": 10, "budget": {"lr": 0.1}}
found = perfed.compare(["local", "fedavg", "ditto"], **asked, out="runs", name="first")

print(found.table().to_latex(index=False, columns=["method", "last.weighted", "last.std"], float_format="%.3f"))

frame = found.frame()  # a row per method, seed, round, client, part and metric
last = frame[(frame["round"] == 10) & (frame["part"] == "test") & (frame["metric"] == "accuracy")]
print(last.pivot_table(index="client", columns="method", values="value").round(3))

print(found.report())  # where the page is; in a notebook, `found` alone shows the table
