"""A clone under benchopt as its users know it: nothing installed but what is declared."""

import ast
import os
import re
import subprocess
import sys
import tomllib

import pytest
from conftest import REPO, benchopt, copy_of_benchmark
from packaging.requirements import Requirement

import benchmark_dspdc

PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]


def declared(file):
    """The requirements of a plug-in, as benchopt reads them: from its text."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Assign) and node.targets[0].id == "requirements":
            return ast.literal_eval(node.value)
    raise AssertionError(f"{file} declares no requirements")


def plugins():
    return [REPO / "objective.py", *(REPO / "solvers").glob("*.py"),
            *(REPO / "datasets").glob("*.py")]


def test_requirements_are_declared_as_benchopt_wants_them():
    for file in plugins():
        for word in declared(file):
            assert word.startswith("pip::"), file
            Requirement(word.removeprefix("pip::"))


def test_the_objective_requires_what_the_package_does():
    wanted = sorted(map(str, map(Requirement, PROJECT["dependencies"])))
    assert sorted(word.removeprefix("pip::") for word in declared(REPO / "objective.py")) == wanted
    assert {Requirement(word).name for word in wanted} == set(benchmark_dspdc._NEEDED)


def python(code, missing=None):
    """What a script shows where a module is not installed."""
    hidden = ("import importlib.util; real = importlib.util.find_spec\n"
              f"importlib.util.find_spec = lambda n: None if n == {missing!r} else real(n)\n")
    done = subprocess.run([sys.executable, "-c", hidden + code], cwd=REPO, capture_output=True,
                          text=True)
    return done.stdout + done.stderr


def test_an_installed_package_has_all_its_rooms_and_files():
    settings = tomllib.loads((REPO / "pyproject.toml").read_text())["tool"]["setuptools"]
    rooms = {file.parent for file in (REPO / "benchmark_dspdc").rglob("__init__.py")}
    assert set(settings["packages"]) == {
        ".".join(room.relative_to(REPO).parts) for room in rooms
    }
    for file in (REPO / "benchmark_dspdc").rglob("*.*"):
        if file.suffix not in (".py", ".pyc"):
            room = ".".join(file.parent.relative_to(REPO).parts)
            assert any(file.match(pattern) for pattern in settings["package-data"][room]), file


def test_peers_require_their_package_and_say_how_to_install_it():
    extras = {Requirement(word).name for word in PROJECT["optional-dependencies"]["peers"]}
    for name in extras:
        assert declared(REPO / "solvers" / f"{name}.py") == [f"pip::{name}"]
        found = python(f"exec(open('solvers/{name}.py').read())", missing=name)
        assert f"{name} is not installed; run `pip install {name}`" in found


def test_a_module_that_is_missing_is_named_with_the_command_that_mends_it():
    found = python("import benchmark_dspdc", missing="numba")
    last = found.strip().splitlines()[-1]
    assert "benchmark_dspdc needs numba, not installed here; run `pip install -e" in last


def test_the_folder_that_benchopt_loads_finds_the_package():
    code = ("import sys; sys.path[:] = [p for p in sys.path if p not in ('', sys.argv[0])]\n"
            f"exec(open({str(REPO / 'benchmark_utils/__init__.py')!r}).read(),"
            f" dict(__file__={str(REPO / 'benchmark_utils/__init__.py')!r}))\n"
            "print(sys.path[-1])")
    assert python(code).strip().splitlines()[-1] == str(REPO)


def test_data_that_cannot_be_had_are_skipped_and_the_rest_is_run(tmp_path, monkeypatch):
    monkeypatch.setenv("LIBSVMDATA_HOME", str(tmp_path))
    # No network, whatever this machine has.
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    folder = copy_of_benchmark(tmp_path)
    done = benchopt("run", str(folder), "-d", "LIBSVM[name=a9a]", "-d",
                    "Factorized[n=60,p=20,d=5]", "-s", "SDCA", "-n", "2", "--no-plot")
    said = " ".join(done.split())
    assert "is not in the cache" in said
    assert "python -m benchmark_dspdc import-libsvm a9a FILE" in said
    assert len([*(folder / "outputs").glob("*.parquet")]) == 1


@pytest.mark.nightly
def test_a_bare_clone_runs_in_a_new_environment(tmp_path):
    folder = copy_of_benchmark(copy_of_benchmark(tmp_path), "test_config.py")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "new")], check=True)
    found = tmp_path / "new" / "bin"
    wanted = [word.removeprefix("pip::") for word in declared(REPO / "objective.py")]
    subprocess.run([found / "pip", "install", "-q", "-c", REPO / "constraints.txt", *wanted,
                    "pytest"], check=True)
    # Of this process's environment nothing that would lead to the package.
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    clean["PATH"] = f"{found}{os.pathsep}{clean['PATH']}"

    def run(*words):
        done = subprocess.run([found / "benchopt", *words], cwd=folder, env=clean,
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr
    code, said = run("run", ".", "-d", "Factorized[n=60,p=20,d=5]", "-s", "SDCA", "-s", "celer",
                     "-n", "2", "--no-plot")
    assert code == 0, said
    assert re.search("celer.*not installed", said) and "run `pip install celer`" in said
    assert len([*(folder / "outputs").glob("*.parquet")]) == 1
    assert "SDCA" in run("info", ".")[1]
    code, said = run("test", ".", "--skip-install", "-k", "SDCA")
    assert code == 0, said
