"""Evidence without the names of people, machines and projects: the same diagnosis, safe to show to others.

Every name becomes a pseudonym, the same one everywhere (`user1`, `node2`, `/path1/dir3/file2.py`), numbers of users and
groups, addresses and host names too; secrets become `***`. What the diagnosis rests on stays: messages, times, sizes,
job ids, exit codes, the order of nodes, line numbers. The mapping is never kept.

Names are learnt from the evidence itself: from what the sources read (users, accounts, job names, node lists) and from
keys and prompts in the text. A name that is also a word of the messages (a user `max`, a job `python`) is replaced only
where a key says that it is a name. Free text may still hold what no program can know to be private.
"""

from __future__ import annotations

import ipaddress
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from slurm_triage import case, signals, sources
from slurm_triage.causes import all_causes
from slurm_triage.knowledge import table
from slurm_triage.model import ControllerJob, Event, HookEnv, JobRecord, StepRecord
from slurm_triage.nodeset import expand, fold
from slurm_triage.report import mask
from slurm_triage.sources._catalog import folders, load

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KINDS = ("user", "group", "account", "job", "node", "host", "cluster", "path", "uid", "address", "mail", "secret")
"""What is replaced, as the report of a redaction names it."""

WARNING = (
    "Free text (messages of programs, command lines, comments) may still hold names or secrets that no program can "
    "recognise. Read it before you publish it."
)
NAME_LIMIT = 128
"""Longest name that is looked for, in characters."""

FIRST_UID = 1000
"""Numbers of users and groups below this are the system's, the same everywhere."""

_OPEN, _CLOSE = "\ue000", "\ue001"
_HELD = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")


@dataclass(frozen=True)
class Redacted:
    """Evidence after redaction.

    `files` are name to bytes, `manifest.toml` among them. `times` counts replacements, `distinct` different originals,
    both by kind of `KINDS`; `kept` is how many names were replaced only behind a key, since they are ordinary words.
    """

    files: Mapping[str, bytes]
    times: Mapping[str, int]
    distinct: Mapping[str, int]
    kept: int = 0


# ------------------------------------------------------------------------------------------------ ordinary words

_NEVER = frozenset(
    {"root", "slurm", "nobody", "munge", "daemon", "none", "null", "unknown", "default", "normal", "batch", "extern"}
    | {"interactive", "n/a", "all", "any", "assigned", "allocation", "unlimited", "localhost", "linux", "kernel", "-"}
)
"""Names that say nothing about anyone: the system's own, and Slurm's words for no name."""

_COMMON = frozenset(
    {"bash", "sh", "zsh", "python", "python3", "srun", "sbatch", "salloc", "wrap", "sleep", "hostname", "cluster"}
    | {"user", "node", "host", "job", "step", "task", "test", "main", "home", "data", "work", "shared", "scratch"}
    | {"path", "dir", "file", "example", "com", "mail", "account", "group"}
    | {"mpiexec", "mpirun", "mpiexec.hydra", "hydra_pmi_proxy", "pmi_proxy", "orted", "orterun", "prted", "prterun"}
)


@cache
def _ordinary() -> frozenset[str]:
    """Words, in small letters, that messages are recognised by: replacing them everywhere would change evidence."""
    words = set(_COMMON)
    texts = [*signals.NAMES.values(), *signals.STRSIGNAL, *all_causes()]
    texts += [state["name"] for state in table("slurm_states")["state"]]
    for folder in folders():
        for signature in load(folder).signatures:
            texts += [*signature.hints, signature.id, *(form.regex for form in signature.forms)]
    for text in texts:
        words.update(word.lower() for word in re.findall(r"[A-Za-z][A-Za-z_]+", text))
        words.update(word.lower() for word in re.findall(r"[A-Za-z]+", text))
    return frozenset(words)


def _is_name(text: str | None) -> bool:
    """Whether a value can be a name that needs hiding."""
    return bool(
        text
        and 1 < len(text) <= NAME_LIMIT
        and text.lower() not in _NEVER
        and re.match(r"\w", text)
        and re.search(r"[^\W\d_]", text)
        and not re.search(r"[\x00-\x1f(|]", text)
    )


