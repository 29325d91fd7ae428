"""Redaction: planted names never survive, the diagnosis does, and nothing depends on order or chance."""

from __future__ import annotations

import re
import time

import pytest

from slurm_triage import case, sources
from slurm_triage.engine import diagnose
from slurm_triage.model import Diagnosis, Strength
from slurm_triage.redact import redact
from tests.corpus.load import BUILTIN, RECORDED, cases

# One job of one person, in every kind of evidence. Layouts as Slurm 24.11.5 and kernel 6.12 print them.
PLANTED = {
    "sacct.psv": b"""\
JobIDRaw|JobID|JobName|User|UID|Account|Partition|QOS|State|ExitCode|DerivedExitCode|Submit|Start|End|ElapsedRaw|NNodes|NodeList|MaxRSS|WorkDir|SubmitLine
17|17|darkmatter-fit|avogadro|54321|astrolab|main|normal|OUT_OF_MEMORY|0:125|0:125|2026-11-30T14:01:54|2026-11-30T14:01:54|2026-11-30T14:01:59|5|2|quark[07-08]||/gpfs-astro/avogadro/darkmatter|sbatch -J darkmatter-fit --mail-user=amedeo@astro.example.edu fit.sh
17.batch|17.batch|batch|||astrolab|||OUT_OF_MEMORY|0:125||2026-11-30T14:01:54|2026-11-30T14:01:54|2026-11-30T14:01:59|5|1|quark07|4328K||
""",
    "sacct-table.txt": b"""\
JobID           JobName      User    Account      State ExitCode        NodeList
------------ ---------- --------- ---------- ---------- -------- ---------------
17           darkmatte+  avogadro   astrolab OUT_OF_ME+    0:125   quark[07-08]
17.batch          batch             astrolab OUT_OF_ME+    0:125        quark07
""",
    "scontrol_show_job.txt": b"""\
JobId=17 JobName=darkmatter-fit
   UserId=avogadro(54321) GroupId=astrogroup(54999) MCS_label=N/A
   Priority=1 Nice=0 Account=astrolab QOS=normal
   JobState=OUT_OF_MEMORY Reason=OutOfMemory Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:125
   Partition=main AllocNode:Sid=neutrino-login:294
   NodeList=quark[07-08]
   BatchHost=quark07
   Command=/gpfs-astro/avogadro/darkmatter/fit.sh
   WorkDir=/gpfs-astro/avogadro/darkmatter
   StdOut=/gpfs-astro/avogadro/darkmatter/fit-17.out
""",
    "env.epilog.quark07.txt": b"""\
SLURMD_NODENAME=quark07
SLURM_CLUSTER_NAME=hadron
SLURM_JOB_ACCOUNT=astrolab
SLURM_JOB_EXIT_CODE=0
SLURM_JOB_ID=17
SLURM_JOB_NODELIST=quark[07-08]
SLURM_JOB_UID=54321
SLURM_JOB_USER=avogadro
SLURM_JOB_WORK_DIR=/gpfs-astro/avogadro/darkmatter
SLURM_SCRIPT_CONTEXT=epilog_slurmd
WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567
""",
    "kmsg.quark07.txt": b"""\
[ 1234.567890] python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[ 1234.567900] [   4242] 54321  4242   500000   250000   250000        0         0  4100000        0             0 python3
[ 1234.567910] [   5151] 54777  5151   500000   250000   250000        0         0  4100000        0             0 boson_solver
[ 1234.567990] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,mems_allowed=0,oom_memcg=/slurm/uid_54321/job_17,task_memcg=/slurm/uid_54321/job_17/step_batch,task=python3,pid=4242,uid=54321
[ 1234.568000] Memory cgroup out of memory: Killed process 4242 (python3) total-vm:2000000kB, anon-rss:1000000kB, file-rss:0kB, shmem-rss:0kB, UID:54321 pgtables:100kB oom_score_adj:0
""",
    "slurmd.quark07.log": b"""\
[2026-11-30T14:01:55.014] Launching batch job 17 for UID 54321
[2026-11-30T14:01:55.076] launch task StepId=17.0 request from UID:54321 GID:54999 HOST:10.77.3.41 PORT:40298
[2026-11-30T14:01:59.009] [17.0] error: *** STEP 17.0 ON quark07 CANCELLED AT 2026-11-30T14:01:59 ***
""",
    "out/fit-17.out": b"""\
loading /gpfs-astro/avogadro/darkmatter/halo.py as amedeo@astro.example.edu
eth0 aa:bb:cc:12:34:56 fe80::1a2b:3c4d:5e6f:7a8b tcp://10.77.3.41:29500 https://gitlab.astro.example.edu/avogadro/halo
export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345
-----BEGIN RSA PRIVATE KEY-----
MIIEpAIBAAKCAQEAplantedkeymaterial0123456789
-----END RSA PRIVATE KEY-----
avogadro@quark08 fetched from store3.astro.example.edu
slurmstepd-quark07: error: Detected 1 oom_kill event in StepId=17.batch. Some of the step tasks have been OOM Killed.
""",
    "notes-of-avogadro.txt": b"my private diary\n",
    "manifest.toml": b'slurm = "24.11.5"\ncluster = "hadron"\nutc_offset = "+00:00"\nsite = "astro"\n[boot_epoch]\nquark07 = 1796046211.67\n',
}
SECRETS = {
    "user": ("avogadro",),
    "number": ("54321", "54999", "54777"),
    "group": ("astrogroup",),
    "account": ("astrolab",),
    "job": ("darkmatter", "darkmatte"),
    "node": ("quark",),
    "host": ("neutrino", "astro.example.edu", "store3", "gitlab"),
    "cluster": ("hadron",),
    "path": ("gpfs-astro", "halo"),
    "address": ("10.77.3.41", "aa:bb:cc", "fe80::"),
    "mail": ("amedeo",),
    "secret": ("0123456789abcdef", "abcdefghijklmnop", "plantedkeymaterial"),
    "other user's process": ("boson_solver",),
    "file that is no evidence": ("diary",),
}


