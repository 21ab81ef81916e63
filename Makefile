# The project's commands; `make help` lists them. What is built is CMake's business.
SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
BUILD := build/release
JOBS ?= $(shell tools/usable_cores.sh)
FUZZ_SECONDS ?= 60

.DEFAULT_GOAL := help
.PHONY: deps build demo test test-gpu bundle dist python fresh bench fuzz lint format clean help

help:
	@echo "make deps    install what is missing to build Ebb (Debian, Ubuntu)"
	@echo "make build   build the library, the command and the tests into $(BUILD)"
	@echo "make demo    train a small model under a memory limit and show what happened"
	@echo "make test    build, then run every test"
	@echo "make test-gpu  build, then run the tests that need an NVIDIA GPU"
	@echo "make bundle  gather what runs on a bare GPU machine into bundle/"
	@echo "make dist    pack the command with its libraries, for machines without a GPU, into dist/"
	@echo "make python  build the Python package's wheel and run its tests, as far as they can be here"
	@echo "make fresh   prove README's two commands on bare Debian and Ubuntu systems (needs root)"
	@echo "make bench   build, then run every benchmark"
	@echo "make fuzz    fuzz what reads files from outside, FUZZ_SECONDS a target (60)"
	@echo "make lint    check layers, sizes, format, public headers and words"
	@echo "make format  rewrite the C++ files as clang-format wants them"
	@echo "make clean   remove build/, bundle/ and dist/"

deps:
	@tools/install_deps.sh

# Ninja runs CMake again by itself when a CMake file changes, but does not know of the presets.
$(BUILD)/build.ninja: CMakePresets.json | deps
	@cmake --preset release --log-level=NOTICE >/dev/null
	@touch $@

build: deps $(BUILD)/build.ninja
	@cmake --build --preset release --parallel $(JOBS)

# The command alone, in a folder of its own: a newcomer waits neither for the tests and what they
# need, nor for a GPU's kernels where there is no GPU.
demo:
	@tools/install_deps.sh build
	@cmake --preset demo --log-level=NOTICE \
	  -DEBB_CUDA=$(if $(wildcard /dev/nvidia[0-9]*),AUTO,OFF) >/dev/null
	@cmake --build --preset demo --parallel $(JOBS)
	@tools/demo.sh

test: build
	@tools/run_tests.sh --preset release

test-gpu: build
	@if [ ! -x $(BUILD)/tests/gpu_tests ]; then \
	  echo "test-gpu: this build has no CUDA (CMake found no toolkit, nvcc or cuDNN)"; \
	elif ! compgen -G '/dev/nvidia[0-9]*' >/dev/null; then \
	  echo "test-gpu: built, but there is no NVIDIA GPU here; make bundle takes the tests to one"; \
	else $(BUILD)/tests/gpu_tests --gtest_brief=1; fi

bundle: build
	@tools/bundle.sh $(BUILD)

dist:
	@tools/install_deps.sh build
	@cmake --preset dist --log-level=NOTICE >/dev/null
	@cmake --build --preset dist --parallel $(JOBS)
	@tools/dist.sh

python:
	@tools/install_deps.sh build
	@tools/python_tests.sh

fresh:
	@tools/fresh.sh

bench: build
	@set -e; for bench in $(BUILD)/bench/*_bench; do \
	  if [ -x "$$bench" ]; then echo "== $${bench##*/}"; "$$bench"; fi; done

fuzz: deps
	@JOBS=$(JOBS) tools/fuzz.sh all $(FUZZ_SECONDS)

lint:
	@tools/check_layers.py
	@tools/check_sizes.sh
	@tools/check_format.sh
	@tools/check_headers.sh
	@tools/check_words.sh

format:
	@tools/check_format.sh --fix

clean:
	@rm -rf build bundle dist
