#!/usr/bin/env bash
# Makes the image of VPN instances for tests and small clouds: the guest image with OpenVPN and nftables of Debian.
#
# usage: tools/vpn-image.sh DIRECTORY
#
# DIRECTORY has the guest image of tools/guest-image.sh, which is made there when it is missing. Leaves vpn.qcow2 beside
# it, and does nothing when it is there already. What the guest does is in the user data that os-cloudpipe gives it.
set -euo pipefail

PACKAGES="openvpn nftables libcap-ng0 liblz4-1 liblzo2-2 libnl-3-200 libnl-genl-3-200 libpkcs11-helper1 libssl3
    libsystemd0 libgcrypt20 libgpg-error0 liblzma5 libzstd1 libcap2 libnftables1 libnftnl11 libmnl0 libjansson4
    libxtables12 libedit2 libbsd0 libmd0 libtinfo6 libgmp10 libc6"
MODULES="tun nf_tables nft_chain_nat nft_masq"
ROOT_MIB=64 ROOT_AT_MIB=25               # where guest-image.sh has the second partition

here=$(cd "$(dirname "$0")" && pwd)
[ $# = 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
"$here/guest-image.sh" "$1"
out=$(cd "$1" && pwd)

stamp=$(cat "$here/vpn-image.sh" "$out/guest.stamp" | sha256sum | cut -c1-16)
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
mkdir packages && (cd packages && apt-get -o APT::Sandbox::User=root -qq download "linux-image-$release" $PACKAGES) || {
    echo "vpn image: apt has no kernel $release any more: remove $out/guest.stamp and try again" >&2; exit 1; }
for package in packages/*.deb; do dpkg-deb -x "$package" unpacked; done

echo "vpn image: the system"
mkdir root
debugfs -R "rdump / root" "$out/guest-root.img" 2>/dev/null
rm -rf root/lost+found
mkdir -p root/lib/vpn root/usr/sbin
depmod -b unpacked "$release"
for module in $MODULES; do                  # each after what it depends on
    modprobe -d unpacked -S "$release" --show-depends "$module" | awk '/^insmod/ {print $2}'
done | awk '!seen[$0]++' | while read -r file; do
    cp "$file" root/lib/vpn/
    basename "$file" >>root/lib/vpn/order
done
cp unpacked/usr/sbin/openvpn unpacked/usr/sbin/nft root/usr/sbin/
libraries=unpacked/lib/x86_64-linux-gnu:unpacked/usr/lib/x86_64-linux-gnu
for program in openvpn nft; do
    unpacked/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 --library-path "$libraries" --list "root/usr/sbin/$program"
done | awk '$2 == "=>" {print $3}' | sort -u | while read -r file; do
    cp -L "$file" root/lib/x86_64-linux-gnu/
done
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
