# Two commands matter: `make demo` shows the main job, `make test` proves it. Each installs what it needs.
#   make demo [ARGS=--once]    the lab, the daemon and the pipeline, with a live table, and two records to be skipped
#   make demo ARGS=--alerts    one such record from alert to alert, over a real Prometheus and Alertmanager
#   make test                  everything, real Kafka, Connect, MM2 and Spark included
#   make check                 the fast inner loop: format, lint, bandit, import contracts, types, unit tests
#   make proofs [SEED=n]       faults and kills by the hundred, crashes by the thousand, malformed bytes by the million, two minutes of standstill, an hour of soak, the toolbox on an older Kafka, properties at length
#   make mutation [ARGS=...]   small changes of the pure core, each tried against its tests (long; less with ARGS="--sample 300")
#   make bench                 figures as ratios against a named baseline in the same run
#   make bench-history         decoded history at 0.70 of the speed of raw bytes, and how soon it is there; the audit of a mirror at 0.60 of reading it
#   make profile              what the time goes to: of the edge with 100,000 source partitions, of the pipeline over 5 million commits
#   make references            the pages under docs/reference, docs/guards.md and config-reference.yaml, from the code
#   make image [TARGET=pipeline]   a container image, with docker, podman or buildah
#   make sbom                  what the images are made of, as CycloneDX, in build/
#   make lab [ARGS=...]        the lab alone, kept up; `make lab ARGS=--help` says what it can do

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?=
ifndef SEED
SEED := $(shell od -An -N3 -tu4 /dev/urandom | tr -d ' ')
endif

.DEFAULT_GOAL := help
.PHONY: help demo test classes chromium buildah image sbom tests-1 tests-2 tests-3 kubernetes test-image test-real test-usual test-kills test-history test-rest check lint unit proofs mutation bench bench-history profile lab references format install clean

