#!/usr/bin/env bash
# A libvirtd for containers alone, beside that of the machine: with directories of its own, and without the cgroup hierarchy
# of version 2 where a machine has both, on which libvirt 9.0 starts no container.
#
# usage: tools/libvirt-lxc.sh DIRECTORY      runs until it is ended; needs root and libvirt-daemon-driver-lxc.
#        virsh -c 'lxc+unix:///system?socket=DIRECTORY/libvirt-sock'
set -eu
umask 022                                # QEMU's and the container's users pass through libvirt's directories
place=$1
[ "${2:-}" = inside ] || exec tini -s -- unshare -m --propagation private "$0" "$place" inside
for directory in /run/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt /etc/libvirt; do
    mkdir -p "$directory"
    mount -t tmpfs -o mode=755 libvirt "$directory"
done
mkdir -p /run/libvirt/lxc /var/log/libvirt/lxc /var/lib/libvirt/lxc
! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified
cat >"$place/libvirtd.conf" <<TEXT
unix_sock_dir = "$place"
auth_unix_rw = "none"
log_outputs = "3:file:$place/libvirtd.log"
TEXT
exec setpriv --pdeathsig KILL libvirtd --config "$place/libvirtd.conf" --pid-file "$place/libvirtd.pid"
