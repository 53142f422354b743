# SPDX-License-Identifier: GPL-2.0
#
# The commands for people: see make help. Kbuild contains the rules by which kbuild builds rkprobe.ko. The modules
# for a kernel are in build/RELEASE.

.DEFAULT_GOAL := rkprobe.ko
MAKEFLAGS += --no-print-directory

# A string for the guest's shell. make must not expand it.
override CMD := $(value CMD)
export CMD APPEND ARCH CPUS DEBIAN_MIRROR DEBUG IN_TREE KERNEL KVM MEMORY OPS QEMU_OPTS SEED STORM_ONLY STORM_SKIP VM_TIMEOUT

ifdef KDIR
ifneq ($(KERNEL)$(DEBUG),)
$(error KDIR names a kernel: no KERNEL, and no DEBUG=1)
endif
override KDIR := $(realpath $(KDIR))
ifeq ($(KDIR),)
$(error KDIR: no such directory)
endif
export KDIR
endif

kbuild_variables := $(foreach v,C CLIPPY LLVM RKPROBE_SAMPLES V W,$(if $($(v)),$(v)=$($(v))))
module := $(if $(filter no,$(MODULE)),,rkprobe.ko)
vm := scripts/vm --full $(if $(module),--module $(module))

.PHONY: rkprobe.ko
rkprobe.ko:
	+@scripts/build $(kbuild_variables) >&2

.PHONY: install
install: rkprobe.ko
	@scripts/install

.PHONY: new-module
new-module:
	@scripts/new-module '$(DIR)'

.PHONY: kernels
kernels:
	@scripts/kernels

.PHONY: tool
tool: setup
	@scripts/tool

.PHONY: tool-picture
tool-picture: setup
	@scripts/tool-picture

.PHONY: tool-bench
tool-bench: setup
	@scripts/tool-bench

.PHONY: demo
demo: rkprobe.ko setup
	@scripts/demo

.PHONY: test
test: setup
	@scripts/test$(if $(IN_TREE),-in-tree)

.PHONY: test-kernels
test-kernels:
	@scripts/test-kernels $(foreach k,$(KERNELS),'$(k)')

.PHONY: test-upstream
test-upstream: rkprobe.ko setup
	@scripts/test-upstream $(FILES)

.PHONY: parity
parity: rkprobe.ko setup
	@scripts/parity $(CASES)

.PHONY: storm
storm: setup
	+@$(if $(IN_TREE),,scripts/build $(kbuild_variables) RKPROBE_SAMPLES=y >&2)
	@scripts/storm

.PHONY: fuzz
fuzz: setup
	@scripts/fuzz $(or $(RUNS),1000000) $(TARGETS)

.PHONY: exits-check
exits-check: setup
	@scripts/setup -q --exits
	@scripts/exits-check $(VMLINUX)

.PHONY: paths-check
paths-check: rkprobe.ko setup
	@scripts/paths-check

.PHONY: bench
bench: setup
	@scripts/bench $(ROWS)

.PHONY: in-tree
in-tree:
	@scripts/in-tree '$(KTREE)'

.PHONY: patches
patches:
	@scripts/setup -q $(if $(SERIES),,--in-tree)
	@scripts/$(if $(SERIES),series-patches '$(SERIES)',patches) '$(KTREE)' $(OUT)

.PHONY: deb
deb:
	@scripts/deb

.PHONY: test-deb
test-deb: deb
	@scripts/test-deb

.PHONY: release
release:
	+@scripts/release

.PHONY: doc
doc:
	+@scripts/build $(kbuild_variables) RKPROBE_SAMPLES=y >&2
	@scripts/doc

.PHONY: vm
vm: $(module) setup
	@[ "$$CMD" ] || { echo "the command is missing: make vm CMD='...'" >&2; false; }
	@$(vm) "$$CMD"

.PHONY: shell
shell: $(module) setup
	@$(vm) --add scripts/vm-workload:/run/vm/bin/workload

# KDIR needs the tools that run a virtual machine, but no kernel.
.PHONY: setup
setup:
	@scripts/setup -q $(if $(KDIR),--tools) $(if $(DEBUG),--debug) $(if $(IN_TREE),--in-tree)

.PHONY: update
update:
	@scripts/setup --update

.PHONY: clean
clean:
	@rm -rf build doc

.PHONY: help
help:
	@sed -n 's/^#: \?//p' $(firstword $(MAKEFILE_LIST))