# ------------------------------------------------------------------------------------------------ learning names

_KEY_KINDS = {
    "user": "user", "userid": "user", "username": "user", "logname": "user", "slurm_job_user": "user",
    "sudo_user": "user", "kill_request_user": "user", "owner": "user",
    "group": "group", "groupid": "group", "slurm_job_group": "group",
    "account": "account", "slurm_job_account": "account", "sbatch_account": "account", "accounts": "account",
    "jobname": "job", "slurm_job_name": "job",
    "nodelist": "node", "nodename": "node", "nodes": "node", "batchhost": "node", "reqnodelist": "node",
    "excnodelist": "node", "schednodelist": "node", "failednode": "node", "slurm_job_nodelist": "node",
    "slurm_nodelist": "node", "slurmd_nodename": "node", "slurm_job_failed_node": "node", "maxrssnode": "node",
    "allocnode:sid": "host", "slurm_submit_host": "host", "hostname": "host", "slurmctldhost": "host",
    "slurmctldaddr": "host", "slurmctldprimary": "host", "accountingstoragehost": "host", "dbdhost": "host",
    "nodeaddr": "host", "nodehostname": "host", "accountingstoragebackuphost": "host", "master_addr": "host",
    "cluster": "cluster", "clustername": "cluster", "slurm_cluster_name": "cluster",
}  # fmt: skip
"""Keys (small letters) whose values are names, by kind: of scontrol, environments, accounting's columns, slurm.conf."""

_KEYED = re.compile(
    r"""(?<![\w:])(?P<key>[A-Za-z_]{4,40}(?::Sid)?)(?P<between>(?:\[\d{1,3}\])?["']?[ ]{0,40}[=:][ ]{0,2}["']?)"""
    r"""(?P<value>[\w.@+-]{1,128}(?:\[[\d,-]{1,200}\][\w.,\[\]-]{0,400})?)"""
)
_AT_HOST = re.compile(r"(?<![\w.@/-])([a-z_][\w.-]{0,63})@([A-Za-z](?:[\w-]{0,62}\.){0,8}[\w-]{0,62})(?=[: \]$#%>]|$)")
_OWN_FOLDER = re.compile(r"(?<![\w.-])\\?/(?:home|homes|users)\\?/([a-z_][\w.-]{0,63})(?=\\?/|[\s\"':,]|$)")
_SYSLOG = re.compile(
    r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S{8,25}) ([A-Za-z][\w.-]{0,100}) "
    r"[\w./()-]{1,60}(?:\[\d+\])?: "
)
_SPEAKER = re.compile(r"\bslurmstepd-([A-Za-z0-9][\w.-]{0,100}): |\bsrun: error: ([A-Za-z][\w.\[\],-]{0,200}): tasks? ")
_FOLDED = re.compile(
    r"(?<![\w.\[-])[A-Za-z][\w.-]{0,100}\[\d[\d,-]{0,2000}\](?:[\w.-]|\[\d[\d,-]{0,2000}\]){0,100}"
    r"(?:,[A-Za-z](?:[\w.-]|\[\d[\d,-]{0,2000}\]){0,200}){0,2000}"
)
_NO_NODES = re.compile(r" {0,60}[=:]")
"""What follows a key (`SlurmctldHost[0]   = ctl`) or a tag of syslog (`systemd[1]: `), which look like node lists."""
_REASON = re.compile(r"([A-Za-z][\w.-]{0,100}): Reason=")
_SEFF_USER = re.compile(r"User/Group: ([^/\s]{1,64})/(\S{1,64})")
_CANCELLED_BY = re.compile(r"\b(?:CANCELLED|cancelled) by ([A-Za-z_][\w.-]{0,63})\b")
_LOOSE_KEYS = frozenset({"nodes", "group", "owner", "account", "accounts", "cluster", "user"})
"""Keys that programs use for other things too."""


