# Bare Debian systems: tests/distributions/. None is part of `make check`: each makes system roots, as root.
check-newcomer: ## README's two commands on a bare Debian, online, then offline. RELEASE=bookworm, trixie; T=NAME
	@T=$(T) tests/distributions/newcomer.sh $(RELEASE)
check-compilers: ## builds with gcc and clang of three Debian releases, or RELEASE=, warnings being errors
	@tests/distributions/compilers.sh $(RELEASE)
check-release: ## archive and packages on bare Debian 12 and 13, or RELEASE=: build, install, a program of one's own
	@tests/distributions/release.sh $(RELEASE)
.PHONY: check-newcomer check-compilers check-release
