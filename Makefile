# Everything runs in .venv, which is made from requirements.lock when that has changed.

PYTHON ?= python3
export PYTHON

# Tests start hundreds of processes, in half the time from bytecode that is kept.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
READY := .venv/.made-from-lock

.DEFAULT_GOAL := help
.PHONY: help demo test test-faults soak check lock clean postgres

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

demo: $(READY) ## a shop's day on SQLite and Spark, in a minute; leaves demo.svg
	@$(BIN)/python examples/demo.py

test: $(READY) postgres check ## all checks, then all tests (ARGS="-k claim" for some)
	$(BIN)/pytest -n 2 $(ARGS)

soak: $(READY) postgres ## storms of kills and deadlocks for minutes (ARGS="-k storm" for some)
	HEADRACE_KILLS=$${HEADRACE_KILLS:-2000} $(BIN)/pytest tests/faults -rP $(ARGS)

test-faults: $(READY) postgres ## all faults, pipelines and streams killed 30 times and more: many minutes
	HEADRACE_PIPELINE_KILLS=$${HEADRACE_PIPELINE_KILLS:-30} $(BIN)/pytest -m '' tests/faults tests/spark/test_sink_faults.py -rP $(ARGS)

check: $(READY) ## lint, format, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

lock: $(READY) ## make requirements.lock anew from pyproject.toml
	@scripts/lock

clean: ## remove .venv and everything that tools have left
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

postgres: $(READY)
	@scripts/ensure-postgres

include bench/bench.mk

$(READY): requirements.lock
	@scripts/setup
	@touch $@
