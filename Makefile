# SPDX-License-Identifier: BSD-2-Clause
# Gramophone. Plain `make` lists what there is.
.DEFAULT_GOAL := help
.PHONY: help setup setup-test usable system system-test demo demo-mali demo-text demo-text-train demo-chat check test test-all coverage prove lint bench optee record-root record-demo demo-train generated clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What the commands need besides Python, as COMMAND:PACKAGE or FILE:PACKAGE, by Debian's names.
SYSTEM_NEEDS := qemu-system-aarch64:qemu-system-arm make:make gcc:gcc /usr/include/stdlib.h:libc6-dev \
    aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu /usr/aarch64-linux-gnu/include/stdlib.h:libc6-dev-arm64-cross \
    dpkg-source:dpkg-dev /usr/share/keyrings/debian-archive-keyring.gpg:debian-archive-keyring \
    fdtput:device-tree-compiler
# What the tests, and OP-TEE, need besides that.
TEST_NEEDS := clang:clang cppcheck:cppcheck valgrind:valgrind npm:npm cpio:cpio openssl:openssl mcopy:mtools \
    fsck.fat:dosfstools bmaptool:bmap-tools gpg:gpg gpg-agent:gpg-agent gpgv:gpgv ssh-keygen:openssh-client \
    softhsm2-util:softhsm2 groff:groff-base glslangValidator:glslang-tools /usr/include/vulkan/vulkan.h:libvulkan-dev \
    /usr/share/vulkan/icd.d:mesa-vulkan-drivers chromium:chromium dumpimage:u-boot-tools
# libFuzzer and the sanitizers, which clang's package only recommends; they lie beside its own library.
FUZZ_NEEDS = $$(dirname $$(clang --print-libgcc-file-name --rtlib=compiler-rt))/libclang_rt.fuzzer-$$(uname -m).a:libclang-rt-dev
OPTEE_NEEDS := /usr/include/openssl/ec.h:libssl-dev
# What the proof needs; Debian 12 has it.
PROVE_NEEDS := frama-c:frama-c-base why3:why3 cvc4:cvc4
KAITAI := build/npm/node_modules/kaitai-struct-compiler
NPM_FILES := tests/npm/package.json tests/npm/package-lock.json

help: ## this list
	@awk -F ':.*## ' '/^##@/{printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' \
	    $(MAKEFILE_LIST)

##@ Set up

setup: system $(BIN)/.installed $(BIN)/.virtual-gpu ## what every target needs, in .venv and from packages

setup-test: MORE_NEEDS = $(TEST_NEEDS) $(OPTEE_NEEDS)
setup-test: setup system-test $(KAITAI) ## what the tests need besides that

# $(call need,NEEDS): install the packages of what is missing, and no others. Of two makes at once, one installs.
define need
	@export PATH="$$PATH:/usr/sbin:/sbin"; \
	missing() { for need in $(1); do \
	    command -v "$${need%:*}" >/dev/null || [ -e "$${need%:*}" ] || echo "$${need#*:}"; \
	done | sort -u | xargs; }; \
	[ -n "$$(missing)" ] || exit 0; \
	exec 9</ && flock 9; \
	packages=$$(missing); [ -n "$$packages" ] || exit 0; \
	echo "installing packages: $$packages" >&2; \
	if [ "$$(id -u)" = 0 ]; then run=env; else run="sudo env"; fi; \
	! command -v $${run%% *} >/dev/null || { \
	    $$run apt-get update -qq; \
	    $$run DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$packages >/dev/null; \
	}; \
	packages=$$(missing); [ -z "$$packages" ] || \
	    { echo "error: packages are missing and could not be installed; as root: apt-get install $$packages" >&2; exit 2; }
endef

# What cannot be installed is said before anything is.
usable:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	    { echo "error: expected Python 3.11 or newer, found $$($(PYTHON) --version 2>/dev/null || echo no $(PYTHON));" \
	        "make PYTHON=... takes another, Debian's is: apt-get install python3-venv" >&2; exit 2; }
	@[ -w . ] || { echo "error: $(CURDIR) cannot be written to; clone it into a folder that can" >&2; exit 2; }

system: usable
	$(call need,$$($(PYTHON) -c 'import ensurepip' 2>/dev/null || echo ensurepip:python3-venv) $(SYSTEM_NEEDS) $(MORE_NEEDS))

