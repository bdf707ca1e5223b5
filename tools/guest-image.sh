#!/usr/bin/env bash
# Makes the guest image of the quickstart and the tests from Debian's packages: a cloud kernel, busybox, dropbear.
#
# usage: tools/guest-image.sh DIRECTORY
#
# Leaves in DIRECTORY (and does nothing when all of it is there already):
#   guest.qcow2                              boots by itself (extlinux), for a BIOS machine
#   guest-kernel, guest-ramdisk, guest-root.img   the same system for direct kernel boot (aki, ari, ami)
#   guest-ramdisk-signed                          its modules are signed: for a kernel that secure boot locks down
# Needs no root: file systems are filled with mke2fs -d and mtools. Needs the packages named in PACKAGES.
#
# The guest asks DHCP for its address, fetches its key and name from the metadata service (or the config drive),
# starts an ssh server that takes keys, and passwords once the agent has set one, and QEMU's guest agent where the
# machine has a channel for it, and prints
# one line that begins with "guest ready:" on its serial console. At its first boot it writes the files of the
# personality, sets the password of the config drive or posts one for an RSA key, and runs the scripts of vendor data
# and user data. It has the static addresses of network_data.json, and follows changes of its host name.
set -euo pipefail

PACKAGES="busybox-static e2fsprogs mtools dosfstools cpio gzip syslinux syslinux-common fdisk kmod qemu-utils dpkg apt"
LATER="vfat nls_cp437 nls_ascii"         # what a disk of another system may have; loaded when it is mounted
MODULES="virtio_pci virtio_blk virtio_scsi virtio_net virtio-rng virtio_balloon virtio_console ata_piix sr_mod sd_mod isofs button evdev virtiofs"
# Without the kernel's tests of its own ciphers, probes and certificates, which an emulated processor takes a second for,
# and without changes of its own code, each of which costs the emulation all that it has translated.
KERNEL_OPTIONS="console=ttyS0 quiet loglevel=3 panic=5 net.ifnames=0 tsc=unstable cryptomgr.notests noreplace-smp mitigations=off"
KERNEL_OPTIONS+=" initcall_blacklist=load_system_certificate_list,init_kprobe_trace"

