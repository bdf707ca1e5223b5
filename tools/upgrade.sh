# Sourced by quickstart.sh: replaces the installed release by another one, and returns to it when a step fails.
#
# A release is a folder with its source and its environment: $base/1, $base/2 and so on. $base/current is a link to the installed
# one. The cloud works until the step that changes the link. Migrations before it only add to the databases, so the
# installed release can work with them as well.

START_S=180                                # seconds until the new release must serve

# version_of VENV: the release in an environment.
version_of() { sed -n "s/^VERSION = '\(.*\)'$/\1/p" "$1"/lib/python3*/site-packages/nova/version.py; }

# is_older A B: whether release A is before B; a candidate is before its release.
is_older() {
    [ "$1" != "$2" ] && [ "$(printf '%s\n' "$1" "$2" | sed -E 's/(a|b|rc|\.dev)([0-9]+)$/~\1\2/' | sort -V | head -n 1)" = "$(
        sed -E 's/(a|b|rc|\.dev)([0-9]+)$/~\1\2/' <<<"$1")" ]
}

# release_of_tree: the release of this tree; nothing if the tree has no modules.
release_of_tree() { sed -n "s/^VERSION = '\(.*\)'$/\1/p" "$tree/nova/version.py" 2>/dev/null || true; }

# refuse_other_release WORD...: "start" is left to the installed release, with the words of this command.
refuse_other_release() {
    local before version
    before=$(version_of "$venv" 2>/dev/null) && version=$(release_of_tree) || return 0
    [ -n "$before" ] && [ -n "$version" ] && [ "$before" != "$version" ] || return 0
    if [ $action = start ] && [ -n "$source" ] && [ -x "$source/tools/quickstart.sh" ]; then exec "$source/tools/quickstart.sh" "$@"; fi
    fail "Release $before is installed, and this tree is release $version. Run tools/quickstart.sh upgrade."
}

# upgrade_cloud [WHEEL|BUNDLE]: to the release of this tree, of a wheel or of a file of tools/bundle.sh.
upgrade_cloud() {
    needs_installation
    [ -L "$base/current" ] || fail "The environment is that of NOVA_VENV, which an upgrade does not replace: run tools/quickstart.sh."
    exec 9>"$own/quickstart.lock"
    flock -n 9 || fail "Another run of tools/quickstart.sh is under way here; wait until it has ended."
    begun=$(date +%s%N)
    log=$own/upgrade.log
    : >"$log"
    old=$(readlink "$base/current") new=$(($(readlink "$base/current") + 1)) switched=no was_running=no meter= away=0.0
    installed_version=$(version_of "$base/$old/venv")
    rm -rf "${base:?}/$new"                # of an interrupted run
    mkdir -p "$base/$new"
    trap 'rm -rf "${base:?}/$new"' EXIT
    stage "${1:-}"
    is_older "$version" "$installed_version" && fail "Release $version is older than $installed_version, which is installed: an upgrade needs a newer one."
    if [ "$version" = "$installed_version" ]; then
        say "Release $version is installed already: tools/quickstart.sh start starts it, and tools/quickstart.sh takes up a tree that has changed."
        return 0
    fi
    ! running || was_running=yes
    return_on_failure
    say "Upgrade of the cloud in $state from release $installed_version to $version"
    [ $root = no ] || ! command -v apt-get >/dev/null || packages_present $(wanted_packages) ||
        step "Packages of $(python3 "$here/distribution.py" --name)" install_recorded $(wanted_packages)
    step "Python packages of release $version" make_release
    step "Schema of the databases" expand_schema
    step "Checks of the new release" check_upgrade
    if [ $was_running = yes ]; then
        python3 "$here/downtime.py" "$url/" "$state/tls/ca.pem" >"$log.away" 2>>"$log" 9>&- & meter=$!
    fi
    step "Change of the release" switch
    step "Checks of the running cloud" check_running "$version"
    trap - EXIT
    [ $root = no ] || save_environment
    if [ $was_running = yes ]; then
        kill -TERM $meter && wait $meter || true
        away=$(cat "$log.away")
        rm -f "$log.away"
    fi
    remove_former
    begun=$((($(date +%s%N) - begun) / 100000000))
    say "Release $version serves. The upgrade took $((begun / 10)).$((begun % 10)) s; the API was away for $away s."
}

# stage [WHEEL|BUNDLE]: sets $version. A file is made a source folder with the scripts of this tree.
stage() {
    local place=$base/$new/source
    case $1 in
        '') version=$(release_of_tree)
            [ -n "$version" ] || fail "$tree was installed from a wheel: name the wheel or bundle of the new release." ;;
        *.whl|*.tar)
            [ -r "$1" ] || fail "$1 cannot be read."
            mkdir -p "$place/wheels"
            cp -r "$here" "$place/tools"
            if [[ $1 == *.whl ]]; then cp "$1" "$place/wheels/"
            else tar -x -f "$1" -C "$place/wheels" --strip-components 2 --wildcards '*/wheels/*' 2>>"$log" || fail "$1 is not a file of tools/bundle.sh."; fi
            tree=$place here=$place/tools
            compgen -G "$place/wheels/solonova-*.whl" >/dev/null || fail "$1 has no wheel of solonova."
            version=$(basename "$(echo "$place"/wheels/solonova-*.whl)" | cut -d- -f2) ;;
        *) fail "'$1' is neither a wheel (.whl) nor a bundle (.tar). For a tree run its own tools/quickstart.sh upgrade." ;;
    esac
}

