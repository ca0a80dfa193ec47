# Everything runs in .venv, which is made from requirements.lock when that has changed.

PYTHON ?= python3
export PYTHON

# Tests start hundreds of processes, in half the time from bytecode that is kept.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
READY := .venv/.made-from-lock

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-faults soak check docs release-check lock clean postgres npm

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

demo: $(READY) ## a shop's day on SQLite and Spark, in a minute; leaves demo.svg
	@$(BIN)/python examples/demo.py

test: $(READY) postgres npm check ## all checks, then all tests (ARGS="-k claim" for some)
	$(BIN)/pytest -n 2 $(ARGS)

test-all: $(READY) postgres npm check ## the same with new random examples and the tests that test leaves out
	$(BIN)/pytest -n 2 -m '' --hypothesis-profile explore $(ARGS)

soak: $(READY) postgres npm ## storms of kills, signals, cancels and forks for many minutes (ARGS="-k storm" for some)
	HEADRACE_KILLS=$${HEADRACE_KILLS:-2000} \
	HEADRACE_INTERRUPTS=$${HEADRACE_INTERRUPTS:-1000} \
	HEADRACE_POOLER_SECONDS=$${HEADRACE_POOLER_SECONDS:-180} \
	HEADRACE_CANCELS=$${HEADRACE_CANCELS:-5000} \
	HEADRACE_LEAVES=$${HEADRACE_LEAVES:-20000} \
	$(BIN)/pytest tests/faults --hypothesis-profile explore -rP --timeout 3600 $(ARGS)

test-faults: $(READY) postgres npm ## all faults, pipelines and streams killed 30 times and more: many minutes
	HEADRACE_PIPELINE_KILLS=$${HEADRACE_PIPELINE_KILLS:-30} $(BIN)/pytest -m '' --hypothesis-profile explore tests/faults tests/spark/test_sink_faults.py -rP $(ARGS)

check: $(READY) ## generated code, lint, format, types and layers
	$(BIN)/python scripts/generate-sync --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

docs: $(READY) ## the documentation as a site in build/site; fails on a broken link
	$(BIN)/python scripts/site/build.py

release-check: $(READY) postgres ## build, install and use a release on each Python and PostgreSQL (ARGS="--fetch --strict")
	$(BIN)/python scripts/release/check.py $(ARGS)

lock: $(READY) ## make requirements.lock again from pyproject.toml
	@scripts/lock

clean: ## remove .venv and everything that tools have left
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist tests/npm/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

postgres: $(READY)
	@scripts/ensure-postgres
	@scripts/ensure-pgbouncer
	@scripts/ensure-curl

npm: $(READY)
	@scripts/ensure-node-tools

include bench/bench.mk

$(READY): requirements.lock
	@scripts/setup
	@touch $@