here=$(cd "$(dirname "$0")" && pwd)
. "$here/guest_packages.sh"
[ $# = 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)

stamp=$(cat "$here/guest-image.sh" "$here/guest_packages.sh" "$here"/guest/* | sha256sum | cut -c1-16)
if [ "$(cat "$out/guest.stamp" 2>/dev/null)" = "$stamp" ] && [ -s "$out/guest.qcow2" ]; then
    echo "guest image: $out/guest.qcow2 is there"
    exit 0
fi
for program in busybox mke2fs mcopy mkfs.vfat cpio syslinux sfdisk depmod qemu-img dpkg-deb; do
    PATH=$PATH:/sbin:/usr/sbin command -v "$program" >/dev/null || {
        echo "guest image: '$program' is missing; install: $PACKAGES" >&2; exit 1; }
done
export PATH=$PATH:/sbin:/usr/sbin

work=$(mktemp -d "${TMPDIR:-/tmp}/guest-image.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

echo "guest image: fetching the kernel and the ssh server"
meta=$(python3 "$here/distribution.py" guest-kernel)
# Old lists name kernels that servers do not have any more. If the lists cannot be refreshed, the present ones are used.
[ $EUID != 0 ] || apt-get -qq -o Acquire::Languages=none update || true
kernel=$(apt-cache depends "$meta" | awk '/Depends: linux-image/ {print $2; exit}') || true
[ -n "$kernel" ] || { echo "guest image: apt knows no package $meta; run apt-get update" >&2; exit 1; }
modules=$(apt-cache depends "$kernel" | awk '/Depends: linux-modules/ {print $2; exit}')      # not every distribution has it apart
# shellcheck disable=SC2046,SC2086
fetch_packages "$kernel" $modules dropbear-bin qemu-guest-agent $(library_packages dropbear-bin qemu-guest-agent)
expand_modules
cp unpacked/boot/vmlinuz-* kernel

echo "guest image: the ramdisk"
release=$(basename unpacked/lib/modules/*)
modules=ramdisk/lib/modules/$release
mkdir -p ramdisk/{bin,proc,sys,dev,root} "$modules"
cp /bin/busybox ramdisk/bin/busybox
for applet in sh mount modprobe findfs sleep switch_root; do ln -s busybox ramdisk/bin/$applet; done
install -m 755 "$here/guest/init-ramdisk" ramdisk/init
depmod -b unpacked "$release"
# shellcheck disable=SC2086
with_needed "$release" $MODULES | while read -r file; do
    # Without what an emulated processor reads for a third of a second, where binutils is there: the types for BPF, and
    # signatures.
    objcopy --remove-section=.BTF --strip-unneeded "$file" "$modules/${file##*/}" 2>/dev/null || cp "$file" "$modules/"
    install -m 644 -D -t "signed/${modules#*/}" "$file"
done
depmod -b ramdisk "$release" 2>/dev/null     # it misses lists of what is built in
rm "$modules"/modules.*.bin "$modules"/modules.{alias,devname,softdep,symbols}
echo "$MODULES" >ramdisk/modules
packed() { (cd "$1" && find . | cpio --quiet -o -H newc -R 0:0 | gzip -9); }
packed ramdisk >ramdisk.gz
# The kernel unpacks one archive behind the other: the second one replaces the modules by those that secure boot needs.
{ cat ramdisk.gz; packed signed; } >ramdisk-signed.gz

echo "guest image: the system"
mkdir -p root/{bin,sbin,etc/acpi,proc,sys,dev,run,tmp,var/lib,root}
cp /bin/busybox root/bin/busybox
for applet in $(busybox --list); do
    [ "$applet" = busybox ] || ln -s busybox "root/bin/$applet"
done
ln -s ../bin/busybox root/sbin/init
copy_libraries root usr/sbin/dropbear usr/sbin/qemu-ga
cp unpacked/usr/sbin/dropbear root/sbin/dropbear
cp unpacked/usr/sbin/qemu-ga root/sbin/qemu-ga
ln -s ../bin/busybox root/sbin/hwclock      # where the agent looks for it
# shellcheck disable=SC2086
with_needed "$release" $LATER | xargs install -m 644 -D -t "root/lib/modules/$release"
depmod -b root "$release" 2>/dev/null
rm "root/lib/modules/$release"/modules.{*.bin,devname,softdep,symbols}
ln -s ../bin/busybox root/sbin/modprobe      # which the kernel calls
printf 'ext4\nvfat\niso9660\n' >root/etc/filesystems
install -m 755 "$here/guest/rc" root/etc/rc
install -m 755 "$here/guest/udhcpc" root/etc/udhcpc
install -m 755 "$here/guest/json.awk" root/bin/json
install -m 644 "$here/guest/functions" root/etc/guest-functions
install -m 755 "$here/guest/chpasswd" root/sbin/chpasswd    # Debian's busybox has none
printf 'root::0:0:root:/root:/bin/sh\n' >root/etc/passwd
printf 'root:x:0:\n' >root/etc/group
printf 'export HOME=/root\n' >root/etc/profile       # busybox 1.37 shows the home directory as ~ in its prompt
printf 'guest\n' >root/etc/hostname
printf '/bin/sh\n' >root/etc/shells
mkdir -p root/etc/acpi/PWRF && printf '#!/bin/sh\npoweroff\n' >root/etc/acpi/PWRF/00000080
chmod 755 root/etc/acpi/PWRF/00000080
cat >root/etc/inittab <<'TAB'
::sysinit:/etc/rc
::respawn:-/bin/sh
::shutdown:/bin/umount -a -r
::ctrlaltdel:/bin/reboot
TAB
rm -f root.img
mke2fs -q -t ext4 -L guest-root -d root -E root_owner=0:0 -O ^metadata_csum,^64bit -m 0 root.img 24M

echo "guest image: the bootable disk"
boot_mib=24 root_mib=24
mkfs.vfat -C boot.img $((boot_mib * 1024)) -F 16 -n BOOT >/dev/null
cat >syslinux.cfg <<CFG
SERIAL 0 115200
DEFAULT guest
PROMPT 0
TIMEOUT 0
LABEL guest
  KERNEL /kernel
  INITRD /ramdisk
  APPEND root=/dev/vda2 $KERNEL_OPTIONS
CFG
mcopy -i boot.img kernel ::kernel
mcopy -i boot.img ramdisk.gz ::ramdisk
mcopy -i boot.img syslinux.cfg ::syslinux.cfg
syslinux --install boot.img
truncate -s $((boot_mib + root_mib + 2))M disk.img
printf 'label: dos\nstart=1MiB size=%sMiB type=6 bootable\nstart=%sMiB size=%sMiB type=83\n' \
    $boot_mib $((boot_mib + 1)) $root_mib | sfdisk -q disk.img
dd if=/usr/lib/syslinux/mbr/mbr.bin of=disk.img conv=notrunc status=none
dd if=boot.img of=disk.img bs=1M seek=1 conv=notrunc,sparse status=none
dd if=root.img of=disk.img bs=1M seek=$((boot_mib + 1)) conv=notrunc,sparse status=none
# not compressed: the BIOS reads the kernel in small pieces, each of which would be a whole cluster to expand
qemu-img convert -q -f raw -O qcow2 disk.img guest.qcow2

install -m 644 guest.qcow2 "$out/guest.qcow2"
install -m 644 kernel "$out/guest-kernel"
install -m 644 ramdisk.gz "$out/guest-ramdisk"
install -m 644 ramdisk-signed.gz "$out/guest-ramdisk-signed"
install -m 644 root.img "$out/guest-root.img"
echo "$stamp" >"$out/guest.stamp"
echo "guest image: made $out/guest.qcow2 ($(du -h "$out/guest.qcow2" | cut -f1))"
