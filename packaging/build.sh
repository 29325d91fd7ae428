#!/bin/sh
# Makes packages in dist/: packaging/build.sh [wheel|deb|rpm]...
#
#   wheel  for pip; needs the network once, for the build tool
#   deb    four Debian packages; without the headers of Slurm (libslurm-dev) three
#   rpm    the same for Enterprise Linux; the plugin only where slurm-devel is
#
# deb and rpm need no network. On Debian PYTHON makes man pages and the like; it has to know Jinja2.
set -eu

cd "$(dirname "$0")/.."
top=$PWD
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' slurm_triage/__init__.py)
work=$top/build/packages
mkdir -p dist "$work"

fail() {
    echo "build: $*" >&2
    exit 1
}

# The time of the last commit: the same sources make the same packages.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date -d "$(sed -n 's/^## \[.*\] - //p' CHANGELOG.md | head -n 1)" +%s)}
export SOURCE_DATE_EPOCH

# The files of the project in a folder of their own, without what was made of them.
copy() {
    rm -rf "$1"
    mkdir -p "$1"
    tar -c --exclude=./.git --exclude=./.venv --exclude=./build --exclude=./dist --exclude='*_cache' --exclude=__pycache__ \
        --exclude=./tests --exclude=.hypothesis . | tar -x -C "$1"
}

wheel() {
    make -s venv
    .venv/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
}

deb() {
    command -v dh >/dev/null || fail 'dh is missing (Debian: debhelper)'
    copy "$work/slurm-triage-$version"
    cd "$work/slurm-triage-$version"
    cp -r packaging/debian debian
    cat >debian/changelog <<TEXT
slurm-triage ($version) unstable; urgency=medium

  * Version $version; CHANGELOG.md says what is new.

 -- slurm-triage maintainers <slurm-triage@example.org>  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
TEXT
    kind=binary
    if [ ! -e "${SLURM_INCLUDE:-/usr/include}/slurm/spank.h" ]; then
        echo 'build: no slurm/spank.h (Debian: libslurm-dev): slurm-triage-spank is left out' >&2
        kind=all
    fi
    dpkg-buildpackage --build="$kind" -us -uc >"$work/deb.log" 2>&1 || {
        tail -n 40 "$work/deb.log" >&2
        fail "dpkg-buildpackage failed: $work/deb.log"
    }
    cd "$top"
    rm -f dist/slurm-triage*.deb
    cp "$work"/slurm-triage*_"$version"_*.deb dist/
}

rpm() {
    command -v rpmbuild >/dev/null || fail 'rpmbuild is missing (Debian: rpm, Enterprise Linux: rpm-build)'
    rm -rf "$work/rpm"
    copy "$work/rpm/slurm-triage-$version"
    mkdir -p "$work/rpm/SOURCES"
    tar -C "$work/rpm" --sort=name --owner=0 --group=0 --mtime="@$SOURCE_DATE_EPOCH" -czf \
        "$work/rpm/SOURCES/slurm-triage-$version.tar.gz" "slurm-triage-$version"
    specs=packaging/slurm-triage.spec
    [ ! -e "${SLURM_INCLUDE:-/usr/include}/slurm/spank.h" ] || specs="$specs packaging/slurm-triage-spank.spec"
    set -- --define "_topdir $work/rpm" --define "upstream $version"
    # On Debian the database of rpm knows nothing of what BuildRequires names, and Python has another name.
    [ ! -e /etc/debian_version ] || set -- "$@" --nodeps --define "build_python ${PYTHON:-/usr/bin/python3}"
    for spec in $specs; do
        rpmbuild -bb "$@" "$spec" >"$work/rpm.log" 2>&1 || {
            tail -n 40 "$work/rpm.log" >&2
            fail "rpmbuild failed: $work/rpm.log"
        }
    done
    rm -f dist/slurm-triage*.rpm
    cp "$work"/rpm/RPMS/*/*.rpm dist/
}

# Without a word: all that this machine has the tools for.
if [ $# = 0 ]; then
    set -- wheel
    for pair in deb:dh rpm:rpmbuild; do
        if command -v "${pair#*:}" >/dev/null; then
            set -- "$@" "${pair%:*}"
        else
            echo "build: no ${pair#*:} here: no packages of the kind ${pair%:*}" >&2
        fi
    done
fi
for kind; do
    case $kind in
        wheel | deb | rpm) "$kind" ;;
        *) fail "$kind is no kind of package: wheel, deb, rpm" ;;
    esac
done
ls -l dist
