#!/usr/bin/env bash
# A fleet on this machine: the parts that an operator spreads over many, each a process of its own.
#
# usage: tools/cluster.sh up [--database mariadb|postgresql] [--computes N] [--cells N] [--libvirt N]
#                            [--network agents|neutron] [--ceph]             builds and starts what is missing
#        tools/cluster.sh status                                             what runs, and where
#        tools/cluster.sh stop|start|kill PART...                            one part, or some
#        tools/cluster.sh logs [PART]                                        the ends of the logs, or one log
#        tools/cluster.sh down [--purge]                                     ends all; --purge: forgets the data as well
#
# RabbitMQ, MariaDB or PostgreSQL, memcached, haproxy (Debian's packages), Keystone and Glance (from PyPI), two
# nova-api, two nova-conductor, two nova-scheduler, nova-network, and computes in network namespaces of their own, the
# first N of them with libvirt and QEMU, the others with simulated guests. --ceph: a Ceph of one node with the disks of QEMU's
# guests, the images and the volumes, which are Cinder's (from PyPI).
# As root. State: NOVA_CLUSTER_DIR (default /var/lib/nova-cluster); a fleet in another directory may run beside it.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
export NOVA_CLUSTER_DIR=${NOVA_CLUSTER_DIR:-/var/lib/nova-cluster}
log=$(mktemp "${TMPDIR:-/tmp}/nova-cluster.XXXXXX")
trap 'end_meanwhile; end_log' EXIT
[ $# -gt 0 ] || { sed -n '4,9s/^# //p' "$0" >&2; exit 2; }
[ "$(id -u)" = 0 ] || fail "A fleet has network namespaces and servers with users of their own: run it as root."

needed="python fleet"
if [ "$1" = up ]; then
    say "Programs"
    extras=mysql,postgresql,memcache,test
    if [[ " $* " =~ \ --libvirt[\ =][1-9] ]] || grep -q '"libvirt": [1-9]' "$NOVA_CLUSTER_DIR/fleet.json" 2>/dev/null; then
        needed+=" python-libvirt run guest" extras=$extras,libvirt
    fi
    neutron=
    if [[ " $* " =~ \ --network[\ =]neutron ]] || grep -q '"network": "neutron"' "$NOVA_CLUSTER_DIR/fleet.json" 2>/dev/null; then
        needed+=" neutron" neutron="neutron openstack-placement"
    fi
    ceph=
    if [[ " $* " == *' --ceph '* ]] || grep -q '"ceph": true' "$NOVA_CLUSTER_DIR/fleet.json" 2>/dev/null; then
        needed+=" ceph ceph-client ceph-python run" ceph=cinder
    fi
    python=$(system_python) || fail "Python 3.11 or later is needed."
    [ "$python" = /usr/bin/python3 ] || needed+=" build"
    # shellcheck disable=SC2046,SC2086
    step "Debian packages" install_packages $(packages $needed)
    mkdir -p "$NOVA_CLUSTER_DIR"
    chmod 711 "$NOVA_CLUSTER_DIR"
    openstack_venv() {
        local bin=$NOVA_CLUSTER_DIR/openstack/bin
        "$bin/python" -c "import keystone, glance, memcache, pymemcache${neutron:+, neutron, placement}${ceph:+, cinder}" 2>/dev/null &&
            [ -x "$bin/uwsgi" ] ||
            "$python" "$here/packages.py" "$NOVA_CLUSTER_DIR/openstack" keystone glance $neutron $ceph pyuwsgi pymysql \
                psycopg2-binary pymemcache python-memcached || return 1
        [ -z "$ceph" ] || ceph_bindings "$bin/python"
    }
    [[ $extras != *libvirt ]] || meanwhile image "$here/guest-image.sh" "$NOVA_CLUSTER_DIR/guest"
    step "Python packages of this tree" make_venv "$extras"
    step "Keystone and Glance${ceph:+, Cinder}" openstack_venv
    [[ $extras != *libvirt ]] || step "Guest image" outcome image
fi
end_log                                  # exec runs no trap
PYTHONPATH="$here" exec "$venv/bin/python" -m cluster "$@"