class _Names:
    """Names by kind, as learnt."""

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}

    def add(self, kind: str, said: str | None) -> None:
        """A name of a kind; the kind that was said first stays."""
        bare = (said or "").strip()
        text = bare if kind == "node" else bare.rstrip("+")
        if "@" in text:
            return  # an address of mail, which is found by its form
        if kind in ("node", "host") and any(char in text for char in "[,"):
            for name in expand(text) or ():
                self.add(kind, name)
        elif _is_name(text) and not (kind in ("node", "host") and _is_address(text)):
            self.kinds.setdefault(text, kind)

    def learn(self, events: Iterable[Event]) -> None:
        """Names that the sources read."""
        for event in events:
            self.add("node", event.node)
            if isinstance(event, JobRecord):
                for kind, text in (
                    ("user", event.user), ("account", event.account), ("job", event.name), ("node", event.nodes),
                    ("node", event.failed_node), ("cluster", event.cluster), ("user", event.cancelled_by),
                ):  # fmt: skip
                    self.add(kind, text)
            elif isinstance(event, StepRecord):
                self.add("node", event.nodes)
                self.add("node", event.max_rss_node)
                self.add("job", event.name)
            elif isinstance(event, (ControllerJob, HookEnv)):
                for key, value in event.values.items():
                    of = _KEY_KINDS.get(key.lower())
                    if of is not None:
                        self.add(of, re.split(r"[(:]", value, maxsplit=1)[0] if of != "job" else value)

    def scan(self, text: str, *, words_of_program: bool) -> None:
        """Names behind keys, prompts and prefixes of one line. A program's words are believed less."""
        for match in _AT_HOST.finditer(text):
            if "." not in match[2] or not re.search(r"\.[a-z]{2,6}$", match[2]):  # else an address of mail
                self.add("user", match[1])
                self.add("host", match[2])
        for match in _OWN_FOLDER.finditer(text):
            self.add("user", match[1])
        for match in _SPEAKER.finditer(text):
            self.add("node", match[1] or match[2])
        if stamped := _SYSLOG.match(text):
            self.add("node", stamped[1])
        if not words_of_program:
            for match in _FOLDED.finditer(text):
                if not _NO_NODES.match(text, match.end()):
                    self.add("node", match[0])
            if reason := _REASON.match(text):
                self.add("node", reason[1])
        for match in _SEFF_USER.finditer(text):
            self.add("user", match[1])
            self.add("group", match[2])
        for match in _CANCELLED_BY.finditer(text):
            self.add("user", match[1])
        for match in _KEYED.finditer(text):
            key = match["key"].lower()
            kind = _KEY_KINDS.get(key)
            if kind is None or (words_of_program and ("=" not in match["between"] or key in _LOOSE_KEYS)):
                continue
            self.add(kind, match["value"])


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


# ------------------------------------------------------------------------------------------------ replacing

