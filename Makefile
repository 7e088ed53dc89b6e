# make help shows the targets. Everything lands in .venv, target and results; `make clean` removes it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
# Run three jobs at once, so that downloads and steps with one thread run beside a compiler. Without the unexport, cargo
# would warn about make's job server.
MAKEFLAGS += --no-builtin-rules --no-print-directory --jobs=3
unexport MAKEFLAGS
ifneq ($(filter clean,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif

BIN := .venv/bin
STUDY := results/kulve2003
SITE := results/site
WHEEL := results/wheel
# As `make build` makes it: simulations may be up to 15 % slower than with the full profile.
EXTENSION := target/quick/release/lib_core.so
# The package with an extension of the full profile, for whatever measures.
FULL := target/full
COMMIT := python/lasthop/COMMIT
# What a guest kernel starts; made by `make kernel`, and kept up to date from then on.
GUEST := python/lasthop/engines/kernel/guest
# Linked statically, as the guest has no libraries. Only the last step gets the flag, so the extension's artefacts serve.
STATIC_GUEST := cargo rustc --locked --release --package lasthop-py --bin lasthop-guest -- \
	-C target-feature=+crt-static -C strip=symbols

# maturin, clippy and the tests share one environment, so that none of them rebuilds what another has built. pyo3 reads
# a file instead of asking Python, so that .venv and the extension can be made at the same time.
export PYTHON ?= python3
export VIRTUAL_ENV := $(CURDIR)/.venv
export PYO3_CONFIG_FILE := $(CURDIR)/crates/lasthop-py/pyo3.config
export PYO3_BUILD_EXTENSION_MODULE := 1
unexport CONDA_PREFIX PYTHONHOME PYTHONPATH
# Packages are compiled when they are first used. Kept nowhere, that would cost every process seconds.
unexport PYTHONDONTWRITEBYTECODE

# What the engine does often, counted by `make pgo`: the compiler arranges the code by it, and simulations take a fifth less
# time. The counts fit one compiler; another builds without them. So does who sets flags of his own.
COUNTS := $(wildcard benches/pgo/rustc-$(word 2,$(shell rustc --version 2>/dev/null)).profdata)
ifeq ($(RUSTFLAGS)$(CARGO_ENCODED_RUSTFLAGS),)
PGO := $(COUNTS:%=CARGO_ENCODED_RUSTFLAGS='-Cprofile-use=$(CURDIR)/%')
endif
QUICK := $(PGO) CARGO_TARGET_DIR=target/quick RUSTC_WRAPPER=$(CURDIR)/scripts/rustc-quick

# What the extension module is made of; the Python files are used in place.
EXTENSION_SOURCES := Cargo.toml Cargo.lock pyproject.toml scripts/rustc-quick $(COUNTS) \
	$(shell find crates -type f -not -path '*/tests/*')

LONG_RUST := cargo test --locked --tests --package

.PHONY: help build dev full commit demo kernel test test-long lint test-rust test-python docs wheel budget bench \
	bench-peers pgo clean lint-rust lint-python guest-kernel system lint-tools kernel-tools test-tools budget-tools peer-tools pgo-tools long-tools

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

build: $(BIN)/lasthop $(wildcard $(GUEST)) commit ## set everything up: system packages, .venv, the lasthop command

# Results name the commit that made them.
commit:
	@git --no-optional-locks describe --always --dirty >$(COMMIT) 2>/dev/null || echo unknown >$(COMMIT)

# The extension as the Rust tests compile it, which takes seconds; `make build` brings the quick one back.
dev: .venv/.packages commit ## compile what has changed, for trying it out: slow simulations, with assertions
	CARGO_INCREMENTAL=1 PIP_NO_INDEX=1 PIP_QUIET=1 $(BIN)/maturin develop --locked
	@touch --date=@0 $(BIN)/lasthop

full: .venv/.packages commit
	$(PGO) cargo build --locked --release --package lasthop-py --lib
	rm -rf $(FULL)
	mkdir $(FULL)
	@# Without what other steps may be writing now.
	tar --create --dereference --exclude=__pycache__ --exclude='_core*.so' --exclude=kernel/guest --directory python lasthop | \
		tar --extract --directory $(FULL)
	cp target/release/lib_core.so $(FULL)/lasthop/_core.abi3.so

demo: build ## run ten sets of the study kulve2003, say where their report is and how many statements hold
	$(BIN)/lasthop study run kulve2003 --sets 10 --out $(STUDY)
	@test -s $(STUDY)/report.html
	@echo "Report: $(CURDIR)/$(STUDY)/report.html"
	@$(BIN)/lasthop check results $(STUDY) | grep '^statements:'

kernel: build guest-kernel $(GUEST) ## set up the kernel engine: build a guest kernel and what runs in it

# `lasthop kernel` by another name: the command needs the extension, and this runs while that is being compiled.
guest-kernel: KERNEL := PYTHONPATH=python $(BIN)/python -m lasthop.commands.kernel
guest-kernel: .venv/.packages kernel-tools
	$(KERNEL) info >/dev/null 2>&1 || $(KERNEL) build

# Three chains run side by side until the Python tests, which come last and alone: the extension, the guest kernel, and
# what checks and tests Rust. Otherwise a core would idle whenever a compiler has but one thread to run.
test: lint test-rust test-python ## build, check the style and run all tests but the long ones

# With SINCE, a commit, only what covers the changes since then and is quick enough; it names what it leaves out and why.
# Several processes share the tests then, and no programs are installed. All but the tests of Python comes before.
ifdef SINCE
test-long: build .venv/.tools test-tools kernel | $(patsubst test,test-rust,$(filter-out test-long test-python,$(MAKECMDGOALS)))
	$(BIN)/pytest -m long --changed-since=$(SINCE) --numprocesses $$(nproc) --timeout 600 || [ $$? = 5 ]
	git diff --quiet $(SINCE) -- Cargo.lock crates/lasthop-core crates/lasthop-quic || $(LONG_RUST) lasthop-quic -- --ignored
	git diff --quiet $(SINCE) -- Cargo.lock crates || $(LONG_RUST) lasthop-sim -- --ignored
else
test-long: build .venv/.tools long-tools kernel ## run what takes minutes: statistical checks, well-known programs in virtual time, 2500 random scenarios, 10 000 handshakes of QUIC
	$(BIN)/pytest -m long
	$(LONG_RUST) lasthop-quic --package lasthop-sim -- --ignored
endif

lint: lint-rust lint-python ## formatting, strict lints, types, sans-IO, no circles of modules, prose

# Clippy takes the profile of the tests, which then need not compile build scripts and macros again. With SINCE, a
# commit, other systems are checked only if Rust has changed since then.
lint-rust: lint-tools
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --profile test -- -D warnings
	$(if $(SINCE),git diff --quiet $(SINCE) -- Cargo.lock crates ||) scripts/check-systems
	scripts/check-sans-io --self-test
	scripts/check-sans-io

lint-python: .venv/.tools
	scripts/check-cycles --self-test
	scripts/check-cycles
	$(BIN)/python scripts/check-prose
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/basedpyright --pythonpath $(BIN)/python

# lasthop-py is left out: without libpython its symbols resolve only inside Python; tests/python tests it. So is
# lasthop-micro, which has no tests. No crate has examples in its documentation.
test-rust: lint-rust test-tools
	cargo test --locked --workspace --exclude lasthop-py --exclude lasthop-micro --tests

# Two processes more than there are cores, because many tests wait: for a browser, a cluster, or live runs in real time.
# One that waits for ever is named after five minutes, and fails. What else was asked for comes before.
test-python: build lint-python test-rust test-tools kernel | $(filter-out test test-python,$(MAKECMDGOALS))
	$(BIN)/pytest --numprocesses $$(($$(nproc) + 2)) --timeout 300 --durations 10

docs: build .venv/.tools test-tools kernel ## build the documentation as a website and check it
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --jobs 2 -d $(SITE)/.doctrees docs $(SITE)/html
	$(BIN)/pytest -m site
	@echo "Site: $(CURDIR)/$(SITE)/html/index.html"

# The guest's program of the full profile replaces the other one; what starts guests must not read it meanwhile.
wheel: full .venv/.tools kernel | $(filter docs,$(MAKECMDGOALS)) ## build wheels, also of the guest kernel, and an sdist, and try the wheels in an empty environment
	rm -rf $(WHEEL)
	$(PGO) $(STATIC_GUEST)
	cp target/release/lasthop-guest $(GUEST)
	$(PGO) $(BIN)/maturin build --quiet --release --locked --out $(WHEEL)
	$(BIN)/maturin sdist --out $(WHEEL)
	$(BIN)/python scripts/kernel-wheel --out $(WHEEL)
	scripts/check-wheel $(WHEEL)

budget: build full budget-tools ## count the instructions of small simulations and compare them with their budget
	PYTHONPATH=$(FULL) $(BIN)/python benches/budget.py

# One after the other: they measure time.
bench: build full ## measure parts, whole runs and studies; takes a quarter of an hour
	cargo bench --locked --package lasthop-micro
	$(PGO) cargo bench --locked --package lasthop-sim
	PYTHONPATH=$(FULL) $(BIN)/python benches/whole.py

bench-peers: build full peer-tools ## run two scenarios in lasthop, ns-2 and ns-3, and compare; takes half an hour
	$(PGO) PYTHONPATH=$(FULL) $(BIN)/python benches/peers/peers.py

pgo: build pgo-tools ## count anew what the engine does often, for the compiler; takes a quarter of an hour
	benches/pgo/count

clean: ## remove everything that was built and every result
	rm -rf .venv results python/lasthop/_core*.so $(COMMIT) .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find python tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
	cargo clean

system:
	@scripts/setup-system

lint-tools:
	@scripts/setup-system --lint

kernel-tools:
	@scripts/setup-system --kernel

test-tools:
	@scripts/setup-system --test

long-tools:
	@scripts/setup-system --long

budget-tools:
	@scripts/setup-system --budget

peer-tools:
	@scripts/setup-system --peers

pgo-tools:
	@scripts/setup-system --pgo

# The stamp says where .venv was made; one that was moved, or whose Python is gone, is made anew.
ifneq ($(shell $(BIN)/python -c 'print(open(".venv/.packages").read())' 2>/dev/null),$(shell pwd -P))
.PHONY: .venv/.packages
endif

.venv/.packages: requirements-build.lock scripts/setup-venv | system
	@echo "Setting up .venv"
	@scripts/setup-venv

# What only checks, tests, documentation and wheels need. Not while the extension is installed: both run pip.
.venv/.tools: requirements.lock .venv/.packages | $(BIN)/lasthop
	@scripts/setup-venv requirements.lock
	@touch $@

$(EXTENSION): $(EXTENSION_SOURCES) | system
	$(QUICK) cargo build --locked --release --package lasthop-py --lib
	@touch $@

$(BIN)/lasthop: .venv/.packages $(EXTENSION)
	@# Installs the extension just built. What the lock file lacks must not be fetched past it, unchecked: no index here.
	$(QUICK) PIP_NO_INDEX=1 PIP_QUIET=1 $(BIN)/maturin develop --release --locked
	@touch $@

$(GUEST): $(EXTENSION) | $(BIN)/lasthop
	$(QUICK) $(STATIC_GUEST)
	cp target/quick/release/lasthop-guest $@
	@touch $@
