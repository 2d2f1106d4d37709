# Needs Python 3.11 or newer, Java 17 or 21, and make. `make setup` brings the rest into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DATA ?= silt-data
# Tests mostly wait; more workers than two starve those that look at a busy gateway.
WORKERS ?= 2
S3_TESTS := tests/integration/delta_store/test_storage_object.py tests/integration/test_object_store_gateway.py \
	tests/faults/test_object_store_faults.py tests/faults/test_gateway_store_faults.py \
	tests/integration/delta_store/test_past_anywhere.py tests/integration/delta_store/test_object_store_commands.py \
	tests/integration/delta_store/test_heads_object.py tests/integration/delta_store/test_sql_object_store.py \
	tests/integration/clients/test_nats_cli_backup.py::test_a_backup_is_restored_in_an_object_store \
	tests/spark/test_spark_source_object.py tests/integration/test_object_store_up.py
PACKAGES := api conf consumers delta_store ingest tests
INSTALLED := $(VENV)/.silt-installed
JARS := $(VENV)/.silt-jars
NEXT_SPARK := pyspark==4.2.0 delta-spark==4.4.0
# How often a download is tried before it counts as failed.
TRIES := 1 2 3

.DEFAULT_GOAL := help
.PHONY: help setup jars-s3 demo up test test-failed test-unit test-slow test-next test-s3 test-power-loss soak check format bench lock clean

help: ## show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 18

setup: $(INSTALLED) $(JARS) ## install everything into .venv, once

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Silt needs Python 3.11 or newer; give one with: make setup PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): $(BIN)/python requirements.lock pyproject.toml
	@for try in $(TRIES); do \
		$(BIN)/python -m pip install --disable-pip-version-check --quiet --require-hashes -r requirements.lock \
			&& break; [ $$try != 3 ] || exit 1; sleep 5; done
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation -e .
	@touch $@

# Spark takes Delta's jars from Maven Central when it starts for the first time: better here than in a test. Its classes
# are archived too, for faster starts.
$(JARS): $(INSTALLED)
	@for try in $(TRIES); do $(BIN)/silt doctor --fetch-jars && break; [ $$try != 3 ] || exit 1; sleep 5; done
	@touch $@

jars-s3: setup ## fetch what Spark needs to read s3:// (half a gigabyte)
	@for try in $(TRIES); do $(BIN)/silt doctor --fetch-jars --data s3://bucket && break; [ $$try != 3 ] || exit 1; \
		sleep 5; done

demo: setup ## publish a year of flights and ask about the past in three ways
	$(BIN)/silt demo

up: setup ## run Silt on DATA (default silt-data) until Ctrl-C
	$(BIN)/silt up --data $(DATA)

test: setup ## every test but the slow ones (WORKERS=0: in one process)
	$(BIN)/python -m tests.tools
	$(BIN)/python -m pytest -n $(WORKERS) --no-loadscope-reorder -m "not slow and not power_loss"

test-failed: setup ## what failed in the last run of the tests, again, one after the other
	$(BIN)/python -m pytest -n 0 --last-failed --last-failed-no-failures none -m "not slow and not power_loss"

test-unit: setup ## the pure tests only, with asyncio's debug mode
	PYTHONASYNCIODEBUG=1 $(BIN)/python -m pytest tests/unit

test-slow: setup ## the slow tests: kill rounds, clusters, long differentials
	$(BIN)/python -m pytest -m "slow and not power_loss"

# Delta 4.4.1 has no jar for Spark 4.2 yet. All other packages are those of .venv.
test-next: setup ## tests/spark with Spark 4.2.0 and Delta 4.4.0, in an environment of its own (.venv-next)
	$(BIN)/python -m venv $(VENV)-next
	$(VENV)-next/bin/python -m pip install --disable-pip-version-check --quiet --no-deps $(NEXT_SPARK)
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> "$$($(VENV)-next/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/shared.pth"
	PATH="$(abspath $(BIN)):$$PATH" $(VENV)-next/bin/python -m api.cli.main doctor --fetch-jars
	$(VENV)-next/bin/python -m pytest -n 0 -m "not slow" tests/spark

# Its version's conditional puts hold 32 racers (test_storage_object).
test-s3: setup ## what touches an object store, on a real server (SeaweedFS), with Spark if `make jars-s3` was made
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --require-hashes -r tests/s3_server.lock
	S3_SERVER=seaweedfs $(BIN)/python -m pytest -n 0 $(S3_TESTS)

test-power-loss: setup ## power cuts on a loop device (needs root)
	$(BIN)/python -m pytest -m power_loss

soak: setup ## all kinds of clients for 20 minutes amid kills and a power cut (SOAK="--minutes 60 --seed 1")
	$(BIN)/python -m tests.faults.soak $(SOAK)

check: setup ## what must hold before a commit: lint, format, types, import rules, the code's own shape
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -q tests/test_tidy.py

format: setup ## rewrite what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## measure against nats-server on this machine; writes results/ (BENCH="--help" lists options)
	$(BIN)/python -m tests.benchmarks.bench $(BENCH)

lock: ## make requirements.lock anew from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --all-extras --group dev --generate-hashes --universal \
		--no-header --no-annotate --upgrade --output-file requirements.lock

clean: ## remove what can be made again
	rm -rf $(VENV) $(VENV)-next .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist results
