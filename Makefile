# Everything a contributor or a machine runs. `make` alone lists the targets.

PYTHON ?= python3
ARGS ?=
TESTS ?=
WORKERS ?= 3
UV := .uv/bin/uv
BIN := .venv/bin
ENVIRONMENTS := .venv .venv-clients .venv-upstreams .venv-gateways .venv-frameworks1 .venv-frameworks2
SOURCES = $(wildcard src tests docs_src bench)
FAST_TESTS = $(wildcard tests/test_*.py tests/fundamentals tests/unit tests/properties)
QUICK_GATES := gate-format gate-lint gate-imports gate-mypy gate-sdk gate-console
SDK := src/toolhall/sdk/toolhall-sdk.tgz
CONSOLE := src/toolhall/console/index.html.gz

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help serve test test-all check clients bench dist sdk console console-pictures lock setup fmt clean wrk chromium tests pytest sdk-tests gate-pyright $(QUICK_GATES)
export UV_PYTHON_DOWNLOADS := never
# Without bytecode, each of the hundreds of processes that the tests start would compile a thousand modules again.
unexport PYTHONDONTWRITEBYTECODE

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 10

# --- what people run ---------------------------------------------------------------------------------------------------

# The console is built the first time, where Node is there; a hall without it has a plain page in its place.
serve: .venv/.runtime ## serve the example toolkit, or what ARGS says: make serve ARGS="my_tools.py --port 9000"
	@test -e $(CONSOLE) || ! command -v npm >/dev/null || $(MAKE) --no-print-directory console || \
		echo "the console was not built, so there is a plain page in its place" >&2
	@$(BIN)/toolhall serve $(ARGS)

test: setup ## everything: install what is missing, the gates, all tests
	@$(MAKE) $(GATES_BESIDE_TESTS) sdk-tests

test-all: export TOOLHALL_ALL_SEEDS := 1
test-all: test ## the same with every random seed of the fault tests, which takes much longer

check: .venv/.dev tools/node/node_modules/.done sdk/typescript/node_modules/.done console/node_modules/.done ## the quick gates, and the tests that need nothing but Python
	@$(MAKE) $(GATES_BESIDE_TESTS) TESTS="$(FAST_TESTS)"

bench: .venv/.dev .venv-clients/.done .venv-gateways/.done sdk wrk ## Toolhall beside its peers, as ratios
	$(BIN)/python -m bench $(ARGS)

clients: .venv/.dev .venv-frameworks1/.done .venv-frameworks2/.done ## agent frameworks as clients, in environments of their own (300 MB)
	$(BIN)/python -m pytest -n 0 tests/conformance/test_frameworks.py $(ARGS)

# Beside the release stands what somebody without Node builds from a clone; each is installed in an empty environment and tried.
dist: .venv/.dev $(SDK) $(CONSOLE) ## the release: sdist and wheel with the console and the TypeScript SDK, and the wheel of a clone without Node
	rm -rf dist build/clone && mkdir -p build/clone
	cp -r src pyproject.toml LICENSE .gitignore build/clone && rm -rf $(addprefix build/clone/,$(dir $(SDK) $(CONSOLE)))
	$(BIN)/python -m hatchling build -t sdist -t wheel -d dist
	cd build/clone && $(abspath $(BIN))/python -m hatchling build -t wheel -d "$(abspath dist/without-node)"
	PACKAGES="$(abspath dist)" $(BIN)/python -m pytest -n 0 tests/packaging

sdk: $(SDK) ## the TypeScript SDK as a tarball, where the package ships it

console-pictures: .venv/.dev $(CONSOLE) tools/node/node_modules/.done ## pictures of every screen of the console, made by its tests, into docs/pictures
	rm -rf docs/pictures
	TOOLHALL_PICTURES=$(abspath docs/pictures) .venv/bin/python -m pytest -q -n 2 tests/browser/console/test_pictures.py

console: $(CONSOLE) ## the console, built and compressed, where the package ships it

setup: .venv/.dev .venv-clients/.done .venv-upstreams/.done tools/node/node_modules/.done tests/conformance/node/node_modules/.done tests/upstreams/node/node_modules/.done sdk console chromium ## install what development and tests need, into this folder

fmt: .venv/.dev ## format, and fix what can be fixed
	$(BIN)/ruff check --fix --exit-zero --quiet $(SOURCES)
	$(BIN)/ruff format $(SOURCES)
	@test ! -d sdk/typescript/node_modules || npm --prefix sdk/typescript run --silent fmt
	@test ! -d console/node_modules || npm --prefix console run --silent fmt

lock: $(UV) ## renew the lock files after a change of requirements; newer versions: make lock ARGS=--upgrade
	$(call compile,uv,requirements/uv.in)
	$(call compile,runtime,pyproject.toml)
	$(call compile,dev,pyproject.toml requirements/dev.in --constraints requirements/runtime.txt)
	$(call compile,clients,requirements/clients.in --constraints requirements/runtime.txt)
	$(call compile,upstreams,requirements/upstreams.in)
	$(call compile,gateways,requirements/gateways.in --constraints requirements/runtime.txt)
	$(call compile,frameworks1,requirements/frameworks1.in --constraints requirements/runtime.txt)
	$(call compile,frameworks2,requirements/frameworks2.in --constraints requirements/runtime.txt)
	$(call lock_node,tools/node)
	$(call lock_node,tests/conformance/node)
	$(call lock_node,tests/upstreams/node)
	$(call lock_node,sdk/typescript)
	$(call lock_node,console)