def verdict(diagnosis: Diagnosis) -> tuple[object, ...]:
    parts = tuple((p.cause, p.strength, p.owner) for p in diagnosis.parts)
    return (diagnosis.cause, diagnosis.strength, diagnosis.owner, parts)


@pytest.mark.parametrize("kind", SECRETS)
def test_no_planted_name_survives_in_any_byte(kind: str) -> None:
    files = redact(PLANTED).files
    everything = b"\n".join(name.encode() + b"\n" + data for name, data in files.items()).lower()
    before = b"\n".join(name.encode() + b"\n" + data for name, data in PLANTED.items()).lower()
    for secret in SECRETS[kind]:
        assert secret.encode() in before, "the test plants nothing"
        assert secret.encode() not in everything


def test_what_decides_stays() -> None:
    files = redact(PLANTED).files
    whole = b"\n".join(files.values())
    for word in (
        b"CONSTRAINT_MEMCG",
        b"StepId=17.batch",
        b"0:125",
        b"[ 1234.567990]",
        b"2026-11-30T14:01:59",
        b":29500",
    ):
        assert word in whole
    assert diagnose(case.from_files(PLANTED)).cause == "memcg_oom"
    assert verdict(diagnose(case.from_files(files))) == verdict(diagnose(case.from_files(PLANTED)))


def test_one_name_has_one_pseudonym_everywhere() -> None:
    files = redact(PLANTED).files
    assert b"UserId=user1(" in files["scontrol_show_job.txt"]
    assert b"SLURM_JOB_USER=user1\n" in files["env.epilog.node1.txt"]
    assert b"|user1|" in files["sacct.psv"]
    row = files["scontrol_show_job.txt"].decode()
    assert "NodeList=node[1-2]" in row and "BatchHost=node1" in row
    (uid,) = re.findall(r"UserId=user1\((\d+)\)", row)
    assert f"uid_{uid}/job_17" in files["kmsg.node1.txt"].decode()
    assert f"SLURM_JOB_UID={uid}\n" in files["env.epilog.node1.txt"].decode()


def test_columns_of_a_table_stay_where_they_are() -> None:
    before = PLANTED["sacct-table.txt"].decode().splitlines()
    after = redact(PLANTED).files["sacct-table.txt"].decode().splitlines()
    assert after[:2] == before[:2]
    assert after[2].index("OUT_OF_ME+") == before[2].index("OUT_OF_ME+")
    assert after[2].index("0:125") == before[2].index("0:125")


