# Mutants, which the tests should notice: tests/mutate/.
mutants: ## small faults put into each room, and how many of them its tests notice: IN="net/ip base" COUNT=100 SEED=25
	$(PY) tests/mutate/mutate.py $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED)) $(IN)
.PHONY: mutants