_URL = re.compile(
    r"(?<![A-Za-z0-9+.-])([a-z][a-z0-9+.-]{1,15}://)([^\s/\"'<>\\|,;:\[\]]{1,255}|\[[0-9a-fA-F:]{2,45}\])([^\s\"'<>\\]{0,2000})"
)
_PUBLIC = re.compile(
    r"(?:[\w-]+\.){0,4}(?:pytorch\.org|python\.org|nvidia\.com|github\.com|githubusercontent\.com|gitlab\.com|"
    r"huggingface\.co|schedmd\.com|kernel\.org|tensorflow\.org|numpy\.org|pypi\.org|readthedocs\.io|"
    r"stackoverflow\.com|open-mpi\.org|mpich\.org|anaconda\.com|anaconda\.org|conda\.io|docker\.io|docker\.com|nvcr\.io|"
    r"kubernetes\.io|google\.com|example\.com|example\.org|apache\.org|wandb\.ai|json-schema\.org)",
    re.IGNORECASE,
)
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])")
_PART = r"[\w.+@%=~#-]{1,255}"
_PATH = re.compile(
    r"(?:(?<![\w.\\/-])|(?=\\?/(?:home|homes|users|scratch|projects?)\\?/))" rf"(?:\\?/{_PART}){{1,64}}(?:\\?/)?"
)
_SEPARATOR = re.compile(r"\\?/")
_SYSTEM = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "opt", "proc", "root", "run", "sbin", "sys", "tmp"}
    | {"usr", "var", "cvmfs", "nix", "snap", "srv"}
)
_CGROUP = re.compile(
    r"(?:slurm|system\.slice|user\.slice|kubepods|kubelet|docker|lxc|machine|init\.scope|libpod|containerd|"
    r"podruntime|burstable|besteffort|job_|step_|task_|uid_|slurmstepd|user$|0::|[\w.@-]*\.(?:slice|scope|service)).*"
)
_KEPT_PART = re.compile(
    r"(?:bin|lib|lib64|libexec|include|share|src|site-packages|dist-packages|envs?|\.?venv|\.cache|\.local|\.conda|tmp|"
    r"\.\.?|python[\d.]{0,5}|\d{1,12}|(?:slurm-|job-)?(?:\d{1,12}|%[A-Za-z]|[_-]){1,20}(?:\.(?:out|err|log))?)"
)
_PACKAGES = ("site-packages", "dist-packages")
_ENDING = re.compile(
    r"\.(?:py|pyc|sh|bash|out|err|log|so(?:\.\d{1,4}){0,3}|c|cc|cpp|cu|h|hpp|f90|jl|pl|txt|csv|tsv|json|ya?ml|toml|cfg|"
    r"ini|conf|pt|pth|ckpt|safetensors|bin|npz|npy|h5|hdf5|nc|tar|gz|zip|sif|simg|sqsh|ipynb|lock|tmp|dat|sbatch|slurm)"
)
_IP4 = re.compile(r"(?<![\w.])\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?![\w]|\.\d)")
_IP6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]{3,45}(?![\w:])")
_MAC = re.compile(r"(?<![\w:-])(?:[0-9A-Fa-f]{2}[:-]){5}(?:[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){0,14})(?![\w:-])")
_FQDN = re.compile(
    r"(?<![\w.@-])(?:[A-Za-z0-9-]{1,63}\.){1,8}(?:edu|org|com|net|gov|mil|local|internal|lan|corp|intern|"
    r"ac\.[a-z]{2}|edu\.[a-z]{2}|gov\.[a-z]{2}|co\.[a-z]{2}|de|ch|fr|uk|nl|se|fi|eu|jp|cn|kr|au|at|be|dk|pl|cz|es|br)"
    r"(?![\w-]|\.\w)"
)
_UID = re.compile(
    r"""((?<![A-Za-z])(?:uid|gid|euid|auid|fsuid|user_id|group_id|userid|groupid)"""
    r"""(?:["']?[ ]{0,8}[=:][ ]{0,2}["']?|_|[ ]))"""
    r"(\d{4,10})(?!\d)",
    re.IGNORECASE,
)
_UID_OTHER = re.compile(
    r"((?:UserId|GroupId|SlurmUser|SlurmdUser)[ ]{0,40}=[ ]?[^\s(]{0,128}\(|\bCANCELLED by |\bcancelled by |"
    r"\buser-|\buser@|\brun/user/)(\d{4,10})(?!\d)"
)
_OOM_ROW = re.compile(r"(\[ {0,7}\d{1,8}\] {1,6})(\d{4,10})(?= {1,9}\d{1,8} {1,9}\d)")
_PEM = re.compile(r"-----(BEGIN|END) (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY-----")


