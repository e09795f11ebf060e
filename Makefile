# Every target sets up the environment that it needs; `make PYTHON=python3.12 test` picks the interpreter.
PYTHON ?= python3
PIP_INSTALL := -m pip install --quiet --quiet --disable-pip-version-check

VENV := .venv
CORE := .venv-core
PY := $(VENV)/bin/python
CORE_PY := $(CORE)/bin/python

OLDEST_TORCH := 2.13.0
BENCHMARKS := eigh matrix_functions pooling models import_time
LINALG_PATHS := $(wildcard tests/linalg src/rootpool/linalg)
CORE_PATHS := $(LINALG_PATHS) $(wildcard tests/nn src/rootpool/nn tests/cli/test_doctor.py)

.DEFAULT_GOAL := help
.PHONY: help demo test cover core lint docs torture format bench record paper dist clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

demo: $(VENV)/.ready  ## compare the methods on embedded photographs and write a page (three minutes)
	$(VENV)/bin/rootpool demo

# A process a core, with one thread each; `make core` runs the numerics with all threads.
test: $(VENV)/.ready  ## run all tests and doctests
	OMP_NUM_THREADS=1 $(PY) -m pytest -q --numprocesses auto --maxprocesses 8 --dist worksteal

cover: $(VENV)/.ready  ## line and branch coverage of linalg by its own tests, at least 95 %
	$(PY) -m pytest -q $(LINALG_PATHS) --cov=src/rootpool/linalg --cov-branch --cov-report=term-missing --cov-fail-under=95

core: $(CORE)/.ready  ## tests of linalg and nn on the oldest torch, with no extra installed; coverage of linalg
	$(CORE_PY) .ci/only_torch.py $(OLDEST_TORCH)
	$(CORE_PY) -m pytest -q $(CORE_PATHS) --cov=src/rootpool/linalg --cov-branch --cov-fail-under=95

lint: $(VENV)/.ready  ## style, format, types, layers
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo

torture: $(VENV)/.ready  ## hostile matrices, feature maps and kills; writes docs/reliability.md (quarter of an hour)
	PYTHONPATH=tests $(PY) -m torture --record runs/torture.json
	PYTHONPATH=tests $(PY) tests/kills.py --kills 20 --output runs/kills.json
	$(PY) scripts/record_reliability.py runs/torture.json docs/reliability.md
	$(PY) scripts/record_reliability.py runs/kills.json docs/reliability.md

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
	$(PY) benchmarks/pooling.py --plot benchmarks/results/pooling.png

record: $(VENV)/.ready  ## run the demo with five seeds of every method and write docs/demo.md (half an hour)
	$(VENV)/bin/rootpool demo --seeds 5 --methods all --output runs/record
	rm -rf docs/demo-pictures
	$(PY) scripts/record_demo.py runs/record/results.json docs/demo.md

paper: $(VENV)/.ready  ## measure the paper's tables and figures and write runs/paper/report.html
	$(VENV)/bin/rootpool paper

# The wheel is built from the sdist, and tried where torch is all there is.
dist: $(VENV)/.ready $(CORE)/.ready  ## build the wheel and the sdist of a release into dist, and check them
	rm -rf dist build
	$(PY) -m build
	$(PY) scripts/check_dist.py dist
	$(CORE_PY) $(PIP_INSTALL) --no-deps --target build dist/*.whl
	PYTHONPATH=build $(CORE_PY) -c 'import rootpool; assert "build" in rootpool.__file__, rootpool.__file__'
	PYTHONPATH=build $(CORE_PY) -m rootpool.cli doctor

clean:  ## remove environments, caches and builds
	rm -rf $(VENV) $(CORE) build dist site htmlcov .coverage .hypothesis
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is older than its sources after a change of either file, and pip then brings the environment up to date.
$(VENV)/.ready: pyproject.toml constraints.txt
	@echo "setting up $(VENV) (torch, torchvision, timm, Lightning and the tools: some minutes, once)"
	@$(call venv,$(VENV))
	@$(PY) $(PIP_INSTALL) -c constraints.txt -e ".[birds,dev,docs]"
	@touch $@

$(VENV)/.ready-bench: $(VENV)/.ready
	@echo "adding the peers that the benchmarks compare with to $(VENV)"
	@$(PY) $(PIP_INSTALL) -c constraints.txt -e ".[birds,dev,docs,bench]"
	@touch $@

# torch comes first and by itself, so that nothing below can bring another one.
$(CORE)/.ready: pyproject.toml constraints.txt Makefile
	@echo "setting up $(CORE) (torch $(OLDEST_TORCH) and the test tools alone)"
	@rm -rf $(CORE)
	@$(call venv,$(CORE))
	@$(CORE_PY) $(PIP_INSTALL) torch==$(OLDEST_TORCH)
	@$(CORE_PY) $(PIP_INSTALL) -c constraints.txt pytest pytest-cov hypothesis mpmath numpy
	@$(CORE_PY) $(PIP_INSTALL) --no-deps -e .
	@touch $@

define venv
test -x $(1)/bin/python || { \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "constraints.txt needs Python 3.11 or newer: try make PYTHON=python3.11")' \
	&& $(PYTHON) -m venv $(1); }
endef
