"""Secrets, control characters and other users' processes."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from slurm_triage.report import mask
from slurm_triage.report.mask import OTHER, clean, mask_process, plain, secrets

# Made up, in the shapes that the makers document.
SECRETS = [
    ("git clone https://bob:hunter2@example.org/x.git", "hunter2"),
    ("redis://:s3cr3tp@ss@10.0.0.1:6379/0", "s3cr3tp"),
    ("redis://:s3cr3tp@ss@10.0.0.1:6379/0", "@ss@"),
    ("Authorization: Bearer abc.DEF-123", "abc.DEF-123"),
    ("curl -H 'Authorization: Basic dXNlcjpwYXNz' https://x", "dXNlcjpwYXNz"),
    ('{"headers": {"authorization": "Bearer zzzzzzzz9"}}', "zzzzzzzz9"),
    ("got Bearer abcdefgh1234 from peer", "abcdefgh1234"),
    ("proxy said Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA=="),
    ("curl -u bob:hunter2 https://x", "hunter2"),
    ("password=hunter2", "hunter2"),
    ("DB_PASSWORD: 'correct horse battery'", "horse"),
    ('{"password": "a b c"}', "a b c"),
    (r"{\"password\": \"abcdef\"}", "abcdef"),
    ('password="never closed', "closed"),
    ("mysql --password hunter2 db", "hunter2"),
    ("run.py --api-key abcd1234 --epochs 3", "abcd1234"),
    ("tool --hf-token s3cr3tvalue", "s3cr3tvalue"),
    ("sshpass -p hunter2 ssh x", "hunter2"),
    ("Server=db;Uid=me;Pwd=hunter2;", "hunter2"),
    ("token: s3cr3tvalue", "s3cr3tvalue"),
    ("api_key = 0123456789abcdef", "0123456789abcdef"),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalr"),
    ("using AKIAIOSFODNN7EXAMPLE now", "IOSFODNN7EXAMPLE"),
    ("remote ghp_" + "a1B2" * 9, "a1B2a1B2"),
    ("remote github_pat_" + "a1B2_" * 9, "a1B2_a1B2"),
    ("glpat-" + "x1y2z3w4" * 3, "x1y2z3w4"),
    ("xoxb-123456789012-abcdefABCDEF", "123456789012"),
    ("hf_" + "abCD" * 9, "abCDabCD"),
    ("openai sk-proj-abc123DEF456ghi789", "abc123"),
    ("anthropic sk-ant-api03-abcdefgh-12345678", "api03"),
    ("AIza" + "Sy1234567" * 4, "Sy1234567"),
    ("WANDB_API_KEY=" + "0123456789abcdef" * 2 + "01234567", "0123456789abcdef"),
    ("wandb: api key is " + "0123456789abcdef" * 2 + "01234567", "0123456789abcdef"),
    ("wandb login " + "0123456789abcdef" * 2 + "01234567", "0123456789abcdef"),
    ("SLURM_JWT=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ1c2VyIn0.c2lnbmF0dXJl", "eyJzdWI"),
    ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ1c2VyIn0.c2lnbmF0dXJl end", "c2lnbmF0dXJl"),
    (r"-----BEGIN RSA PRIVATE KEY-----\nMIIEow", "MIIEow"),
    ("DefaultEndpointsProtocol=https;AccountName=a;AccountKey=abcd1234==;x", "abcd1234"),
    ("https://a.blob.core.windows.net/c?sv=1&sig=abc%2Fdef&se=2", "abc%2Fdef"),
    ("SharedAccessSignature=sv=2019&sig=abcdef", "2019"),
    ("npm_" + "abcDEF123456" * 3, "abcDEF123456"),
    ("pypi-" + "AgEIcHlwaS5vcmc" * 4, "AgEIcHlwaS5vcmc"),
    ("cred MUNGE:AwQFAAD2" + "abcd" * 8 + ": sent", "AwQFAAD2"),
]

# Recorded on Slurm 22.05.8, 24.11.5 and 26.05.5, or the usual output of training programs.
KEPT = [
    "[ 5246.152121] CPU: 1 UID: 1001 PID: 15255 Comm: python3 Not tainted 6.18.44 #1 PREEMPT(none) ",
    "[ 5246.185001] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg=/slurm_c1/uid_1001/job_1088,task_memcg=/slurm_c1/uid_1001/job_1088/step_0/task_1,task=python3,"
    "pid=15255,uid=1001",
    "[ 5246.152225]  ? srso_alias_return_thunk+0x5/0xfbef5",
    "[ 5246.152260] RIP: 0033:0x7f3bad52a340",
    "[ 5246.152353] Code: 48 81 fa 00 01 00 00 76 c8 48 8d 8c 17 00 fe ff ff 62 e1 fe 48 7f 40 02 62 e1 fe 48 7f 40 03 48",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "wandb: run at commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "GPU-5c2a0e58-8f6b-7d4f-9a2b-1e0c5a7f9d3b",
    "/system.slice/docker-4f1c9f0f0d6e1b2a3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3.scope",
    "PWD=/var/log",
    "AuthInfo=socket=/var/run/munge/munge.socket.2",
    "eos_token: <|endoftext|>, pad_token_id=50256, max_tokens: 512, pad_token: [PAD]",
    "hf_model_name_or_path=meta-llama",
    "Basic information about the run",
    "http://10.0.0.1:8080/a@b",
    "docker run -u 1001:1001 image",
    "task-prioritization-of-long-names",
    "slurmctld: error: Munge decode failed: Invalid credential",
    "password for user: ",
    "srun: error: c1: task 1: Out Of Memory",
]


@pytest.mark.parametrize(("line", "secret"), SECRETS)
def test_secret_is_masked(line: str, secret: str) -> None:
    shown = secrets(line)
    assert secret in line
    assert secret not in shown
    assert "***" in shown
    assert secrets(shown) == shown


@pytest.mark.parametrize("line", KEPT)
def test_ordinary_line_is_verbatim(line: str) -> None:
    assert secrets(line) == line


def test_only_the_secret_goes() -> None:
    assert secrets("a https://bob:x@h/p b") == "a https://bob:***@h/p b"
    assert secrets('{"password": "x y", "n": 1}') == '{"password": "***", "n": 1}'
    assert secrets("run --token abcd1 --n 3") == "run --token *** --n 3"


@pytest.mark.parametrize(
    "unit",
    ["a", "password=", 'password="', '"', "eyJ", "eyJ-", "://", "://a:", "sk-", "Bearer a", "-u a:", "--a-", "MUNGE:",
     "api key ", "-----BEGIN A ", "?sig=", "\\", "é"],
)  # fmt: skip
def test_time_is_linear(unit: str) -> None:
    line = (unit * (2**20 // len(unit) + 1))[: 2**20]
    started = time.perf_counter()
    clean(secrets(line))
    assert time.perf_counter() - started < 10  # well under a second here; quadratic would be hours


def test_clean_shows_what_cannot_be_seen() -> None:
    assert clean("a\x1b[31mb\x9b\x7f\r\n") == r"a\x1b[31mb\x9b\x7f\x0d\x0a"
    assert clean("a\u202eb\u200bc\u2028d\ud800") == r"a\u202eb\u200bc\u2028d\ud800"
    assert clean("a\tb é 漢") == "a b é 漢"
    assert plain("a\tb é 漢 😀") == r"a b \xe9 \u6f22 \U0001f600"


@given(st.text())
def test_plain_is_printable_ascii(text: str) -> None:
    shown = plain(text)
    assert shown.isascii()
    assert shown == "" or shown.isprintable()
    assert clean(text).isprintable() or any(not c.isprintable() and not c.isascii() for c in clean(text))
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in clean(text))


# 6.18 with 10 numbers a row, 5.15 with 7, 4.18 with 8
ROWS = [
    "[ 5246.19] [  15255]  1001 15255    22880    17553    17553        0         0   208896        0             0 {}",
    "[  501.120000] [   4711]  1001  4711   178323    12345   204800        0             0 {}",
    "[  501.120000] [ 4711]  1001  4711   178323    12345     101       4        0             0 {}",
    "[ 4711] 1001 4711 178323 12345 204800 0 0 {}",
]


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("name", ["python3", "secret study", "a] 1001 x", ""])
def test_other_users_process_has_no_name(row: str, name: str) -> None:
    line = row.format(name)
    assert mask_process(line, 1001) == line
    assert mask_process(line, None) == line
    masked = mask_process(line, 1002)
    assert masked.endswith(f" {OTHER}")
    assert line.startswith(masked.removesuffix(OTHER))
    assert "secret" not in masked


def test_other_users_victim_has_no_name() -> None:
    killed = (
        "[ 9.1] Out of memory: Killed process 77 (a) total-vm:1kB (b) total-vm:91520kB, anon-rss:1kB, file-rss:0kB, "
        "shmem-rss:0kB, UID:1002 pgtables:208kB oom_score_adj:0"
    )
    assert mask_process(killed, 1002) == killed
    assert f"Killed process 77 ({OTHER})" in mask_process(killed, 1001)
    oom = "[ 9.0] oom-kill:constraint=CONSTRAINT_NONE,task_memcg=/x,task=a,pid=1,uid=1001,task=b,pid=77,uid=1002"
    assert mask_process(oom, 1002) == oom
    assert mask_process(oom, 1001).endswith(f",task={OTHER},pid=77,uid=1002")
    assert mask_process("srun: error: c1: task 1: Out Of Memory", 1001) == "srun: error: c1: task 1: Out Of Memory"


@pytest.mark.parametrize(("hints", "pattern"), [(hints, pattern) for hints, pattern, _ in mask._RULES])
@given(data=st.data())
@settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None)
def test_a_cheap_filter_lets_every_secret_pass(
    hints: tuple[str, ...], pattern: re.Pattern[str], data: DataObject
) -> None:
    found = pattern.search(data.draw(st.from_regex(pattern)))
    assert found is not None
    small = found[0].translate(mask._LIKE).lower()
    assert any(hint in small for hint in hints)


@given(st.from_regex(mask._ASSIGNED) | st.from_regex(mask._OPTION))
@settings(max_examples=200, suppress_health_check=list(HealthCheck), deadline=None)
def test_every_key_of_a_secret_passes_too(text: str) -> None:
    assert any(hint in text.translate(mask._LIKE).lower() for hint in mask._NAME_HINTS)


@pytest.mark.parametrize(
    "text", ["pa\u017f\u017fword=hunter2", "PASSWORD=hunter2", "to\u212aen: hunter2", "S\u0130G?\u0131: token=hunter2"]
)
def test_letters_that_are_taken_for_those_of_ascii(text: str) -> None:
    assert "hunter2" not in secrets(text)