# make_release: the environment beside the installed one. Its programs name the link, which is theirs after the change.
make_release() {
    ( venv=$base/$new/venv source=$base/$new/source; environment ) || return 1
    [ "$(version_of "$base/$new/venv")" = "$version" ] || { echo "The environment has release $(version_of "$base/$new/venv")."; return 1; }
    sed -i "1,3s|$base/$new/|$base/current/|" "$base/$new/venv"/bin/nova-* "$base/$new/venv/bin/openstack"
}
# program NAME argument...: a program of the new release before the change.
program_of_new() { "$base/$new/venv/bin/python" "$base/$new/venv/bin/$1" "${@:2}" --state-path "$state"; }
expand_schema() { program_of_new nova-manage api_db sync && program_of_new nova-manage db sync; }
check_upgrade() {
    local code=0
    program_of_new nova-status upgrade check || code=$?
    [ $code -le 1 ] || { echo "nova-status upgrade check ended with $code."; return 1; }
}

# remove_former: the releases before the new one, also those that an interrupted upgrade has left.
remove_former() {
    local folder
    for folder in "$base"/*; do
        if [[ ${folder##*/} =~ ^[0-9]+$ && ${folder##*/} != "$new" ]]; then rm -rf "$folder"; fi
    done
}
link_release() { ln -sfn "$1" "$base/current.new" && mv -T "$base/current.new" "$base/current"; }
# switch: what can be done while the installed release serves comes first. $switched is "units" before that release is touched.
switch() {
    if [ $systemd = yes ]; then
        switched=units
        local kept=("${files[@]}")
        [ -e "${files[1]}" ] || unset 'kept[1]'                # a cloud with simulated guests lacks it
        tar -c -P -f "$base/$old/units.tar" "${kept[@]}" "$unit.d" && install_units "$base/$new/venv" || return 1
    fi
    switched=yes
    if [ $was_running = yes ]; then stop_cloud || return 1; fi
    link_release "$new" || return 1
    begin_cloud || return 1
    if [ $root = yes ]; then link_programs; fi
    await_release
}
# begin_cloud: starts nova-all and does not wait.
begin_cloud() {
    if [ $systemd = yes ]; then
        systemctl reset-failed nova-all 2>/dev/null || true
        systemctl start --no-block nova-all
    else start_process; fi
}
await_release() {
    local deadline=$((SECONDS + START_S))
    until serving; do
        if [ $SECONDS -gt $deadline ]; then echo "The new release does not serve after $START_S s."; break; fi
        if [ $systemd = yes ]; then
            [ "$(systemctl show --value --property NRestarts nova-all)" = 0 ] || break
        else running || break; fi
        sleep 0.2
    done
    serving || { show_log | tail -n 20; return 1; }
}
check_running() {
    local served
    served=$(ask /compute/ | sed -n 's/.*"release": *"\([^"]*\)".*/\1/p')
    [ "$served" = "$1" ] || { echo "The cloud is of release ${served:-unknown}; $1 is expected."; return 1; }
    sleep 2                                # a service that fails after its start
    running && serving || { show_log | tail -n 20; return 1; }
}

# return_on_failure: from now on. A signal may arrive in a step, whose output goes to the log: descriptors 6 and 7 stay those of
# the script.
return_on_failure() {
    exec 6>&1 7>&2
    trap 'return_to_installed $?' EXIT
    trap 'exit 130' INT TERM HUP
}
# return_to_installed CODE: after a failed step or an interruption. Rows that were written meanwhile stay in the databases.
return_to_installed() {
    trap '' INT TERM HUP
    trap - EXIT
    exec >&6 2>&7
    end_ticker
    [ "$1" != 130 ] || printf ' interrupted\n'
    [ -z "$meter" ] || kill $meter 2>/dev/null || true
    rm -f "$log.away"
    if [ $switched != no ]; then
        say "Return to release $installed_version"
        ( if [ $switched = yes ]; then
              if [ $systemd = yes ]; then systemctl stop nova-all       # one that systemd starts again and again as well
              elif running; then stop_cloud || kill_cloud; fi
              link_release "$old"
          fi
          [ ! -e "$base/$old/units.tar" ] || { tar -x -P -f "$base/$old/units.tar" && systemctl daemon-reload; }
          rm -f "$base/$old/units.tar"
          [ $was_running = no ] || { { running || begin_cloud; } && await_release; } ) >>"$log" 2>&1 9>&- || {
            say "Release $installed_version does not start either: see $log and tools/quickstart.sh logs." >&2
            exit 2
        }
    fi
    rm -rf "${base:?}/$new"
    say "Release $installed_version $([ $was_running = no ] && echo "is installed" || echo "serves") as before; no data were lost. The reason is in $log." >&2
    exit "$1"
}
kill_cloud() { kill -KILL "$(cat "$pidfile")" && rm -f "$pidfile"; }
