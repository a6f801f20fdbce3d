# make run    first comparison, from a fresh clone to a table and a page
# make figures [BUDGET=2h] [DOWNLOAD=1]   the paper's figures and verdicts, as one page
# make test   linting, unit tests, benchopt's own checks, every method's work against the baseline
# make regress [AGAINST=COMMIT]   every method's work against the baseline, and its time against
#                                 the commit of the baseline, or another one, by paired runs
# make regress UPDATE=1           a new baseline, of two runs
# make regress ADD=1              the methods that the baseline lacks, of two runs
# make fuzz [CASES=20000] [SEED=0] [JOBS=2]   input made up at random, on five surfaces
# make site   all pages and the archive's report as a site: outputs/site/index.html, from disk
# make peers-metric   environments of packages that learn metrics, for configs/metric_peers.yml
PYTHON ?= python3
# pylmnn needs a scipy of before Python 3.12.
PEERS_PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# Python keeps the byte code of a module when it first loads it; most of what is installed never is.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
CONFIG ?= configs/quick.yml
BUDGET ?= 20m
GUARDED := configs/regression.yml configs/regression_matrices.yml
BASELINE := baselines/regression.json
CASES ?= 20000
SEED ?= 0

# benchopt starts pytest by its name, which must be this environment's.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Runs and tests are many processes; without byte code each compiles every module anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run figures test regress lint venv speed fuzz nightly site clean peers-metric

run: $(VENV)/.ready
	$(BIN)/python -m benchmark_dspdc run --config $(CONFIG)

figures: $(VENV)/.ready
	$(BIN)/python -m benchmark_dspdc figures --budget $(BUDGET) $(if $(DOWNLOAD),--download)

test: $(VENV)/.ready-test lint
	$(BIN)/python -m pytest -n 2 -m "not nightly"
	$(BIN)/benchopt test . --skip-install
	$(BIN)/python -m benchmark_dspdc regress --run $(GUARDED) --baseline $(BASELINE) --work-only

regress: $(VENV)/.ready
	$(BIN)/python -m benchmark_dspdc regress --run $(GUARDED) --baseline $(BASELINE) \
	  --json outputs/regress.json --junit outputs/regress.xml $(if $(UPDATE),--update) \
	  $(if $(ADD),--add) $(if $(AGAINST),--against $(AGAINST))

lint: $(VENV)/.ready-test
	$(BIN)/ruff check .
	$(BIN)/lint-imports

# Every test with fresh random examples, those too long for every commit, and every method as it is
# without options on a problem of each kind, by its work.
nightly: $(VENV)/.ready-test
	HYPOTHESIS_PROFILE=random $(BIN)/python -m pytest -n 2 -m "not timing"
	$(BIN)/python -m pytest -n 0 -m timing
	$(BIN)/python -m benchmark_dspdc regress --run configs/defaults.yml \
	  --baseline baselines/defaults.json --work-only
	$(MAKE) fuzz SEED=$$(date +%Y%m%d)

fuzz: $(VENV)/.ready-test
	FUZZ_CASES=$(CASES) FUZZ_SEED=$(SEED) $(BIN)/python -m pytest -n $(or $(JOBS),auto) \
	  --dist load -o faulthandler_timeout=3600 -o faulthandler_exit_on_timeout=true tests/test_fuzz.py

# Afresh each time, so that no page stays that is no more.
site: $(VENV)/.ready-site
	rm -rf outputs/site
	$(BIN)/python -m sphinx -q -W --keep-going -E -c site -d outputs/.doctrees . outputs/site
	@echo "written: outputs/site/index.html"

speed: $(VENV)/.ready
	$(BIN)/python -m benchmark_dspdc speed

venv: $(VENV)/.ready

peers-metric: .venv-metric-learn/.ready .venv-pylmnn/.ready

.venv-%/.ready: environments/%.txt
	$(PEERS_PYTHON) -m venv .venv-$*
	.venv-$*/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

$(VENV)/bin/pip:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(PIP) -e .
	touch $@

$(VENV)/.ready-test: pyproject.toml constraints.txt | $(VENV)/.ready
	$(PIP) -e ".[test]"
	touch $@

$(VENV)/.ready-site: pyproject.toml constraints.txt | $(VENV)/.ready
	$(PIP) -e ".[site]"
	touch $@

clean:
	rm -rf $(VENV) .venv-metric-learn .venv-pylmnn outputs __cache__
