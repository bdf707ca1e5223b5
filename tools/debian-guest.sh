#!/usr/bin/env bash
# Makes a Debian guest from Debian's packages: a cloud kernel, systemd, cloud-init, an ssh server, QEMU's guest agent,
# and a root file system that grows to the size of the disk at the first boot. It boots with BIOS and with UEFI, and with
# Secure Boot.
#
# usage: tools/debian-guest.sh [--suite bookworm|trixie] [--size SIZE] [--mirror URL] [--with "PACKAGE ..."] DIRECTORY
#
#   --suite    release of Debian; trixie unless given
#   --size     size of the disk, as truncate(1) takes it; 2G unless given
#   --mirror   where Debian's packages come from, for the guest too; that of this machine's apt unless given (its place of security updates as well)
#   --with     more packages
#
# Leaves DIRECTORY/debian-SUITE.qcow2 (compressed), and does nothing if the same command has made it. Needs root, to
# unpack packages with their owners, and the Debian packages that PACKAGES names. It mounts no image and no loop device.
# Only amd64.
set -euo pipefail

PACKAGES="mmdebstrap debian-archive-keyring mtools e2fsprogs fdisk qemu-utils python3"
IN_GUEST="linux-image-cloud-amd64 systemd-sysv systemd-resolved systemd-timesyncd dbus libpam-systemd udev netplan.io
 cloud-init cloud-guest-utils openssh-server qemu-guest-agent grub-pc-bin grub-common grub-efi-amd64-bin
 grub-efi-amd64-signed shim-signed efibootmgr e2fsprogs fdisk gdisk sudo curl ca-certificates iproute2 iputils-ping
 netcat-openbsd pciutils less procps kmod tzdata netbase"
KERNEL_OPTIONS="ro console=tty0 console=ttyS0,115200"
# Sectors of 512 bytes: where GRUB for a BIOS, the EFI system partition and the root file system begin.
BIOS=2048 ESP=4096 ROOT=102400

usage() { sed -n '6,17s/^# \{0,1\}//p' "$0" >&2; exit 2; }
fail() { echo "debian guest: $1" >&2; exit 1; }
say() { echo "debian guest: $1 (at $SECONDS s)"; }

suite=trixie size=2G mirror= more=''
while [ $# -gt 1 ]; do
    case $1 in
        --suite) suite=$2 ;;
        --size) size=$2 ;;
        --mirror) mirror=$2 ;;
        --with) more=$2 ;;
        *) usage ;;
    esac
    shift 2
done
case ${1:--} in -*) usage ;; esac
case $suite in bookworm | trixie) ;; *) fail "--suite $suite: it is bookworm or trixie" ;; esac
[[ $size =~ ^[0-9]+[MG]$ ]] || fail "--size $size: it is a number of M or G, as 2G"
case ${size: -1} in M) mib=${size%M} ;; G) mib=$((${size%G} * 1024)) ;; esac
[ "$mib" -ge 1536 ] && [ "$mib" -le 65536 ] || fail "--size $size: it is from 1536M to 64G"
known=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sort -u)
[ -n "$mirror" ] || mirror=$(grep -m 1 '/debian/*$' <<<"$known") ||
    fail "apt of this machine names no mirror of Debian: give --mirror URL"
