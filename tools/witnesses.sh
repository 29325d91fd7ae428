#!/bin/sh
# Installs or removes the witnesses of a node or of the controller's host: tools/witnesses.sh install|remove|lines
#
#   install   builds the SPANK plugin (if the headers of Slurm are there) and puts it, the hooks and the spools in place
#   remove    takes them away again; refuses while Slurm's configuration names one of them, for slurmd fails the end of
#             every job whose Epilog is a path that does not exist
#   lines     prints the lines for plugstack.conf and slurm.conf
#
# DESTDIR is put before all paths (for packages), PREFIX is /usr, SLURM_CONF the folder of slurm.conf (/etc/slurm).
# docs/howto/install-the-witnesses.md says more.
set -eu

cd "$(dirname "$0")/.."
library=${PREFIX:-/usr}/lib/slurm-triage
target=${DESTDIR:-}$library
conf=${DESTDIR:-}${SLURM_CONF:-/etc/slurm}
spool=${DESTDIR:-}/var/spool/slurm-triage

fail() {
    echo "witnesses: $*" >&2
    exit 1
}

put() {
    mkdir -p "$target"
    # By rename: a hook that runs meanwhile, and a slurmstepd that has the plugin mapped, keep the old file.
    cp "$1" "$target/.new.$$"
    chmod 755 "$target/.new.$$"
    mv "$target/.new.$$" "$target/$2"
}

# What is there already is left as it is: it may belong to SlurmUser, and root must not follow what he put there.
make_spool() {
    [ ! -L "$1" ] || fail "$1 is a symbolic link: the witnesses would not write there"
    [ ! -d "$1" ] || return 0
    mkdir -p "$(dirname "$1")"
    mkdir -m 700 "$1" "$1/tmp" "$1/new" "$1/work" "$1/done" "$1/bad"
    [ "$(id -u)" != 0 ] || chown -h "$2" "$1/tmp" "$1/new" "$1/work" "$1/done" "$1/bad" "$1"
}

lines() {
    cat <<TEXT
# plugstack.conf of the compute nodes (elsewhere only where the plugin is, too). Then restart slurmd, jobs go on: it looks
# only once whether a plugin wants to know the end of a job. With this line alone a node is complete.
optional $library/slurm_triage.so
# With PrologFlags=RunInJob instead: optional $library/slurm_triage.so runinjob

# slurm.conf, the same on all hosts; then: scontrol reconfigure
EpilogSlurmctld=$library/slurm-triage-epilogslurmctld
# Only where the plugin cannot be used:
Epilog=$library/slurm-triage-epilog

# In an Epilog or EpilogSlurmctld that exists already, in the place of such a line. It does no harm when the file is gone:
[ ! -x $library/slurm-triage-epilog ] || $library/slurm-triage-epilog || :
TEXT
}

# Lines of Slurm's configuration that name what we installed.
named() {
    find "$conf" -follow -name '*.conf*' -type f -exec grep -H -n "^[^#]*$library/" {} + 2>/dev/null || :
    if [ -z "${DESTDIR:-}" ] && command -v scontrol >/dev/null; then
        scontrol show config 2>/dev/null | grep "$library/" || :
    fi
}

case "${1:-}" in
    install)
        include=${SLURM_INCLUDE:-/usr/include}
        if [ -e "$include/slurm/spank.h" ]; then
            build=$(mktemp -d)
            trap 'rm -rf "$build"' EXIT
            make -s -C spank "BUILD=$build" "SLURM_INCLUDE=$include" >/dev/null || fail 'the SPANK plugin does not build'
            put "$build/slurm_triage.so" slurm_triage.so
        else
            echo "witnesses: no $include/slurm/spank.h (Debian: libslurm-dev, RPM: slurm-devel): the plugin is left out" >&2
        fi
        put epilog/slurm-triage-epilog slurm-triage-epilog
        put epilog/slurm-triage-epilogslurmctld slurm-triage-epilogslurmctld
        make_spool "$spool" root
        make_spool "$spool-ctld" "${SLURM_USER:-$(id -un slurm 2>/dev/null || echo root)}"
        echo "witnesses: installed in $target; \`tools/witnesses.sh lines\` prints what Slurm needs to be told"
        ;;
    remove)
        found=$(named)
        [ -z "$found" ] || fail "Slurm still calls them: take these lines away and run scontrol reconfigure first
$found"
        rm -f "$target/slurm_triage.so" "$target/slurm-triage-epilog" "$target/slurm-triage-epilogslurmctld"
        [ ! -d "$target" ] || rmdir "$target" 2>/dev/null || :
        echo "witnesses: removed; the records in $spool and $spool-ctld are left"
        ;;
    lines) lines ;;
    *) fail 'usage: tools/witnesses.sh install|remove|lines' ;;
esac
