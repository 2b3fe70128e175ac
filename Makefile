# Gramophone. `make` alone lists what there is.
.DEFAULT_GOAL := help
.PHONY: help setup setup-test system system-test demo test lint bench optee record-root record-demo demo-train generated clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What the commands need besides Python, by Debian package name.
SYSTEM_PACKAGES := qemu-system-arm gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc libc6-dev make dpkg-dev dosfstools mtools
SYSTEM_COMMANDS := qemu-system-aarch64 aarch64-linux-gnu-gcc gcc make dpkg-source mcopy /usr/sbin/mkfs.fat
# What the tests need beside that.
TEST_PACKAGES := clang clang-format cppcheck valgrind npm cpio libssl-dev
TEST_COMMANDS := clang clang-format cppcheck valgrind npm cpio /usr/include/openssl/ec.h
KAITAI := build/npm/node_modules/kaitai-struct-compiler

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: system $(BIN)/.installed ## what every target needs, in .venv and from packages

setup-test: setup system-test $(KAITAI) ## what the tests need beside that

# $(call install,COMMANDS,PACKAGES): the packages, unless all commands (and files) are there
define install
	@missing=; for c in $(1); do command -v $$c >/dev/null || [ -e $$c ] || missing="$$missing $$c"; done; \
	if [ -n "$$missing" ]; then \
	    echo "installing packages for:$$missing" >&2; \
	    if [ "$$(id -u)" = 0 ]; then run=; else run=sudo; fi; \
	    $$run apt-get update -qq && \
	    $$run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(2) >/dev/null || \
	    { echo "error: could not install; as root: apt-get install $(2)" >&2; exit 2; }; \
	fi
endef

system:
	$(call install,$(SYSTEM_COMMANDS),$(SYSTEM_PACKAGES))

system-test:
	$(call install,$(TEST_COMMANDS),$(TEST_PACKAGES))

# Checks the Kaitai description; the tests that use it say so and are skipped where it cannot be had.
$(KAITAI):
	-@npm install --silent --no-audit --no-fund --prefix build/npm kaitai-struct-compiler@0.11.0 >/dev/null

$(BIN)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: setup ## sign the committed recording, boot the secure world, classify digits, refuse a tampered trace
	@$(BIN)/python -m host_tools.demo

test: setup-test lint ## all tests and checks
	$(BIN)/python -m pytest -n 2

lint: setup-test ## ruff, mypy, clang-format, cppcheck, generated files up to date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m trace_format.emit --check
	git ls-files '*.c' '*.h' | xargs clang-format --dry-run -Werror
	cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr --enable=warning,performance,portability \
	    --suppress=missingIncludeSystem $$(git ls-files '*.c')

generated: setup ## write anew what is generated from the schema
	$(BIN)/python -m trace_format.emit

bench: setup system-test ## measure; prints tables
	$(BIN)/python -m tests.bench

optee: setup ## build TF-A and OP-TEE with the replayer as a pseudo-TA, boot them in QEMU, replay
	$(call install,/usr/include/openssl/sha.h,libssl-dev)
	@$(BIN)/python -m host_tools.demo.optee

record-root: setup ## kernel, Mesa and ncnn for recordings, from packages, into the user's cache
	$(BIN)/python -m host_tools.machine.root

record-demo: setup record-root ## record the demo network anew and compare with the committed recording
	$(BIN)/python -m host_tools.demo.record

demo-train: setup ## train the demo network anew
	$(BIN)/python -m host_tools.demo.train

clean: ## remove what was built here
	rm -rf build $(VENV)
