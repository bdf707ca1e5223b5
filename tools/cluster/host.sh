#!/bin/sh
# Runs a command on a host of its own as libvirt sees it: the paths that are compiled into it are directories of the host.
#
# usage: tools/cluster/host.sh DIRECTORY COMMAND...     in a mount namespace that is its own (unshare -m)
set -eu
umask 022                                # /run/libvirt/qemu is passed through by swtpm, whatever the caller's umask is
host=$1
shift
for pair in run:/run etc:/etc/libvirt lib:/var/lib/libvirt log:/var/log/libvirt cache:/var/cache/libvirt; do
    mount --bind "$host/${pair%%:*}" "${pair#*:}"
done
exec "$@"
