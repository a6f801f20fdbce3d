"""Curves on other processes: dask's workers, and submitit's jobs."""

import os
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import yaml
from benchopt.parallel_backends.slurm_executor import get_slurm_executor, merge_slurm_configs
from conftest import REPO, assert_same_rows, copy_of_benchmark, run
from distributed import Client, LocalCluster

#: What workers load first.
PLUGINS = "benchmark_dspdc.bench.plugins"

CONFIG = {
    "objective": ["ERM[loss=smoothed_hinge,lambda1=0.001,lambda2=0.0001]"],
    # The first takes a while to solve.
    "dataset": [
        "Sparse[n=10000,p=20000,row_nnz=60]", "Factorized[n=200,p=30,d=8]",
        "MatrixRisk[n=30,p=4,d=4]",
    ],
    "solver": ["DSPDC[m=0.1,q=0.5,Lambda=partition]", "SDCA"],
    "n-repetitions": 2, "max-runs": 25, "timeout": 300,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("scaling")


@pytest.fixture(scope="module")
def sequential(folder):
    # Code just compiled was seen to differ from that in the cache in the last bits of sums.
    run(folder, CONFIG | {"max-runs": 2, "n-repetitions": 1}, "compiled")
    frame = run(folder, CONFIG, "sequential")[0]
    assert frame.groupby(["dataset_name", "solver_name", "idx_rep"]).ngroups == 3 * 2 * 2
    return frame


@pytest.fixture(scope="module")
def client(folder):
    """Of a scheduler with two workers, each a process."""
    with LocalCluster(
        n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address=None,
        preload=PLUGINS, local_directory=folder,
    ) as cluster, Client(cluster) as client:
        # What configs/dask.yml says, at the address of this scheduler.
        config = yaml.safe_load((REPO / "configs" / "dask.yml").read_text())
        config["dask_address"] = cluster.scheduler_address
        (folder / "parallel.yml").write_text(yaml.safe_dump(config))
        yield client


def on_workers(folder, name):
    frame, shown = run(folder, CONFIG, name, "--parallel-config", folder / "parallel.yml")
    assert "Distributed run with backend: dask" in shown
    return frame


@pytest.mark.nightly
def test_workers_give_the_rows_of_a_sequential_run(client, sequential, folder):
    assert_same_rows(sequential, on_workers(folder, "dask"))


@pytest.mark.nightly
def test_a_worker_killed_in_the_middle_loses_nothing(client, sequential, folder):
    address, process = client.run(os.getpid).popitem()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(on_workers, folder, "killed")
        while not client.processing()[address]:
            assert not running.done()
            time.sleep(0.02)
        os.kill(process, signal.SIGKILL)
        assert_same_rows(sequential, running.result(timeout=300))


@pytest.mark.nightly
def test_submitit_runs_the_same_curves_on_this_machine(sequential, folder):
    # Jobs and their logs are written beside the benchmark.
    copy = copy_of_benchmark(folder / "benchmark", "datasets", "solvers", "objective.py")
    config = CONFIG | {"dataset": CONFIG["dataset"][:1], "solver": ["SDCA"]}
    frame, shown = run(
        folder, config, "submitit", "--parallel-config", REPO / "configs" / "slurm.yml",
        folder=copy,
    )
    assert "Distributed run with backend: submitit" in shown
    jobs = {file.name for file in copy.joinpath("benchopt_run").glob("*_result.pkl")}
    assert len(jobs) == 2
    chosen = sequential[
        sequential["dataset_name"].str.startswith("Sparse")
        & sequential["solver_name"].str.startswith("SDCA")
    ]
    # Other curves of the file have columns that these lack.
    assert_same_rows(chosen[list(frame)].astype(frame.dtypes), frame)


def test_slurm_jobs_have_a_node_for_themselves_and_one_thread(tmp_path, monkeypatch):
    # What sbatch would be given, from commands that do nothing.
    for name, script in (("srun", ""), ("sbatch", "echo Submitted batch job 7")):
        tmp_path.joinpath(name).write_text(f"#!/bin/sh\n{script}\n")
        tmp_path.joinpath(name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    config = yaml.safe_load((REPO / "configs" / "slurm.yml").read_text())
    assert config.pop("backend") == "submitit"
    benchmark = SimpleNamespace(get_slurm_folder=lambda: tmp_path / "jobs")
    executor = get_slurm_executor(benchmark, merge_slurm_configs(config))
    with executor.batch():
        job = executor.submit(print)
    text = job.paths.submission_file.read_text()
    options = re.findall(r"^#SBATCH --([\w-]+)(?:=(.*))?$", text, re.MULTILINE)
    expected = {"nodes": "1", "ntasks-per-node": "1", "cpus-per-task": "1", "exclusive": "",
                "mem": "0", "time": "01:00:00"}
    assert expected.items() <= dict(options).items()
    assert "export OMP_NUM_THREADS=1" in text
    assert re.search(r"^srun .*--cpu-bind=cores", text, re.MULTILINE)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_dask_config_attaches_to_a_scheduler_on_this_machine():
    config = yaml.safe_load((REPO / "configs" / "dask.yml").read_text())
    # Whoever reaches a scheduler runs what he likes: no address that others reach is a default.
    assert config["dask_address"].startswith("tcp://127.0.0.1:")
