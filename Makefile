# Gramophone. `make` alone lists what there is.
.DEFAULT_GOAL := help
.PHONY: help setup system demo test test-fast lint bench record-root record-demo demo-train generated clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What the commands need besides Python, by Debian package name.
SYSTEM_PACKAGES := qemu-system-arm gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc libc6-dev make \
    clang-format cppcheck valgrind npm dpkg-dev
SYSTEM_COMMANDS := qemu-system-aarch64 aarch64-linux-gnu-gcc gcc clang-format cppcheck valgrind npm dpkg-source

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: system $(BIN)/.installed ## everything that the other targets need, in .venv and from packages

system:
	@missing=; for c in $(SYSTEM_COMMANDS); do command -v $$c >/dev/null || missing="$$missing $$c"; done; \
	if [ -n "$$missing" ]; then \
	    echo "installing packages for:$$missing" >&2; \
	    if [ "$$(id -u)" = 0 ]; then run=; else run=sudo; fi; \
	    $$run apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive $$run apt-get install -y -qq --no-install-recommends $(SYSTEM_PACKAGES) >/dev/null || \
	    { echo "error: could not install; as root: apt-get install $(SYSTEM_PACKAGES)" >&2; exit 2; }; \
	fi

$(BIN)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: setup ## record-free tour: sign, generate, boot the secure world, classify digits, refuse a tampered trace
	@$(BIN)/python -m host_tools.demo

test: setup lint ## all tests and checks
	$(BIN)/python -m pytest -n 2

lint: setup ## ruff, mypy, clang-format, cppcheck, generated files up to date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m trace_format.emit --check
	git ls-files '*.c' '*.h' | xargs clang-format --dry-run -Werror
	cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr --enable=warning,performance,portability \
	    --suppress=missingIncludeSystem $$(git ls-files '*.c')

generated: setup ## write anew what is generated from the schema
	$(BIN)/python -m trace_format.emit

bench: setup ## measure; prints tables
	$(BIN)/python -m tests.bench

record-root: setup ## kernel, Mesa and ncnn for recordings, from packages, into the user's cache
	$(BIN)/python -m host_tools.record.root

record-demo: setup record-root ## record the demo network anew and compare with the committed recording
	$(BIN)/python -m host_tools.demo.record

demo-train: setup ## train the demo network anew
	$(BIN)/python -m host_tools.demo.train

clean: ## remove what was built here
	rm -rf build $(VENV)
