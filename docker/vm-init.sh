#!/bin/bash
# The first process of the emulated machine (tools/cluster/vm_test.sh): the cluster's file system on a kernel of its own
# with cgroup v2. Runs the jobs that lie in /jobs one after the other, sends what the tools and logs say as a tar archive
# in base64 to the second serial port, and switches the machine off.
set -u

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

say() { echo "vm: $*"; }

finish() {
    mkdir -p /answers
    echo "$1" >/answers/result
    cp /var/log/slurm/*.log /answers.*.log /answers/ 2>/dev/null
    stty -F /dev/ttyS1 raw -echo
    tar -C / -cz answers | base64 >/dev/ttyS1
    echo END-OF-ANSWERS >/dev/ttyS1
    sync
    # The port is emulated byte by byte; the power goes off when it has sent all.
    sleep 2
    echo o >/proc/sysrq-trigger
    sleep 60
}

trap 'finish "init ended at line $LINENO"' EXIT

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o size=64m tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec >/dev/ttyS0 2>&1 </dev/null
say 'booted'
# Slurm's scope lies below system.slice; each level has to hand the controllers on.
mkdir -p /sys/fs/cgroup/system.slice
for folder in /sys/fs/cgroup /sys/fs/cgroup/system.slice; do
    echo '+cpu +cpuset +memory +pids' >"$folder/cgroup.subtree_control"
done
# What a hog takes the memory of the whole machine from must be the jobs, not this.
echo -1000 >/proc/self/oom_score_adj

ip link set lo up
ip addr add 10.0.0.1/32 dev lo
hostname ctl
echo '127.0.0.1 localhost' >/etc/hosts
echo '10.0.0.1 ctl dbd db login' >>/etc/hosts
sed -i -e '/^NodeName=/d' -e '/^PartitionName=/d' -e 's/^AccountingStorageHost=.*/AccountingStorageHost=ctl/' \
    /etc/slurm/slurm.conf
cat >>/etc/slurm/slurm.conf <<'CONF'
NodeName=ctl CPUs=8 RealMemory=20000 State=UNKNOWN
PartitionName=main Nodes=ctl Default=YES MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF State=UP
CONF
sed -i -e 's/=dbd$/=ctl/' -e 's/=db$/=ctl/' /etc/slurm/slurmdbd.conf

# wait_for WHAT SECONDS COMMAND...
wait_for() {
    local what=$1 end=$((SECONDS + $2))
    shift 2
    until "$@" >/dev/null 2>&1; do
        if ((SECONDS >= end)); then
            say "no $what"
            "$@"
            trap - EXIT
            finish "no $what"
        fi
        sleep 1
    done
    say "$what after $SECONDS s"
}
port_open() { (: <"/dev/tcp/$1/$2") 2>/dev/null; }

export WITNESSES='spank epilog epilogslurmctld' SETUP=container-tmpfs
install -d -m 0700 /var/spool/slurm-triage /var/spool/slurm-triage/{tmp,new,work,done,bad}

# The same roles as in containers; they stay in the foreground there, so they go to the background here.
/usr/local/sbin/entrypoint.sh db >/answers.db.log 2>&1 &
wait_for 'database' 240 port_open ctl 3306
install -d -o slurm -g slurm /var/log/slurm /var/spool/slurmctld /run/slurm
install -d /var/spool/slurmd
/usr/local/sbin/entrypoint.sh dbd >/answers.dbd.log 2>&1 &
wait_for 'slurmdbd' 240 port_open ctl 6819
/usr/local/sbin/entrypoint.sh ctl >/answers.ctl.log 2>&1 &
wait_for 'slurmctld' 240 port_open ctl 6817
wait_for 'association' 60 sh -c 'sacctmgr -nP show assoc user=user1 format=user | grep -q user1'
slurmd
node_idle() { [ "$(sinfo -h -N -o %t)" = idle ]; }
wait_for 'idle node' 120 node_idle

mkdir -p /answers
as_user() { setpriv --reuid user1 --regid user1 --init-groups env HOME=/shared/home/user1 USER=user1 "$@"; }
fields=$(tr '\n' ' ' </jobs/fields)
known=$(sacct --helpformat)
chosen=
for field in $fields; do
    case " $(echo "$known" | tr -s ' \n' ' ') " in *" $field "*) chosen=$chosen${chosen:+,}$field ;; esac
done
echo "$chosen" >/answers/fields
sacct -V >/answers/version
date +%:z >/answers/utc_offset
python3 -c 'import time; print(time.time() - time.clock_gettime(time.CLOCK_MONOTONIC))' >/answers/boot_epoch

over() { squeue -h -t all -j "$1" -o %T | grep -q -v -E 'PENDING|RUNNING|COMPLETING|CONFIGURING'; }

for folder in /jobs/*/; do
    name=$(basename "$folder")
    mkdir -p "/answers/jobs/$name"
    cd /shared/home/user1 || exit 1
    # The options are words of a command line, written by the tests themselves.
    # shellcheck disable=SC2046
    job=$(as_user sbatch --parsable -J "$(cat "$folder/name")" -o '/shared/out/user1/%j.out' \
        $(cat "$folder/options") "$folder/script")
    cd / || exit 1
    say "job $job: $name"
    echo "$job" >"/answers/jobs/$name/id"
    wait_for "end of job $job" 180 over "$job"
    sleep 4
    sacct -D -P -j "$job" -o "$chosen" >"/answers/jobs/$name/psv"
    sacct -D -j "$job" --json >"/answers/jobs/$name/json"
    scontrol show job -d "$job" >"/answers/jobs/$name/scontrol"
    cp "/shared/out/user1/$job.out" "/answers/jobs/$name/output"
done
mkdir /answers/cluster
scontrol show config >/answers/cluster/scontrol-config.txt
scontrol show partition >/answers/cluster/scontrol-partition.txt
sacctmgr -P show qos >/answers/cluster/sacctmgr-qos.psv
cp /etc/slurm/slurm.conf /etc/slurm/cgroup.conf /answers/cluster/
cp -r /var/spool/slurm-triage/new /answers/spool-node
cp -r /var/spool/slurm-triage-ctld/new /answers/spool-ctld
dmesg >/answers/dmesg
trap - EXIT
say "all jobs done after $SECONDS s"
finish complete