system-test: usable
	$(call need,$(TEST_NEEDS) $(OPTEE_NEEDS))
	$(call need,$(FUZZ_NEEDS))

# Checks the Kaitai description; the tests that use it say so and are skipped where it cannot be obtained.
$(KAITAI): $(NPM_FILES)
	-@exec 9<. && flock 9; [ $@ -nt tests/npm/package-lock.json ] || \
	    { mkdir -p build/npm && cp $(NPM_FILES) build/npm && \
	      npm ci --silent --no-audit --no-fund --ignore-scripts --prefix build/npm >/dev/null && touch $@; }

# $(call pip,FILE): install what a file of pins names, and nothing whose hash is not in it: no source, which would run
# what it is built with.
pip = $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $(1)

$(BIN)/.installed: pyproject.toml constraints.txt | system
	@exec 9<. && flock 9; [ $@ -nt pyproject.toml ] && [ $@ -nt constraints.txt ] || \
	    { $(PYTHON) -m venv $(VENV) && \
	      $(call pip,constraints.txt) && \
	      $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . && \
	      $(BIN)/python -m host_tools.cli manual -q >/dev/null && touch $@; } || \
	    { echo "error: $(VENV) could not be filled with what constraints.txt names; pip needs PyPI, or a mirror" >&2; exit 2; }

# Compiled before its first use, which would take a minute longer.
$(BIN)/.virtual-gpu: $(BIN)/.installed
	@exec 9<. && flock 9; [ $@ -nt $< ] || { $(BIN)/python -c 'from host_tools import vgpu; vgpu.library(), vgpu.qemu_plugin()' && touch $@; }

clean: ## remove what was built here
	rm -rf build $(VENV)

##@ Use

demo: setup ## sign the committed recording, boot the secure world, classify digits, refuse a tampered trace
	@$(BIN)/python -m host_tools.demo

demo-text: setup-test record-root ## record a language model, write text in the secure world (ARGS="--prompt TEXT --on optee")
	@$(BIN)/python -m docs.examples.text.demo $(ARGS)

demo-chat: setup record-root ## record SmolLM2 (135 million parameters), ask it in the secure world (ARGS="--prompt TEXT")
	@$(BIN)/python -m docs.examples.chat $(ARGS)

RECORDINGS ?= $(or $(GRAMOPHONE_RECORDINGS),../shared/recordings)
demo-mali: setup ## the same with GPUReplay's recording of a Mali, and trained weights: docs/INSTALL.md (RECORDINGS=FOLDER)
	@$(BIN)/python -m docs.examples.mali $(RECORDINGS)/gpureplay $(ARGS)

optee: setup ## build TF-A and OP-TEE with the replayer as a pseudo-TA, boot them in QEMU, replay
	$(call need,$(OPTEE_NEEDS))
	@$(BIN)/python -m host_tools.demo.optee

record-root: setup ## kernel, Mesa and ncnn for recordings, from packages, into the user's cache
	$(BIN)/python -m host_tools.machine.root

##@ Check

# Tests that need neither a cross compiler nor an emulator, without the two files that take longest.
FAST_TESTS := tests/unit tests/vgpu --ignore=tests/vgpu/test_passes.py --ignore=tests/vgpu/test_qpu_alu.py
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

check: lint ## lint and the fast tests: three minutes
	$(PYTEST) $(FAST_TESTS)

test: lint ## all tests; of those with many like cases a sample
	$(PYTEST)

test-all: lint ## all tests, with all of their cases: hours (TESTS=... for some only)
	$(PYTEST) --exhaustive $(TESTS)

coverage: setup-test ## lines and branches that `make test` executes, in Python and C (TESTS=... for some only)
	$(BIN)/python -m tests.coverage run sampled -n 2 --dist worksteal $(TESTS)
	$(if $(TESTS),,$(BIN)/python -m tests.coverage floor sampled)

.PHONY: coverage-floor
coverage-floor: setup-test ## unit tests of formats, signatures, logs and images, and whether they execute as much of it as tests/coverage/floor.toml asks
	$(BIN)/python -m tests.coverage floor

.PHONY: campaign
campaign: setup ## inject faults into verification and loading, on both GPUs; prints a table (ARGS="--case old --fault skip")
	$(BIN)/python -m tests.campaign $(ARGS)

