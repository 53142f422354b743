# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034
#
# What the scripts share: where things are kept, and how they speak to the user.

set -euo pipefail

scripts=$(realpath "${BASH_SOURCE[0]%/*}")
top=${scripts%/*}
cache=${RKPROBE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rkprobe}
series=${KERNEL_SERIES:-7.2}

# The toolroot: a root file system with the tools that the kernel was built with, and those
# that run it. Another list makes another toolroot.
suite=trixie
packages=(
	# the kernel's build
	gcc-14 libc6-dev rustc rust-src bindgen libclang-19-dev make flex bison bc libelf-dev
	libssl-dev kmod pahole xz-utils cpio python3-minimal ca-certificates
	# the host's tests and checks
	cargo rustfmt rust-clippy shellcheck libclang-rt-19-dev
	# virtual machines, and what is run in them
	qemu-system-x86 busybox-static iproute2 procps less strace zstd
	linux-perf trace-cmd bpftool
)
toolroot=$cache/toolroot-$suite-$(sha256sum <<<"${packages[*]}" | cut -c1-8)

say() { printf '%s\n' "${0##*/}: $*" >&2; }
die() { say "$*"; exit 1; }

is_whole() { [ -e "$1/complete" ]; }

# The newest kernel of the series that the toolroot's compilers were used on, or nothing.
newest_kernel() {
	local kernel
	kernel=$(printf '%s\n' "$cache/kernel-$series".*/complete | sort -V | tail -n 1)
	cmp -s "$kernel" "$toolroot/complete" && printf '%s\n' "${kernel%/*}"
}

# The kernel of DEBUG=1: of the same source, with what stands in debug.config, by these compilers.
debug_packages=(clang-19 lld-19 llvm-19)
debug_make=(make LLVM=-19)
debug_kernel() {
	local kernel
	kernel=$(newest_kernel) || return
	printf '%s\n' "$cache/debug-${kernel##*/kernel-}-$(sha256sum <"$scripts/debug.config" | cut -c1-8)"
}

# The kernel of DEBUG=1 IN_TREE=1: the same, with the project as a part of its source. Made by
# scripts/debug-in-tree.
debug_in_tree() {
	local kernel
	kernel=$(debug_kernel) || return
	printf '%s\n' "$cache/in-tree-${kernel##*/}"
}

# What exits-check compares with, and modules of the series for arm64: text, nothing that is run.
exits_packages=(llvm-19)
arm64_modules() {
	local complete
	complete=$(printf '%s\n' "$cache/arm64-$series".*/complete | sort -V | tail -n 1)
	[ -e "$complete" ] && printf '%s\n' "${complete%/*}"
}

# What make in-tree's tests and its patches need: the installation of selftests, and checkpatch.
in_tree_packages=(perl rsync)

# What make deb needs.
deb_packages=(debhelper dh-dkms)

# tiny_config SOURCE OPTIONS MAKE...: in the current directory, a .config of nothing but the OPTIONS,
# which are a file, and of what they need.
tiny_config() {
	local option options=$2 merge=$1/scripts/kconfig/merge_config.sh
	shift 2
	"$@" tinyconfig
	"$scripts/toolroot" env KCONFIG_CONFIG=.config "$merge" -m .config "$options"
	"$@" olddefconfig
	# What depends on something that is not there is dropped silently.
	grep -E '^CONFIG_[^=]*=' "$options" | while read -r option; do
		case $option in
		*=n) ! grep -q "^${option%n}" .config ;;
		*) grep -qxF "$option" .config ;;
		esac || die "${options##*/}: this kernel does not take $option"
	done
}

# The source of the kernel that the tests are run on.
kernel_source() {
	if [ "${DEBUG-}" ]; then
		debug_kernel
	elif [ -z "${KDIR-}" ]; then
		printf '%s\n' "$(newest_kernel)/source"
	elif [ -e "$KDIR/source" ]; then
		printf '%s\n' "$KDIR/source"
	else
		printf '%s\n' "$KDIR"
	fi
}

# Where the modules are built: those for the debug kernel beside the others.
built=$top${DEBUG:+/debug}

need_root() {
	[ "$(id -u)" = 0 ] || die "this needs root (for chroot and mounts): run it as root"
}

# A kernel tree of the user's own: can a Rust module be built for it?
check_kdir() {
	[ -e "$KDIR/include/config/auto.conf" ] ||
		die "KDIR=$KDIR is not a built kernel tree: it has no include/config/auto.conf"
	grep -qx CONFIG_RUST=y "$KDIR/include/config/auto.conf" ||
		die "KDIR=$KDIR is a kernel without Rust: CONFIG_RUST is not set (make rustavailable tells why)"
	[ -e "$KDIR/rust/libkernel.rmeta" ] ||
		die "KDIR=$KDIR has no Rust metadata (rust/libkernel.rmeta): build it, headers are not enough"
}

# saved_command OBJECT: how kbuild compiled it, without its source and what was made of it.
saved_command() {
	local saved=${1%/*}/.${1##*/}.cmd
	[ -e "$saved" ] || die "$PWD/$saved is missing: build it first"
	sed -n 's/^savedcmd_[^ ]* := //p' "$saved" | sed -E 's/ +; .*//; s/ [^ ]+\.rs *$//
		s/ --out-dir [^ ]+//; s/ --emit=[^ ]+//g'
}
