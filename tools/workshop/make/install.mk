# `make install`, the source archive, and Debian's packages. The tools stand with their version in folders of their own,
# lib/peregrine and lib/peregrine-contest: neither package needs the other.
PREFIX ?= /usr/local
DESTDIR ?=
INSTALL_BIN = $(abspath $(DESTDIR)$(PREFIX))/bin
INSTALL_LIB = $(abspath $(DESTDIR)$(PREFIX))/lib
INSTALL_SHARE = $(abspath $(DESTDIR)$(PREFIX))/share

# The programs over lwIP, after those over our stack, whose objects they share.
LWIP_PROGRAMS := $(filter-out digest,$(PROGRAMS))
lwip_folder = $(BUILD)/other$(if $(filter-out player,$1),/$1)
define lwip_image
$(call lwip_folder,$1)/peregrine.bzImage: FORCE $(NET_OBJECTS) $(call image_folder,$1)/peregrine.elf
	+@$$(OTHER_MAKE) BUILD=$(BUILD)/other PROGRAM=$1 STACK=lwip $$(@:.bzImage=.elf) $$@
endef
ifeq ($(STACK),own)
$(foreach name,$(LWIP_PROGRAMS),$(eval $(call lwip_image,$(name))))
endif

# The tree of the package peregrine-dev, which builds programs that stand elsewhere, and its pages.
TREE := CHANGELOG.md CONTRIBUTING.md LICENSE Makefile README.md VERSION app base boot docs drivers host image kernel \
	net tests/lib tests/unit/echo_test.c tools

# The installed name of a program on Linux: none of them takes a common word.
linux_command = $(if $(filter player,$1),peregrine-linux,peregrine-$1-linux)
INSTALLED_PAGES := README architecture blackbox balance capture cloud conformance control exchange resources settings \
	status trip
INSTALL_NEEDS = $(foreach name,$(PROGRAMS),$(call image_folder,$(name))/peregrine.elf \
	$(call image_folder,$(name))/peregrine.bzImage $(call linux_program,$(name))) \
	$(foreach name,$(LWIP_PROGRAMS),$(call lwip_folder,$(name))/peregrine.bzImage) \
	$(CHECK_SETTINGS_ALL) $(LOAD) $(REPLAY)

# need_commands WHO,COMMAND...,PACKAGES: ends with the packages to install if a command is not there. Stands in front of
# a second make, which builds.
need_commands = @for command in $2; do command -v $$command >/dev/null || \
	{ echo "make $1: there is no $$command here: apt-get install $3" >&2; exit 1; }; done

# put_images FROM,TO: an image, its twin for the Linux boot protocol, and the names of its addresses.
put_images = install -d $2 && install -m 755 $1/peregrine.elf $2 && \
	install -m 644 $1/peregrine.bzImage $1/peregrine.debug $2 &&
# put_tools NAME,FILE...: the version, and packages and modules of Python.
put_tools = install -d $(INSTALL_LIB)/$1 && install -m 644 VERSION tools/command_line.py $(INSTALL_LIB)/$1 && \
	tar -c -C tools --exclude=__pycache__ --exclude=demo.py --exclude='*.c' --no-same-owner $2 | \
	tar -x -C $(INSTALL_LIB)/$1

# put_completion COMMAND,FILE,FUNCTION: from the installed tool, whose names and defaults differ from the tree's.
put_completion = PYTHONPATH=$(INSTALL_LIB)/$(firstword $(subst /, ,$2)) $(PY) -B tools/workshop/make/completion.py $1 \
	$(INSTALL_LIB)/$2 $3 $(INSTALL_SHARE) $(PREFIX)

install: ## tools, images, manual pages, completion, below DESTDIR= and PREFIX=
	$(if $(filter own,$(STACK)),,$(error make install: it has the images of both stacks, so leave STACK= out))
	$(call need_commands,install,help2man shtab xz,help2man python3-shtab xz-utils)
	@$(MAKE) --no-print-directory install-built
