# Two commands do everything, set-up included: `make quickstart` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: help install quickstart test fuzz kills lint docs format clean

help:
	@echo "make quickstart   train an energy on SmolLM2-135M's residual, measure it, write a report"
	@echo "make test         run the tests"
	@echo "make fuzz         100,000 calls and inputs that nobody would make on purpose (SEED=0 CALLS=100000)"
	@echo "make kills        kill -9 at random moments of all long commands (SEED=0 KILLS=200)"
	@echo "make lint         ruff and mypy"
	@echo "make docs         the documentation, into build/docs"
	@echo "make install      only set up .venv"

install: $(INSTALLED)

$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Lexergy needs Python 3.11 or newer; say which with: make PYTHON=python3.11 install"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

quickstart: $(INSTALLED)
	$(BIN)/lexergy quickstart

test: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 --dist worksteal

SEED ?= 0
CALLS ?= 100000
KILLS ?= 200

fuzz: $(INSTALLED)
	$(BIN)/python benchmarks/fuzz.py --seed $(SEED) --calls $(CALLS)

kills: $(INSTALLED)
	$(BIN)/python benchmarks/kills.py --seed $(SEED) --kills $(KILLS)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "build/docs/index.html"

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build src/*.egg-info