def _trie(names: Iterable[str]) -> str:
    """A regex of all the names, the longest that fits first; linear in the text however many names there are."""
    tree: dict[str, dict[str, object]] = {}
    for name in names:
        at: dict[str, dict[str, object]] = tree
        for char in name:
            at = at.setdefault(char, {})  # type: ignore[assignment]
        at[""] = {}

    def pattern(node: dict[str, dict[str, object]]) -> str:
        ends = "" in node
        parts = [re.escape(c) + pattern(below) for c, below in sorted(node.items()) if c]  # type: ignore[arg-type]
        if not parts:
            return ""
        body = parts[0] if len(parts) == 1 and not ends else f"(?:{'|'.join(parts)})"
        return body + ("?" if ends else "")

    return pattern(tree)


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Sort key that puts `c2` before `c10`."""
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in re.split(r"([0-9]{1,18})", name) if p]


class _Redactor:
    """The mapping of one redaction, and the texts that go through it."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.times: Counter[str] = Counter()
        self.seen: dict[tuple[str, str], str] = {}
        self.numbers: Counter[str] = Counter()
        self.names: dict[str, tuple[str, str]] = {}
        for name in sorted(names, key=_natural):
            kind = names[name]
            self.names[name] = (kind, self.pseudonym(kind, name))
        self.kept = [n for n in self.names if n.lower() in _ordinary()]
        whole = {n: v for n, v in self.names.items() if n.lower() not in _ordinary()}
        # squeue cuts user and job names at 8 characters without a sign
        cut = {n[:8]: v for n, v in whole.items() if len(n) > 8 and v[0] in ("user", "job")}
        self.whole = {n: v for n, v in cut.items() if n.lower() not in _ordinary()} | whole
        pattern = _trie(self.whole) if self.whole else r"(?!)"
        self.everywhere = re.compile(rf"(?<![^\W_])(?:{pattern})(?![^\W_])") if self.whole else re.compile(r"(?!)")
        self.columns: dict[int, str] = {}
        self.uid_columns: set[int] = set()
        self.in_key = False

    def pseudonym(self, kind: str, original: str, word: str | None = None) -> str:
        """The one stand-in of an original; `word` is what it begins with (the kind, if not given)."""
        if (kind, original) not in self.seen:
            word = word or kind
            self.numbers[word] += 1
            self.seen[kind, original] = f"{word}{self.numbers[word]}"
        return self.seen[kind, original]

    # -------------------------------------------------------------------------------------------- one line

    def line(self, text: str, *, fixed: bool = False, owner: int | None = None) -> str:
        """One line without what must not be shown. `fixed` keeps the columns of a table where they are."""
        text = text.replace(_OPEN, "\ufffd").replace(_CLOSE, "\ufffd")
        pem = _PEM.search(text)
        if self.in_key and not pem:
            self.times["secret"] += 1
            return mask.HIDDEN
        self.in_key = bool(pem and pem[1] == "BEGIN" and "-----END" not in text)
        masked = mask.secrets(text)
        if masked != text:
            self.times["secret"] += max(1, masked.count(mask.HIDDEN) - text.count(mask.HIDDEN))
        text = mask.mask_process(masked, owner)
        held: list[tuple[str, int]] = []

        def hold(kind: str, original: str, by: str) -> str:
            if kind:
                self.times[kind] += 1
            held.append((by, len(original)))
            return f"{_OPEN}{len(held) - 1}{_CLOSE}"

        if "|" in text:
            text = self._cells(text, hold)
        for pattern, step in self._steps(hold):
            text = pattern.sub(step, text)
        return _settle(text, held, fixed)

    def _steps(
        self, hold: Callable[[str, str, str], str]
    ) -> Iterator[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]]:
        yield _URL, lambda m: self._url(m, hold)
        yield _MAIL, lambda m: hold("mail", m[0], f"{self.pseudonym('mail', m[0])}@example.com")
        yield _UID, lambda m: m[1] + self._uid(m[2], hold)
        yield _UID_OTHER, lambda m: m[1] + self._uid(m[2], hold)
        yield _OOM_ROW, lambda m: m[1] + self._uid(m[2], hold)
        yield _FOLDED, lambda m: self._folded(m[0], hold)
        yield _KEYED, lambda m: self._keyed(m, hold)
        yield _PATH, lambda m: self._path(m[0], hold)
        yield _MAC, lambda m: hold("address", m[0], self.pseudonym("address", m[0], "mac"))
        yield _IP4, lambda m: self._address(m[0], hold)
        yield _IP6, lambda m: self._address(m[0], hold)
        yield self.everywhere, lambda m: hold(self.whole[m[0]][0], m[0], self.whole[m[0]][1])
        yield _CUT, lambda m: self._cut(m, hold)
        yield _FQDN, lambda m: m[0] if _PUBLIC.fullmatch(m[0]) else hold("host", m[0], self.pseudonym("host", m[0]))

    # -------------------------------------------------------------------------------------------- steps

    def _url(self, match: re.Match[str], hold: Callable[[str, str, str], str]) -> str:
        scheme, authority, rest = match[1], match[2], match[3]
        user, _, host = authority.rpartition("@")
        if not user and _PUBLIC.fullmatch(host):
            return hold("", match[0], match[0])
        port = re.match(r":\d{1,5}", rest)
        tail = (port[0] if port else "") + ("/..." if rest[port.end() if port else 0 :].strip("/.,;:)") else "")
        inner = host.strip("[]")
        if host.lower() in _NEVER or inner == "127.0.0.1":
            return scheme + hold("", authority + rest, host + tail)
        if scheme in ("file://", "unix://"):
            return match[0]
        kind, word = ("address", "ip") if _is_address(inner) else ("host", "host")
        by = self.names[inner][1] if inner in self.names else self.pseudonym(kind, inner, word)
        return scheme + hold(kind, authority + rest, by + tail)

    def _uid(self, number: str, hold: Callable[[str, str, str], str]) -> str:
        value = int(number)
        if value < FIRST_UID or value >= 4294967294 or value in (65533, 65534):
            return number
        if ("uid", number) not in self.seen:
            self.numbers["uid"] += 1
            self.seen["uid", number] = str(100000 + self.numbers["uid"])
        return hold("uid", number, self.seen["uid", number])

    def _folded(self, text: str, hold: Callable[[str, str, str], str]) -> str:
        names = expand(text)
        if not names or not any(name in self.names for name in names):
            return text
        return hold("node", text, fold(self.names[n][1] if n in self.names else n for n in names))

    def _keyed(self, match: re.Match[str], hold: Callable[[str, str, str], str]) -> str:
        key, value = match["key"].lower(), match["value"]
        if key not in _KEY_KINDS or value not in self.names:
            return match[0]
        kind, by = self.names[value]
        if kind == "job" and value.lower() in _ordinary():
            return match[0]
        return match["key"] + match["between"] + hold(kind, value, by)

    def _cells(self, text: str, hold: Callable[[str, str, str], str]) -> str:
        """Cells of a table with `|` whose column says that they are names or numbers of users."""
        cells = text.split("|")
        heads = [cell.strip().lower() for cell in cells]
        if "state" in heads or ("jobid" in heads and len(heads) > 2):
            self.columns = {i: _KEY_KINDS[h] for i, h in enumerate(heads) if h in _KEY_KINDS}
            self.uid_columns = {i for i, h in enumerate(heads) if h in ("uid", "gid")}
            return text
        for index, cell in enumerate(cells):
            if index in self.uid_columns and re.fullmatch(r"\d{1,10}", cell):
                cells[index] = self._uid(cell, hold)
            elif index in self.columns and cell in self.names:
                kind, by = self.names[cell]
                if not (kind == "job" and cell.lower() in _ordinary()):
                    cells[index] = hold(kind, cell, by)
        return "|".join(cells)

    def _path(self, text: str, hold: Callable[[str, str, str], str]) -> str:
        separator = "\\/" if text.startswith("\\") else "/"
        parts = _SEPARATOR.split(text)[1:]
        if (
            parts[0] in _SYSTEM
            or _CGROUP.fullmatch(parts[0])
            or (len(parts) == 1 and ("path", parts[0]) not in self.seen)
        ):
            return text
        tail = ""
        while parts[-1].endswith(".") and parts[-1].strip("."):
            parts[-1], tail = parts[-1][:-1], tail + "."
        out = [self.pseudonym("path", parts[0])]
        for index, part in enumerate(parts[1:], 1):
            if parts[index - 1] in _PACKAGES:
                out += parts[index:]  # packages that anyone can install
                break
            last = index == len(parts) - 1
            out.append(part if not part or _KEPT_PART.fullmatch(part) else self.component(part, last))
        return hold("path", text, "".join(separator + part for part in out)) + tail

    def component(self, part: str, last: bool) -> str:
        """The stand-in of a folder's or file's name; endings that say what a file is stay."""
        if part in self.names:
            return self.names[part][1]
        ending = _ending(part)
        stem = part[: len(part) - len(ending)]
        return self.pseudonym("path", f"/{stem}", "file" if last and ending else "dir") + ending

    def _address(self, text: str, hold: Callable[[str, str, str], str]) -> str:
        if ":" in text and "::" not in text and text.count(":") != 7:
            return text
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return text
        if address.is_loopback or address.is_unspecified:
            return text
        return hold("address", text, self.pseudonym("address", text, "ip"))

    def _cut(self, match: re.Match[str], hold: Callable[[str, str, str], str]) -> str:
        """A name that a table cut off: `alice_t+`."""
        for name, (kind, by) in self.whole.items():
            if name.startswith(match[1]):
                return hold(kind, match[0], by + "+")
        return match[0]

    # -------------------------------------------------------------------------------------------- names of files

    def file_name(self, name: str) -> str:
        """The name of an evidence file, its folders as they are where no name is in them."""
        folder, _, base = name.rpartition("/")
        ending = _ending(base)
        known = self.seen.get(("path", f"/{base[: len(base) - len(ending)]}"))
        base = known + ending if known and not _KEPT_PART.fullmatch(base) else self.line(base)
        return f"{self.line(folder)}/{base}" if folder else base


