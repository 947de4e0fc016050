PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# One thread a process: tests run in parallel, and a second thread under load is slower than one.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1

.PHONY: demo test test-all lint bench docs sbom clean

demo: $(READY)  ## Run the families on generated data and write an HTML report.
	$(BIN)/cotempo demo

test: lint  ## Everything that must hold; about 11 minutes on two cores.
	$(BIN)/pytest -n 2 --dist loadgroup -m "not slow"

test-all: lint  ## The same, and the slow tests.
	$(BIN)/pytest -n 2 --dist loadgroup

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)  ## Measure; figures go to benchmarks/results/.
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/networks/fdbnl.py

docs: $(READY)  ## Build the documentation into docs/_build/html; a number that differs from its file stops it.
	$(BIN)/cotempo bench check
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

sbom: $(READY)  ## Write what cotempo[flower] is made of, as installed here, to dist/cotempo.cdx.json.
	mkdir -p dist
	$(BIN)/python .ci/sbom.py > dist/cotempo.cdx.json

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf .venv docs/_build runs
