#!/usr/bin/env bash
# Makes the image of VPN instances for tests and small clouds: the guest image with OpenVPN and nftables of Debian.
#
# usage: tools/vpn-image.sh DIRECTORY
#
# DIRECTORY has the guest image of tools/guest-image.sh, which is made there when it is missing. Leaves vpn.qcow2 beside
# it, and does nothing when it is there already. What the guest does is in the user data that os-cloudpipe gives it.
set -euo pipefail

MODULES="tun nf_tables nft_chain_nat nft_masq"
ROOT_MIB=64 ROOT_AT_MIB=25               # where guest-image.sh has the second partition

here=$(cd "$(dirname "$0")" && pwd)
. "$here/guest_packages.sh"
[ $# = 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
"$here/guest-image.sh" "$1"
out=$(cd "$1" && pwd)

stamp=$(cat "$here/vpn-image.sh" "$here/guest_packages.sh" "$out/guest.stamp" | sha256sum | cut -c1-16)
if [ "$(cat "$out/vpn.stamp" 2>/dev/null)" = "$stamp" ] && [ -s "$out/vpn.qcow2" ]; then
    echo "vpn image: $out/vpn.qcow2 is there"
    exit 0
fi
export PATH=$PATH:/sbin:/usr/sbin
work=$(mktemp -d "${TMPDIR:-/tmp}/vpn-image.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

echo "vpn image: fetching OpenVPN and the modules of the kernel"
release=$(grep -a -o -m 1 '[0-9][0-9.]*-[0-9]*-cloud-amd64' "$out/guest-kernel" | head -n 1)
# shellcheck disable=SC2046
fetch_packages "linux-image-$release" openvpn nftables $(library_packages openvpn nftables) || {
    echo "vpn image: apt has no kernel $release any more: remove $out/guest.stamp and try again" >&2; exit 1; }
expand_modules

echo "vpn image: the system"
mkdir root
debugfs -R "rdump / root" "$out/guest-root.img" 2>/dev/null
rm -rf root/lost+found
mkdir -p root/lib/vpn root/usr/sbin
depmod -b unpacked "$release"
# shellcheck disable=SC2086
with_needed "$release" $MODULES | while read -r file; do
    cp "$file" root/lib/vpn/
    basename "$file" >>root/lib/vpn/order
done
cp unpacked/usr/sbin/openvpn unpacked/usr/sbin/nft root/usr/sbin/
copy_libraries root usr/sbin/openvpn usr/sbin/nft
sed -i -e '1i ::sysinit:/lib/vpn/load' -e '/^::sysinit:\/etc\/rc/a ::sysinit:/lib/vpn/boot' root/etc/inittab
cat >root/lib/vpn/load <<'LOAD'
#!/bin/sh
for module in $(/bin/busybox cat /lib/vpn/order); do /bin/busybox insmod "/lib/vpn/$module"; done
LOAD
cat >root/lib/vpn/boot <<'BOOT'
#!/bin/sh
[ ! -x /etc/openvpn/start ] || /etc/openvpn/start >/dev/console 2>&1        # what the user data of the first boot left
BOOT
chmod 755 root/lib/vpn/load root/lib/vpn/boot
mke2fs -q -t ext4 -L guest-root -d root -E root_owner=0:0 -O ^metadata_csum,^64bit -m 0 root.img ${ROOT_MIB}M

qemu-img convert -q -O raw "$out/guest.qcow2" disk.img
truncate -s $((ROOT_AT_MIB + ROOT_MIB + 1))M disk.img
echo "${ROOT_AT_MIB}MiB,${ROOT_MIB}MiB" | sfdisk -q -N 2 disk.img
dd if=root.img of=disk.img bs=1M seek=$ROOT_AT_MIB conv=notrunc,sparse status=none
qemu-img convert -q -f raw -O qcow2 -c disk.img vpn.qcow2
install -m 644 vpn.qcow2 "$out/vpn.qcow2"
echo "$stamp" >"$out/vpn.stamp"
echo "vpn image: made $out/vpn.qcow2 ($(du -h "$out/vpn.qcow2" | cut -f1))"