_CUT = re.compile(r"(?<![\w.+-])([A-Za-z_][\w.-]{2,63})\+(?=[\s|]|$)")


def _ending(name: str) -> str:
    """`.py` of `train.py`, empty where the ending does not say what kind of file it is."""
    at = name.find(".so.") if ".so." in name else name.rfind(".")
    return name[at:] if at > 0 and _ENDING.fullmatch(name[at:]) else ""


def _settle(text: str, held: list[tuple[str, int]], fixed: bool) -> str:
    """The text with its replacements in place; in a table of fixed columns each takes the room of its original."""
    if not held:
        return text
    if not fixed:
        return _resolve(text, held)
    out, at, owed = "", 0, 0
    for match in _HELD.finditer(text):
        between = text[at : match.start()]
        spaces = len(between) - len(between.lstrip(" "))
        gone = min(owed, max(spaces - 1, 0))
        out, owed = out + between[gone:], owed - gone
        by, length = held[int(match[1])]
        by = _resolve(by, held)
        out += by.ljust(length)
        owed += max(len(by) - length, 0)
        at = match.end()
    rest = text[at:]
    spaces = len(rest) - len(rest.lstrip(" "))
    return out + rest[min(owed, max(spaces - 1, 0)) :]


def _resolve(text: str, held: list[tuple[str, int]]) -> str:
    for _ in range(4):  # a replacement may hold an earlier one
        if _OPEN not in text:
            break
        text = _HELD.sub(lambda m: held[int(m[1])][0], text)
    return text