prove: setup ## the replayer's C against its contracts, with Frama-C; planted defects must be found
	@command -v frama-c >/dev/null || echo "the proof needs Frama-C: Debian 12 has it, Debian 13 has not" >&2
	$(call need,$(PROVE_NEEDS))
	@$(BIN)/python -m tests.proof $(ARGS)

.PHONY: fuzz
fuzz: setup-test ## fuzz what reads an attacker's bytes, ten minutes in all; prints a table (ARGS="--minutes 2 --target lz4")
	@$(BIN)/python -c 'import atheris' 2>/dev/null || \
	    $(call pip,constraints-fuzz.txt) || \
	    echo "no Atheris for this Python: the parsers get plain mutation" >&2
	@$(BIN)/python -m tests.fuzz $(ARGS)

lint: setup-test ## ruff, mypy, clang-format, cppcheck, plain English, generated files up to date
	@$(MAKE) --no-print-directory -j2 --output-sync=target lint-types lint-text

.PHONY: lint-types lint-text
lint-types:
	$(BIN)/python -m mypy
lint-text:
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m trace_format.emit --check
	$(BIN)/python -m host_tools.gpus.mali.emit --check
	$(BIN)/python -m tests.plain_english
	$(BIN)/python -m docs.json_page --check
	git ls-files '*.c' '*.h' | xargs $(BIN)/clang-format --dry-run -Werror
	cppcheck -j 2 --quiet --std=c11 --error-exitcode=1 --inline-suppr --enable=warning,performance,portability \
	    --library=.cppcheck.cfg --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches --suppress=toomanyconfigs $$(git ls-files '*.c')

.PHONY: api
# tinygrad looks for a device when it is imported. Most compile, and pdoc keeps modules from starting programs.
api: setup ## pages on the Python API, from its docstrings, in build/api
	DEV=PYTHON $(BIN)/python -m pdoc -d google -o build/api gramophone signing trace_format host_tools.runners host_tools.passes host_tools.record tee_replayer

.PHONY: site
site: api ## the documents as a site, in build/site: links checked, searched without a server, the API included
	rm -rf build/site
	$(BIN)/python -m sphinx -q -W --keep-going -b html -c docs/site -d build/site-doctrees . build/site
	cp build/site/README.html build/site/index.html
	cp -r build/api build/site/api

.PHONY: wheel
wheel: setup ## the wheel of this commit, in build/dist; from a clean clone it is the release's, byte for byte
	rm -rf build/dist build/lib build/bdist.*
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m pip wheel --quiet --disable-pip-version-check \
	    --no-deps --no-build-isolation --wheel-dir build/dist .

##@ Measure

bench: setup system-test ## measure; prints tables, and what has changed since the last time (build/bench.jsonl)
	$(BIN)/python -m tests.bench --history build/bench.jsonl

.PHONY: size-diff
BASE ?= HEAD
size-diff: setup ## code, data and stack of the firmware by function, against the last commit or BASE=COMMIT
	@$(BIN)/python -m tests.bench.size_diff --base $(BASE) $(ARGS)

##@ Make again what is in the tree

generated: setup ## descriptions of the format from the schema, of registers and descriptors from their tables; floors.svg
	$(BIN)/python -m trace_format.emit
	$(BIN)/python -m host_tools.gpus.mali.emit
	$(BIN)/python -m docs.json_page
	$(BIN)/python -m tests.support.floors

record-demo: setup record-root ## record the demo network and compare with the committed recording
	$(BIN)/python -m host_tools.demo.record

.PHONY: screenshot
screenshot: setup ## docs/report.png, the picture of a report in the README
	$(call need,chromium:chromium)
	@$(BIN)/python -m docs.screenshot

demo-train: setup ## train the demo network
	$(BIN)/python -m docs.examples.train

demo-text-train: setup ## train the language model of demo-text
	$(BIN)/python -m docs.examples.text.train

.PHONY: constraints
constraints: system ## the newest versions of all dependencies, with hashes, as those that the tests are then run with (ARGS=--keep)
	rm -rf build/constraints
	$(PYTHON) -m venv build/constraints
	build/constraints/bin/python -m tests.packaging.pins $(ARGS)
	rm -rf build/constraints
	@git --no-pager diff --stat constraints.txt constraints-fuzz.txt
