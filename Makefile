# Two commands matter: `make demo` shows the main job, `make test` proves it. Each installs what it needs.
#   make demo [ARGS=--once]    the lab, the daemon and the pipeline, with a live table, and two records to be skipped
#   make demo ARGS=--alerts    one such record from alert to alert, over a real Prometheus and Alertmanager
#   make demo ARGS=--databases   Debezium over a real PostgreSQL and MariaDB; replication is frozen, found, and goes on
#   make check                 the inner loop: format, lint, import contracts, types, and quick tests, those of what changed first (under a minute)
#   make test                  each push: all that needs no JVM; on real Kafka, Connect, MM2 and Spark the main job, lag, failover, stories, skips and a kill (20 to 30 minutes on two cores, by their speed)
#   make full                  make test, and the rest: every story, kill, version and layout, images, a Kubernetes API server (100 minutes)
#   make rest SIXTH=n          one sixth of what make full has beside make test, 1 to 6; CI runs one after each make test (10 minutes)
#   make proofs [SEED=n]       faults and kills by the hundred, crashes by the thousand, malformed bytes by the million, an hour of hostile worlds, two minutes of standstill, an hour of soak, the toolbox on an older Kafka, offsets changed over databases, properties at length
#   make bench                 figures as ratios against a named baseline in the same run
#   make bench-history         decoded history at 0.70 of the speed of raw bytes, and how soon it is there; the audit of a mirror at 0.60 of reading it
#   make profile              what the time goes to: of the edge with 100,000 source partitions, of the pipeline over 5 million commits
#   make references            the pages under docs/reference, docs/guards.md and config-reference.yaml, from the code
#   make image [TARGET=pipeline]   a container image, with docker, podman or buildah
#   make sbom                  what the images are made of, as CycloneDX, in build/
#   make lab [ARGS=...]        the lab alone, kept up; `make lab ARGS=--help` says what it can do
#   make databases             PostgreSQL and MariaDB for the lab, from Debian; none is started

# Hundreds of tests start a process of their own: none compiles what another has compiled.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?=
ifndef SEED
SEED := $(shell od -An -N3 -tu4 /dev/urandom | tr -d ' ')
endif

.DEFAULT_GOAL := help
.PHONY: help demo check lint test lane-jvm lane-python test-lab test-python test-spark full rest classes chromium buildah databases image sbom proofs bench bench-history profile lab references format install clean

