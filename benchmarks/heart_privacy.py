"""FLamby's curve of accuracy over ε on four hospitals, sample by sample noised: ``python benchmarks/heart_privacy.py``.

Needs ``perfed data fetch heart_disease``. FedAvg on a logistic regression, 15 rounds of 100 steps of 4 patients, lr 0.001,
clip 1.1, five seeds. The noise is what keeps the smallest hospital within ε; FLamby gives every hospital its own.
"""

import statistics

import perfed
from perfed.privacy import noise_for

PUBLISHED = {  # δ → ε → accuracy and its deviation
    1e-3: {0.1: (0.629, 0.086), 1.0: (0.702, 0.044), 5.0: (0.700, 0.041), 10.0: (0.698, 0.043), 50.0: (0.700, 0.040)},
    1e-4: {0.1: (0.606, 0.121), 1.0: (0.685, 0.055), 5.0: (0.704, 0.049), 10.0: (0.700, 0.055), 50.0: (0.702, 0.052)},
}
WITHOUT, CLIP, BATCH, ROUNDS, STEPS = (0.713, 0.024), 1.1, 4, 15, 100


def trained(privacy: perfed.Privacy) -> tuple[float, float, float]:
    """Return mean and deviation over seeds of the mean accuracy over hospitals, and the ε that the record says."""
    found = perfed.run(
        method="fedavg",
        data={"name": "heart_disease", "standardise": "hospital,hospital"},
        partition="domains",
        model="logistic",
        rounds=ROUNDS,
        every=ROUNDS,
        seeds=(42, 43, 44, 45, 46),
        budget=perfed.Budget(lr=0.001, batch_size=BATCH, steps=STEPS),
        validation=0.0,
        privacy=privacy,
        transport="serial",
        progress=False,
    )
    last = [seed["mean"] for seed in found.summary["accuracy"]["last"]["seeds"].values()]
    return statistics.mean(last), statistics.stdev(last), found.summary.get("privacy", {}).get("epsilon", float("nan"))


def row(name: str, noise: float, mean: float, spread: float, theirs: tuple[float, float], spent: float | None) -> str:
    """Return a row of the table."""
    apart = f"{(mean - theirs[0]) / theirs[1]:+.1f}"
    said = "" if spent is None else f"{spent:.3f}"
    return f"| {name} | {noise:.2f} | {mean:.3f} ± {spread:.3f} | {theirs[0]:.3f} ± {theirs[1]:.3f} | {apart} | {said} |"


def main() -> None:
    smallest = 30  # training patients of the smallest hospital
    print("| δ, ε | noise | accuracy | FLamby | deviations apart | ε in the record |\n|---|---|---|---|---|---|")
    mean, spread, _ = trained(perfed.Privacy())
    print(row("none", 0.0, mean, spread, WITHOUT, None))
    for delta, curve in PUBLISHED.items():
        for target, theirs in curve.items():
            noise = noise_for(target, BATCH / smallest, ROUNDS * STEPS, delta)
            mean, spread, spent = trained(perfed.Privacy("sample", clip=CLIP, noise=noise, delta=delta))
            print(row(f"{delta:g}, {target:g}", noise, mean, spread, theirs, spent), flush=True)


if __name__ == "__main__":
    main()
