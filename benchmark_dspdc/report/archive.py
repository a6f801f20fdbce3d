"""The archive: measured result files that the documents quote, cut to what reports need.

A file of ``results/`` is one figure of the paper; runs apart, such as those of another machine,
are in folders of their own. ``results/index.json`` says where each file comes from. `add` puts a
file there and `check` tells what is wrong with an archive, so that a measured one can come by
pull request.
"""

import hashlib
import io
import json
import os
import re
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from ..engine.cache_dirs import write_whole
from .claims import as_json, judge
from .plain_files import shown
from .results import (
    ASKED,
    BUDGET,
    ERROR,
    GAP,
    GAPS,
    PROBLEM,
    REFERENCE,
    RUN,
    SPENT,
    read_results,
    thinned,
)

#: Whether a run measured several curves at a time.
SHARED = "benchmark-shared"

#: What an archived file has: for each column what it is.
COLUMNS = {
    "dataset_name": "data set with its parameters",
    "objective_name": "loss and constants",
    "solver_name": "method with its options",
    "idx_rep": "repetition, each with a seed of its own",
    "time": "seconds of the method, set-up included",
    "stop_val": "number of the point on its curve",
    "objective_value": "P(x)",
    "objective_dual": "the better of two lower bounds on P*",
    GAP: "certified gap / max(1, |P(x)|)",
    "objective_own_gap": "P(x) - D(y) with the method's own y",
    "objective_passes": "multiply-adds in units of one A x plus one A'y",
    "objective_iterations": "iterations",
    "objective_coordinate_updates": "coordinates moved",
    "objective_eigendecompositions": "eigendecompositions",
    "objective_predicted_rate": "rate of an iteration by the method's theorem",
    "objective_predicted_cost": "multiply-adds to 1e-6 by the method's rate",
    "objective_block_rows": "m that the method took",
    "objective_block_columns": "q that it took",
    "objective_pass_cost": "multiply-adds of a pass",
    "objective_eigendecomposition_cost": "d^3 on matrices",
    "objective_Lambda_11": "Lambda of single blocks, matrix risk",
    "objective_Lambda_p1": "Lambda of whole rows, matrix risk",
    ERROR: "error of 3 nearest neighbours on test points",
    "objective_test_error_euclidean": "the same with the Euclidean metric",
    "objective_test_accuracy": "accuracy on test data",
    "objective_nnz": "coordinates of x that are not zero",
    REFERENCE: "time of the reference loop at this point",
    "objective_family": "family of the method, a number",
    "objective_tuning": "whether its options were set by hand",
    "objective_errors_only": "1 for packages that solve another problem",
    ASKED: "repetitions that were asked for",
    SPENT: "wall clock of the whole figure in seconds",
    BUDGET: "what it was allowed to take",
    SHARED: "whether several curves were measured at a time",
    "benchmark-commit": "commit of this repository",
    "benchmark-kernels": "hash of the sources of kernels",
    "benchmark-curves": "hash of the sources of curves",
    "system-processor": "processor",
    "system-cpus": "its cores",
    "system-ram (GB)": "memory",
    "platform": "operating system",
    "platform-release": "its release",
    "benchmark-threads": "threads of a method",
    "benchmark-python": "version of Python",
    "benchmark-numba": "version of numba",
    "version-numpy": "version of NumPy",
    "version-scipy": "version of SciPy",
    "benchmark-blas": "BLAS libraries",
    "benchmark-benchopt": "version of benchopt",
    "benchmark-started": "when its command was started",
    "run_date": "when it ended",
}

#: Of an entry of the index: its key and the column that it is from. All are there.
ORIGIN = {
    "commit": "benchmark-commit", "kernel_hash": "benchmark-kernels",
    "curve_hash": "benchmark-curves", "processor": "system-processor", "cpus": "system-cpus",
    "memory_gb": "system-ram (GB)", "system": "platform", "threads": "benchmark-threads",
    "python": "benchmark-python", "numba": "benchmark-numba", "numpy": "version-numpy",
    "scipy": "version-scipy", "blas": "benchmark-blas", "benchopt": "benchmark-benchopt",
}

#: When a run began and when it ended.
WHEN = "benchmark-started", "run_date"

INDEX = "index.json"

#: Points of a run that are kept beside those that reports ask for, and bytes of all files.
POINTS, MAX_BYTES = 60, 20_000_000

#: Names of a folder of runs apart, and of a file.
FOLDER, FILE = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}"), re.compile(r"[a-z0-9_]{1,40}")


def cut(frame):
    """The rows and columns of a frame of results that reports need."""
    columns = [name for name in COLUMNS if name in frame and frame[name].notna().any()]
    kept = [own.iloc[_points(own)] for _, own in frame.groupby(RUN, sort=False)]
    return pd.concat(kept, ignore_index=True)[columns]


def _points(own):
    """Places of the points of a run that say when it got where, and of others evenly spread."""
    gaps, places = own[GAP].to_numpy(), set(thinned(len(own), POINTS))
    for target in GAPS:
        places.update((gaps <= target).nonzero()[0][:1])
    for values in (gaps, own["objective_value"].to_numpy(), -own["objective_dual"].to_numpy()):
        if np.isfinite(values).any():
            places.add(int(np.nanargmin(values)))
    if ERROR in own:
        places.update(own[ERROR].notna().to_numpy().nonzero()[0])
    return sorted(places)


