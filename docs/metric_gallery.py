"""The pictures of docs/metric-learning.md: what `MultiTaskLMNN` makes of scikit-learn's digits.

    .venv/bin/python docs/metric_gallery.py

Half of the points are held out: only these are drawn, and errors are theirs. Takes 10 seconds.
"""

from pathlib import Path
from time import perf_counter

import numpy as np
import seaborn as sns
from matplotlib import rcParams
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from benchmark_dspdc.sklearn import MultiTaskLMNN

DOCS = Path(__file__).resolve().parent
TASKS = ("1-4-7", "3-8-9")
SETTINGS = dict(random_state=0)
# Darker than seaborn's, whose yellow is hard to read on white.
COLOURS = 0.8 * np.array(sns.color_palette("colorblind", 10))
rcParams["figure.constrained_layout.h_pad"] = rcParams["figure.constrained_layout.w_pad"] = 0.1


def halves(y):
    """Places of training points and of held-out points."""
    return train_test_split(np.arange(len(y)), test_size=0.5, random_state=0, stratify=y)


def error(mapped, y, train, test, directions):
    """Held-out error of 3 nearest neighbours in the leading directions, in percent."""
    mapped = mapped[:, :directions]
    votes = KNeighborsClassifier(3).fit(mapped[train], y[train])
    return 100 * (1 - votes.score(mapped[test], y[test]))


def scatter(ax, mapped, y, title, size=22):
    """Points as small digits, and each digit large near the median of its points."""
    digits, halo = np.unique(y), withStroke(linewidth=4, foreground="w")
    spots = np.array([np.median(mapped[y == digit, :2], axis=0) for digit in digits])
    for _ in range(100):  # Large ones that would hide each other move apart.
        gaps = spots[:, None] - spots
        lengths = np.linalg.norm(gaps, axis=2, keepdims=True) + 1e-9
        spots += 0.1 * (gaps * np.maximum(0.06 * np.ptp(mapped[:, :2]) / lengths - 1, 0)).sum(1)
    for digit, spot in zip(digits, spots, strict=True):
        ax.scatter(*mapped[y == digit, :2].T, s=size, marker=f"${digit}$", color=COLOURS[digit],
                   linewidths=0)
        ax.text(*spot, digit, size=20, weight="bold", ha="center", va="center",
                color=COLOURS[digit], path_effects=[halo])
    ax.set(title=title, xticks=[], yticks=[], xlabel="first direction", ylabel="second direction",
           aspect="equal", adjustable="datalim", box_aspect=1)


def digits_picture(X, y):
    """Ten digits, a single task."""
    train, test = halves(y)
    model = MultiTaskLMNN(**SETTINGS).fit(X[train], y[train])
    views = {"before (PCA)": PCA().fit(X[train]).transform(X), "after": model.transform(X)}
    figure = Figure(figsize=(8, 7.2), layout="constrained")
    axes = figure.subplot_mosaic([["o--", "s-"], ["below", "below"]], height_ratios=[2, 1])
    below = axes.pop("below")
    for (style, ax), (name, mapped) in zip(axes.items(), views.items(), strict=True):
        errors = {k: error(mapped, y, train, test, k)
                  for k in (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 64)}
        scatter(ax, mapped[test], y[test], f"{name}: error {errors[2]:.1f} %")
        below.plot(errors.keys(), errors.values(), style, label=name, markersize=5)
        print(f"ten digits, {name}, error in % by number of directions:",
              ", ".join(f"{k}: {value:.1f}" for k, value in errors.items()))
    below.set(xscale="log", yscale="log", xlabel="number of leading directions",
              ylabel="held-out 3-NN error")
    below.set_xticks([1, 2, 5, 10, 20, 64], [1, 2, 5, 10, 20, 64])
    below.set_yticks([1, 3, 10, 30], ["1 %", "3 %", "10 %", "30 %"])
    below.minorticks_off()
    below.legend()
    figure.savefig(DOCS / "metric_digits.png", dpi=120)


def tasks_picture(X, y, tasks):
    """A row for each task: its points in its own two directions."""
    train, test = halves(y)
    model = MultiTaskLMNN(**SETTINGS).fit(X[train], y[train], tasks[train])
    figure = Figure(figsize=(8, 8.8), layout="constrained")
    for task, row in zip(TASKS, figure.subplots(len(TASKS), 2), strict=True):
        own, asked = train[tasks[train] == task], test[tasks[test] == task]
        views = {"before (PCA)": PCA().fit(X[own]).transform(X),
                 "after": model.transform(X, np.full(len(X), task))}
        for ax, (name, mapped) in zip(row, views.items(), strict=True):
            two, all_ = (error(mapped, y, own, asked, k) for k in (2, None))
            title = f"{task} {name}: error {two:.1f} %\n({all_:.1f} % in all directions)"
            scatter(ax, mapped[asked], y[asked], title, size=32)
            print("task", title.replace("\n", " "))
    figure.savefig(DOCS / "metric_tasks.png", dpi=120)


def weights_picture(X, y, tasks):
    """Diagonals of what the metrics share, and of what each task adds to it."""
    train, _ = halves(y)
    model = MultiTaskLMNN(**SETTINGS).fit(X[train], y[train], tasks[train])
    weights, shared = model.metric_.diagonal(axis1=1, axis2=2), model.shared_metric_.diagonal()
    parts = {"shared minus 1": shared - 1}
    parts |= {f"own to task {t}": w - shared for t, w in zip(TASKS, weights, strict=True)}
    limit = np.abs(list(parts.values())).max()
    figure = Figure(figsize=(8, 2.8), layout="constrained")
    axes = figure.subplots(1, len(parts))
    for ax, (name, part) in zip(axes, parts.items(), strict=True):
        image = ax.imshow(part.reshape(8, 8), cmap="RdBu_r", vmin=-limit, vmax=limit)
        ax.set(title=name, xticks=[], yticks=[])
        ink = (f"{digit}: {X[y == digit, part.argmax()].mean():.1f}" for digit in np.unique(y))
        print(f"{name}: {part.min():.2f} to {part.max():.2f}, mean ink at the largest", *ink)
    figure.colorbar(image, ax=axes, label="weight of a pixel", ticks=[-1, -0.5, 0, 0.5, 1])
    figure.savefig(DOCS / "metric_weights.png", dpi=120)


if __name__ == "__main__":
    begun = perf_counter()
    X, y = load_digits(return_X_y=True)
    digits_picture(X, y)
    tasks = np.select([np.isin(y.astype(str), task.split("-")) for task in TASKS], TASKS, "")
    some = tasks != ""
    tasks_picture(X[some], y[some], tasks[some])
    weights_picture(X[some], y[some], tasks[some])
    print(f"{perf_counter() - begun:.0f} seconds")
