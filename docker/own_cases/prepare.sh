#!/bin/sh
# Readies a running mini cluster, made with LAYER=docker/own_cases, for our own cases: the programs are built into
# /shared/apps on a compute node, and the nodes get small file systems that can be filled.
set -eu

cd "$(dirname "$0")"
container() {
    docker ps --quiet --filter label=com.docker.compose.project=slurm-triage --filter "label=com.docker.compose.service=$1"
}

docker exec "$(container c1)" rm -rf /shared/apps /shared/src
docker cp programs "$(container c1):/shared/src"
docker exec "$(container c1)" sh /shared/src/build.sh /shared/apps
# A program that was built on a newer release, if the image of one is there (Slurm 26.05 is Debian testing's).
newer=slurm-triage-cluster:26.05-own-cases
if docker image inspect "$newer" >/dev/null 2>&1; then
    docker run --rm --volumes-from "$(container c1)" --entrypoint gcc "$newer" -o /shared/apps/newer /shared/src/newer.c
fi
for node in c1 c2 c3; do
    docker exec "$(container "$node")" sh -ec '
        mkdir -p /local/scratch /local/ram /local/plugins
        mountpoint -q /local/scratch || mount -t tmpfs -o size=24m,mode=1777 tmpfs /local/scratch
        mountpoint -q /local/ram || mount -t tmpfs -o size=200m,mode=1777 tmpfs /local/ram
        mountpoint -q /local/plugins || mount -t tmpfs -o size=4m,noexec tmpfs /local/plugins
        printf "#!/bin/bash\necho plugin ready\n" >/local/plugins/start.sh
        chmod 755 /local/plugins/start.sh'
done