# ------------------------------------------------------------------------------------------------ files


def redact(files: Mapping[str, bytes]) -> Redacted:
    """The same evidence without names. `files` as for `case.from_files`; files that no source reads are left out.

    Deterministic: the same files give the same pseudonyms.
    """
    whole = case.from_files(files)
    events, coverage = sources.parse(whole)
    kinds = {c.file: c.kind for c in coverage if c.kind is not None}
    names = _Names()
    names.learn(events)
    names.add("cluster", whole.manifest.cluster)
    boot = whole.manifest.values.get("boot_epoch")
    for node in boot if isinstance(boot, dict) else ():
        names.add("node", str(node))
    texts = {name: files[name].decode("utf-8", "replace") for name in sorted(files) if name in kinds}
    for name, text in texts.items():
        for line in re.split(r"[\n\0]", text):
            names.scan(line, words_of_program=kinds[name] == "job_log")
    worker = _Redactor(names.kinds)
    owners = {e.uid for e in events if isinstance(e, JobRecord) and e.uid is not None}
    owner = owners.pop() if len(owners) == 1 else None
    out: dict[str, bytes] = {}
    for name, text in texts.items():
        fixed = kinds[name] == "sacct_table"
        worker.columns, worker.uid_columns, worker.in_key = {}, set(), False
        pieces = re.split(r"(\r?\n|\0)", text)
        done = [p if i % 2 else worker.line(p, fixed=fixed, owner=owner) for i, p in enumerate(pieces)]
        out[name] = "".join(done).encode("utf-8", "replace")
    cluster_dir = whole.manifest.cluster_dir
    renamed: dict[str, bytes] = {}
    names_now: dict[str, str] = {}
    for name, data in out.items():
        names_now[name] = _free(_place(name, cluster_dir) or worker.file_name(name), renamed)
        renamed[names_now[name]] = data
    if "manifest.toml" in files:
        ranges = {names_now[file.name]: file.ranges for file in whole.files if file.ranges and file.name in names_now}
        renamed["manifest.toml"] = _manifest(files["manifest.toml"], worker, ranges)
    distinct = Counter(kind for kind, _ in worker.seen)
    return Redacted(
        renamed,
        {k: worker.times[k] for k in KINDS if worker.times[k]},
        {k: distinct[k] for k in KINDS if distinct[k] and worker.times[k]},
        len(worker.kept),
    )


