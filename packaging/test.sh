#!/bin/sh
# Builds the packages and tries them: packaging/test.sh. As root on Debian, with what it names when it is missing.
#
# lintian's errors and units that systemd would not load are failures. Then the packages are installed in a small Debian of
# their own (build/packages/root), used, and taken away again, while Slurm's configuration names the hook and while not.
# SUITE is the Debian (bookworm), MIRROR where it comes from.
set -eu

cd "$(dirname "$0")/.."
suite=${SUITE:-bookworm}
work=$PWD/build/packages
root=$work/root-$suite
hook=/usr/lib/slurm-triage/slurm-triage-epilog

fail() {
    echo "packages: $*" >&2
    exit 1
}

say() {
    echo "packages: $*"
}

# Mounts of this script end with it.
if [ "${1:-}" != inside ]; then
    for tool in debootstrap:debootstrap lintian:lintian dh:debhelper rpmbuild:rpm rpmlint:rpmlint systemd-analyze:systemd mandoc:mandoc; do
        command -v "${tool%%:*}" >/dev/null || fail "${tool%%:*} is missing (Debian: ${tool##*:})"
    done
    [ -e /usr/include/slurm/spank.h ] || fail 'slurm/spank.h is missing (Debian: libslurm-dev)'
    [ "$(id -u)" = 0 ] || fail 'has to be root'
    packaging/build.sh deb rpm
    exec unshare -m "$0" inside
fi
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' slurm_triage/__init__.py)

# ---------------------------------------------------------------------------------------------------- what is in them
lintian --allow-root --fail-on error --tag-display-limit 0 dist/slurm-triage*.deb || fail 'lintian found errors'
rpmlint --config packaging/rpmlint.toml dist/slurm-triage*.rpm >"$work/rpmlint.log" 2>&1 || {
    cat "$work/rpmlint.log"
    fail 'rpmlint found errors'
}
tail -n 1 "$work/rpmlint.log"
for package in dist/slurm-triage*.rpm; do
    rpm -qlp "$package" 2>/dev/null | grep -q '^/' || fail "$package is empty"
    rpm -qp --scripts "$package" 2>/dev/null | grep -v '^[a-z]* scriptlet' | sh -n || fail "the scripts of $package are no sh"
done
rm -rf "$work/staged"
mkdir "$work/staged"
for package in dist/slurm-triage_*.deb dist/slurm-triage-node_*.deb dist/slurm-triage-controller_*.deb; do
    dpkg-deb -x "$package" "$work/staged"
