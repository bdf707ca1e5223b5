#!/bin/sh
# Installs the all-in-one from the folder of this file, without a package server.
#
# usage: ./install.sh [PACKAGE...]      solonova with its guest image unless other packages are given (solonova-compute)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ "$(id -u)" = 0 ] || { echo 'install.sh installs packages: run it as root.' >&2; exit 1; }
sources=$(mktemp)
trap 'rm -f "$sources"' EXIT
echo "deb [trusted=yes] file:$here/packages ./" >"$sources"
# Only this folder is asked.
apt() {
    DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dir::Etc::sourcelist="$sources" -o Dir::Etc::sourceparts=/nonexistent \
        -o APT::Sandbox::User=root "$@"
}
apt -o APT::Get::List-Cleanup=0 update
if [ $# -gt 0 ]; then apt --no-install-recommends install "$@"; exit; fi
apt --no-install-recommends install solonova python3-openstackclient python3-pil
systemctl is-active --quiet nova-all || systemctl start nova-all || { echo 'nova-all does not start: see journalctl --unit nova-all.' >&2; exit 1; }
if [ ! -e /var/lib/nova/guest.done ]; then
    # The directory is the user's, who may have put links in there.
    runuser -u nova -- sh -c 'umask 077; cat >/var/lib/nova/guest.qcow2' <"$here/guest/guest.qcow2"
    runuser -u nova -- nova-manage image image_register --name guest --disk-format qcow2 /var/lib/nova/guest.qcow2 admin --state-path /var/lib/nova
    runuser -u nova -- rm /var/lib/nova/guest.qcow2
    runuser -u nova -- touch /var/lib/nova/guest.done
fi
echo 'The cloud serves at http://127.0.0.1:8774/. Next:'
direct=
[ -z "${http_proxy:-}${HTTP_PROXY:-}${all_proxy:-}${ALL_PROXY:-}" ] || direct='no_proxy=127.0.0.1 '
echo "${direct}OS_CLIENT_CONFIG_FILE=/var/lib/nova/clouds.yaml OS_CLOUD=nova-demo openstack server create --image guest --flavor m1.tiny --wait first"
