# Everything is set up in .venv of this checkout (further ones of the matrix in .venvs), once: `make test` and `make demo` need Python 3.11+ and a JDK 17, no more.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:

VENV ?= .venv
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest
BROKER ?= embedded
CLUSTER ?= local
ARGS ?=

.PHONY: help setup build test test-fast test-matrix lint format types docs demo dist bench bench-check clean distclean java

help: ## say what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-10s %s\n", $$1, $$2}'

$(VENV)/.ready: setup.cfg
	@PYTHON="$(PYTHON)" tools/setup.sh $(VENV) gevent,spark,rdkafka,proxy,cli,test

$(VENV)/.ready-lint: $(VENV)/.ready
	@PYKAFKA_PURE_PYTHON=1 tools/setup.sh $(VENV) gevent,spark,rdkafka,proxy,cli,test,lint,docs $@

$(VENV)/.ready-bench: $(VENV)/.ready
	@PYKAFKA_PURE_PYTHON=1 tools/setup.sh $(VENV) gevent,spark,rdkafka,proxy,cli,test,bench $@

$(VENV)/.ready-dist: $(VENV)/.ready
	@PYKAFKA_PURE_PYTHON=1 tools/setup.sh $(VENV) gevent,spark,rdkafka,proxy,cli,test,dist $@

# With an archive of its classes Spark starts in half the CPU time.
$(VENV)/.ready-classes: $(VENV)/.ready | java build
	@echo "setup: making an archive of Spark's classes, once (a minute)"
	@$(PY) -m tests.support.spark.classes
	@touch $@

java:
	@tools/need_java.sh make

setup: $(VENV)/.ready ## make the virtual environment

build: $(VENV)/.ready ## compile the modules that have a .pxd, in place
	@$(PY) tools/build.py

test: java build $(VENV)/.ready-classes .venvs/spark42/.ready ## all tests: pure and compiled, real Kafka, examples, Spark 4.3 and 4.2; tools/parts.py says in which parts
	@$(PY) -m tools.matrix --jobs auto $(TIMES) test

# tools/running.py asks for the environments with another Python or PySpark. .venv has compiled the modules in place.
# What the newest one has no wheels for is left out.
.venvs/python3.15/.ready: RDKAFKA =
RDKAFKA = rdkafka,
.venvs/python%/.ready: setup.cfg $(VENV)/.ready
	@python="$$($(PY) -m tools.pythons $*)" && PYKAFKA_PURE_PYTHON=1 PYTHON="$$python" tools/setup.sh .venvs/python$* gevent,spark,$(RDKAFKA)proxy,cli,test

.venvs/gssapi/.ready: setup.cfg $(VENV)/.ready
	@PYKAFKA_PURE_PYTHON=1 PYTHON="$(PYTHON)" tools/setup.sh .venvs/gssapi gevent,gssapi,rdkafka,proxy,cli,test

.venvs/pools/.ready: setup.cfg $(VENV)/.ready
	@PYKAFKA_PURE_PYTHON=1 PYTHON="$(PYTHON)" tools/setup.sh .venvs/pools gevent,rdkafka,proxy,cli,test,pools

# The releases of PySpark whose own connector is published, as ours is compared with it.
SPARK40 = 4.0.1
SPARK41 = 4.1.1
SPARK42 = 4.2.0

.venvs/spark4%/.ready: setup.cfg $(VENV)/.ready
	@PYKAFKA_PURE_PYTHON=1 CONSTRAINT="pyspark==$(SPARK4$*)" PYTHON="$(PYTHON)" tools/setup.sh .venvs/spark4$* gevent,spark,rdkafka,proxy,cli,test

test-matrix: java build ## every Kafka from 0.8.2.2 on, and more; PARTS="core-1.1.1 ..." for some (python -m tools.matrix --list)
	@$(PY) -m tools.matrix $(PARTS)

test-fast: build ## the tests that need no Java and no patience
	$(PYTEST) $(ARGS) -m "not slow and not kafka and not spark" tests/unit tests/property tests/contract tests/regressions tests/embedded tests/integration

format: $(VENV)/.ready-lint ## bring all Python files into the form that lint wants
	$(VENV)/bin/ruff check --fix-only --quiet .
	$(VENV)/bin/ruff format .

lint: $(VENV)/.ready-lint types ## ruff, mypy, pyright, import-linter, the picture of the rooms, what is made from the options
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check --quiet . || { echo "make format brings the files into form"; exit 1; }
	$(VENV)/bin/lint-imports --config setup.cfg
	$(PY) -m tools.rooms --check
	$(PY) -m tools.options --check
	$(PY) -m tools.metric_table --check

types: $(VENV)/.ready-lint ## mypy, and pyright on tests/typing
	$(PY) -m mypy
	$(PY) -m pyright --pythonpath $(PY)

# An environment of its own, without the package: the pages need no compiler and no Spark.
.venvs/docs/.ready: setup.cfg
	@PYTHON="$(PYTHON)" tools/setup.sh .venvs/docs docs

docs: .venvs/docs/.ready ## the pages and the reference as HTML in build/docs, without compiler or Spark; warnings are errors
	@rm -rf build/docs
	.venvs/docs/bin/python -m sphinx --fail-on-warning --keep-going --nitpicky --quiet --fresh-env -d build/docs-doctrees docs build/docs
	@echo "docs: build/docs/index.html"

demo: java build ## the flights job; BROKER=kafka, kafka-sasl or host:port for real Kafka; CLUSTER=spark for two workers, one killed
	@$(PY) -m examples.flights --broker "$(BROKER)" --cluster "$(CLUSTER)" $(ARGS)

dist: $(VENV)/.ready-dist ## build wheel (manylinux) and sdist, and try both in clean environments, compiled and pure
	@$(PY) tools/dist_check.py

bench: java build $(VENV)/.ready-bench ## this client and others on real Kafka; ARGS="--all" or workloads (python -m benchmarks list)
	$(PY) -m benchmarks run $(ARGS)

bench-check: build ## instructions a message, counted by callgrind; ARGS=--update makes a new baseline
	@$(PY) -m benchmarks instructions $(ARGS)

clean: ## remove what was built
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .tox
	find pykafka handlers -name '*.so' -delete -o -name '*.c' -delete
	find . -path ./$(VENV) -prune -o -path ./.venvs -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean ## remove the virtual environments as well
	rm -rf $(VENV) .venvs