clean: ## remove everything that make made
	rm -rf .uv $(ENVIRONMENTS) $(addsuffix /node_modules,tools/node tests/conformance/node tests/upstreams/node)
	rm -rf $(dir $(SDK)) $(addprefix sdk/typescript/,node_modules build dist)
	rm -rf $(dir $(CONSOLE)) $(addprefix console/,node_modules dist)
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find src tests $(wildcard docs_src bench) -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the gates and the tests: independent of each other, so two at a time ----------------------------------------------

# Pyright takes one core for more than a minute: it starts first, and the tests run beside it as soon as the quick gates pass.
GATES_BESIDE_TESTS = --no-print-directory --keep-going -j2 $(call sync,target) gate-pyright $(QUICK_GATES) tests
sync = $(if $(filter output-sync,$(.FEATURES)),--output-sync=$(1))

# What pytest prints is shown as it comes; what a gate prints, when it has ended.
tests: $(QUICK_GATES)
	@$(MAKE) --no-print-directory $(call sync,none) pytest
pytest:
	$(BIN)/python tools/run_tests.py -n $(WORKERS) --dist worksteal $(TESTS) $(ARGS)
# The SDK's own tests wait for the place of pyright, and end long before pytest does.
sdk-tests:
	cd sdk/typescript && npm test --silent

gate-format:
	$(BIN)/ruff format --check --quiet $(SOURCES) || { echo "fix with: make fmt" >&2; exit 1; }
gate-lint:
	$(BIN)/ruff check --quiet $(SOURCES)
gate-imports:
	$(BIN)/lint-imports --no-logo
gate-mypy:
	$(BIN)/mypy
gate-sdk:
	cd sdk/typescript && npm run --silent check
gate-console:
	cd console && npm run --silent check && npm run --silent test
gate-pyright:
	tools/node/node_modules/.bin/pyright --warnings

# --- what is installed, each with a stamp: nothing happens unless its lock changed --------------------------------------

# uv comes by pip into a folder of its own, which also works where pip may not touch the system's Python.
$(UV): requirements/uv.txt
	@$(PYTHON) -c 'import sys; sys.exit("Toolhall needs Python 3.11 or newer: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	rm -rf .uv
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target .uv --require-hashes -r $<
	@touch $@

$(ENVIRONMENTS:%=%/pyvenv.cfg): | $(UV)
	$(UV) venv --quiet --clear --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(@D)
	@touch $@

.venv/.runtime: requirements/runtime.txt pyproject.toml .venv/pyvenv.cfg
	$(call install,install --compile-bytecode --no-deps -r,.venv,requirements/runtime.txt)
	$(install_toolhall)
	$(compile_source)
	@touch $@

# The development lock holds the runtime's, so both stamps are new.
.venv/.dev: requirements/dev.txt pyproject.toml .venv/pyvenv.cfg
	$(call install,sync --compile-bytecode,.venv,requirements/dev.txt)
	$(install_toolhall)
	$(compile_source)
	@touch .venv/.runtime $@

$(patsubst %,%/.done,$(filter-out .venv,$(ENVIRONMENTS))): .venv-%/.done: requirements/%.txt .venv-%/pyvenv.cfg
	$(call install,sync,$(@D),$<)
	@touch $@

%/node_modules/.done: %/package.json %/package-lock.json
	@command -v npm >/dev/null || { echo "Node.js 20 or newer is needed (node and npm)" >&2; exit 1; }
	rm -rf $*/node_modules
	cd $* && npm install --no-save --no-audit --no-fund --loglevel=error
	@touch $@

# What the tarball holds is compiled from the sources by `npm pack` itself.
$(SDK): sdk/typescript/node_modules/.done $(wildcard sdk/typescript/*.json sdk/typescript/README.md) $(shell find sdk/typescript/src -type f)
	rm -rf $(@D) && mkdir $(@D)
	cd sdk/typescript && npm pack --silent --pack-destination "$(abspath $(@D))" >/dev/null
	mv $(@D)/toolhall-sdk-*.tgz $@

# With a digest of its content in each address, and compressed: see tools/pack_console.mjs.
$(CONSOLE): console/node_modules/.done tools/pack_console.mjs $(shell find console -type d \( -name node_modules -o -name dist \) -prune -o -type f -print)
	cd console && npm run --silent build -- --logLevel warn
	node tools/pack_console.mjs console/dist $(@D)

# wrk makes the load of the benchmark; a package of the system.
wrk:
	@command -v wrk >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends wrk; }

# The pages for people are tested in a real browser; a package of the system.
chromium:
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; }

# $(call install,HOW,ENVIRONMENT,LOCK): by uv, or by pip where only pip is told about the machine's package index.
install = $(UV) pip $(1) $(3) --quiet --require-hashes --python $(2) || \
	$(PYTHON) -m pip --python $(2)/bin/python install --quiet --no-deps --require-hashes -r $(3)
install_toolhall = $(UV) pip install --quiet --no-deps --build-constraints requirements/dev.txt --python .venv -e . || \
	$(PYTHON) -m pip --python $(BIN)/python install --quiet --no-deps -e .
# uv and an editable install leave bytecode to the first start, which then takes twice as long, and so does each one
# after it where PYTHONDONTWRITEBYTECODE is set.
compile_source = $(BIN)/python -m compileall -q src

# $(call compile,NAME,SOURCES): a lock for every platform, with hashes and without the name of any index.
compile = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
	$(ARGS) --output-file requirements/$(1).txt $(2) >/dev/null

# $(call lock_node,FOLDER): .npmrc leaves out where packages came from; links to sponsors go as well.
lock_node = cd $(1) && npm install --package-lock-only --ignore-scripts --loglevel=error && node -e ' \
	const fs = require("fs"), name = "package-lock.json", lock = JSON.parse(fs.readFileSync(name)); \
	for (const each of Object.values(lock.packages)) delete each.funding; \
	fs.writeFileSync(name, JSON.stringify(lock, null, 2) + "\n")'
