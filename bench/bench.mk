# Included by the Makefile. ARGS="--quick" takes a few minutes in place of fifteen or so,
# ARGS="--only commit-1000,read" runs some cases; bench/README.md says more.

.PHONY: bench-commits bench-topics bench-queues bench-limits bench-node bench-spark bench-ready

bench-topics: bench-ready ## topics against Redis, NATS and PipeProc: a table and a chart
	@.venv/bin/python -m bench.topics $(ARGS)

bench-queues: bench-ready ## queues against pgmq, pgqueuer and others: a table and a chart
	@.venv/bin/python -m bench.queues $(ARGS)

bench-limits: bench-ready ## channels and limits against plain queues: a table and a chart
	@.venv/bin/python -m bench.limits $(ARGS)

bench-node: bench-ready ## the node against the store itself, FastAPI and PipeProc: a table and a chart
	@.venv/bin/python -m bench.node $(ARGS)

bench-spark: bench-ready ## pipelines against Spark's JDBC and Parquet: a table and a chart
	@.venv/bin/python -m bench.spark $(ARGS)

bench-commits: $(READY) postgres ## this tree against another commit: make bench-commits BEFORE=main~5
	@.venv/bin/python -m bench.commits $(BEFORE) $(ARGS)

bench-ready: $(READY)
	@test ! -x scripts/ensure-postgres || scripts/ensure-postgres
	@.venv/bin/python -m pip install -qq --disable-pip-version-check -r bench/requirements.txt