install-built: $(INSTALL_NEEDS)
	install -d $(INSTALL_BIN) $(INSTALL_SHARE)/man/man1 $(INSTALL_SHARE)/doc/peregrine
	$(call put_tools,peregrine,deploy $(addprefix servers/,__init__.py exchange web))
	install -m 755 tools/peregrine tools/gg $(INSTALL_LIB)/peregrine
	$(foreach name,$(PROGRAMS),$(call put_images,$(call image_folder,$(name)),$(INSTALL_LIB)/peregrine/images$(if \
		$(filter-out player,$(name)),/$(name)))) true
	$(foreach name,$(LWIP_PROGRAMS),$(call put_images,$(call lwip_folder,$(name)),$(INSTALL_LIB)/peregrine/images/$(if \
		$(filter-out player,$(name)),$(name)-)lwip)) true
	install -D -t $(INSTALL_LIB)/peregrine/images/host $(CHECK_SETTINGS_ALL) $(LINUX_PROGRAMS) $(LOAD) $(REPLAY)
	$(call put_tools,peregrine-contest,latencies.py $(addprefix servers/,__init__.py contest players web))
	ln -sf ../lib/peregrine/peregrine ../lib/peregrine/gg $(INSTALL_BIN)
	ln -sf ../lib/peregrine/servers/exchange/exchange $(INSTALL_BIN)/peregrine-exchange
	ln -sf ../lib/peregrine-contest/servers/contest/contest $(INSTALL_BIN)/peregrine-contest
	$(foreach name,$(PROGRAMS),ln -sf ../lib/peregrine/images/host/$(notdir $(call linux_program,$(name))) \
		$(INSTALL_BIN)/$(call linux_command,$(name)) &&) true
	install -m 644 docs/peregrine.1 docs/gg.1 $(INSTALL_SHARE)/man/man1
	sed -i 's,docs/\([a-z]*\.\(md\|conf\)\),$(abspath $(PREFIX))/share/doc/peregrine/\1,' \
		$(INSTALL_SHARE)/man/man1/peregrine.1 $(INSTALL_SHARE)/man/man1/gg.1
	sed -E -e 's/^(\.TH )CONTEST/\1PEREGRINE-CONTEST/; s/^((\.B )?)contest( |$$)/\1peregrine-contest\3/' \
		-e 's,docs/contest.md,$(abspath $(PREFIX))/share/doc/peregrine-contest/contest.md,' docs/contest.1 \
		>$(INSTALL_SHARE)/man/man1/peregrine-contest.1
	$(foreach name,$(PROGRAMS),help2man --no-info --name "the program $(name) of Peregrine, on Linux" \
		--output $(INSTALL_SHARE)/man/man1/$(call linux_command,$(name)).1 \
		$(INSTALL_BIN)/$(call linux_command,$(name)) &&) true
	help2man --no-info --name "a simulated exchange, and recorded days played again" \
		--output $(INSTALL_SHARE)/man/man1/peregrine-exchange.1 $(INSTALL_BIN)/peregrine-exchange
	$(call put_completion,peregrine,peregrine/peregrine,parser)
	$(call put_completion,gg,peregrine/gg,make_parser)
	$(call put_completion,peregrine-contest,peregrine-contest/servers/contest/__main__.py,make_parser)
	install -d $(INSTALL_SHARE)/peregrine/tree $(INSTALL_SHARE)/pkgconfig
	tar -c --exclude=__pycache__ --no-same-owner $(TREE) | tar -x -C $(INSTALL_SHARE)/peregrine/tree
	printf 'tree=%s\n\nName: peregrine\nDescription: the tree that builds programs of one'"'"'s own\nVersion: %s\n' \
		'$(abspath $(PREFIX))/share/peregrine/tree' '$(VERSION)' >$(INSTALL_SHARE)/pkgconfig/peregrine.pc
	cp -r --no-preserve=ownership share/monitoring $(INSTALL_SHARE)/peregrine
	install -m 644 CHANGELOG.md docs/example.conf $(INSTALLED_PAGES:%=docs/%.md) $(INSTALL_SHARE)/doc/peregrine
	install -D -m 644 -t $(INSTALL_SHARE)/doc/peregrine-contest docs/contest.md

# An archive of a commit has the same bytes wherever and whenever it is made. An unpacked archive has no commit: its own
# archive has what stands in the tree, with the time of VERSION.
RELEASE_NAME := peregrine-$(VERSION)
DIST := $(BUILD)/$(RELEASE_NAME).tar.gz
COMMITTED = git -c tar.umask=0022 archive --format=tar --prefix=$(RELEASE_NAME)/ HEAD
UNPACKED = tar -c --sort=name --numeric-owner --owner=0 --group=0 --mode=u=rwX,go=rX --mtime=./VERSION \
	--no-wildcards-match-slash \
	$(patsubst %,--exclude='%',$(sort ./build ./$(BUILD)) ./*.conf __pycache__ *.pyc .pytest_cache ./.hypothesis \
	$(addprefix ./debian/,.debhelper tmp files *-stamp *.log *.substvars peregrine peregrine-contest peregrine-dev)) \
	--transform='s,^\.,$(RELEASE_NAME),S' .
dist: ## build/peregrine-VERSION.tar.gz, the source of the commit that is checked out
	$(if $(wildcard .git),$(call need_commands,dist,git,git))
	@mkdir -p $(BUILD)
	$(if $(wildcard .git),$(COMMITTED),$(UNPACKED)) | gzip -9 -n >$(DIST).part && mv $(DIST).part $(DIST) || \
		{ rm -f $(DIST).part; exit 1; }
	@sha256sum $(DIST)

# Made of that archive, in a folder of its own, to which the fetched lwIP is added.
DEB_COMMANDS := dpkg-buildpackage dh dh_python3 help2man lintian shtab xz
DEB_PACKAGES := build-essential debhelper dh-python grub-common help2man lintian nasm python3-shtab xz-utils
deb: ## build/deb/*.deb: peregrine, peregrine-contest, the server, and peregrine-dev, the tree
	$(call need_commands,deb,$(DEB_COMMANDS),$(DEB_PACKAGES))
	@dpkg-checkbuilddeps
	@$(MAKE) --no-print-directory dist $(LWIP_FETCHED)
	rm -rf $(BUILD)/deb && mkdir $(BUILD)/deb
	tar -xf $(DIST) -C $(BUILD)/deb
	mkdir $(BUILD)/deb/$(RELEASE_NAME)/build && cp -a $(LWIP) $(BUILD)/deb/$(RELEASE_NAME)/build
	cd $(BUILD)/deb/$(RELEASE_NAME) && \
		env -u MAKEFLAGS -u MAKELEVEL -u BUILD -u STACK -u PROGRAM dpkg-buildpackage -b -us -uc -j$$(nproc)
	cd $(BUILD)/deb && lintian --fail-on error *.changes
.PHONY: install install-built dist deb