#: make			build rkprobe.ko, in build/RELEASE
#: make install		install it for this machine's kernel KERNEL
#: make new-module DIR=DIR	write a module that uses ktrace, for you to change, to the new directory DIR
#: make kernels		list Debian's kernels for which rkprobe can be built
#: make tool		build the command-line tool rkprobe, in target/release
#: make tool-picture	draw Documentation/rkprobe-lat.svg and rkprobe-fails.svg with it, in a virtual machine
#: make tool-bench	measure what its runs cost, beside bpftrace
#: make demo		show the features of rkprobe in a virtual machine
#: make test		run all tests
#: make test-kernels	run the module's tests on several of Debian's kernels, or on KERNELS='...'
#: make test-upstream	run the kernel's own tests of probe events, on its implementation and on rkprobe
#: make parity		compare the effect of thousands of commands in the kernel's implementation and in rkprobe
#: make fuzz		run the fuzz targets of crate probe, RUNS=1000000 for each of TARGETS='command btf ...'
#: make storm		run OPS=100000 random operations concurrently; SEED=1 determines them
#: make exits-check	compare the exits of every function with those that llvm-objdump finds
#: make paths-check	compare the paths of the calls of 600 functions with the instructions that QEMU executes
#: make bench		measure the cost of hits and commands; ROWS='p0 r' selects rows, and
#:			ROWS=commands measures only commands, and ROWS=job a compile job beside
#:			object probes
#: make in-tree		commit rkprobe to the kernel source in the git repository KTREE=DIR
#: make patches		write the same commit as a series for git am, KTREE=DIR, to patches/ or OUT=DIR
#:			SERIES=ktrace: write the series of the kprobe abstraction, for the kernel that is set up
#:			or KTREE=DIR
#: make deb		build rkprobe-dkms_VERSION_all.deb, which builds rkprobe for each kernel of a machine, and
#:			rkprobe_VERSION_ARCH.deb with the command-line tool
#: make test-deb		install these packages in a clean Debian 13, upgrade them and the kernel, and purge them
#: make release		write the tarball of the last commit and these packages, built from it and tested, to release/
#: make doc		write the documentation of ktrace as HTML, to doc/
#: make vm CMD='...'	run a command in a virtual machine with the module loaded
#: make shell		open a shell in such a virtual machine, or run the commands in the standard input
#: make update		ask the archive for the newest kernel that matches KERNEL, or the default
#: make clean		remove the build output (the setup remains)
#:
#: The kernel is Debian's. It is set up once for all clones, in ~/.cache/rkprobe. You can delete this
#: directory at any time. The setup needs root, 7 GiB of disk (3 GiB for each other kernel) and a Debian mirror.
#:
#: KERNEL=RELEASE	the kernel, as uname -r prints it, of any flavour: 7.3.4+deb13-rt-amd64. Or the newest
#:			kernel that matches a pattern: '7.3.*+deb13-rt-amd64'
#: ARCH=arm64		the newest kernel of Debian 13 for arm64. Not needed if KERNEL or KDIR is for arm64
#: KDIR=DIR		your own kernel tree, built and with Rust, instead of KERNEL
#: IN_TREE=1		test: test rkprobe only as a part of the kernel's source, built in and as a module.
#:			With DEBUG=1, only as a module of the debug kernel
#: DEBUG=1		a kernel that checks for errors, instead of KERNEL; it is built once, in 30 min
#: FILES='...'		test-upstream: run only these tests, such as kprobe/profile.tc
#: VMLINUX='FILE...'	exits-check: check these kernels with symbols, or modules, x86-64 or arm64
#: CASES=FILE		parity: run only the commands in this file
#: OPS=100000 SEED=1	storm: the number of operations, and the seed; test: the same for its short storm
#: STORM_SKIP=a,b	storm: exclude these kinds of operations
#: STORM_ONLY=a,b	storm: run no other kinds of operations
#: LLVM=1 CLIPPY=1 W=1 V=1	as in the kernel's build
#: RKPROBE_SAMPLES=y	build also the samples, in build/RELEASE/samples/rust
#: CPUS=2 MEMORY=1G	the virtual machine's CPUs and memory; KVM=1 uses KVM instead of emulation
#: QEMU_OPTS= APPEND=	more options of QEMU, and more of the kernel's command line
#: MODULE=no		vm, shell: do not load rkprobe.ko
#: VM_TIMEOUT=300	seconds after which a virtual machine is stopped
#: INSTALL_MOD_PATH=DIR	install: the root file system of another machine
#: DEBIAN_MIRROR=URL	the archive; the default is the mirror of this machine's apt
#: RKPROBE_CACHE=DIR	the directory of the setup
