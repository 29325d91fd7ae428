#!/bin/sh
# What the scripts of the mini cluster share; to be sourced with the checkout as working directory.

SLURM=${SLURM:-24.11}
# A folder with a Dockerfile that adds to the image, for jobs that need more than the scenarios do; empty for none.
LAYER=${LAYER-}
BASE_IMAGE=slurm-triage-cluster:$SLURM
IMAGE=$BASE_IMAGE${LAYER:+-$(basename "$LAYER" | tr _ -)}
PROJECT=slurm-triage
# What docker-compose.yml hands to the containers: which witnesses are installed, how Slurm is set up, and whether there are
# a service and agents.
export WITNESSES="${WITNESSES-spank epilog epilogslurmctld}" SETUP="${SETUP-}" DELIVERY="${DELIVERY-yes}"

fail() {
    echo "cluster: $*" >&2
    exit 1
}

# The Debian release that carries a Slurm version.
suite() {
    case "$SLURM" in
        22.05) echo bookworm ;;
        24.11) echo trixie ;;
        26.05) echo "${DEBIAN_TESTING:-forky}" ;;
        *) fail "no recipe for Slurm $SLURM: use 22.05, 24.11 or 26.05" ;;
    esac
}

retry() {
    for pause in 5 15 0; do
        "$@" && return 0
        echo "cluster: '$*' failed, pause $pause s" >&2
        sleep "$pause"
    done
    return 1
}

compose() {
    if docker compose version >/dev/null 2>&1; then
        # On cgroup v2 Docker gives each container a cgroup namespace of its own; slurmd needs the machine's. Version 1
        # of compose knows no such key.
        if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
            set -- --file docker/cgroup2.yml "$@"
        fi
        IMAGE=$IMAGE docker compose --project-name "$PROJECT" --file docker-compose.yml "$@"
    else
        IMAGE=$IMAGE docker-compose --project-name "$PROJECT" --file docker-compose.yml "$@"
    fi
}

need_docker() {
    command -v docker >/dev/null || fail 'docker is missing; on Debian: apt-get install docker.io docker-compose'
    docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null ||
        fail 'docker-compose is missing; on Debian: apt-get install docker-compose'
    if ! docker info >/dev/null 2>&1; then
        # Without an init system nobody starts the daemon.
        if [ "$(id -u)" != 0 ] || [ -d /run/systemd/system ] || ! command -v dockerd >/dev/null; then
            fail 'the Docker daemon does not answer: start it, or ask for the right to use it'
        fi
        echo 'cluster: starting dockerd'
        setsid dockerd >/var/log/dockerd.log 2>&1 </dev/null &
        for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
            docker info >/dev/null 2>&1 && return 0
            sleep 1
        done
        tail -n 20 /var/log/dockerd.log >&2
        fail 'dockerd does not start; its last lines stand above'
    fi
}
