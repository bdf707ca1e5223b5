# Sourced by guest-image.sh and vpn-image.sh: Debian packages of a guest, downloaded and unpacked, not installed here.

export LC_ALL=C.UTF-8                    # the output of apt-cache is read; LANGUAGE has precedence even with C.UTF-8
unset LANGUAGE

# library_packages PACKAGE...: the packages of the libraries that these need, directly or through other libraries.
library_packages() {
    local next=("$@") found
    declare -A known=()
    while [ ${#next[@]} -gt 0 ]; do
        mapfile -t found < <(apt-cache depends --important "${next[@]}" | awk '/Depends:/ {print $NF}' |
            grep -E '^(lib|zlib1g)' | sort -u)
        next=()
        for package in "${found[@]}"; do
            [ -n "${known[$package]:-}" ] || next+=("$package")
            known[$package]=1
        done
    done
    printf '%s\n' "${!known[@]}"
}

# fetch_packages PACKAGE...: unpacks these below ./unpacked, with /lib and the like as links into /usr. Libraries of packages that are
# installed here are copied instead of downloaded.
fetch_packages() {
    local package name wanted=()
    mkdir -p packages unpacked
    for package in "$@"; do
        if [[ $package =~ ^(lib|zlib1g) ]] && dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed'; then
            dpkg -L "$package" | grep -E '/lib(64)?/.*\.so(\.|$)' | while read -r name; do
                directory=unpacked$(readlink -f "${name%/*}")
                mkdir -p "$directory"
                cp -a "$name" "$directory/"
            done
        else
            wanted+=("$package")
        fi
    done
    (cd packages && apt-get -o APT::Sandbox::User=root -qq download "${wanted[@]}") || return 1
    for package in packages/*.deb; do dpkg-deb -x "$package" unpacked; done
    for name in bin sbin lib lib64; do
        mkdir -p "unpacked/usr/$name"
        if [ -d "unpacked/$name" ] && [ ! -L "unpacked/$name" ]; then
            cp -a "unpacked/$name/." "unpacked/usr/$name/"
            rm -r "unpacked/$name"
        fi
        ln -sfn "usr/$name" "unpacked/$name"
    done
}

# copy_libraries ROOT PROGRAM...: copies the libraries that programs below ./unpacked load into the same place of ROOT.
# The loader of the unpacked libc answers, so that nothing of this machine decides.
copy_libraries() {
    local root=$1 loader library
    shift
    loader=$(echo unpacked/usr/lib64/ld-linux-*.so.*)
    for library in unpacked/usr/lib/*-linux-gnu; do library=$PWD/$library; done
    for program in "$@"; do
        "$loader" --library-path "$library" --list "unpacked/$program" || return 1
    done | awk '$2 == "=>" && $1 !~ /ld-linux/ {print $3}' | sort -u | while read -r file; do
        case $file in
            "$library"/*) install -m 755 -D "$file" "$root/lib/${library##*/}/${file##*/}" ;;
            *) echo "guest: '$file' is not among the downloaded packages" >&2; return 1 ;;
        esac
    done || return 1
    install -m 755 -D "$loader" "$root/lib64/${loader##*/}"
}

# with_needed RELEASE MODULE...: the files of kernel modules, each after those that it depends on. Built-in modules have none.
with_needed() {
    local release=$1 module
    shift
    for module in "$@"; do
        modprobe -d unpacked -S "$release" --show-depends "$module" | awk '/^insmod/ {print $2}'
    done | awk '!seen[$0]++'
}

# expand_modules: the modules without the compression that some distributions give them: a small guest expands them slowly, or not at all.
expand_modules() {
    python3 - unpacked/usr/lib/modules <<'CODE'
import lzma
import pathlib
import subprocess
import sys

for path in pathlib.Path(sys.argv[1]).rglob('*.ko.*'):
    if path.suffix == '.xz':
        path.with_suffix('').write_bytes(lzma.decompress(path.read_bytes()))
        path.unlink()
    elif path.suffix == '.zst':
        subprocess.run(['zstd', '-q', '-d', '--rm', path], check=True)
CODE
}
