# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034
#
# The differences between architectures, for the set-up, the build and the virtual machine. The names are Debian's
# names. The machine of a new architecture needs four serial ports: see scripts/vm.

architectures=(amd64 arm64)

# use_arch NAME: set the variables that depend on the architecture. A new architecture needs a new case.
use_arch() {
	arch=$1
	case $arch in
	amd64)
		# The output of uname -m, the kernel's name, the option of its configuration, its image.
		machine=x86_64 kernel_arch=x86_64 arch_option=X86_64 arch_image=arch/x86/boot/bzImage
		# QEMU: its package, its machine, a processor that is emulated faster, the ports 1 to 3, the kernel's command
		# line.
		qemu_package=qemu-system-x86
		qemu_machine=()
		qemu_fast=''
		qemu_ports=(-serial chardev:out -serial chardev:err -serial chardev:status)
		arch_append='console=ttyS0 no_timer_check'
		;;
	arm64)
		machine=aarch64 kernel_arch=arm64 arch_option=ARM64 arch_image=arch/arm64/boot/Image
		qemu_package=qemu-system-arm
		# The machine has one built-in port. The others are on a PCI card.
		qemu_machine=(-M virt -cpu max)
		# Pointer authentication takes a quarter of the time.
		qemu_fast='-cpu max,pauth=off'
		qemu_ports=(-device 'pci-serial-4x,chardev2=out,chardev3=err,chardev4=status')
		arch_append=console=ttyAMA0
		;;
	esac
	gnu=$machine-linux-gnu
}

# arch_config: adapt the options of a small kernel, from the standard input, to this architecture. Its machine has the
# serial ports of use_arch.
arch_config() {
	case $arch in
	amd64) cat ;;
	arm64)
		sed -E '/^CONFIG_(ACPI|CMDLINE_BOOL|UNWINDER_ORC|SERIAL_8250_PCI)=/d'
		printf 'CONFIG_%s=y\n' PCI PCI_HOST_GENERIC SERIAL_8250_PCI SERIAL_AMBA_PL011{,_CONSOLE}
		;;
	esac
}

# arch_of NAME: the architecture that has this name in Debian, in the kernel or in uname.
arch_of() {
	local name
	for name in "${architectures[@]}"; do
		use_arch "$name"
		case $1 in "$arch" | "$machine" | "$kernel_arch" | "${kernel_arch%_64}") return ;; esac
	done
	return 1
}
