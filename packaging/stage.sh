#!/bin/sh
# Puts the parts of slurm-triage where they belong below DESTDIR: packaging/stage.sh PART...
#
#   service     the commands slurm-triage and sdiag-history, and the service
#   node        the agent, the Epilog and the units of a compute node
#   controller  the EpilogSlurmctld and the units of the controller's host
#   spank       the SPANK plugin, built against the headers of Slurm in SLURM_INCLUDE
#
# Both kinds of packages are made with it. PYTHON makes the agent, the man pages and the completion (3.10 or later, with
# Jinja2), INTERPRETER is the one that the commands name, UNITDIR where units go. Nothing but DESTDIR and BUILD is written.
set -eu

cd "$(dirname "$0")/.."
: "${DESTDIR:?stage: name a folder in DESTDIR}"
python=${PYTHON:-python3}
interpreter=${INTERPRETER:-/usr/bin/python3}
units=$DESTDIR${UNITDIR:-/usr/lib/systemd/system}
library=$DESTDIR/usr/lib/slurm-triage
share=$DESTDIR/usr/share/slurm-triage
build=${BUILD:-$PWD/build/stage}
export PYTHONDONTWRITEBYTECODE=1

put() { # MODE FILE TARGET
    install -D -m "$1" "$2" "$3"
}

pages() { # the man page and the completion of a command
    mkdir -p "$DESTDIR/usr/share/man/man$2" "$DESTDIR/usr/share/bash-completion/completions"
    "$python" -m tools.pages man "$1" >"$DESTDIR/usr/share/man/man$2/$1.$2"
    gzip -9nf "$DESTDIR/usr/share/man/man$2/$1.$2"
    "$python" -m tools.pages bash "$1" >"$DESTDIR/usr/share/bash-completion/completions/$1"
    chmod 644 "$DESTDIR/usr/share/man/man$2/$1.$2.gz" "$DESTDIR/usr/share/bash-completion/completions/$1"
}

command_file() { # NAME MODULE
    mkdir -p "$DESTDIR/usr/bin"
    printf '#!%s\nimport sys\n\nsys.path.insert(0, "/usr/share/slurm-triage")\n\nfrom %s import main\n\nsys.exit(main())\n' \
        "$interpreter -I" "$2" >"$DESTDIR/usr/bin/$1"
    chmod 755 "$DESTDIR/usr/bin/$1"
}

service() {
    mkdir -p "$share"
    find slurm_triage -name __pycache__ -prune -o -type f -print | while IFS= read -r file; do
        put 644 "$file" "$share/$file"
    done
    for file in templates/*; do
        put 644 "$file" "$share/slurm_triage/$file"
    done
    command_file slurm-triage slurm_triage.cli
    command_file sdiag-history slurm_triage.history.cli
    pages slurm-triage 1
    pages sdiag-history 1
    put 644 systemd/slurm-triage.service "$units/slurm-triage.service"
    put 644 systemd/sysusers.conf "$DESTDIR/usr/lib/sysusers.d/slurm-triage.conf"
    put 644 packaging/settings/service.toml "$DESTDIR/usr/share/doc/slurm-triage/examples/service.toml"
}

node() {
    mkdir -p "$DESTDIR/usr/sbin"
    "$python" -m tools.agent_zipapp "$DESTDIR/usr/sbin/slurm-triage-agent"
    pages slurm-triage-agent 8
    put 755 packaging/place.sh "$library/place"
    put 755 epilog/slurm-triage-epilog "$library/shipped/slurm-triage-epilog"
    for kind in path timer service; do
        put 644 "systemd/slurm-triage-agent.$kind" "$units/slurm-triage-agent.$kind"
    done
    put 644 systemd/tmpfiles-node.conf "$DESTDIR/usr/lib/tmpfiles.d/slurm-triage-node.conf"
    put 644 packaging/settings/agent.toml "$DESTDIR/usr/share/doc/slurm-triage-node/examples/agent.toml"
}

controller() {
    put 755 epilog/slurm-triage-epilogslurmctld "$library/shipped/slurm-triage-epilogslurmctld"
    for kind in path timer service; do
        put 644 "systemd/slurm-triage-agent-ctld.$kind" "$units/slurm-triage-agent-ctld.$kind"
    done
    put 644 systemd/tmpfiles-controller.conf "$DESTDIR/usr/lib/tmpfiles.d/slurm-triage-controller.conf"
    put 644 packaging/settings/agent-ctld.toml "$DESTDIR/usr/share/doc/slurm-triage-controller/examples/agent-ctld.toml"
}

spank() {
    make -s -C spank "BUILD=$build" "SLURM_INCLUDE=${SLURM_INCLUDE:-/usr/include}"
    put 755 "$build/slurm_triage.so" "$library/shipped/slurm_triage.so"
}

[ $# -gt 0 ] || set -- service node controller spank
for part; do
    case $part in
        service | node | controller | spank) "$part" ;;
        *)
            echo "stage: $part is no part: service, node, controller, spank" >&2
            exit 1
            ;;
    esac
done
