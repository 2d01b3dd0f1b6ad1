# Mutants of net/tcp, which its unit programs and timelines should notice: tests/mutate/.
mutants: ## small faults put into net/tcp, and how many of them its tests notice: COUNT=200 SEED=25
	$(PY) tests/mutate/mutate.py $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED))
.PHONY: mutants
