# Every target sets up the environment that it needs; `make PYTHON=python3.12 test` picks the interpreter.
PYTHON ?= python3
VENV := .venv
CORE := .venv-core
PY := $(VENV)/bin/python
CORE_PY := $(CORE)/bin/python
export PYTHON

# The oldest Python that is supported, for `make core`; where there is none, PYTHON stands in, and says so.
OLDEST_PYTHON := 3.10
CORE_PYTHON ?= $(shell scripts/oldest_python.sh $(OLDEST_PYTHON))

BENCHMARKS := eigh matrix_functions features pooling precision whitening models import_time conditioning train_loop loader
CORE_PATHS := tests/linalg tests/nn tests/test_transformations.py tests/test_doctests.py tests/cli/test_doctor.py
CHECK_PATHS := tests/linalg tests/nn tests/test_doctests.py tests/cli
# One process per core with one thread each; `make core` and `make portable` run the numerics with all threads.
PYTEST := OMP_NUM_THREADS=1 $(PY) -m pytest -q --durations 15 --numprocesses auto --maxprocesses 8 --dist worksteal

SEEDS ?= 20
SEED ?= 0
SHARED = --seeds $(SEEDS) --runs runs/record

.DEFAULT_GOAL := help
.PHONY: help demo check test cover core portable lint docs torture format bench record paper approximation followups birds dist clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

demo: $(VENV)/.ready  ## what fails and what helps, on embedded photographs: writes a page (four minutes)
	$(VENV)/bin/rootpool demo

check: $(VENV)/.ready  ## the fast lane: linalg, nn and the command line, without what is slow (a minute and a half)
	$(PYTEST) -m "not slow and not browser" $(CHECK_PATHS)

test: $(VENV)/.ready  ## all tests and doctests; DEVICE=cuda (or mps): those of linalg and nn on that device
ifdef DEVICE
	ROOTPOOL_TEST_DEVICE=$(DEVICE) $(PY) -m pytest -q tests/linalg tests/nn
else
	$(PYTEST)
endif

cover: $(VENV)/.ready  ## line and branch coverage of linalg by its own tests, at least 95 %
	$(PY) -m pytest -q tests/linalg --cov=src/rootpool/linalg --cov-branch --cov-report=term-missing --cov-fail-under=95

core: $(CORE)/.ready  ## tests of linalg and nn on the oldest Python and torch, with no extra; coverage of linalg
	$(CORE_PY) .ci/only_torch.py
	$(CORE_PY) -m pytest -q --numprocesses auto --maxprocesses 8 --dist worksteal $(CORE_PATHS) --cov=src/rootpool/linalg --cov-branch --cov-fail-under=95

portable: $(VENV)/.ready  ## the numerics as other CPUs would run them, a minute each; prints which
	$(PY) scripts/portable.py

lint: $(VENV)/.ready  ## style, format, types, layers
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo

torture: $(VENV)/.ready  ## hostile matrices and feature maps; writes docs/appendix/reliability.md (quarter of an hour)
	PYTHONPATH=tests $(PY) -m torture --record runs/torture.json
	PYTHONPATH=tests $(PY) -m torture.fuzz --seed $(SEED) --minutes 2
	$(PY) benchmarks/bits.py --output runs/bits.json
	$(PY) benchmarks/waits.py --output runs/waits.json
	@set -e; for name in torture bits waits; do \
		$(PY) scripts/record_reliability.py runs/$$name.json docs/appendix/reliability.md; done

docs: $(VENV)/.ready  ## build the documentation into site/, strictly, and check its links
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet --strict
	$(PY) scripts/check_site.py site

format: $(VENV)/.ready  ## rewrite the code in our format
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

bench: $(VENV)/.ready-bench  ## run the benchmarks and write benchmarks/results (half an hour, machine idle)
	@mkdir -p benchmarks/results
	@set -e; for name in $(BENCHMARKS); do \
		echo "== $$name"; $(PY) benchmarks/$$name.py | tee benchmarks/results/$$name.md; done
	$(PY) benchmarks/pooling.py --methods | tee benchmarks/results/methods.md
	$(PY) benchmarks/iterations.py --page docs/appendix/iterations.md

# All pages share their trainings, and go on where they were stopped.
record: $(VENV)/.ready  ## train what the pages of the documentation rest on, and write them (SEEDS=20: hours)
	rm -rf docs/appendix/paper*-pictures docs/appendix/why-pictures docs/appendix/demo-pictures
	$(PY) -m studies paper --markdown docs/appendix/paper.md $(SHARED)
	$(PY) -m studies approximation --markdown docs/appendix/why.md $(SHARED)
	$(VENV)/bin/rootpool demo --markdown docs/appendix/demo.md $(SHARED)
	$(PY) scripts/site_tables.py

paper: $(VENV)/.ready  ## measure the paper's tables and figures and write runs/paper/index.html
	$(PY) -m studies paper

approximation: $(VENV)/.ready  ## why would an approximate root be better: the study behind docs/appendix/why.md (an hour)
	$(PY) -m studies approximation

followups: $(VENV)/.ready  ## the claims of papers published since: the study behind docs/appendix/field.md
	$(PY) -m studies followups

birds: $(VENV)/.ready  ## heads on frozen features of 200 species of birds; DATA=CUB_200_2011
	$(PY) -m studies birds --data $(or $(DATA),CUB_200_2011)

# The wheel is built from the sdist, and tried where torch is all there is.
dist: $(VENV)/.ready $(CORE)/.ready  ## build the wheel and the sdist of a release into dist, and check them
	rm -rf dist build
	$(PY) -m build
	$(PY) scripts/check_dist.py dist
	$(CORE_PY) -m pip install --quiet --disable-pip-version-check --no-deps --target build dist/*.whl
	PYTHONPATH=build $(CORE_PY) -c 'import rootpool; assert "build" in rootpool.__file__, rootpool.__file__'
	PYTHONPATH=build $(CORE_PY) -m rootpool.cli doctor

clean:  ## remove environments, caches and builds
	rm -rf $(VENV) $(CORE) build dist site htmlcov .coverage .hypothesis
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find src studies tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is written last, so an interrupted set-up leaves none, and it is out of date when its sources change.
$(VENV)/.ready: pyproject.toml constraints.txt scripts/install.sh
	@echo "setting up $(VENV) (torch, torchvision, timm, Lightning and the tools: a minute, once)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "constraints.txt needs Python 3.11 or newer: try make PYTHON=python3.11")'
	@scripts/install.sh $(VENV) -c constraints.txt -e ".[studies,dev,docs]"
	@touch $@

$(VENV)/.ready-bench: $(VENV)/.ready
	@echo "adding the peers that the benchmarks compare with to $(VENV)"
	@scripts/install.sh $(VENV) -c constraints.txt -e ".[studies,dev,docs,bench]"
	@touch $@

# rootpool comes without its dependencies, so that nothing can bring another torch.
$(CORE)/.ready: pyproject.toml .ci/core.txt scripts/install.sh
	@echo "setting up $(CORE) (the oldest Python and torch, and the test tools alone)"
	@test -n "$(CORE_PYTHON)" || echo "There is no Python $(OLDEST_PYTHON) here: $(PYTHON) takes its place. CORE_PYTHON=... names one."
	@FRESH=1 PYTHON="$(or $(CORE_PYTHON),$(PYTHON))" scripts/install.sh $(CORE) -r .ci/core.txt
	@scripts/install.sh $(CORE) --no-deps -e .
	@touch $@
