# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034
#
# The functions and variables that the scripts share: paths and messages.

set -euo pipefail

scripts=$(realpath "${BASH_SOURCE[0]%/*}")
top=${scripts%/*}
cache=${RKPROBE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rkprobe}

# A git hook sets these variables for its own repository.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

# make exports ARCH even if it is not set. The build of KDIR would use the empty value.
[ "${ARCH-}" ] || unset ARCH

say() { printf '%s\n' "${0##*/}: $*" >&2; }
die() { say "$*"; exit 1; }

is_whole() { [ -e "$1/complete" ]; }

. "$scripts/arch.sh"

# This machine's architecture.
arch_of "$(uname -m)" || die "runs on ${architectures[*]} only, this is $(uname -m)"
host=$arch host_qemu_package=$qemu_package

# Finds the architecture of KDIR or KERNEL. Without them, uses ARCH, or this machine's architecture.
find_arch() {
	local name options=${KDIR-}/include/config/auto.conf
	for name in "${architectures[@]}"; do
		use_arch "$name"
		if [ "${KDIR-}" ] && [ -e "$options" ]; then
			! grep -qx "CONFIG_$arch_option=y" "$options" || return 0
		elif [[ ${KERNEL-}- == *-$name-* ]]; then
			return
		fi
	done
	arch_of "${ARCH:-$host}" || die "ARCH=$ARCH: rkprobe is for ${architectures[*]} only"
}

find_arch
# is_foreign: whether the kernel is for another architecture than this machine's.
is_foreign() { [ "$arch" != "$host" ]; }

# The default of KERNEL: the newest kernel of Debian 13.
default_kernel="*+deb13-$arch"

# The programs of the virtual machines.
guest_packages=(busybox-static iproute2 procps less strace tmux zstd linux-perf trace-cmd bpftool bpftrace)

# A toolroot is a root file system of one suite. It contains the tools that built the suite's kernels, and the tools
# that run them. The suite determines the versions of the tools. Each list of packages has its own toolroot.
packages=(
	# the kernel's build
	gcc libc6-dev rustc rust-src bindgen libclang-dev make flex bison bc libelf-dev
	libssl-dev kmod pahole xz-utils cpio python3-minimal ca-certificates
	# the host's tests and checks
	cargo rustfmt rust-clippy shellcheck libclang-rt-dev
	# virtual machines
	"$host_qemu_package" "${guest_packages[@]}"
)

# For another architecture, the toolroot also has these packages.
cross_packages=("gcc-${machine/_/-}-linux-gnu" "libc6-dev-$arch-cross" "$qemu_package")

# The programs of such a virtual machine are in a separate root file system. The packages there are unpacked, but not
# set up, because this machine cannot run their scripts.
foreign_packages=("${guest_packages[@]}" binutils kmod mount)

# KERNEL is a release, as uname -r prints it, or a shell pattern of releases. setup stores the release that it chose for
# a pattern. All scripts use this release until make update.
asked=${KERNEL:-$default_kernel}
patterns=$cache/patterns
is_pattern() { [[ $asked == *[*?[]* ]]; }

# use_kernel RELEASE: set the paths of this kernel and its tools. Scripts that this script calls use the same kernel,
# even if the pattern selects another kernel by then.
use_kernel() {
	release=$1
	export KERNEL=${release:-$asked}
	case $KERNEL in
	*+deb14*) suite=forky ;;
	*) suite=trixie ;;
	esac
	toolroot=$cache/toolroot-$suite-$(sha256sum <<<"${packages[*]}" | cut -c1-8)
	kernel=$cache/linux-$release
	guest_root=''
	! is_foreign ||
		guest_root=$cache/guest-$arch-$suite-$(sha256sum <<<"${foreign_packages[*]}" | cut -c1-8)
	# The kernel of DEBUG=1: the same source with debug.config, built by the suite's clang.
	debug_kernel=$cache/debug-$release-$(sha256sum <"$scripts/debug.config" | cut -c1-8)
	# The kernels of IN_TREE=1, and of IN_TREE=1 DEBUG=1.
	in_tree=$cache/in-tree-$release
	debug_in_tree=$cache/in-tree-${debug_kernel##*/}
	arm64_modules=$cache/arm64-${release%%-*}-arm64
	# The modules for each kernel have a separate directory.
	built=$top/build/$release${DEBUG:+-debug}
	[ -z "${KDIR-}" ] || built=$top/build/$(cat "$KDIR/include/config/kernel.release" 2>/dev/null || true)
}

# Prints the release that KERNEL selects, or nothing if setup has not searched for it yet.
find_release() {
	if is_pattern; then
		[ ! -e "$patterns" ] || awk -v pattern="$asked" '$1 == pattern { print $2 }' "$patterns"
	else
		printf '%s\n' "$asked"
	fi
}

use_kernel "$(find_release)"

# Whether the kernel is set up, with Rust metadata from the compiler of this toolroot.
has_kernel() { [ "$release" ] && cmp -s "$kernel/complete" "$toolroot/complete"; }

