#!/bin/sh
# Builds the image of the mini cluster for one Slurm version: SLURM=24.11 tools/cluster/image.sh
#
# The base is Debian's image of a registry where one can be reached. Otherwise it is made here with debootstrap (as
# root) and kept as a local image, so that this happens once.
set -eu

cd "$(dirname "$0")/../.."
. tools/cluster/lib.sh

need_docker
suite=$(suite)
local_base=slurm-triage-base:$suite
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

has_image() { docker image inspect "$1" >/dev/null 2>&1; }

make_base() {
    [ "$(id -u)" = 0 ] || fail "debian:$suite-slim cannot be pulled, and only root can make a base with debootstrap"
    if ! command -v debootstrap >/dev/null; then
        retry apt-get update -q
        retry apt-get install -q -y --no-install-recommends debootstrap
    fi
    # A debootstrap older than the release has no script for it; the one of unstable serves all later ones.
    script=/usr/share/debootstrap/scripts/$suite
    [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    bootstrap() {
        find "$folder" -mindepth 1 -delete
        debootstrap --variant=minbase --include=ca-certificates "$suite" "$folder" "$mirror" "$script" >"$folder.log" 2>&1
    }
    if ! retry bootstrap; then
        tail -n 20 "$folder.log" >&2
        fail 'debootstrap failed; its last lines stand above'
    fi
    rm -f "$folder.log"
    tar -C "$folder" --exclude='./var/cache/apt/archives/*.deb' -c . | docker import - "$local_base" >/dev/null
}

if has_image "$local_base"; then
    :
elif timeout 300 docker pull -q "debian:$suite-slim" >/dev/null 2>&1; then
    docker tag "debian:$suite-slim" "$local_base"
else
    echo "cluster: debian:$suite-slim cannot be pulled here, making a base with debootstrap"
    make_base
fi

log=$(mktemp)
# build BASE IMAGE FOLDER
build() { DOCKER_BUILDKIT=0 docker build --build-arg "BASE=$1" --tag "$2" "$3" >"$log" 2>&1; }
build_all() {
    build "$local_base" "$BASE_IMAGE" docker && { [ -z "$LAYER" ] || build "$BASE_IMAGE" "$IMAGE" "$LAYER"; }
}
if ! retry build_all; then
    tail -n 40 "$log" >&2
    rm -f "$log"
    fail 'the image could not be built; the last lines stand above'
fi
rm -f "$log"
found=$(docker run --rm --entrypoint slurmd "$IMAGE" -V)
case "$found" in
    "slurm-wlm $SLURM"* | "slurm $SLURM"*) echo "cluster: image $IMAGE, $found" ;;
    *) fail "Debian $suite now carries '$found', not $SLURM: name the release in DEBIAN_TESTING, or use another version" ;;
esac
