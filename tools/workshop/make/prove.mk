# Proofs by Frama-C that parsers have no run-time error: tests/prove/. `make check` plays the quickest alone.
prove: ## proves with Frama-C that parsers of strangers' bytes have no run-time error. T=NAME
	@tools/setup.sh prove
	@$(PY) tests/prove/prove.py $(T)
.PHONY: prove