# Whether the toolroot can build for the architecture and run its machines. Their library must be from its compiler.
has_arch() { ! is_foreign || { [ -e "$toolroot/cross-$arch" ] && cmp -s "$guest_root/complete" "$toolroot/complete"; }; }

# kernel_cc CONFIG: the compiler that Debian built the kernel with, such as x86_64-linux-gnu-gcc-14.
kernel_cc() { sed -n 's/^CONFIG_CC_VERSION_TEXT="\([^ ]*\) .*/\1/p' "$1"; }

# cross_variables: print make's variables for another architecture, one on each line.
cross_variables() {
	is_foreign || return 0
	printf '%s\n' "ARCH=$kernel_arch" "CROSS_COMPILE=${CROSS_COMPILE-$gnu-}"
}

# make_variables: print make's variables for the source of the cache's kernel, one on each line.
make_variables() {
	local cc
	cc=$(kernel_cc "$kernel/config")
	printf '%s\n' "CC=$cc"
	if is_foreign; then
		printf '%s\n' HOSTCC=gcc
		cross_variables
	else
		printf '%s\n' "HOSTCC=$cc"
	fi
}

debug_packages=(clang lld llvm)
debug_make=(make LLVM=1)
! is_foreign || debug_make+=("ARCH=$kernel_arch")

# keep_generated DIR: print the arguments with which make, for an external module, does not write the sources again that
# the build of the kernel in DIR has generated. The module depends on them, and their commands name its directory.
keep_generated() {
	local file
	for file in "$1"/rust/kernel/generated_*.rs; do
		printf '%s\n' "--eval=$file: ;"
	done
	# The first rule is not the one to make.
	printf '%s\n' '--eval=.DEFAULT_GOAL :='
}

# find_make: set `make` to the command that builds modules for the kernel.
find_make() {
	local variables
	if [ "${KDIR-}" ]; then
		mapfile -t variables < <(cross_variables)
		make=(make -C "$KDIR" "${variables[@]}")
	elif [ "${DEBUG-}" ]; then
		mapfile -t variables < <(keep_generated "$debug_kernel")
		make=("$scripts/toolroot" --read-only "${debug_make[@]}" "${variables[@]}" -C "$debug_kernel")
	else
		make=("$scripts/kernel-make")
	fi
}

debug_options() {
	arch_config <"$scripts/debug.config"
	grep -x CONFIG_PREEMPT_RT=y "$kernel/config" || true
}

# The packages of exits-check. It also needs the modules of Debian's arm64 kernel of the same version.
exits_packages=(llvm)

# The packages for the tests and the patches of make in-tree. They run selftests in virtme-ng, and checkpatch.
in_tree_packages=(perl rsync udev systemd-sysv virtme-ng)

# The packages of make deb.
deb_packages=(debhelper dh-dkms)

# literal_blocks DOCUMENT DIR: write the literal blocks of DOCUMENT, without their indentation, to DIR/NUMBER.KIND. KIND is
# the argument of "code-block", or "text".
literal_blocks() {
	awk -v dir="$2" '
		/^[^ ]/ { file = ""; kind = "text" }
		/^\.\. code-block::/ { kind = $3 }
		/^  [^ ]/ && !file { file = sprintf("%s/%03d.%s", dir, ++n, kind) }
		file { print substr($0, 3) >file }' "$top/Documentation/$1"
}

# tiny_config SOURCE OPTIONS MAKE...: write a .config to the current directory. It has only the options in the file
# OPTIONS, and their dependencies.
tiny_config() {
	local option options=$2 merge=$1/scripts/kconfig/merge_config.sh
	shift 2
	"$@" tinyconfig
	"$scripts/toolroot" env KCONFIG_CONFIG=.config "$merge" -m .config "$options"
	"$@" olddefconfig
	# make drops an option without a message if its dependencies are not met.
	grep -E '^CONFIG_[^=]*=' "$options" | while read -r option; do
		case $option in
		*=n) ! grep -q "^${option%n}" .config ;;
		*) grep -qxF "$option" .config ;;
		esac || die "${options##*/}: this kernel does not take $option"
	done
}

# The files of the kernel that make in-tree changes.
in_tree_files() { sed -n 's,^+++ b/,,p' "$scripts"/in-tree*.diff | sort -u; }

# commit_plain SOURCE: make SOURCE a git repository, for make in-tree. The commit contains only the files that make
# in-tree changes, because a commit of all files would take more than a minute and 600 MB.
commit_plain() {
	local -x GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
	git -C "$1" init -q && in_tree_files | xargs git -C "$1" add -f &&
		git -C "$1" -c user.name=plain -c user.email=plain@localhost commit -q -m plain
}

# has_plain SOURCE: whether commit_plain committed all files that make in-tree now changes.
has_plain() { [ -e "$1/.git" ] && in_tree_files | xargs git -C "$1" ls-files --error-unmatch >/dev/null 2>&1; }