done
for page in "$work"/staged/usr/share/man/man?/*; do
    mandoc -W warning "$page" >/dev/null || fail "$page is no good page"
done

# ---------------------------------------------------------------------------------------------------- a Debian to try them in
if [ ! -e "$root/.made" ]; then
    rm -rf "$root"
    # Python alone, so that what a package forgot to ask for is missing.
    debootstrap --variant=minbase --include=python3 "$suite" "$root" "${MIRROR:-http://deb.debian.org/debian}" >"$work/debootstrap.log" 2>&1 ||
        fail "debootstrap failed: $work/debootstrap.log"
    touch "$root/.made"
fi
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o "lowerdir=$root,upperdir=/mnt/upper,workdir=/mnt/work" overlay /mnt/root
mount -t proc proc /mnt/root/proc
cp /etc/resolv.conf /mnt/root/etc/resolv.conf
mkdir /mnt/root/packages
cp dist/slurm-triage*.deb /mnt/root/packages/

within() {
    chroot /mnt/root env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C sh -ec "$1"
}

same() { # WHAT FOUND EXPECTED
    [ "$2" = "$3" ] || fail "$1: '$2' instead of '$3'"
}

say "a node: nothing but Python"
within "dpkg -i /packages/slurm-triage-node_*.deb" >"$work/node.log" 2>&1 || fail "slurm-triage-node needs more than Python: $(cat "$work/node.log")"
same 'the agent' "$(within 'slurm-triage-agent --version')" "slurm-triage $version"
same 'the spool' "$(within 'stat -c "%a %U" /var/spool/slurm-triage/new')" '700 root'
within "SLURM_JOB_ID=7 SLURM_JOB_UID=1000 SLURM_JOB_EXIT_CODE=256 $hook" || fail 'the hook failed'
same 'records' "$(within 'ls /var/spool/slurm-triage/new | wc -l')" 1
within 'slurm-triage-agent status' | grep -q '^good' || fail 'the agent is not good'

say "the controller's host, before and after SlurmUser is there"
within 'dpkg -i /packages/slurm-triage-controller_*.deb' >"$work/controller.log" 2>&1 || fail "controller: $(cat "$work/controller.log")"
grep -q 'no user slurm' "$work/controller.log" || fail 'a missing SlurmUser is not said'
within 'useradd --system slurm; dpkg-reconfigure slurm-triage-controller' >/dev/null 2>&1
same 'its spool' "$(within 'stat -c "%a %U" /var/spool/slurm-triage-ctld/new')" '700 slurm'

say "the service, with what it asks for"
within 'apt-get update -q && apt-get install -q -y --no-install-recommends /packages/slurm-triage_*.deb' >"$work/service.log" 2>&1 ||
    fail "slurm-triage cannot be installed: $(tail -n 20 "$work/service.log")"
same 'the command' "$(within 'slurm-triage --version')" "slurm-triage $version"
within 'slurm-triage explain memcg_oom' | grep -q 'memory' || fail 'explain says nothing'
within 'slurm-triage install --print' | grep -q '^EpilogSlurmctld=' || fail 'install --print says nothing'
within 'cd /tmp; printf "slurmstepd: error: *** JOB 7 ON c1 CANCELLED AT 2026-11-30T10:00:00 DUE TO TIME LIMIT ***\n" | slurm-triage diagnose -' |
    grep -q 'time_limit\|time limit' || fail 'diagnose found nothing'
within 'slurm-triage doctor --role service' >"$work/doctor.log" && fail 'the doctor finds nothing without Slurm' || :
grep -q 'scontrol: command not found' "$work/doctor.log" || fail 'the doctor does not miss Slurm'
same 'its folder' "$(within 'stat -c "%a %U" /var/lib/slurm-triage')" '750 slurm-triage'

say 'the plugin, with the release of Slurm that it was built for'
if within 'apt-get install -q -y --no-install-recommends /packages/slurm-triage-spank_*_*.deb' >"$work/spank.log" 2>&1; then
    same 'the plugin' "$(within 'ls /usr/lib/slurm-triage/slurm_triage.so')" /usr/lib/slurm-triage/slurm_triage.so
else
    fail "slurm-triage-spank cannot be installed: $(tail -n 20 "$work/spank.log")"
fi

say 'units and folders as systemd reads them'
cp -n /lib/systemd/system/*.target /mnt/root/lib/systemd/system/
for unit in /mnt/root/lib/systemd/system/slurm-triage*; do
    said=$(systemd-analyze verify --man=no --root=/mnt/root "${unit#/mnt/root/lib/systemd/system/}" 2>&1 | grep slurm-triage || :)
    [ -z "$said" ] || fail "$said"
done
systemd-tmpfiles --root=/mnt/root --create slurm-triage-node.conf slurm-triage-controller.conf || fail 'tmpfiles.d is wrong'
systemd-sysusers --root=/mnt/root slurm-triage.conf || fail 'sysusers.d is wrong'

say 'taken away while Slurm calls it, and while not'
mkdir -p /mnt/root/etc/slurm
echo "Epilog=$hook" >/mnt/root/etc/slurm/slurm.conf
echo 'optional /usr/lib/slurm-triage/slurm_triage.so' >/mnt/root/etc/slurm/plugstack.conf
before=$(cat /mnt/root/etc/slurm/slurm.conf /mnt/root/etc/slurm/plugstack.conf)
within 'apt-get purge -q -y "slurm-triage*"' >"$work/purge.log" 2>&1 || fail "purge: $(tail -n 20 "$work/purge.log")"
grep -q "etc/slurm/slurm.conf:1:Epilog=$hook" "$work/purge.log" || fail 'it is not said that Slurm still calls the hook'
within "SLURM_JOB_ID=8 SLURM_JOB_UID=1000 SLURM_JOB_EXIT_CODE=256 $hook" || fail 'the path that Slurm calls is gone'
within "grep -q 'was removed' $hook && test -e /usr/lib/slurm-triage/slurm_triage.so && test ! -e /var/spool/slurm-triage" ||
    fail 'what is left is not what should be'
same 'configuration of Slurm' "$(cat /mnt/root/etc/slurm/slurm.conf /mnt/root/etc/slurm/plugstack.conf)" "$before"
within 'test ! -e /usr/lib/slurm-triage/slurm-triage-epilogslurmctld' || fail 'a hook that nobody calls is left'
within 'dpkg -i /packages/slurm-triage-node_*.deb' >/dev/null 2>&1
within "! grep -q 'was removed' $hook" || fail 'installed again it does nothing'
echo '# nothing' >/mnt/root/etc/slurm/slurm.conf
within 'dpkg --purge slurm-triage-node' >"$work/purge.log" 2>&1
within "test ! -e $hook" || fail "a hook that nobody calls is left: $(cat "$work/purge.log")"
say 'all good'
