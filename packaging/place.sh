#!/bin/sh
# Puts what Slurm calls in its place, and takes it away again: place put|away NAME, place spool FOLDER USER
#
# NAME lies in /usr/lib/slurm-triage/shipped, its place is /usr/lib/slurm-triage/NAME, which belongs to no package: slurmd
# fails the end of every job, and drains the node, when Epilog= names a path that does not exist. So
#   put     copies it there by rename: who runs the old file meanwhile keeps it
#   away    removes it, unless Slurm's configuration names it or could not be looked at. Then a script that does nothing
#           takes the place of a hook, and the plugin stays as it is. Both can go when Slurm no longer names them.
#   spool   makes a spool (docs/reference/spool.md) that is not there yet; what is there may belong to SlurmUser, and root
#           must not follow what he put there
# For the scripts of packages. It never changes the configuration of Slurm. DESTDIR is put before all paths, for tests.
set -eu

root=${DESTDIR:-}
library=$root/usr/lib/slurm-triage
confs="/etc/slurm /etc/slurm-llnl /usr/local/etc/slurm /run/slurm/conf /var/spool/slurmd/conf-cache"

# What of Slurm's configuration names the file, one line each; with status 1 if nothing at all could be looked at.
named() {
    path=/usr/lib/slurm-triage/$1
    looked=
    for folder in $confs ${SLURM_CONF:+"$(dirname "$SLURM_CONF")"}; do
        [ -d "$root$folder" ] || continue
        [ ! -e "$root$folder/slurm.conf" ] || looked=1
        find "$root$folder" -follow -type f -size -1024k -exec grep -Hn "^[^#]*$path\([^[:alnum:]_-]\|$\)" {} + 2>/dev/null || :
        # Epilog=/etc/slurm/epilog.d/* with a link to ours in that folder
        find "$root$folder" -type l -lname "*$path" 2>/dev/null || :
    done
    [ -z "$root" ] || return 0
    if command -v scontrol >/dev/null; then
        if shown=$(timeout 10 scontrol show config 2>/dev/null); then
            echo "$shown" | grep -F "$path" || :
        else
            [ -n "$looked" ] || return 1
        fi
    fi
}

put() {
    temporary=$library/.$1.$$
    cp "$library/shipped/$1" "$temporary"
    chmod 755 "$temporary"
    mv -f "$temporary" "$library/$1"
}

away() {
    [ -e "$library/$1" ] || return 0
    why='Slurm could not be asked whether it still calls it'
    if found=$(named "$1"); then
        if [ -z "$found" ]; then
            rm -f "$library/$1"
            return 0
        fi
        why="Slurm still calls it:
$found"
    fi
    case $1 in
        *.so) echo "slurm-triage: /usr/lib/slurm-triage/$1 stays. $why" >&2 ;;
        *)
            temporary=$library/.$1.$$
            printf '#!/bin/sh\n# slurm-triage was removed while Slurm still called this. Take it out of slurm.conf, then delete it.\nexit 0\n' \
                >"$temporary"
            chmod 755 "$temporary"
            mv -f "$temporary" "$library/$1"
            echo "slurm-triage: /usr/lib/slurm-triage/$1 stays, as a script that does nothing. $why" >&2
            ;;
    esac
}

spool() {
    [ ! -e "$root$1" ] && [ ! -L "$root$1" ] || return 0
    if ! id "$2" >/dev/null 2>&1; then
        echo "slurm-triage: there is no user $2 here, so $1 was not made: systemd-tmpfiles --create makes it later" >&2
        return 0
    fi
    mkdir -p "$(dirname "$root$1")"
    mkdir -m 700 "$root$1" "$root$1/tmp" "$root$1/new" "$root$1/work" "$root$1/done" "$root$1/bad"
    [ "$(id -u)" != 0 ] || chown -h "$2:" "$root$1/tmp" "$root$1/new" "$root$1/work" "$root$1/done" "$root$1/bad" "$root$1"
}

case "${1:-} ${2:-}" in
    'spool /var/spool/slurm-triage'*) spool "$2" "$3" ;;
    'put slurm-triage-epilog' | 'put slurm-triage-epilogslurmctld' | 'put slurm_triage.so') put "$2" ;;
    'away slurm-triage-epilog' | 'away slurm-triage-epilogslurmctld' | 'away slurm_triage.so') away "$2" ;;
    *)
        echo 'usage: place put|away slurm-triage-epilog|slurm-triage-epilogslurmctld|slurm_triage.so' >&2
        echo '       place spool /var/spool/slurm-triage[-ctld] USER' >&2
        exit 1
        ;;
esac
