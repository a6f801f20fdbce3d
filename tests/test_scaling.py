"""Curves on other processes: a real dask scheduler with two workers, and submitit's jobs."""

import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import yaml
from benchopt.parallel_backends.slurm_executor import get_slurm_executor, merge_slurm_configs
from conftest import REPO, assert_same_rows, copy_of_benchmark, run
from distributed import Client

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


class Cluster:
    """A scheduler and two workers, each a process, on the loopback interface."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        self.start("scheduler", "--port", 0, "--dashboard-address", "127.0.0.1:0")
        for k in range(2):
            self.start("worker", "--name", f"worker-{k}", "--nthreads", 1, "--no-nanny",
                       "--memory-limit", 0, "--no-dashboard", "--local-directory", folder)
        file, end = folder / "scheduler.json", time.monotonic() + 60
        while not file.exists():
            assert time.monotonic() < end, folder.joinpath("scheduler.log").read_text()
            time.sleep(0.05)
        self.client = Client(address=json.loads(file.read_text())["address"])
        self.client.wait_for_workers(2, timeout=60)
        self.addresses = {pid: address for address, pid in self.client.run(os.getpid).items()}
        # What configs/dask.yml says, at the address of this scheduler.
        config = yaml.safe_load((REPO / "configs" / "dask.yml").read_text())
        self.config = folder / "parallel.yml"
        self.config.write_text(
            yaml.safe_dump(config | {"dask_address": self.client.scheduler.address})
        )

    def start(self, kind, *options):
        common = (
            "--scheduler-file", self.folder / "scheduler.json", "--host", "127.0.0.1",
            "--preload", "benchmark_dspdc.bench.plugins",
        )
        with self.folder.joinpath(f"{kind}.log").open("a") as output:
            self.processes.append(subprocess.Popen(
                [sys.executable, "-m", "dask", kind, *map(str, common + options)], cwd=REPO,
                stdout=output, stderr=subprocess.STDOUT,
            ))

    def is_at_work(self, worker):
        return bool(self.client.processing()[self.addresses[worker.pid]])

    def close(self):
        self.client.close()
        for process in self.processes:
            process.kill()
            process.wait()


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
def cluster(folder):
    started = Cluster(folder)
    yield started
    started.close()


@pytest.mark.nightly
def test_workers_give_the_rows_of_a_sequential_run(cluster, sequential, folder):
    frame, shown = run(folder, CONFIG, "dask", "--parallel-config", cluster.config)
    assert "Distributed run with backend: dask" in shown
    assert_same_rows(sequential, frame)


@pytest.mark.nightly
def test_a_worker_killed_in_the_middle_loses_nothing(cluster, sequential, folder):
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, folder, CONFIG, "killed", "--parallel-config", cluster.config)
        worker = cluster.processes[-1]
        while not cluster.is_at_work(worker):
            assert not running.done()
            time.sleep(0.02)
        worker.kill()
        frame, _ = running.result(timeout=300)
    assert_same_rows(sequential, frame)


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