def _place(name: str, cluster_dir: str | None) -> str | None:
    """Where a file of the cluster's folder goes: the folder may be named after the cluster."""
    if cluster_dir and name.startswith(f"{cluster_dir}/"):
        return f"{'../' if cluster_dir.startswith('../') else ''}cluster/{name[len(cluster_dir) + 1 :]}"
    return None


def _free(name: str, taken: Mapping[str, bytes]) -> str:
    """The name, with a number before its last part where it is taken already."""
    folder, _, base = name.rpartition("/")
    count, found = 2, name
    while found in taken:
        found = f"{folder}/{count}-{base}" if folder else f"{count}-{base}"
        count += 1
    return found


def _manifest(data: bytes, worker: _Redactor, ranges: Mapping[str, Sequence[Sequence[int]]]) -> bytes:
    """The manifest's known keys, with names replaced; anything else in it is left out. `ranges` by the new names."""
    try:
        values = tomllib.loads(data.decode("utf-8", "replace"))
    except (tomllib.TOMLDecodeError, RecursionError):
        return b""
    lines = []
    for key in ("slurm", "utc_offset", "env_format"):
        if isinstance(values.get(key), (str, int, float)):
            word = re.sub(r"[^\w.:+-]", "", str(values[key]))[:40]
            lines.append(f'{key} = "{word}"')
    if isinstance(values.get("cluster"), str) and values["cluster"]:
        lines.append(f'cluster = "{worker.pseudonym("cluster", values["cluster"])}"')
    if isinstance(values.get("cluster_dir"), str) and values["cluster_dir"]:
        lines.append(f'cluster_dir = "{"../" if values["cluster_dir"].startswith("../") else ""}cluster"')
    if type(values.get("page_size")) is int:
        lines.append(f"page_size = {values['page_size']}")
    if ranges:  # JSON's strings and lists are TOML's too
        said = ", ".join(
            f"{json.dumps(name)} = {json.dumps([list(run) for run in runs])}" for name, runs in ranges.items()
        )
        lines.append(f"line_ranges = {{{said}}}")
    boot = values.get("boot_epoch")
    if isinstance(boot, (int, float)) and not isinstance(boot, bool):
        lines.append(f"boot_epoch = {boot!r}")
    elif isinstance(boot, dict):
        lines.append("[boot_epoch]")
        for node, epoch in boot.items():
            if isinstance(epoch, (int, float)) and not isinstance(epoch, bool):
                by = worker.names[node][1] if node in worker.names else worker.line(node)
                lines.append(f'"{re.sub(chr(34), "", by)}" = {epoch!r}')
    return ("\n".join(lines) + "\n").encode()
