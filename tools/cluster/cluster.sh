#!/bin/sh
# The mini cluster: SLURM=24.11 tools/cluster/cluster.sh up|down|shell|logs
set -eu

cd "$(dirname "$0")/../.."
. tools/cluster/lib.sh

logs() {
    compose ps
    compose logs --tail=15
    for name in ctl dbd c1 f1; do
        echo "--- last lines of the log on $name"
        docker exec "$(container "$name")" sh -c 'tail -n 15 /var/log/slurm/*.log' || :
    done
}

# Compose 1 joins names with _, compose 2 with -.
container() {
    docker ps --all --quiet --filter "label=com.docker.compose.project=$PROJECT" \
        --filter "label=com.docker.compose.service=$1" | head -n 1
}

as() { docker exec -u "$1" -w "/shared/home/$1" "$(container login)" sh -c "$2"; }

ready() {
    states=$(as user1 'sinfo -h -N -o "%N %t"' 2>&1 | sort -u)
    [ "$(printf '%s\n' "$states" | grep -c ' idle$')" = 10 ]
}

# The cluster that is there is this version's and this checkout's, set up as wanted, and it runs. Else it goes: a new slurmctld on an old
# database would give new jobs the ids of old ones.
usable() {
    found=$(docker inspect "$(container ctl)" -f \
        '{{.State.Running}} {{.Config.Image}} {{index .Config.Labels "com.docker.compose.project.working_dir"}}')
    set_up=$(docker inspect "$(container ctl)" -f '{{range .Config.Env}}{{println .}}{{end}}' |
        sed -n -e '/^DELIVERY=/p' -e '/^WITNESSES=/p' -e '/^SETUP=/p' | sort)
    [ "$found" = "true $IMAGE $PWD" ] && [ "$set_up" = "DELIVERY=$DELIVERY
SETUP=$SETUP
WITNESSES=$WITNESSES" ]
}

# A node that registers while slurmctld is still starting can stay unknown until it says something again.
wake() {
    for node in $(printf '%s\n' "$states" | sed -n '/ idle$/!s/ .*//p'); do
        echo "cluster: $node is not idle after a minute, its container is started again"
        docker restart --time 2 "$(container "$node")" >/dev/null 2>&1 || :
    done
}

up() {
    need_docker
    tools/cluster/image.sh
    if [ -n "$(container ctl)" ] && ! usable; then
        echo 'cluster: another cluster is there, taking it down'
        down
    fi
    said=$(compose up --detach 2>&1) || fail "the containers do not start: $said"
    echo 'cluster: waiting for ten idle nodes'
    for second in $(seq 180); do
        ready && break
        [ "$second" != 60 ] || wake
        sleep 1
    done
    if ! ready; then
        logs >&2
        as user1 'sinfo -N -l; sinfo -R' >&2 || :
        fail "not ready after three minutes, sinfo said: $states"
    fi
    if ! answer=$(as user1 'timeout 60 srun -N3 -n3 hostname' 2>&1); then
        logs >&2
        fail "a job of user1 on three nodes does not run: $answer"
    fi
    # A user's own processes get in, root does not.
    as user1 'test -w /squash/user1' && ! as root 'ls /squash/user1' >/dev/null 2>&1 ||
        echo 'cluster: warning: /squash/user1 does not refuse root here (no FUSE?)' >&2
    echo "cluster: Slurm $(as user1 'sinfo -V' | cut -d' ' -f2) is ready: make cluster-shell"
}

down() {
    compose down --volumes --remove-orphans --timeout 5 2>&1 | grep -i -E 'error|fail' || :
    [ -z "$(docker ps --all --quiet --filter "label=com.docker.compose.project=$PROJECT")" ] ||
        fail 'some containers could not be removed: docker ps --all'
}

case "${1:-}" in
    up) up ;;
    down)
        need_docker
        down
        ;;
    shell)
        [ -n "$(container login)" ] || fail 'no cluster runs: make cluster'
        exec docker exec -it -u user1 -w /shared/home/user1 -e HOME=/shared/home/user1 "$(container login)" bash -l
        ;;
    logs) logs ;;
    *) fail 'usage: tools/cluster/cluster.sh up|down|shell|logs' ;;
esac
