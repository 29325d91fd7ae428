#!/bin/bash
# One role of the mini cluster: entrypoint.sh db|dbd|ctl|node|login. Fails loudly: a container that exits is the error.
set -euo pipefail

say() { echo "$(hostname): $*"; }

# wait_for WHAT SECONDS COMMAND...: until the command succeeds
wait_for() {
    local what=$1 seconds=$2
    shift 2
    local end=$((SECONDS + seconds))
    until "$@" >/dev/null 2>&1; do
        if ((SECONDS >= end)); then
            say "no $what after $seconds s; last answer:" >&2
            "$@" >&2 || exit 1
        fi
        sleep 1
    done
}

port_open() { (: <"/dev/tcp/$1/$2") 2>/dev/null; }

start_munge() {
    # munged wants these to be its own and not writable for others
    install -d -o munge -g munge -m 0755 /run/munge
    install -d -o munge -g munge -m 0700 /var/log/munge /var/lib/munge
    # On a busy machine a munged can fail to come up; the next one does.
    local try
    for try in 1 2 3; do
        # None is killed: some nodes see the processes of the whole machine, and a number left in a file may be anybody's.
        rm -f /run/munge/munge.socket* /run/munge/munged.pid
        setpriv --reuid munge --regid munge --clear-groups /usr/sbin/munged --syslog --force || :
        for _ in {1..20}; do
            munge -n 2>/dev/null | unmunge >/dev/null 2>&1 && return 0
            sleep 1
        done
        say "no answer of munge after $((try * 20)) s" >&2
    done
    exit 1
}

# Sleeps until the container is stopped, then runs the rest of the arguments.
stay() {
    local stopped=
    trap 'stopped=yes' TERM INT
    while [ -z "$stopped" ]; do
        sleep 3600 &
        wait $! || :
    done
    "$@"
}

database() {
    install -d -o mysql -g mysql /run/mysqld /var/lib/mysql
    if [ ! -d /var/lib/mysql/mysql ]; then
        mariadb-install-db --user=mysql --skip-test-db >/dev/null
    fi
    # Runs once per start before the port opens; the account exists afterwards in any case.
    cat >/run/mysqld/init.sql <<'SQL'
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS 'slurm'@'%' IDENTIFIED BY 'slurm';
GRANT ALL ON slurm_acct_db.* TO 'slurm'@'%';
SQL
    exec mariadbd --user=mysql --bind-address=0.0.0.0 --init-file=/run/mysqld/init.sql \
        --innodb-buffer-pool-size=128M --innodb-log-file-size=32M --innodb-lock-wait-timeout=900 \
        --innodb-flush-log-at-trx-commit=2
}

# Everything that users see on the shared volume; done by the controller, which is the first to need it.
shared_folders() {
    local user
    for user in user1 user2; do
        install -d -o "$user" -g "$user" -m 0700 "/shared/home/$user" "/shared/squash/$user"
        install -d -o "$user" -g "$user" -m 0750 "/shared/out/$user"
    done
}

# Root has no say in /squash/user1, as in a directory on NFS with root_squash: a FUSE file system lets nobody in but
# the user who mounted it, whatever capabilities root has.
root_squash() {
    if [ ! -e /dev/fuse ]; then
        say 'no /dev/fuse: /squash/user1 does not exist here' >&2
        return 0
    fi
    chmod 666 /dev/fuse
    install -d -m 0755 /squash
    install -d -o user1 -g user1 -m 0700 /squash/user1
    setpriv --reuid user1 --regid user1 --clear-groups bindfs --no-allow-other /shared/squash/user1 /squash/user1 ||
        say 'FUSE mount failed: /squash/user1 is an ordinary directory here' >&2
}

# What slurmd leaves in cgroups of its own would outlive a container that shares the process ids of the machine.
end_of_node() {
    local folder pids
    pkill -TERM -F /run/slurmd.pid 2>/dev/null || :
    for folder in /sys/fs/cgroup/freezer /sys/fs/cgroup; do
        [ -d "$folder/slurm_$(hostname)" ] || continue
        pids=$(find "$folder/slurm_$(hostname)" -name cgroup.procs -exec cat {} +)
        [ -z "$pids" ] || echo "$pids" | xargs kill -KILL 2>/dev/null || :
    done
    fusermount3 -u /squash/user1 2>/dev/null || fusermount -u /squash/user1 2>/dev/null || :
}

# The witnesses of slurm-triage that WITNESSES names, installed as docs/howto/install-the-witnesses.md says. All hosts get
# the same lines, for slurm.conf has to be the same everywhere.
install_witnesses() {
    local library=/usr/lib/slurm-triage option=
    case " ${WITNESSES-} " in *' spank '*)
        install -D -m 0755 /shared/lib/slurm_triage.so "$library/slurm_triage.so"
        case " ${SETUP-} " in *' runinjob '*) option=' runinjob' ;; esac
        echo "optional $library/slurm_triage.so$option" >/etc/slurm/plugstack.conf ;;
    esac
    case " ${WITNESSES-} " in *' epilog '*)
        install -D -m 0755 /opt/slurm-triage/epilog/slurm-triage-epilog "$library/slurm-triage-epilog"
        set_line Epilog "$library/slurm-triage-epilog" ;;
    esac
    case " ${WITNESSES-} " in *' epilogslurmctld '*)
        install -D -m 0755 /opt/slurm-triage/epilog/slurm-triage-epilogslurmctld "$library/slurm-triage-epilogslurmctld"
        set_line EpilogSlurmctld "$library/slurm-triage-epilogslurmctld" ;;
    esac
}

