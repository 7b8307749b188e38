# Everything is set up in .venv of this checkout, once: `make test` and `make demo` need Python 3.11+ and a JDK 17, no more.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:

VENV ?= .venv
VENV42 ?= .venv-spark42
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest
BROKER ?= embedded
ARGS ?=

.PHONY: help setup build test test-fast test-pure test-spark42 test-core test-matrix lint types demo dist bench clean distclean java

help: ## say what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-10s %s\n", $$1, $$2}'

$(VENV)/.ready: setup.cfg
	@PYTHON="$(PYTHON)" tools/setup.sh $(VENV) gevent,spark,rdkafka,cli,test

$(VENV)/.ready-lint: $(VENV)/.ready
	@PYKAFKA_PURE_PYTHON=1 tools/setup.sh $(VENV) gevent,spark,rdkafka,cli,test,lint $@

$(VENV)/.ready-bench: $(VENV)/.ready
	@PYKAFKA_PURE_PYTHON=1 tools/setup.sh $(VENV) gevent,spark,rdkafka,cli,test,bench $@

$(VENV)/.ready-dist: $(VENV)/.ready
	@PYKAFKA_PURE_PYTHON=1 tools/setup.sh $(VENV) gevent,spark,rdkafka,cli,test,dist $@

java:
	@tools/need_java.sh make

setup: $(VENV)/.ready ## make the virtual environment

build: $(VENV)/.ready ## compile the modules that have a .pxd, in place
	@$(PY) tools/build.py

# The pure sources first: they are the smaller part, and pytest's closing lines are then those of the whole.
test: java build test-pure test-spark42 test-core ## all tests: pure and compiled, real Kafka, examples, Spark 4.3 and 4.2
	$(PYTEST) $(ARGS) -m "not matrix" tests

test-pure: java build
	PYKAFKA_PURE_PYTHON=1 $(PYTEST) $(ARGS) -m "not slow" --ignore=tests/integration/test_brokers.py \
		tests/unit tests/property tests/contract tests/regressions tests/integration

# The compiled modules lie in the checkout, where the first environment has put them.
$(VENV42)/.ready: setup.cfg $(VENV)/.ready
	@PYKAFKA_PURE_PYTHON=1 CONSTRAINT="pyspark==4.2.*" PYTHON="$(PYTHON)" tools/setup.sh $(VENV42) gevent,spark,rdkafka,test

test-spark42: java build $(VENV42)/.ready ## the Spark tests once more, on PySpark 4.2
	$(VENV42)/bin/python -m pytest $(ARGS) tests/spark

test-core: java build ## what every Kafka must do, on 0.9.0.1 and 2.8.2
	$(PY) tools/matrix.py core-0.9.0.1 core-2.8.2

test-matrix: java build ## the tests on every Kafka from 0.8.2.2 on; PARTS="core-1.1.1 ..." for some (tools/matrix.py --list)
	$(PY) tools/matrix.py $(PARTS)

test-fast: build ## the tests that need no Java and no patience
	$(PYTEST) $(ARGS) -m "not slow and not kafka and not spark" tests/unit tests/property tests/contract tests/regressions tests/integration

lint: $(VENV)/.ready-lint types ## ruff, mypy, import-linter
	$(VENV)/bin/ruff check .
	$(VENV)/bin/lint-imports --config setup.cfg

types: $(VENV)/.ready-lint ## mypy only
	$(PY) -m mypy

demo: java build ## the flights job; BROKER=kafka or BROKER=host:port for real Kafka
	@$(PY) -m examples.flights --broker "$(BROKER)" $(ARGS)

dist: $(VENV)/.ready-dist ## build wheel and sdist, and try both in clean environments, compiled and pure
	@$(PY) tools/dist_check.py

bench: java build $(VENV)/.ready-bench ## 1,000,000 messages with this client and with others, on real Kafka
	$(PY) -m benchmarks $(ARGS)

clean: ## remove what was built
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .tox
	find pykafka handlers -name '*.so' -delete -o -name '*.c' -delete
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean ## remove the virtual environment as well
	rm -rf $(VENV) $(VENV42)
