# A thin front for CMake: `make help` lists the targets.
MODEL = models/SmolLM2-135M-Instruct.Q4_1.gguf
PREFIX = /usr/local
QUESTION = What is the capital of France?

build/millrace: FORCE
	@scripts/packages.sh build
	@test -f build/release/build.ninja || cmake --preset release >build-release.log || { cat build-release.log; exit 1; }
	@rm -f build-release.log
	@cmake --build build/release --target millrace -- --quiet
	@ln -sf release/millrace build/millrace

.PHONY: FORCE install demo model bench experiments screenshots test test-long format references clean help
help:            ## list the targets
	@sed -n 's/^\([a-z-]*\): .*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

demo: build/millrace model   ## build, fetch a small model, ask it a question
	@echo "> $(QUESTION)"
	@build/millrace run -m $(MODEL) -p "$(QUESTION)" --temp 0
	@echo
	@echo "Next: chat with it:     build/millrace run -m $(MODEL)"
	@echo "      all commands:     build/millrace --help"

model: ## fetch the small model of the demo to models/
	@python3 scripts/fetch_models.py smollm2 >/dev/null

install: build/millrace ## install the program, the library and its header under PREFIX (default /usr/local)
	@cmake --build build/release -- --quiet
	@cmake --install build/release --prefix $(PREFIX)

bench: build/millrace model ## measure the small model as a share of what this machine can do
	@build/millrace bench -m $(MODEL) --batch 1,8

test: ## build and run every test (what CI runs)
	@scripts/test.sh

test-long: ## the same with the long tests and more fuzzing
	@scripts/test.sh long

experiments: build/millrace ## the long recipes of docs/compression.md: prune, train, report (hours; they resume)
	@python3 scripts/fetch_models.py smollm2 sharegpt >/dev/null
	@python3 scripts/experiments.py $(if $(MINUTES),--minutes $(MINUTES)) $(if $(ONLY),--only $(ONLY))

screenshots: build/millrace model ## take the pictures of the page for the README anew (needs chromium)
	@scripts/packages.sh test
	@$$(scripts/venv.sh .venv tests/requirements.txt) scripts/screenshots.py

format: ## format the C sources
	clang-format -i $$(find src include tests -name '*.[ch]')

references: ## compute the reference figures of the golden tests again (installs torch, about 5 GB)
	@python=$$(scripts/venv.sh build/references-venv tests/requirements.txt tests/golden/requirements.txt) && \
	python3 scripts/fetch_models.py smollm2 gemma3 sharegpt && \
	for script in tests/golden/make_*.py; do echo "$$script"; $$python "$$script" || exit 1; done

clean: ## remove what was built
	rm -rf build
