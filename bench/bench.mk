# Included by the Makefile. ARGS="--quick" takes two minutes in place of fifteen,
# ARGS="--only commit-1000,read" runs some cases; bench/README.md says more.

.PHONY: bench-topics

bench-topics: $(READY) ## topics against Redis, NATS and PipeProc: a table and a chart
	@test ! -x scripts/ensure-postgres || scripts/ensure-postgres
	@.venv/bin/python -m pip install -qq --disable-pip-version-check -r bench/requirements.txt
	@.venv/bin/python -m bench.topics $(ARGS)