help:
	@sed -n 's/^#   //p' Makefile

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "offsetwatch needs Python 3.11 or newer (set PYTHON=...)"; exit 1; }
	@command -v java >/dev/null && command -v mvn >/dev/null \
		|| { echo "the lab and the pipeline need Java 17 and Maven:"; \
		     echo "  apt-get install openjdk-17-jdk-headless maven"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[history,postgresql,mysql,sql,dev]'
	@touch $@

install: $(STAMP)

demo: $(STAMP) $(if $(filter --databases,$(ARGS)),databases)
	@$(BIN)/python -m lab demo $(ARGS)

lab: $(STAMP) $(if $(filter --postgres --mariadb,$(ARGS)),databases)
	@$(BIN)/python -m lab up $(ARGS)

check: $(STAMP)
	@$(BIN)/python -m tests.check

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/bandit -q -c pyproject.toml -r exporter dashboards tools
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/mypy

# Two lanes on two cores: one group of JVMs at a time, and beside it what computes, in three processes, as
# tests on the lab mostly wait, and the linters. The table at the end says what each part took.
TIMINGS := build/timings
# One after the other, whichever fail.
PARTS = failed=0; for part in $(1); do $(MAKE) --no-print-directory $$part || failed=1; done; exit $$failed
PYTEST = OFFSETWATCH_TIMINGS=$(TIMINGS) OFFSETWATCH_PART=$@ $(BIN)/pytest
# Files that take minutes come first, so that all processes end at about the same time.
LONG := tests/worlds tests/scenarios tests/sim
PUSH := not full and not proof

test: $(STAMP) chromium
	@rm -rf $(TIMINGS); failed=0; $(MAKE) --no-print-directory -k -j 2 lane-jvm lane-python || failed=1; \
	$(BIN)/python -m tests.timing $(TIMINGS); exit $$failed

lane-jvm: classes
	@$(call PARTS,test-lab test-spark)

lane-python:
	@$(call PARTS,test-python lint)

test-lab: $(STAMP)
	$(PYTEST) -v -m '$(PUSH)' $(ARGS) tests/real

test-python: $(STAMP)
	$(PYTEST) -q -n 3 --dist loadfile --no-loadscope-reorder -m '$(PUSH) and not spark' \
		$(ARGS) $(LONG) $(filter-out $(LONG) tests/real,$(patsubst %/,%,$(wildcard tests/*/)))

test-spark: $(STAMP)
	$(PYTEST) -q -m '$(PUSH) and spark' $(ARGS) tests/history

full:
	@$(call PARTS,test rest)

# Groups of files beside each other, as next to nothing of the rest only computes (tests/tiers.py).
# SINCE: also what the changes since that revision touch.
SIXTH ?= all
SINCE ?=
rest: $(STAMP) buildah databases classes
	@rm -rf $(TIMINGS); failed=0; \
	OFFSETWATCH_TIMINGS=$(TIMINGS) $(BIN)/python -m tests.tiers run $(SIXTH) $(SINCE) -- $(ARGS) || failed=1; \
	$(BIN)/python -m tests.timing $(TIMINGS); exit $$failed

# Each JVM of a lab begins with a third less work for it.
classes: $(STAMP)
	@$(BIN)/python -m lab classes

# A browser is nothing that Python packages or jars could bring.
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null \
		|| { apt-get -q update && apt-get -q install -y --no-install-recommends chromium; } \
		|| { echo "the tests of the status page need a Chromium: apt-get install chromium"; exit 1; }

# Servers of the lab, none of them started: the policy is Debian's own way to say so.
POLICY := /usr/sbin/policy-rc.d
databases:
	@{ command -v /usr/lib/postgresql/*/bin/postgres && PATH="$$PATH:/usr/sbin" command -v mariadbd; } >/dev/null 2>&1 \
		|| { test -e $(POLICY) || { printf '#!/bin/sh\nexit 101\n' >$(POLICY); chmod +x $(POLICY); trap 'rm -f $(POLICY)' EXIT; }; \
		     apt-get -q update && apt-get -q install -y --no-install-recommends postgresql mariadb-server-core mariadb-client-core; } \
		|| { echo "the lab with databases needs: apt-get install postgresql mariadb-server"; exit 1; }

# An image cannot be built without what builds images.
buildah:
	@{ command -v buildah && command -v mmdebstrap; } >/dev/null \
		|| { apt-get -q update && apt-get -q install -y --no-install-recommends buildah mmdebstrap; } \
		|| { echo "the tests of the images need buildah: apt-get install buildah mmdebstrap"; exit 1; }

proofs: $(STAMP) databases
	@echo "seed $(SEED), commit $$(git describe --always --dirty --exclude='*')"
	HYPOTHESIS_PROFILE=proofs $(BIN)/pytest -q -n auto tests/properties --hypothesis-seed=$(SEED)
	@$(BIN)/python -m tests.sim --seed $(SEED)
	@$(BIN)/python -m tests.fuzz --seed $(SEED)
	@$(BIN)/python -m tests.worlds --minutes 60 --seed $(SEED)
	@$(BIN)/python -m tests.history.scoring --first $(SEED) --seeds 100
	@$(BIN)/python -m lab.check.lag_while_stalled --seconds 120
	@$(BIN)/python -m lab.check.offset_translation --commands 2000000 --seed $(SEED)
	@$(BIN)/python -m lab.faults.chaos --rounds 200 --seed $(SEED)
	@$(BIN)/python -m lab.faults.soak --minutes 60 --seed $(SEED)
	@$(BIN)/python -m lab.kills.history --kills 20 --seed $(SEED)
	@$(BIN)/python -m lab.kills.toolbox --seed $(SEED)
	@$(BIN)/python -m lab.kills.remediation --kills 100 --workers 20 --seed $(SEED)
	@$(BIN)/python -m lab.kills.database_changes --changes 200 --seed $(SEED)
	@$(BIN)/python -m tests.failovers --failovers 500 --seed $(SEED)
	$(BIN)/pytest -q -m proof
	LAB_KAFKA=3.9.2 $(BIN)/pytest -q tests/real/test_toolbox_roundtrip.py tests/real/test_toolbox_scenarios.py
	CONTRACT_SEQUENCES=250 CONTRACT_SEED=$(SEED) $(BIN)/pytest -q tests/real/test_contract.py
	LAB_KAFKA=3.9.2 CONTRACT_SEQUENCES=250 CONTRACT_SEED=$(SEED) $(BIN)/pytest -q tests/real/test_contract.py

# With docker, podman or buildah, whichever is there. TARGET=pipeline has Spark and a JRE.
TARGET ?= daemon
IMAGE_VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' exporter/offsetwatch/__init__.py)
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

# Each target in an environment of its own, as it is installed; the pipeline's takes half a gigabyte meanwhile.
CYCLONEDX_MAVEN := org.cyclonedx:cyclonedx-maven-plugin:2.9.1
sbom: $(STAMP)
	@set -e; mkdir -p build; for target in daemon pipeline; do \
		case $$target in daemon) wanted='.[postgresql,mysql,sql]';; pipeline) wanted='.[postgresql,mysql,sql,history]';; esac; \
		$(BIN)/python -m venv --without-pip --clear build/sbom-venv; \
		$(BIN)/python -m pip --python build/sbom-venv install --quiet -c constraints.txt "$$wanted"; \
		$(BIN)/cyclonedx-py environment --output-reproducible \
			--output-file build/sbom-$$target.cdx.json build/sbom-venv; \
		rm -r build/sbom-venv; \
	done
	mvn -q -B --file exporter/offsetwatch/history/pom.xml $(CYCLONEDX_MAVEN):makeBom \
		-DoutputFormat=json -DoutputDirectory=$(CURDIR)/build -DoutputName=sbom-pipeline-jars.cdx

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