def test_lines_keep_their_numbers() -> None:
    files = redact(PLANTED).files
    for name in ("sacct.psv", "scontrol_show_job.txt"):
        assert files[name].count(b"\n") == PLANTED[name].count(b"\n")


def test_ordinary_words_are_replaced_only_behind_a_key() -> None:
    """A user called `aborted` and a job called `killed`: Slurm's and the kernel's own words must stay."""
    files = {
        "sacct.psv": b"JobID|JobName|User|State|ExitCode\n5|killed|aborted|FAILED|137:0\n",
        "job.out": b"slurmstepd: error: Job step aborted\nKilled\nUSER=aborted\n",
    }
    result = redact(files)
    assert b"|user1|" in result.files["sacct.psv"]
    assert b"USER=user1" in result.files["job.out"]
    assert b"error: Job step aborted" in result.files["job.out"]
    assert b"Killed" in result.files["job.out"]
    assert result.kept == 2


def test_names_of_the_system_are_no_names() -> None:
    files = {
        "scontrol.txt": b"JobId=5 JobName=bash\n   UserId=root(0) GroupId=root(0)\n   JobState=FAILED ExitCode=1:0\n"
        b"   WorkDir=/tmp\n   Command=/usr/bin/bash\n"
    }
    assert redact(files).files["scontrol.txt"] == files["scontrol.txt"]


@pytest.mark.parametrize(
    "line",
    [
        "c10::Error std::bad_alloc at::native::copy",
        "NCCL version 2.21.5+cuda12.4",
        "0000:3b:00.0 12:34:56 1001_4[0-3]",
        "https://pytorch.org/docs/stable/notes/cuda.html 127.0.0.1",
        "[2026-11-30T14:01:55.014] error: exit 137:0 Killed",
        'File "/usr/lib/python3.11/subprocess.py", line 5',
    ],
)
def test_what_only_looks_like_a_name_stays(line: str) -> None:
    assert redact({"job.out": f"{line}\n".encode()}).files["job.out"] == f"{line}\n".encode()


def test_same_input_same_output_in_any_order() -> None:
    first = redact(PLANTED)
    assert redact(dict(reversed(PLANTED.items()))) == first
    assert first.times["secret"] >= 3 and first.distinct["user"] == 1


@pytest.mark.parametrize(
    "data", [b"a" * 2**20, b"/a" * 2**19, b"x[1" * 2**18, b"1:" * 2**19, b"a.b@" * 2**18, b"\xff\x00\xe9" * 2**18]
)
def test_long_and_odd_lines_take_no_time(data: bytes) -> None:
    started = time.monotonic()
    redact({"job.out": data, "sacct.psv": PLANTED["sacct.psv"]})
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("corpus", RECORDED)
def test_names_of_recorded_jobs_never_survive(corpus: str) -> None:
    """Recorded jobs with telling names put in for the users, nodes, folders and the cluster of the test machines."""
    renamed = (
        (rb"\buser([12])\b", rb"zaphod\1"),
        (rb"\bmini\b", rb"betelgeuse"),
        (rb"(\\?/)shared\b", rb"\1vogonfs\1zaphod1\1heartofgold"),
        (rb"\b(?:acc|acct1)\b", rb"deepthought"),
        (rb"\bctl\b", rb"milliways"),
    )
    node = re.compile(rb"\bc(\d|\[\d[\d,-]*\])(?![\w])")
    checked = 0
    for number, (id, files, _) in enumerate(cases(corpus)):
        if number % 9:
            continue
        given: dict[str, bytes] = {}
        for name, data in files.items():
            for pattern, by in renamed:
                data = re.sub(pattern, by, data)
            kernel = "kmsg" in name  # hex dumps of code hold c1 too
            given[name] = data if kernel else node.sub(rb"magrathea\1", data)
        result = redact(given)
        everything = b"\n".join(n.encode() + b"\n" + data for n, data in result.files.items()).lower()
        for secret in (
            b"zaphod",
            b"betelgeuse",
            b"vogonfs",
            b"heartofgold",
            b"deepthought",
            b"milliways",
            b"magrathea",
        ):
            at = everything.find(secret)
            assert at < 0, (id, everything[max(at - 200, 0) : at + 60])
        assert verdict(diagnose(case.from_files(result.files))) == verdict(diagnose(case.from_files(given))), id
        checked += 1
    assert checked >= 2


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ('said {"jobs":[{"working_directory":"\\/home\\/zaphod\\/hog"}]}', "zaphod"),
        ("cc -I/home/zaphod/include -L/scratch/hog/lib", "zaphod"),
        ("PATH=/usr/bin:/users/zaphod/bin", "zaphod"),
        ("file:///home/zaphod/hog.py", "hog"),
        ("mail to ford.prefect+x@guide.example.org now", "ford"),
        ("connect 2001:db8::8a2e:370:7334 failed", "8a2e"),
        ("ssh zaphod@milliways1 true", "milliways"),
        ("mysql://ford:towel42@db/x", "towel42"),
        ("Authorization: Bearer abcdef0123456789abcdef", "0123456789"),
        ("CANCELLED by zaphod", "zaphod"),
    ],
)
def test_single_places(line: str, secret: str) -> None:
    assert secret in line
    assert secret.encode() not in redact({"job.out": f"{line}\n".encode()}).files["job.out"]


