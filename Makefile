# Two commands on a fresh clone: `make book` and `make test`. Both install what they need into .venv first.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready

.PHONY: book test notebooks clean

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --upgrade pip
	$(VENV)/bin/python -m pip install --quiet -e ".[book,test]"
	touch $(READY)

book: $(READY)  ## build the book into _build/html
	OMP_NUM_THREADS=2 $(VENV)/bin/jupyter-book build book/ -W --keep-going
	@echo "Open _build/html/index.html"

test: $(READY)  ## everything CI runs: unit tests, doctests, chapters against their committed outputs
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n auto --dist loadfile -q

notebooks: $(READY)  ## run the chapters in place and keep their text outputs, after code or results changed
	$(VENV)/bin/python book/refresh.py

clean:
	rm -rf _build