help:
	@sed -n 's/^#   //p' Makefile

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "offsetwatch needs Python 3.11 or newer (set PYTHON=...)"; exit 1; }
	@command -v java >/dev/null && command -v mvn >/dev/null \
		|| { echo "the lab and the pipeline need Java 17 and Maven:"; \
		     echo "  apt-get install openjdk-17-jdk-headless maven"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[history,dev]'
	@touch $@

install: $(STAMP)

demo: $(STAMP)
	@$(BIN)/python -m lab demo $(ARGS)

lab: $(STAMP)
	@$(BIN)/python -m lab up $(ARGS)

check: lint unit

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/bandit -q -c pyproject.toml -r exporter dashboards tools
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/mypy

unit: $(STAMP)
	$(BIN)/pytest -q -n auto -m 'not real and not spark and not slow and not proof and not image' $(ARGS)

# Real tests wait more than they compute: so two parts of them side by side, and beside these, at a
# lower priority, what computes. Each lab and each Spark belongs to one part. All parts run,
# whichever fail.
test: chromium buildah
	@$(MAKE) --no-print-directory -j 2 lint classes
	@$(MAKE) --no-print-directory -k -j 3 tests-1 tests-2 tests-3

# Some forty labs and as many Sparks begin sooner for it.
classes: $(STAMP)
	@$(BIN)/python -m lab classes

# A browser is nothing that Python packages or jars could bring.
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null \
		|| { apt-get -q update && apt-get -q install -y --no-install-recommends chromium; } \
		|| { echo "the tests of the status page need a Chromium: apt-get install chromium"; exit 1; }

# An image cannot be built without what builds images.
buildah:
	@{ command -v buildah && command -v mmdebstrap; } >/dev/null \
		|| { apt-get -q update && apt-get -q install -y --no-install-recommends buildah mmdebstrap; } \
		|| { echo "the tests of the images need buildah: apt-get install buildah mmdebstrap"; exit 1; }

tests-1:
	@failed=0; for part in test-real test-kills; do \
		$(MAKE) --no-print-directory $$part || failed=1; done; exit $$failed

tests-2: test-usual

tests-3:
	@failed=0; for part in kubernetes test-image test-history test-rest; do \
		nice -n 5 $(MAKE) --no-print-directory $$part || failed=1; done; exit $$failed

# helm and a Kubernetes API server: built from their Go modules, once, into the cache.
kubernetes: $(STAMP)
	$(BIN)/python -m tools.kubernetes

test-usual: $(STAMP)
	$(BIN)/pytest -v -m 'usual and not proof' $(ARGS) tests/real

test-real: $(STAMP)
	$(BIN)/pytest -v -m 'not usual and not proof' --ignore=tests/real/test_remedy_kills.py $(ARGS) tests/real

test-kills: $(STAMP)
	$(BIN)/pytest -v $(ARGS) tests/real/test_remedy_kills.py

test-history: $(STAMP)
	$(BIN)/pytest -v -m 'not proof' $(ARGS) tests/history

test-image: $(STAMP)
	$(BIN)/pytest -v -m 'not proof' $(ARGS) tests/image

test-rest: $(STAMP)
	$(BIN)/pytest -q -n 2 -m 'not proof' --ignore=tests/real --ignore=tests/history --ignore=tests/image $(ARGS)

proofs: $(STAMP)
	@echo "seed $(SEED), commit $$(git describe --always --dirty --exclude='*')"
	HYPOTHESIS_PROFILE=proofs $(BIN)/pytest -q -n auto tests/properties --hypothesis-seed=$(SEED)
	@$(BIN)/python -m tests.sim --seed $(SEED)
	@$(BIN)/python -m tests.fuzz --seed $(SEED)
	@$(BIN)/python -m tests.history.scoring --first $(SEED) --seeds 100
	@$(BIN)/python -m lab.standstill --seconds 120
	@$(BIN)/python -m lab.translations --commands 2000000 --seed $(SEED)
	@$(BIN)/python -m lab.chaos --rounds 200 --seed $(SEED)
	@$(BIN)/python -m lab.soak --minutes 60 --seed $(SEED)
	@$(BIN)/python -m lab.history_kills --kills 20 --seed $(SEED)
	@$(BIN)/python -m lab.toolbox_kills --seed $(SEED)
	@$(BIN)/python -m lab.remedy_kills --kills 100 --workers 20 --seed $(SEED)
	@$(BIN)/python -m tests.failovers --failovers 500 --seed $(SEED)
	$(BIN)/pytest -q -m proof
	LAB_KAFKA=3.9.2 $(BIN)/pytest -q tests/real/test_toolbox_roundtrip.py tests/real/test_toolbox_scenarios.py
	CONTRACT_SEQUENCES=250 CONTRACT_SEED=$(SEED) $(BIN)/pytest -q tests/real/test_contract.py
	LAB_KAFKA=3.9.2 CONTRACT_SEQUENCES=250 CONTRACT_SEED=$(SEED) $(BIN)/pytest -q tests/real/test_contract.py

# Not part of the proofs: what it finds is for whoever writes tests, and docs/mutation.md tells of it.
mutation: $(STAMP)
	@failed=0; for package in decode judge remedy state; do \
		$(BIN)/python -m tools.mutation $$package $(ARGS) || failed=1; done; exit $$failed

# With docker, podman or buildah, whichever is there. TARGET=pipeline has Spark and a JRE.
TARGET ?= daemon
IMAGE_VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' exporter/__init__.py)
image:
	@set -e; builder=; for each in docker podman buildah; do \
		if $$each info >/dev/null 2>&1; then builder=$$each; break; fi; done; \
	case "$$builder" in \
		"") echo "an image needs docker, podman or buildah"; exit 1;; \
		docker) command="docker build";; \
		*) command="$$builder build --format docker";; \
	esac; \
	$$command --target $(TARGET) --tag offsetwatch:$(IMAGE_VERSION)-$(TARGET) \
		--build-arg VERSION=$(IMAGE_VERSION) --build-arg REVISION="$$(git rev-parse HEAD)" $(ARGS) .

sbom: $(STAMP)
	@mkdir -p build
	$(BIN)/python -m tools.sbom --target daemon --output build/sbom-daemon.cdx.json
	$(BIN)/python -m tools.sbom --target pipeline --output build/sbom-pipeline.cdx.json

bench: $(STAMP)
	@$(BIN)/python -m bench $(ARGS)

bench-history: $(STAMP)
	@$(BIN)/python -m bench.history $(ARGS)
	@$(BIN)/python -m bench.moment
	@$(BIN)/python -m bench.audit

profile: $(STAMP)
	@$(BIN)/python -m bench.profiling $(ARGS)

references: $(STAMP)
	@$(BIN)/python -m tools.references

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
