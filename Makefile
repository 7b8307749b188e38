SHELL := /bin/sh
VENV := .venv
PY := $(VENV)/bin/python

build:
	@flock $(VENV)/.build.lock $(PY) setup.py -q build_ext --inplace -j2

.PHONY: build
