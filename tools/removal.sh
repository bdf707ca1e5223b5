# Sourced by quickstart.sh: removes what it installed and made, and nothing that was there before or that others use.

# remove_cloud: the cloud's processes, guests, devices, units, users and packages; with data=yes the data too. A cloud with
# simulated guests (driver=fake) has no devices and no part in libvirt.
remove_cloud() {
    local left=
    # Only what this command has made: a host of a fleet has /var/lib/nova as well, and --state-path may name anything.
    if [ $root = yes ]; then [ -d "$own" ]; else [ -e "$own/quickstart.log" ]; fi ||
        { say "No cloud is installed with state in $state."; return 0; }
    [ $root = no ] || refuse_others
    [ $data = no ] || refuse_mounts
    log=$(mktemp "${TMPDIR:-/tmp}/nova-remove.XXXXXX")
    trap end_log EXIT
    if running; then step "Stopping nova-all" stop_cloud; fi
    if [ $root = yes ]; then
        if [ "$driver" != fake ] && has_libvirt; then step "Guests" end_guests; fi
        step "Bridges, namespaces, packet filters, processes" remove_devices
        step "Units and programs" remove_files
        [ ! -s "$own/packages" ] || step "Packages that nothing else uses" remove_packages
    fi
    if [ $data = yes ]; then
        [ $root = no ] || step "TPMs of guests" remove_tpms
        [ ! -s "$own/users" ] || step "Users" remove_users
        step "Data in $state" remove_data
    else
        # The owners of the data stay, and so does what a later run uses: the guest's key, the image, the first server.
        # The log stays as the mark of a user's installation, for a later removal of the data.
        rm -rf "$own"/{settings,environment,packages,upgrade.log,quickstart.lock,environment.lock,nova-all.pid,programs}
    fi
    [ -z "$left" ] || say "$left"
    if [ $data = yes ]; then say "The cloud and its data are removed."
    else say "The cloud is removed. Its data stay in $state; tools/quickstart.sh takes them up, remove --data deletes them."; fi
}

# refuse_others: the guests, networks and data of another installation may be those that are found here.
refuse_others() {
    local units
    units=$(other_units) || fail "The units of this machine cannot be read."
    [ -z "$units" ] || fail "Units of another installation are here ($units), and its guests may be in $state. Move them, and remove that installation first."
}
other_units() { PYTHONPATH=$here python3 -c 'import host_check; print(", ".join(host_check.other_units()))'; }

# refuse_mounts: what an administrator has mounted below the state is not deleted. The cloud mounts nothing there.
refuse_mounts() {
    local mounts
    mounts=$(awk -v below="$state/" 'index($5, below) == 1 {print $5}' /proc/self/mountinfo | sort -u)
    [ -z "$mounts" ] || fail "File systems are mounted below $state: ${mounts//$'\n'/, }. Unmount them first: the data on them are not deleted."
}

# remove_tpms: libvirt keeps the state of a TPM with the guest's UUID, also after its packages are purged. An earlier removal may
# have ended the guests, so their directories name them.
TPMS=/var/lib/libvirt/swtpm
remove_tpms() {
    local guest
    for guest in "$state"/instances/*-*-*-*-*/; do rm -rf "$TPMS/$(basename "$guest")"; done
}

# The state may be a mount point itself.
remove_data() {
    if mountpoint -q "$state"; then find "$state" -xdev -mindepth 1 -delete; else rm -rf --one-file-system "$state"; fi || return 1
    [ "$own" = "$state" ] || rm -rf "$own"
}

