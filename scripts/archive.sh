# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
#
# Debian's archive: its kernels and their packages. This machine's apt queries the archive with separate package lists,
# so this works for every suite and architecture.

# Sets DEBIAN_MIRROR. Prefers the mirror that this machine uses.
find_mirror() {
	local list
	# shellcheck disable=SC2016 # apt expands these
	if [ -z "${DEBIAN_MIRROR-}" ]; then
		list=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages')
		DEBIAN_MIRROR=$(awk '$NF ~ "/debian/?$" && ($1 == "Debian" || NF == 1) { print $NF; exit }' \
			<<<"$list")
		: "${DEBIAN_MIRROR:=$(awk '$1 == "Debian" && !/security/ { print $2; exit }' <<<"$list")}"
		case $DEBIAN_MIRROR in
		mirror+file:*) DEBIAN_MIRROR=$(awk '{ print $1; exit }' "${DEBIAN_MIRROR#mirror+file:}") ;;
		esac
	fi
	[ "$DEBIAN_MIRROR" ] ||
		die "no Debian mirror in apt's sources: name one, make DEBIAN_MIRROR=http://HOST/debian"
	DEBIAN_MIRROR=${DEBIAN_MIRROR%/}
}

# debootstrap_suite SUITE ROOT: make a minimal root file system of the suite. Its apt uses the same proxies as this
# machine's.
debootstrap_suite() {
	local script=()
	if ! command -v debootstrap; then
		apt-get update
		DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends debootstrap
	fi
	# An older debootstrap has no script for newer suites.
	[ -e "/usr/share/debootstrap/scripts/$1" ] || script=(/usr/share/debootstrap/scripts/sid)
	mkdir -p "$2/etc/apt/apt.conf.d"
	apt-config dump | grep -E '^Acquire::(https?::Proxy|Check-(Date|Valid-Until)|Retries)\b' \
		>"$2/etc/apt/apt.conf.d/90host" || true
	eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
	export http_proxy=${http_proxy-} https_proxy=${https_proxy-}
	unshare --mount --propagation private -- \
		debootstrap --variant=minbase "$1" "$2" "$DEBIAN_MIRROR" "${script[@]}"
}

# archive ARCHITECTURE CMD...: run a command of apt, with the lists of ask_archive.
archive() {
	local lists=$cache/archive-$1
	"$2" -o APT::Architecture="$1" -o APT::Architectures="$1" -o APT::Sandbox::User=root \
		-o Dir::State="$lists" -o Dir::State::status="$lists/status" -o Dir::Cache="$lists" \
		-o Dir::Etc::sourcelist="$lists/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Acquire::Languages=none -o Acquire::GzipIndexes=true -o APT::Get::List-Cleanup=false \
		-o APT::Update::Error-Mode=any "${@:3}"
}

# ask_archive ARCHITECTURE SUITE...: download the suites' lists of packages.
ask_archive() {
	local codename lists=$cache/archive-$1
	mkdir -p "$lists"/{lists,archives}/partial
	: >"$lists/status"
	for codename in "${@:2}"; do
		printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg target=Packages] %s %s main\n' \
			"$DEBIAN_MIRROR" "$codename"
	done >"$lists/sources.list"
	archive "$1" apt-get update
}

# Prints the suites with kernels that KERNEL can name.
kernel_suites() {
	case $asked in
	*deb13*) echo trixie-backports ;;
	*deb14*) printf '%s\n' forky sid ;;
	*) printf '%s\n' trixie-backports forky sid ;;
	esac
}

# Prints the packages of the kernel RELEASE in VERSION, in apt's form.
kernel_packages() {
	local series
	series=$(cut -d. -f1,2 <<<"$1")
	printf "linux-%s=$2\n" "source-$series" "headers-$1" "binary-$1" "modules-$1" "base-$1"
}

# Prints "RELEASE VERSION SUITE" for each kernel of the architecture since 7.2, if a suite has all of its packages in
# one version. The newest kernel comes first. If several kernels have the same version, kernels without a flavour come
# first.
offered_kernels() {
	local codename file
	# shellcheck disable=SC2016 # apt expands these
	archive "$arch" apt-get indextargets --format '$(CODENAME) $(FILENAME)' 'Created-By: Packages' |
		while read -r codename file; do
			archive "$arch" /usr/lib/apt/apt-helper cat-file "$file" | awk -v suite="$codename" '
				/^Package: linux-(source|headers|binary|modules|base)-[0-9]/ { name = substr($2, 7) }
				/^Version: / && name {
					offered[name, $2]
					if (sub(/^binary-/, "", name))
						kernels[name " " $2]
					name = ""
				}
				END {
					for (kernel in kernels) {
						split(kernel, is)
						split(is[1], number, ".")
						series = number[1] "." int(number[2])
						if (number[1] * 1000 + number[2] >= 7002 &&
						    ("source-" series, is[2]) in offered &&
						    ("headers-" is[1], is[2]) in offered &&
						    ("modules-" is[1], is[2]) in offered &&
						    ("base-" is[1], is[2]) in offered)
							print is[1], is[2], suite
					}
				}'
		done | sed 's/+/ /' | sort -k1,1Vr -k2,2 -k3,3Vr -k4 | sed 's/ /+/'
}
