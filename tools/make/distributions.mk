# Bare Debian systems: tests/distributions/. Neither is part of `make check`: each makes system roots, as root.
check-newcomer: ## README's two commands on a bare Debian, online, then offline. RELEASE=bookworm, trixie; T=NAME
	@T=$(T) tests/distributions/newcomer.sh $(RELEASE)
check-compilers: ## builds with gcc and clang of three Debian releases, or RELEASE=, warnings being errors
	@tests/distributions/compilers.sh $(RELEASE)
.PHONY: check-newcomer check-compilers
