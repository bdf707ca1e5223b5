#!/usr/bin/env bash
# Makes what integration tests need besides, while other tests run; nova/tests/plan.py says when.
#
# usage: tools/test_services.sh services|image|bill
#
# services     the environment with Keystone, Glance, Neutron, Barbican, Ironic, Cinder and Manila (NOVA_TEST_KEYSTONE)
# image        the guest image (NOVA_TEST_GUEST_DIR), and in long runs that of VPNs
# bill         the bill of materials of the tests' environment
set -euo pipefail
. "$(dirname "$0")/lib.sh"

root=no; [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && root=yes

# Where it cannot be installed, its tests say so and are skipped.
services() {
    local program
    for program in keystone-manage glance-manage neutron-db-manage barbican-manage ironic-dbsync cinder-volume manila-share; do
        [ -x "$NOVA_TEST_KEYSTONE/bin/$program" ] && continue
        python3 "$here/packages.py" "$NOVA_TEST_KEYSTONE" keystone glance neutron barbican ironic cinder manila \
            pymysql ||
            say "Keystone and the services beside it cannot be installed."
        break
    done
    [ ! -x "$NOVA_TEST_KEYSTONE/bin/cinder-volume" ] || [ $root = no ] || ceph_bindings "$NOVA_TEST_KEYSTONE/bin/python" ||
        say "Cinder cannot use Ceph."
}

image() {
    [ $root = yes ] || { say "The guest image needs root."; return 0; }
    local maker=guest-image.sh
    [ -z "${NOVA_TEST_LONG:-}" ] && [ "${NOVA_TEST_SELECT:-}" != long ] || maker=vpn-image.sh          # makes both
    "$here/$maker" "$NOVA_TEST_GUEST_DIR"
}

# Without the tools that write it there is none; known weaknesses are a failure.
bill() {
    local file status=0
    file=$(mktemp "${TMPDIR:-/tmp}/nova-sbom.XXXXXX")
    "$here/sbom.sh" "$file" || status=$?
    rm -f "$file"
    [ $status != 3 ] || return 0
    return $status
}

case ${1:-} in services|image|bill) "$1" ;; *) sed -n '4,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;; esac
