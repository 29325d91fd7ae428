#!/bin/sh
# The file system of the mini cluster on a kernel of its own with cgroup v2, in an emulated machine (no KVM needed):
# five jobs that run out of memory or crash, recorded and diagnosed. vm_test.sh [--out DIR]
set -eu

cd "$(dirname "$0")/../.."
. tools/cluster/lib.sh

seconds=${VM_SECONDS:-900}
missing=
command -v qemu-system-x86_64 >/dev/null || missing="$missing qemu-system-x86"
command -v cpio >/dev/null || missing="$missing cpio"
if [ -n "$missing" ]; then
    [ "$(id -u)" = 0 ] || fail "install first:$missing"
    retry apt-get update -q
    # shellcheck disable=SC2086
    retry apt-get install -q -y --no-install-recommends $missing
fi
tools/cluster/image.sh

folder=$(mktemp -d)
container=
cleanup() {
    [ -z "$container" ] || docker rm -f "$container" >/dev/null
    rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# The kernel of the same release, kept between runs.
kernel=build/vm/vmlinuz-$(suite)
if [ ! -s "$kernel" ]; then
    mkdir -p build/vm
    get_kernel() {
        docker run --rm --entrypoint sh "$IMAGE" -c '
            set -e
            apt-get update -q >&2
            depends() { apt-cache depends "$1" | sed -n "s/^ *Depends: \($2-[^ ]*\)$/\1/p" | head -n 1; }
            package=$(depends linux-image-cloud-amd64 linux-image)
            # From Debian 14 on the kernel itself lies in a package of its own, and elsewhere in it.
            binary=$(depends "$package" linux-binary)
            cd /tmp
            apt-get download -q "${binary:-$package}" >&2
            dpkg-deb --fsys-tarfile linux-*.deb | tar -xO --wildcards "./*/vmlinuz*"' >"$kernel.part"
    }
    retry get_kernel || fail "no kernel package could be downloaded"
    mv "$kernel.part" "$kernel"
fi

# All files in memory: what only compilers, readers of manuals and speakers of other languages need stays out.
mkdir "$folder/root"
container=$(docker create "$IMAGE")
# Numbers, not names: users of the same name have other numbers on this machine.
docker export "$container" | tar -C "$folder/root" -x --numeric-owner \
    --exclude='usr/share/doc/*' --exclude='usr/share/man/*' --exclude='usr/share/locale/*' --exclude='usr/lib/gcc/*' \
    --exclude='usr/libexec/gcc/*' --exclude='usr/bin/x86_64-linux-gnu-*' --exclude='usr/include/*' \
    --exclude='usr/share/perl/*' --exclude='usr/lib/x86_64-linux-gnu/perl*' --exclude='var/cache/*' \
    --exclude='usr/lib/x86_64-linux-gnu/*.a' --exclude='var/lib/apt/*' --exclude='usr/bin/mariadb-[!i]*' \
    --exclude='usr/bin/aria_*' --exclude='usr/bin/myisam*' --exclude='usr/lib/galera/*' --exclude='usr/bin/make'
# The plugin is built where the compiler is, and make stays out of the machine.
docker run --rm --entrypoint make --volume "$PWD/spank:/spank:ro" --volume "$folder/root/shared/lib:/built" "$IMAGE" \
    -s -C /spank BUILD=/built >/dev/null
mkdir -p "$folder/root/opt/slurm-triage"
cp -r epilog "$folder/root/opt/slurm-triage/epilog"
.venv/bin/python -m tests.cluster.vm jobs "$folder/root/jobs"
chmod -R a+rX "$folder/root/jobs"
ln -s usr/local/sbin/vm-init.sh "$folder/root/init"
(cd "$folder/root" && find . -print0 | cpio --null --quiet -o -H newc) >"$folder/initramfs"
rm -rf "$folder/root"

echo "cluster: machine with $(wc -c <"$folder/initramfs" | awk '{print int($1 / 1048576)}') MiB of files starts"
timeout "$seconds" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 3072 -nodefaults -display none -no-reboot \
    -kernel "$kernel" -initrd "$folder/initramfs" -append 'console=ttyS0 rdinit=/init panic=-1 quiet loglevel=4' \
    -serial "file:$folder/console" -serial "file:$folder/answers" || echo "cluster: the machine ended with $?" >&2
if ! grep -q END-OF-ANSWERS "$folder/answers"; then
    tail -n 60 "$folder/console" >&2
    fail "the machine sent no answers within $seconds s; the end of its console stands above"
fi
grep -a '^vm: ' "$folder/console"
.venv/bin/python -m tests.cluster.vm check "$folder/answers" "$@"