# series_files NAME: print the files of the kernel that the series NAME changes.
series_files() { sed -n 's,^+++ b/,,p' "$scripts/series-$1"/*/lines.diff | sort -u; }

# kernel_source: print the source directory of the tested kernel.
kernel_source() {
	if [ "${DEBUG-}" ]; then
		printf '%s\n' "$debug_kernel"
	elif [ -z "${KDIR-}" ]; then
		printf '%s\n' "$kernel/source"
	elif [ -e "$KDIR/source" ]; then
		printf '%s\n' "$KDIR/source"
	else
		printf '%s\n' "$KDIR"
	fi
}

# mount_host ROOT: mount the host's directories, except those of its operating system, in ROOT under their own paths.
# The caller must have a separate mount namespace.
mount_host() {
	local dir
	for dir in /*; do
		case $dir in
		/bin | /boot | /etc | /lib* | /lost+found | /run | /sbin | /usr | /var) continue ;;
		esac
		if [ ! -d "$dir" ] || [ -L "$dir" ]; then continue; fi
		mkdir -p "$1$dir"
		mount --rbind "$dir" "$1$dir"
	done
	for dir in /var/tmp "$cache" "$top" "$PWD" ${KDIR:+"$KDIR"}; do
		[ "$1$dir" -ef "$dir" ] && continue
		mkdir -p "$1$dir"
		mount --rbind "$dir" "$1$dir"
	done
}

need_root() {
	[ "$(id -u)" = 0 ] || die "this needs root (for chroot and mounts): run it as root"
}

# check_version NAME RELEASE: fail if the kernel is older than 7.2.
check_version() {
	local major=${2%%.*} minor=${2#*.}
	minor=${minor%%[!0-9]*}
	[[ $major =~ ^[0-9]+$ && $minor ]] || die "$1 is no release of a kernel: make kernels lists some"
	[ $((major * 1000 + minor)) -ge 7002 ] ||
		die "$1 is Linux $major.$minor, and 7.2 is the first that has what rkprobe needs"
}

# check_config NAME CONFIG: fail if an option is missing that rkprobe needs according to Kbuild.
check_config() {
	local option
	for option in "$arch_option" $(sed -En "s/^needed(_$arch_option)? := //p" "$top/Kbuild"); do
		grep -qx "CONFIG_$option=y" "$2" || die "$1 is a kernel without CONFIG_$option, which rkprobe needs"
	done
}

# check_kdir: fail if no Rust module can be built for the user's own kernel tree.
check_kdir() {
	local config=$KDIR/include/config
	[ -e "$config/kernel.release" ] ||
		die "KDIR=$KDIR is not a built kernel tree: it has no include/config/kernel.release"
	check_version "KDIR=$KDIR" "$(<"$config/kernel.release")"
	check_config "KDIR=$KDIR" "$config/auto.conf"
	[ -e "$KDIR/rust/libkernel.rmeta" ] ||
		die "KDIR=$KDIR has no Rust metadata (rust/libkernel.rmeta): build it, headers are not enough"
}

# build_program NAME [host]: build this program of the workspace for the virtual machine, or for this machine, and print
# its path. The program is linked statically, because the virtual machine has no libraries.
build_program() {
	local target=$machine-unknown-linux-gnu std flags=() options=(--quiet --locked --release -p "$1" --bin "$1")
	local out=$top/target
	if [ $# = 1 ] && is_foreign; then
		out=$out/$target
		std=$guest_root/usr/lib/rustlib/$target/lib
		flags=(env "RUSTFLAGS=-C linker=$gnu-gcc -L $std")
		options+=(--target "$target")
	fi
	cd "$top" &&
		"$scripts/toolroot" "${flags[@]}" cargo rustc "${options[@]}" -- -C target-feature=+crt-static >&2 &&
		printf '%s\n' "$out/release/$1"
}

# build_tool: build the command-line tool for the virtual machine, and print its path.
build_tool() { build_program rkprobe; }

# Prints the version of rkprobe. Cargo.toml of the tool is the only place for it.
tool_version() { sed -n 's/^version = "\(.*\)"$/\1/p' "$top/tools/rkprobe/Cargo.toml"; }

# saved_command OBJECT: print kbuild's command that compiled OBJECT, without the options for the source and the output.
saved_command() {
	local saved=${1%/*}/.${1##*/}.cmd
	[ -e "$saved" ] || die "$PWD/$saved is missing: build it first"
	sed -n 's/^savedcmd_[^ ]* := //p' "$saved" | sed -E 's/ +; .*//; s/ [^ ]+\.rs *$//
		s/ --out-dir [^ ]+//; s/ --emit=[^ ]+//g'
}

# The reports of a kernel that has a problem.
trouble='Oops|BUG:|WARNING:|cut here|general protection|Kernel panic|KASAN|KCSAN|UBSAN'
trouble+='|suspicious RCU usage|rcu: INFO|INFO: task|possible .*(deadlock|locking|recurs)|lock state'
trouble+='|held lock|lockdep is turned off|DEBUG_LOCKS_WARN|kmemleak: [1-9]'

# find_trouble FILE: print the reports in this log. The one that is left out is harmless and the kernel's own, see
# Documentation/kernel-reports.rst.
find_trouble() { grep -aE "$trouble" "$1" | grep -avF 'stack going in the wrong direction? at return_to_handler+'; }
