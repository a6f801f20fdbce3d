"""The package without a checkout: a wheel, and what is said where the benchmark is missing."""

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pandas as pd
import pytest
import yaml
from conftest import REPO, git

from benchmark_dspdc.bench import benchopt_process, named_problems
from benchmark_dspdc.bench.benchopt_process import COMMIT, commit_of
from benchmark_dspdc.cli import USAGE_ERROR, main
from benchmark_dspdc.guard import commit_runs
from benchmark_dspdc.version import __version__

#: What a checkout has beside its sources.
UNTRACKED = ".*", "__pycache__", "__cache__", "outputs", "benchopt_run", "build", "*.egg-info"


@pytest.mark.parametrize("words", [
    "run", "figures --budget 20s", "regress --run mine.yml --baseline mine.json --update", "speed",
    "recommend Factorized[n=60]", "complexity Factorized[n=60]", "complexity configs/quick.yml",
])
def test_a_command_that_finds_no_benchmark_says_to_clone_it(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(named_problems, "__file__", str(tmp_path / "a" / "b" / "c.py"))
    monkeypatch.setattr(named_problems, "INSTALLED", tmp_path / "none")
    assert main(words.split()) == USAGE_ERROR
    said = capsys.readouterr().err
    assert "no benchmark here" in said and "clone" in said and said.count("\n") == 1


def test_a_config_of_the_benchmark_is_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = Path("configs/quick.yml")
    assert named_problems.config_file(name) == REPO / name
    name.parent.mkdir()
    name.touch()
    assert named_problems.config_file(name) == name
    unknown = name.with_name("unknown.yml")
    assert named_problems.config_file(unknown) == unknown


def test_an_installed_benchmark_has_no_commit(tmp_path, monkeypatch):
    # Its environment may lie in the checkout of something else.
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "theirs")
    assert commit_of(tmp_path) is not None
    for module in (benchopt_process, commit_runs):
        monkeypatch.setattr(module, "INSTALLED", tmp_path)
    monkeypatch.setattr(commit_runs, "benchmark_folder", lambda: tmp_path)
    assert commit_of(tmp_path) is None
    with pytest.raises(commit_runs.CommitNotRun, match="need a clone"):
        commit_runs.OtherCommit("mine.json").commit()


def test_one_version_everywhere():
    cited = yaml.safe_load((REPO / "CITATION.cff").read_text())
    assert cited["version"] == __version__
    newest = re.search(r"^## (\S+) - (\S+)$", (REPO / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest.groups() == (__version__, str(cited["date-released"]))


def written_in_setup(name):
    """A constant of setup.py, which would build if it were imported."""
    for node in ast.parse((REPO / "setup.py").read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"setup.py has no {name}")


def test_what_a_wheel_takes_along_is_in_the_source_archive_too():
    packed = (REPO / "MANIFEST.in").read_text().split()
    for name in written_in_setup("BENCHMARK"):
        assert (REPO / name).exists() and name in packed


def test_a_wheel_leaves_out_what_needs_the_environments_of_a_clone():
    plug_ins = {file.name for file in (REPO / "solvers").glob("*.py")
                if "MetricPeerSolver" in file.read_text()}
    names = [file.stem.replace("_", "-") for file in map(Path, plug_ins)]
    configs = {file.name for file in (REPO / "configs").glob("*.yml")
               if any(name in file.read_text() for name in names)}
    assert set(written_in_setup("IN_A_CLONE")) == plug_ins | configs


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel as a user has it, built from the source distribution without a network."""
    folder = tmp_path_factory.mktemp("built")
    shutil.copytree(REPO, folder / "sources", ignore=shutil.ignore_patterns(*UNTRACKED))
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=folder / "sources", check=True)
    (sources,) = folder.glob("*.tar.gz")
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation",
                    "--no-deps", "--no-index", "-w", folder, sources], check=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def command(wheel, tmp_path_factory):
    """A function that runs Python with the wheel's package, in some folder."""
    site = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index",
                    "--target", site, wheel], check=True)
    clean = {name: value for name, value in os.environ.items() if name != "BENCHOPT_CACHE"}

    def run(folder, *words):
        done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True,
                              env=clean | {"PYTHONPATH": str(site)})
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout
    run.site = site
    return run


@pytest.mark.nightly
def test_a_wheel_has_the_package_and_the_benchmark_and_nothing_else(wheel):
    def files(folder):
        return {file.relative_to(REPO) for file in folder.rglob("*")
                if file.is_file() and "__pycache__" not in file.parts
                and file.name not in written_in_setup("IN_A_CLONE")}
    beside = [REPO / name for name in ("benchmark_utils", "benchmarks", "configs", "datasets",
                                       "plots", "results", "solvers")]
    inside = {Path("objective.py"), Path("config.yml")}
    inside |= set().union(*map(files, beside))
    wanted = {file.as_posix() for file in files(REPO / "benchmark_dspdc")}
    wanted |= {f"benchmark_dspdc/_benchmark/{file.as_posix()}" for file in inside}
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == wanted
    assert wheel.name == f"benchmark_dspdc-{__version__}-py3-none-any.whl"


@pytest.mark.nightly
def test_a_wheel_runs_in_an_empty_folder_and_keeps_its_results_there(command, tmp_path):
    before = {file for file in command.site.rglob("*") if file.suffix != ".pyc"}
    where = "import benchmark_dspdc; print(benchmark_dspdc.__file__)"
    assert command(tmp_path, "-c", where).startswith(str(command.site))
    tool = "-m", "benchmark_dspdc"
    # The config is the benchmark's.
    said = command(tmp_path, *tool, "run", "--", "-d", "Factorized[n=60,p=20,d=5]", "-s", "FISTA",
                   "-n", "2", "-r", "1")
    assert "FISTA" in said
    (file,) = (tmp_path / "outputs").glob("quick_*.parquet")
    assert pd.read_parquet(file)[COMMIT].isna().all()
    assert (tmp_path / "outputs" / "report" / "report.html").stat().st_size > 10_000
    assert (tmp_path / "__cache__").is_dir()
    assert "FISTA" in command(tmp_path, *tool, "summary")
    assert "factorized" in command(tmp_path, *tool, "recommend", "Factorized[n=60,p=20,d=5]",
                                   "--seconds", "0")
    after = {file for file in command.site.rglob("*") if file.suffix != ".pyc"}
    assert {file.name for file in after - before} <= {"__pycache__"}