@pytest.mark.parametrize("corpus", BUILTIN)
def test_diagnosis_of_the_redacted_folder_is_the_same(corpus: str) -> None:
    checked = 0
    for number, (id, files, _) in enumerate(cases(corpus)):
        if corpus != "public-cases" and number % 4:
            continue  # the recorded jobs are the same in every version, and a quarter of each covers them all
        checked += 1
        assert verdict(diagnose(case.from_files(redact(files).files))) == verdict(diagnose(case.from_files(files))), id
    assert checked >= 4


def test_sluid_stays_as_job_ids_do() -> None:
    """Slurm 26.05 names the job's cgroup by it: without it the kernel's lines would be nobody's."""
    sluid, path = b"s0AHM8PEX3RE00", b"/system.slice/quark07_slurmstepd.scope/s0AHM8PEX3RE00"
    files = dict(PLANTED)
    in_time = files["kmsg.quark07.txt"].replace(b"[ 1234.", b"[ 1104.")
    files["kmsg.quark07.txt"] = in_time.replace(b"/slurm/uid_54321/job_17", path)
    files["env.epilog.quark07.txt"] += b"SLURM_JOB_SLUID=" + sluid + b"\n"
    safe = redact(files).files
    assert path.replace(b"quark07", b"node1") + b"/step_batch," in safe["kmsg.node1.txt"]
    assert b"SLURM_JOB_SLUID=" + sluid in safe["env.epilog.node1.txt"]
    assert diagnose(case.from_files(files)).strength is Strength.CONFIRMED
    assert verdict(diagnose(case.from_files(safe))) == verdict(diagnose(case.from_files(files)))


def test_lines_keep_their_numbers_under_the_new_name_of_their_file() -> None:
    manifest = b'page_size = 65536\nline_ranges = {"job.out" = [[1, 1], [500, 501]], "none" = [[1, 2]]}\n'
    files = {"job.out": b"Traceback (most recent call last):\n  x\nKeyError: 3\n", "manifest.toml": manifest}
    found = case.from_files(redact(files).files)
    (file,) = found.files
    assert [number for number, _ in file.lines()] == [1, 500, 501]
    assert found.manifest.values["page_size"] == 65536 and found.problems == ()


def test_what_the_agent_measured_names_no_node() -> None:
    node = b'{\n"format": "slurm-triage node 1",\n"node": "gpu-a17",\n"machine": "aarch64",\n"page_size": 65536\n}\n'
    readings = b"# slurm-triage readings 1 node=gpu-a17 at=1796051466.587\nbaseline counters=3 since=unknown\n"
    sacct = b"JobIDRaw|State|NodeList\n77|FAILED|gpu-a17\n"
    out = redact({"sacct.psv": sacct, "node.gpu-a17.json": node, "counters.gpu-a17.txt": readings}).files
    assert not any(b"gpu-a17" in data or "gpu-a17" in name for name, data in out.items())
    kinds = {entry.kind for entry in sources.parse(case.from_files(out))[1]}
    assert {"node_facts", "node_readings"} <= kinds