def add(files, folder, apart=None):
    """Put result files into an archive, under their own names; returns the files written.

    `apart` is the name of a folder in it, for runs apart. A ValueError says what a file lacks,
    before any is written. One that gave other verdicts once it was cut would be refused too.
    """
    folder, files = Path(folder), [Path(file) for file in files]
    if apart is not None and not FOLDER.fullmatch(apart):
        raise ValueError(f"a folder's name has small letters, digits, - and _, got {apart!r}")
    for file in files:
        if not FILE.fullmatch(file.stem):
            raise ValueError(f"{file.name}: an archived file has a name such as figure1.parquet")
        if [other.stem for other in files].count(file.stem) > 1:
            raise ValueError(f"several files are called {file.name}; name one")
    made = {"/".join(filter(None, (apart, f"{file.stem}.parquet"))): _archived(file)
            for file in files}
    index = read_index(folder)
    for name, (content, entry) in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, content)
        index[name] = entry
    text = json.dumps(dict(sorted(index.items())), indent=1) + "\n"
    write_whole(folder / INDEX, text.encode())
    return [folder / name for name in made]


def _archived(file):
    """What an archive has of a file: its bytes and its entry in the index."""
    frame = read_results([file])
    entry, content = _origin(frame, file), io.BytesIO()
    # Also the runs that diverged.
    cut(pd.read_parquet(file)).to_parquet(content, compression="zstd", index=False)
    with tempfile.TemporaryDirectory() as other:
        again = Path(other) / file.name
        again.write_bytes(content.getvalue())
        if _verdicts(again) != _verdicts(file):
            raise ValueError(f"{file}: its verdicts are others once it is cut; this is a defect")
    return content.getvalue(), entry | _seal(content.getvalue())


def _verdicts(file):
    return as_json(judge(read_results([file])))


def _origin(frame, file):
    """An entry of the index, without what seals the file; a ValueError if it cannot be one."""
    lacking = [name for name in (*ORIGIN.values(), *WHEN, SHARED, REFERENCE)
               if name not in frame or frame[name].isna().any()]
    if lacking:
        raise ValueError(
            f"{file} does not say where it comes from: {', '.join(lacking)} missing; files of "
            "`python -m benchmark_dspdc figures` and `run` do"
        )
    found = {name: list(dict.fromkeys(frame[column].tolist())) for name, column in ORIGIN.items()}
    for name, values in found.items():
        if len(values) > 1 and name != "commit":
            raise ValueError(f"{file} was measured with several of {name}: "
                             f"{', '.join(map(str, values))}")
    if any(str(commit).endswith("+") for commit in found["commit"]):
        raise ValueError(f"{file} was measured with edits that no commit has")
    if (frame[SHARED] != "no").any():
        raise ValueError(f"{file} was measured with several curves at a time")
    primal, dual = frame["objective_value"], frame["objective_dual"]
    gap = (primal - dual) / primal.abs().clip(lower=1.0)
    if not np.allclose(frame[GAP], gap, rtol=1e-6, atol=1e-12):
        raise ValueError(f"{file} has gaps that are not those of its primal and dual values")
    seeds = frame.groupby(RUN[:3])["idx_rep"].nunique()
    wall = _wall_seconds(frame)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()} | {
        "date": str(frame["run_date"].max())[:10],
        "budget_seconds": round(float(frame[BUDGET].max())) if BUDGET in frame else wall,
        "wall_seconds": wall, "problems": int(frame.groupby(PROBLEM).ngroups),
        "curves": len(seeds), "seeds": [int(seeds.min()), int(seeds.max())],
    }


def _wall_seconds(frame):
    """What the rounds of a figure took, else from the start of a run to its end."""
    if SPENT in frame:
        return round(float(frame[SPENT].max()))
    begun, ended = (pd.to_datetime(frame[name]) for name in WHEN)
    return round((ended.max() - begun.min()).total_seconds())


def _seal(content):
    return dict(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def read_index(folder):
    """The index of an archive, by names of files; empty if there is none yet."""
    file = Path(folder) / INDEX
    if not file.exists():
        return {}
    try:
        index = json.loads(file.read_text("utf-8"))
        if not all(isinstance(entry, dict) for entry in index.values()):
            raise ValueError("an entry is no object")
        return index
    except (ValueError, AttributeError) as error:
        raise ValueError(shown(f"{file} is no index of an archive: {error}")) from None


def check(folder):
    """Sentences on what is wrong with an archive; none if nothing is."""
    folder = Path(folder)
    index = read_index(folder)
    there = {os.path.relpath(file, folder).replace(os.sep, "/")
             for file in folder.rglob("*.parquet")}
    wrong = [f"{name} is not in {INDEX}; add it with the command"
             for name in sorted(there - index.keys())]
    wrong += [f"{name} is in {INDEX} and there is no such file"
              for name in sorted(index.keys() - there)]
    size = sum((folder / name).stat().st_size for name in there)
    if size > MAX_BYTES:
        wrong.append(f"the archive has {size:,} bytes, allowed are {MAX_BYTES:,}")
    for name in sorted(there & index.keys()):
        entry, file = index[name], folder / name
        if {key: entry.get(key) for key in ("bytes", "sha256")} != _seal(file.read_bytes()):
            wrong.append(f"{name} is not the file that was archived: its checksum differs")
            continue
        try:
            frame = read_results([file])
            origin = _origin(frame, name)
        except ValueError as error:
            wrong.append(str(error))
            continue
        wrong += [f"{name}: {key} is {entry.get(key)} in {INDEX} and {value} in the file"
                  for key, value in origin.items() if entry.get(key) != value]
        wrong += [f"{name}: column {column} is not one of an archive"
                  for column in frame.columns if column not in COLUMNS]
    return [shown(sentence) for sentence in wrong]