# Domains of this cloud: libvirt's metadata of each names the product and the directory of the guests.
guests_of_cloud() {
    local name definition
    for name in $(virsh -c qemu:///system list --all --name 2>/dev/null); do
        definition=$(virsh -c qemu:///system dumpxml "$name" 2>/dev/null) || continue
        if [[ $definition == *urn:nova:libvirt:owner:1* && $definition == *directory=[\'\"]"$state"/* ]]; then echo "$name"; fi
    done
}

# A machine may have only virsh, for guests of other machines.
has_libvirt() { command -v virsh && { command -v libvirtd || command -v virtqemud; }; } >/dev/null

# Guests get 30 s to shut down. Their disks stay with the data.
end_guests() {
    local name names second
    "$here/libvirt-host.sh" start || return 1
    mapfile -t names < <(guests_of_cloud)
    for name in "${names[@]}"; do virsh -c qemu:///system shutdown "$name" 2>/dev/null || true; done
    for ((second = 0; second < 30; second++)); do
        [ -n "$(comm -12 <(printf '%s\n' "${names[@]}" | sort) <(virsh -c qemu:///system list --name | sort -u | sed '/^$/d'))" ] || break
        sleep 1
    done
    for name in "${names[@]}"; do
        virsh -c qemu:///system destroy "$name" 2>/dev/null || true
        virsh -c qemu:///system undefine --managed-save --snapshots-metadata --checkpoints-metadata --keep-nvram --keep-tpm "$name" || return 1
    done
}

remove_devices() {
    [ "$driver" = fake ] || [ ! -x "$venv/bin/nova-manage" ] || remove_networks || return 1
    # Programs that outlive nova-all: exporters of volumes, relays. Their user can be deleted when they have ended.
    local ours=(-u nova -f -- "$venv/|$state/")
    pkill "${ours[@]}" || true
    for _ in $(seq 100); do pgrep "${ours[@]}" >/dev/null || break; sleep 0.1; done
}

# remove_networks: a release of the distribution may have taken away the environment's Python.
remove_networks() {
    if "$venv/bin/nova-manage" --version; then "$venv/bin/nova-manage" network teardown
    else left="Bridges, namespaces and packet filters stay until the machine restarts: the Python environment does not run."; fi
}

remove_files() {
    local name
    if [ $systemd = yes ] && [ -e "$unit.d/quickstart.conf" ]; then
        systemctl disable --quiet nova-all || true
        rm -rf "${files[@]}" "$unit.d"             # the mark of the unit last, for a removal that is interrupted
        systemctl daemon-reload
    fi
    for name in "${programs[@]}"; do
        if [[ $(readlink "/usr/local/bin/$name") == "$base"/* ]]; then rm "/usr/local/bin/$name"; fi
    done
    if [ -e /etc/apparmor.d/nova-bwrap ]; then
        apparmor_parser -R /etc/apparmor.d/nova-bwrap 2>/dev/null || true
        rm /etc/apparmor.d/nova-bwrap
    fi
    if [ $data = yes ]; then rm -f /etc/nova/nova.conf.d/quickstart.conf; rmdir /etc/nova/nova.conf.d /etc/nova /var/log/nova 2>/dev/null || true; fi
    rm -rf "$base"
}

# Packages that came with this cloud, less those that others depend on now: apt knows which. Packages that others merely recommend
# or suggest were not there before, and go.
STRICT="-o APT::AutoRemove::RecommendsImportant=false -o APT::AutoRemove::SuggestsImportant=false"
remove_packages() {
    local came dependencies unneeded manual verb=remove
    mapfile -t came < <(sort -u "$own/packages" | while read -r name; do ! packages_present "$name" || echo "$name"; done)
    [ ${#came[@]} -gt 0 ] || return 0
    if [ -n "$(virsh -c qemu:///system list --all --name 2>/dev/null | sed '/^$/d')" ] || compgen -G '/etc/libvirt/qemu/*.xml' >/dev/null; then
        echo "libvirt has guests that are not of this cloud: its packages stay."
        return 0
    fi
    [ $data = no ] || verb=purge
    [ "$driver" = fake ] || "$here/libvirt-host.sh" stop
    mapfile -t dependencies < <(printf '%s\n' "${came[@]}" | grep -vxFf <(apt-mark showmanual) || true)
    apt-mark auto "${came[@]}" >/dev/null
    mapfile -t unneeded < <(apt-get -s $STRICT autoremove | awk '$1 == "Remv" {print $2}' | grep -xFf <(printf '%s\n' "${came[@]}") || true)
    # Those that stay are what they were: wanted by an administrator, or a dependency.
    mapfile -t manual < <(printf '%s\n' "${came[@]}" | grep -vxFf <(printf '%s\n' "${dependencies[@]:--}" "${unneeded[@]:--}") || true)
    [ ${#manual[@]} = 0 ] || apt-mark manual "${manual[@]}" >/dev/null
    [ ${#unneeded[@]} = 0 ] || DEBIAN_FRONTEND=noninteractive $APT -y "$verb" "${unneeded[@]}" </dev/null
}

remove_users() {
    local name
    while read -r name; do ! getent passwd "$name" >/dev/null || userdel "$name" || return 1; done <"$own/users"
}