security=$(grep -m 1 '/debian-security/*$' <<<"$known" || true)
mirror=${mirror%/}
[[ $mirror =~ ^https?://[^\ ]+$ ]] || fail "--mirror $mirror: it is an http or https URL"
[[ $more =~ ^[a-z0-9.+\ -]*$ ]] || fail "--with $more: these are no names of packages"
[ "$(id -u)" = 0 ] || fail "it needs root, to unpack packages with their owners"
[ "$(uname -m)" = x86_64 ] || fail "it makes guests for amd64, on such a machine"
export PATH=$PATH:/sbin:/usr/sbin
for program in mmdebstrap mformat mcopy mke2fs sfdisk qemu-img python3; do
    command -v $program >/dev/null || fail "'$program' is missing; install: apt-get install $PACKAGES"
done
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || fail "install: apt-get install debian-archive-keyring"

mkdir -p "$1"
out=$(cd "$1" && pwd)
image=$out/debian-$suite.qcow2
stamp=$(echo "$(sha256sum <"$0") $suite $size $more" | sha256sum | cut -c1-16)
if [ "$(cat "$image.stamp" 2>/dev/null)" = "$stamp" ] && [ -s "$image" ]; then
    echo "debian guest: $image is there"
    exit 0
fi
free=$(df --output=avail -k "$out" | tail -n 1)
[ "$free" -gt $((3 * 1024 * 1024)) ] || fail "$out has $((free / 1024)) MiB free; 3072 are needed"
umask 022
work=$(mktemp -d "$out/.debian-guest.XXXXXX")
chmod 755 "$work"
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT TERM
root=$work/root

say "packages of $suite"
# In a mount namespace of its own: what it mounts in the root ends with it.
unshare --mount --propagation private mmdebstrap --quiet --mode=root --variant=minbase --components=main --architectures=amd64 \
    --include="$(echo $IN_GUEST $more | tr ' ' ',')" --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-include=/usr/share/doc/*/copyright' --dpkgopt='path-exclude=/usr/share/locale/*' \
    "$suite" "$root" "deb $mirror $suite main" "deb $mirror $suite-updates main" >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2; fail "the packages of $suite cannot be installed"; }

say "settings"
uuid=$(cat /proc/sys/kernel/random/uuid)
cat >"$root/etc/apt/sources.list" <<TEXT
deb $mirror $suite main
deb $mirror $suite-updates main
${security:+deb $security $suite-security main}
TEXT
echo localhost >"$root/etc/hostname"
printf '127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n' >"$root/etc/hosts"
cat >"$root/etc/fstab" <<TEXT
UUID=$uuid / ext4 rw,discard,errors=remount-ro 0 1
LABEL=ESP /boot/efi vfat umask=0077,nofail,x-systemd.device-timeout=10 0 2
TEXT
# Named, so that cloud-init does not guess by the name of the machine.
cat >"$root/etc/cloud/cloud.cfg.d/10_guest.cfg" <<'TEXT'
#cloud-config
datasource_list: [ConfigDrive, OpenStack, None]
datasource: {OpenStack: {max_wait: 120, timeout: 10}}
locale: C.UTF-8
manage_etc_hosts: true
TEXT
# A server without a network, or whose DHCP server is away, boots all the same; one of several interfaces is enough.
mkdir -p "$root/etc/systemd/system/systemd-networkd-wait-online.service.d"
cat >"$root/etc/systemd/system/systemd-networkd-wait-online.service.d/10_guest.conf" <<'TEXT'
[Service]
ExecStart=
ExecStart=/usr/lib/systemd/systemd-networkd-wait-online --any --timeout=30
TEXT
# networkd takes search domains of DHCP and of router advertisements, as in Debian's images. The files of the interfaces
# are made at each boot, by names that are not known here.
mkdir -p "$root/etc/systemd/system/systemd-networkd.service.d"
cat >"$root/usr/local/sbin/use-domains" <<'TEXT'
#!/bin/sh
for file in /run/systemd/network/*.network; do
    [ -e "$file" ] || continue
    mkdir -p "$file.d"
    printf '[DHCPv4]\nUseDomains=yes\n[IPv6AcceptRA]\nUseDomains=yes\n' >"$file.d/domains.conf"
done
TEXT
chmod 755 "$root/usr/local/sbin/use-domains"
cat >"$root/etc/systemd/system/systemd-networkd.service.d/10_guest.conf" <<'TEXT'
[Service]
ExecStartPre=+/usr/local/sbin/use-domains
TEXT
# Each guest makes its own identity and host keys at its first boot.
: >"$root/etc/machine-id"
rm -rf "$root"/etc/ssh/ssh_host_* "$root/var/lib/dbus/machine-id" "$root"/var/lib/apt/lists/* \
    "$root"/var/cache/apt/*.bin "$root"/var/log/*.log "$root"/var/log/apt/* "$root"/etc/resolv.conf
ln -s ../run/systemd/resolve/stub-resolv.conf "$root/etc/resolv.conf"
# systemctl of Debian 13 warns that it sees no /proc, which it needs not.
chroot "$root" systemctl enable -q systemd-networkd systemd-resolved systemd-timesyncd ssh serial-getty@ttyS0 \
    2>"$work/log" || { cat "$work/log" >&2; fail "the services of the guest cannot be enabled"; }
kernel=$(cd "$root/boot" && ls vmlinuz-* | sort -V | tail -n 1)
version=${kernel#vmlinuz-}
mkdir -p "$root/boot/efi" "$root/boot/grub/i386-pc" "$root/boot/grub/x86_64-efi"
cat >"$root/boot/grub/grub.cfg" <<TEXT
insmod part_gpt
insmod ext2
search --no-floppy --fs-uuid --set=root $uuid
serial --unit=0 --speed=115200
terminal_input console serial
terminal_output console serial
set timeout=1
menuentry "Debian $version" {
    linux /boot/$kernel root=UUID=$uuid $KERNEL_OPTIONS
    initrd /boot/initrd.img-$version
}
TEXT
# update-grub of a later kernel writes the same options.
mkdir -p "$root/etc/default/grub.d"
cat >"$root/etc/default/grub.d/10_guest.cfg" <<TEXT
GRUB_CMDLINE_LINUX="${KERNEL_OPTIONS#ro }"
GRUB_TERMINAL="console serial"
GRUB_SERIAL_COMMAND="serial --unit=0 --speed=115200"
GRUB_TIMEOUT=1
TEXT
cp "$root"/usr/lib/grub/i386-pc/*.{mod,lst} "$root/boot/grub/i386-pc/"
cp "$root"/usr/lib/grub/x86_64-efi/*.{mod,lst} "$root/boot/grub/x86_64-efi/"
printf 'search.fs_uuid %s root\nset prefix=($root)/boot/grub\n' "$uuid" >"$work/early.cfg"
cp "$work/early.cfg" "$root/tmp/early.cfg"
chroot "$root" grub-mkimage -O i386-pc -d /usr/lib/grub/i386-pc -c /tmp/early.cfg -p /boot/grub -o /tmp/core.img \
    biosdisk part_gpt ext2 search_fs_uuid
mv "$root/tmp/core.img" "$work/core.img"
rm -f "$root/tmp/early.cfg"

say "the disk"
raw=$work/disk.raw
truncate -s "${mib}M" "$raw"
sfdisk --quiet "$raw" <<TEXT
label: gpt
start=$BIOS, size=$((ESP - BIOS)), type=21686148-6449-6E6F-744E-656564454649, name="bios"
start=$ESP, size=$((ROOT - ESP)), type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, name="esp"
start=$ROOT, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709, name="root"
TEXT
sectors=$(sfdisk --json "$raw" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["partitiontable"]["partitions"][2]["size"])')
mke2fs -q -F -t ext4 -b 4096 -L root -U "$uuid" -E offset=$((ROOT * 512)),nodiscard -d "$root" "$raw" $((sectors / 2))k
esp=$raw@@$((ESP * 512))
mformat -i "$esp" -F -v ESP -T $((ROOT - ESP)) -h 255 -s 63 ::
mmd -i "$esp" ::/EFI ::/EFI/BOOT ::/EFI/debian
mcopy -i "$esp" "$root/usr/lib/shim/shimx64.efi.signed" ::/EFI/BOOT/BOOTX64.EFI
mcopy -i "$esp" "$root/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed" ::/EFI/BOOT/grubx64.efi
{ cat "$work/early.cfg"; printf 'configfile $prefix/grub.cfg\n'; } >"$work/stub.cfg"
mcopy -i "$esp" "$work/stub.cfg" ::/EFI/debian/grub.cfg
# GRUB for a BIOS: the boot sector, and the rest in its partition. Both hold the number of the sector that follows.
python3 - "$raw" "$root/usr/lib/grub/i386-pc/boot.img" "$work/core.img" $BIOS $((ESP - BIOS)) <<'CODE'
import struct
import sys

raw, boot, core = sys.argv[1:4]
sector, room = map(int, sys.argv[4:])
with open(boot, 'rb') as file:
    boot = bytearray(file.read())
with open(core, 'rb') as file:
    core = bytearray(file.read())
if len(core) > room * 512:
    sys.exit(f'GRUB has {len(core)} bytes, and its partition {room * 512}')
boot[0x5c:0x64] = struct.pack('<Q', sector)
core[0x1f4:0x1fc] = struct.pack('<Q', sector + 1)
with open(raw, 'r+b') as disk:
    disk.write(boot[:440])
    disk.seek(sector * 512)
    disk.write(core)
CODE

say "compression"
qemu-img convert -O qcow2 -c "$raw" "$work/disk.qcow2"
rm -f "$image.stamp"
mv "$work/disk.qcow2" "$image"
echo "$stamp" >"$image.stamp"
say "$image has $(($(stat -c %s "$image") / 1048576)) MiB, its disk $mib MiB with $(du -sm --one-file-system "$root" | cut -f1) MiB used"