# Ways to set Slurm up that SETUP names: runinjob (Epilog inside the external step, 24.05 and later) and, in the emulated
# machine, container-tmpfs (a /tmp of its own for each job).
set_up() {
    case " ${SETUP-} " in *' runinjob '*)
        sed -i 's/^PrologFlags=.*/PrologFlags=Contain,RunInJob/' /etc/slurm/slurm.conf ;;
    esac
    case " ${SETUP-} " in *' container-tmpfs '*)
        # 26.05 has another name for it.
        if compgen -G '/usr/lib/*/slurm*/namespace_tmpfs.so' >/dev/null; then
            set_line NamespaceType namespace/tmpfs
        else
            set_line JobContainerType job_container/tmpfs
        fi
        printf 'AutoBasePath=true\nBasePath=/var/spool/jobs\n' >/etc/slurm/job_container.conf ;;
    esac
}

# A container that is started again has its lines already.
set_line() { grep -q "^$1=" /etc/slurm/slurm.conf || sed -i "1i $1=$2" /etc/slurm/slurm.conf; }

# make_spool FOLDER OWNER
make_spool() { install -d -o "$2" -g "$2" -m 0700 "$1" "$1"/{tmp,new,work,done,bad}; }

# keep NAME COMMAND...: runs it as systemd would, again whenever it ends, with its lines in a log of that name.
keep() {
    local name=$1
    shift
    (while :; do
        "$@" >>"/var/log/slurm/$name.log" 2>&1 || :
        sleep 2
    done) &
}

# The service of slurm-triage on the controller, and its agent on every host with a spool, unless DELIVERY is empty.
start_service() {
    [ -n "${DELIVERY-}" ] || return 0
    install -d -o slurm -g slurm -m 0750 /var/lib/slurm-triage /var/lib/slurm-triage/service
    install -d /etc/slurm-triage
    cat >/etc/slurm-triage/service.toml <<'TOML'
[service]
listen = ":6821"
interval = 30
TOML
    keep triage-service setpriv --reuid slurm --regid slurm --init-groups slurm-triage service run
}

# start_agent USER SPOOL: with the settings that the packages have
start_agent() {
    [ -n "${DELIVERY-}" ] || return 0
    install -d /etc/slurm-triage
    printf '[agent]\nservers = ["ctl"]\nspools = ["%s"]\nstate = "%s"\n' "$2" "$2" >/etc/slurm-triage/agent.toml
    keep triage-agent setpriv --reuid "$1" --regid "$1" --init-groups slurm-triage agent run --watch
}

# The plugin is built once, by the controller, which is the first to run. The emulated machine, which has no compiler,
# finds it in place.
build_plugin() {
    command -v make >/dev/null || return 0
    make -s -C /opt/slurm-triage/spank BUILD=/tmp/spank >/dev/null
    install -D -m 0755 /tmp/spank/slurm_triage.so /shared/lib/slurm_triage.so
}

install -d -o slurm -g slurm /var/log/slurm /var/spool/slurmctld /run/slurm
install -d /var/spool/slurmd

case "${1:-}" in
    db) database ;;
    dbd)
        start_munge
        wait_for 'database' 120 port_open db 3306
        exec setpriv --reuid slurm --regid slurm --init-groups slurmdbd -D
        ;;
    ctl)
        start_munge
        shared_folders
        wait_for 'slurmdbd' 120 port_open dbd 6819
        build_plugin
        make_spool /var/spool/slurm-triage-ctld slurm
        install_witnesses
        set_up
        wait_for 'list of clusters' 60 sacctmgr -n show cluster
        sacctmgr -i add cluster mini || :
        sacctmgr -i add account acc Cluster=mini Description=acc Organization=acc || :
        sacctmgr -i add user user1,user2 Account=acc || :
        wait_for 'association of user2' 30 sh -c 'sacctmgr -nP show assoc user=user2 format=user | grep -q user2'
        slurmctld
        wait_for 'slurmctld' 60 scontrol ping
        say 'slurmctld runs'
        start_service
        start_agent slurm /var/spool/slurm-triage-ctld
        stay pkill -TERM -x slurmctld
        ;;
    node)
        start_munge
        wait_for 'slurmctld' 180 port_open ctl 6817
        root_squash
        make_spool /var/spool/slurm-triage root
        install_witnesses
        set_up
        # A container that was killed leaves the mark of a slurmd that no longer runs.
        rm -f /run/slurmd.pid /run/prolog-fails
        slurmd
        say 'slurmd runs'
        start_agent root /var/spool/slurm-triage
        stay end_of_node
        ;;
    login)
        start_munge
        wait_for 'slurmctld' 180 port_open ctl 6817
        root_squash
        install_witnesses
        set_up
        say 'login node is up'
        stay :
        ;;
    *)
        echo 'usage: entrypoint.sh db|dbd|ctl|node|login' >&2
        exit 2
        ;;
esac
