# SPDX-License-Identifier: GPL-2.0
#
# For people: make help. How rkprobe.ko is built stands in Kbuild, which is what kbuild reads. The modules
# for a kernel are built in build/RELEASE.

.DEFAULT_GOAL := rkprobe.ko
MAKEFLAGS += --no-print-directory

# Text for the guest's shell: nothing in it is make's.
override CMD := $(value CMD)
export CMD APPEND ARCH CPUS DEBIAN_MIRROR DEBUG IN_TREE KERNEL KVM MEMORY OPS QEMU_OPTS SEED STORM_SKIP VM_TIMEOUT

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

kbuild_variables := $(foreach v,C CLIPPY LLVM V W,$(if $($(v)),$(v)=$($(v))))
module := $(if $(filter no,$(MODULE)),,rkprobe.ko)
vm := scripts/vm --full $(if $(module),--module $(module))

.PHONY: rkprobe.ko
rkprobe.ko:
	+@scripts/build $(kbuild_variables) >&2

.PHONY: install
install: rkprobe.ko
	@scripts/install

.PHONY: kernels
kernels:
	@scripts/kernels

.PHONY: tool
tool: setup
	@scripts/tool

.PHONY: tool-picture
tool-picture: setup
	@scripts/tool-picture

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

.PHONY: bench
bench: setup
	@scripts/bench $(ROWS)

.PHONY: in-tree
in-tree:
	@scripts/in-tree '$(KTREE)'

.PHONY: patches
patches:
	@scripts/setup -q --in-tree
	@scripts/patches '$(KTREE)' $(OUT)

.PHONY: deb
deb:
	@scripts/deb

.PHONY: test-deb
test-deb: deb
	@scripts/test-deb

.PHONY: doc
doc:
	+@scripts/build $(kbuild_variables) RKPROBE_SAMPLES=y >&2
	@scripts/doc

.PHONY: vm
vm: $(module) setup
	@[ "$$CMD" ] || { echo "what to run? make vm CMD='...'" >&2; false; }
	@$(vm) "$$CMD"

.PHONY: shell
shell: $(module) setup
	@$(vm)

# With KDIR the tools to run a machine are needed, but no kernel.
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
#: make install		put it among the modules of this machine's kernel KERNEL
#: make kernels		list Debian's kernels that it can be built for
#: make tool		build the command-line tool rkprobe, in tools/rkprobe/target
#: make tool-picture	draw Documentation/rkprobe-lat.svg with it, in a virtual machine
#: make demo		load it in a virtual machine, trace open(2), fork(2) and wait(2)
#: make test		run every test
#: make test-kernels	the module's tests, on several of Debian's kernels, or on KERNELS='...'
#: make test-upstream	run the kernel's own tests of probe events, for the kernel's and for rkprobe's
#: make parity		thousands of commands, by the kernel's own implementation and by ours
#: make fuzz		any inputs for the parsers, RUNS=1000000 for each of TARGETS='command btf ...'
#: make storm		random operations at once, OPS=100000 of them in the order that SEED=1 gives
#: make exits-check	where functions leave, by our decoders and by llvm-objdump, over every function
#: make bench		what hits and commands cost, beside the kernel's; some of the rows only by ROWS='p0 r'
#: make in-tree		commit it to the source of a kernel, in the git repository KTREE=DIR
#: make patches		the same as a series for git am, KTREE=DIR, in patches/ or OUT=DIR
#: make deb		rkprobe-dkms_VERSION_all.deb, which builds it for each kernel of a machine, and
#:			rkprobe_VERSION_ARCH.deb with the command-line tool
#: make test-deb		install them in a clean Debian 13, upgrade its kernel, and remove it again
#: make doc		the documentation of ktrace as HTML, in doc/
#: make vm CMD='...'	run a command in a virtual machine that has it loaded
#: make shell		an interactive shell there
#: make update		ask the archive for the newest kernel that matches KERNEL, or the default
#: make clean		remove what was built here (not what was set up)
#:
#: The kernel is Debian's, set up once for all checkouts in ~/.cache/rkprobe, which may be deleted at
#: any time. Setting it up needs root, 7 GiB of disk (3 GiB for each other kernel) and a Debian mirror.
#:
#: KERNEL=RELEASE	the kernel, as uname -r prints it, in any flavour: 7.3.4+deb13-rt-amd64. Or the newest
#:			that matches a pattern: '7.3.*+deb13-rt-amd64'
#: ARCH=arm64		the newest kernel of Debian 13 for arm64. Not needed with a KERNEL or KDIR of arm64
#: KDIR=DIR		a kernel tree of your own, built and with Rust, instead
#: IN_TREE=1		test: as a part of a kernel's source, built in and as a module; no other tests.
#:			With DEBUG=1 as a module of the debug kernel
#: DEBUG=1		a kernel that looks for errors instead; it is built once, in 30 min
#: FILES='...'		test-upstream: some of them only, such as kprobe/profile.tc
#: VMLINUX='FILE...'	exits-check: kernels with symbols, or modules, x86-64 or arm64, instead
#: CASES=FILE		parity: the commands in this file instead
#: OPS=100000 SEED=1	storm: how many operations, and which; test: the same of its short storm
#: STORM_SKIP=a,b	storm: without these kinds of operations
#: LLVM=1 CLIPPY=1 W=1 V=1	as in the kernel's build
#: CPUS=2 MEMORY=1G	the machine; KVM=1 to not emulate it
#: QEMU_OPTS= APPEND=	more options of QEMU, more of the kernel's command line
#: MODULE=no		vm, shell: without rkprobe.ko
#: VM_TIMEOUT=300	seconds until a machine is stopped
#: INSTALL_MOD_PATH=DIR	install: the root file system of another machine
#: DEBIAN_MIRROR=URL	the archive; by default the one that this machine's apt uses
#: RKPROBE_CACHE=DIR	where the set-up is kept
