# Two commands do all set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
RUN    := $(VENV)/bin/python
STAMP  := $(VENV)/.installed

# Torch's CPU build and JAX are in folders of their own, beside which these tests run again: in one process
# with torch the others take half as long again. TORCH= and JAX= leave them out.
TORCH    ?= torch==2.13.0+cpu
JAX      ?= jax==0.10.2
IN_JAX   := tests/functional/test_jax.py tests/functional/test_examples.py tests/docs/test_docs.py
IN_TORCH := tests/functional tests/docs tests/core/test_types.py tests/frontend/test_wrapper.py \
            tests/legacy/test_rnn_torch.py

.PHONY: demo test lab sanitize ptx wheel clean

$(STAMP): pyproject.toml setup.py ptx/manifest.json $(wildcard cydnn/*.p[yx][xd] cydnn/*/*.p[yx][xd])
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install -q --disable-pip-version-check --no-compile -e ".[test,demo,docs]"
	touch $@

demo: $(STAMP)                   # train on real handwritten digits: GPU if there is one, else NumPy
	$(RUN) examples/digits.py

$(VENV)/torch: $(STAMP)
	mkdir -p $@
	$(if $(TORCH),$(RUN) -m pip install -q --disable-pip-version-check --no-compile --target $@ "$(TORCH)" \
	    || echo "no $(TORCH) here: the tests of cydnn.torch are left out")
	touch $@

$(VENV)/jax: $(STAMP)
	mkdir -p $@
	$(if $(JAX),$(RUN) -m pip install -q --disable-pip-version-check --no-compile --target $@ "$(JAX)" \
	    || echo "no $(JAX) here: the tests of cydnn.jax are left out")
	touch $@

test: $(VENV)/torch $(VENV)/jax  # a fixed set, and all about what changed; GPU tests where there is a GPU
	$(RUN) -m pytest -q -n 2 --dist worksteal -m "not timing"
	@if [ -d $(VENV)/torch/torch ]; then PYTHONPATH=$(VENV)/torch $(RUN) -m pytest -q -n 2 \
	    -m "not timing and not gpu" $(IN_TORCH); fi
	@if [ -d $(VENV)/jax/jax ]; then PYTHONPATH=$(VENV)/jax $(RUN) -m pytest -q -n 2 \
	    -m "not timing and not gpu" -k "jax" $(IN_JAX); fi
	@if $(RUN) -m cydnn info --json 2>/dev/null | grep -q '"default": "cuda'; then $(RUN) -m pytest -q -m timing; fi

lab: $(STAMP)                    # the whole, with what tests the tests, on all cores: lab/records/whole.json
	$(RUN) -m lab

sanitize: $(STAMP)               # the extension under gcc: addresses, undefined behaviour, races
	$(RUN) tools/sanitize.py
	$(RUN) tools/sanitize.py --thread

ptx: $(STAMP)                    # rebuild what changed in kernels_src/ (needs nvcc 13.0)
	$(RUN) tools/build_ptx.py

wheel: $(STAMP)                  # of a clean clone, into a fresh environment, tried there
	$(RUN) tools/try_wheel.py

clean:
	rm -rf $(VENV) build dist *.egg-info cydnn/*.so cydnn/*/*.so
