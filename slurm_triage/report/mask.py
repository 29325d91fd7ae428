"""What must not be shown: secrets in quoted lines, control characters, the names of other users' processes.

Quoted lines come from jobs and logs, so they may hold anything. All patterns here run in time linear in the length of
the text: every repetition either starts behind a literal or cannot start twice in one run of characters.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

HIDDEN = "***"
"""What stands in the place of a secret."""

OTHER = "(other user's process)"
"""What stands in the place of the name of a process that is not the job owner's."""

_NAMES = (
    r"passwords?|passwd|passphrase|storagepass|mysql_pwd|"
    r"secret(?:[_-]?(?:access[_-]?)?key)?|"
    r"(?<!unexpected )token|jwt|"
    r"api[_-]?key|apikey|access[_-]?key|private[_-]?key|account[_-]?key|shared[_-]?access[_-]?(?:key|signature)"
)
# A value runs to the end of its quotes, or to the next blank or separator. A closing quote is not required, so that
# a match never fails after a long scan.
_VALUE = r"""(?:(?P<open>\\{0,3}")[^"]*|(?P<open1>\\{0,3}')[^']*|(?P<bare>[^\s"',;&)}\]]+))"""

_ASSIGNED = re.compile(
    rf"""(?P<key>(?:{_NAMES})\\{{0,3}}["']?[ \t]{{0,4}}(?:=>|[=:])[ \t]{{0,4}}"""
    rf"""(?:(?:bearer|basic)[ \t]{{1,4}})?){_VALUE}""",
    re.IGNORECASE,
)
_OPTION = re.compile(
    rf"""(?P<key>--(?:[a-z0-9]{{1,16}}[-_]){{0,3}}(?:{_NAMES}|pass)[ \t]{{1,8}})(?!-){_VALUE}""", re.IGNORECASE
)
# Values that are no secret although their key sounds like one: placeholders, variables, paths, special tokens of
# language models (`eos_token: <|endoftext|>`, `pad_token=0`), names of constants.
_HARMLESS = re.compile(r"(?:[<\[{($/%*].*|-?[\d.]{1,12}|none|null|true|false|unset|\.\.\.)", re.IGNORECASE | re.DOTALL)

_RULES: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = tuple(
    (hints, re.compile(pattern, flags), by)
    for hints, pattern, flags, by in (
        # scheme://user:password@host (RFC 3986 userinfo); the last @ before the path ends the password
        (("://",), r"""(://[^\s/@:'"]{0,256}:)[^\s/'"]{1,512}(?=@)""", 0, r"\1***"),
        # HTTP authorization headers (RFC 7235, 6750, 7617)
        (
            ("authorization",),
            r"""(authorization\\{0,3}["']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}["']?"""
            r"""(?:(?:bearer|basic|token|negotiate|digest|aws4-hmac-sha256)[ \t]{1,4})?)[^\s"'\\]+""",
            re.IGNORECASE,
            r"\1***",
        ),
        (("bearer",), r"(?i:\b(bearer[ \t]{1,4}))(?=[A-Za-z._~+/=-]{0,64}\d)[A-Za-z0-9._~+/=-]{8,}", 0, r"\1***"),
        (("basic",), r"\b([Bb]asic[ \t]{1,4})(?=[A-Za-z+/]{0,64}[\d=])[A-Za-z0-9+/]{8,}={0,2}", 0, r"\1***"),
        (("-u",), r"""((?:^|\s)(?:-u|--user)[ =]["']?[^\s:"']{1,128}:)(?!\d+(?:\s|$))[^\s"']+""", 0, r"\1***"),
        (("sshpass",), r"(\bsshpass[ \t]{1,4}-p[ \t]{0,4})\S+", 0, r"\1***"),
        (("pwd=",), r"""(\b[Pp]wd=)(?!/)[^\s"';,&]+""", 0, r"\1***"),
        # tokens with a prefix of their own, as their makers document them for secret scanners
        (
            ("akia", "asia", "agpa", "aida", "aroa", "anpa"),
            r"(?<![A-Z0-9])(AKIA|ASIA|AGPA|AIDA|AROA|ANPA)[A-Z0-9]{16}(?![A-Z0-9])",
            0,
            r"\1***",
        ),  # AWS key ids
        (("gh",), r"\b(gh[pousr]_)[A-Za-z0-9]{20,}", 0, r"\1***"),  # GitHub
        (("github_pat_",), r"\b(github_pat_)[A-Za-z0-9_]{20,}", 0, r"\1***"),
        (("gl",), r"\b(gl(?:pat|dt|ft|rt|ptt|cbt|soat|agent)-)[A-Za-z0-9_.-]{16,}", 0, r"\1***"),  # GitLab
        (("xox", "xapp-"), r"\b(xox[abceoprs]-|xapp-)[A-Za-z0-9-]{8,}", 0, r"\1***"),  # Slack
        (("hooks.slack.com",), r"(hooks\.slack\.com/services/)[A-Za-z0-9/]{8,}", 0, r"\1***"),
        (("hf_", "api_org_"), r"\b(hf_|api_org_)[A-Za-z0-9]{20,}", 0, r"\1***"),  # Hugging Face
        (("sk-",), r"(?<![A-Za-z0-9])(sk-)(?=[A-Za-z_-]{0,64}\d)[A-Za-z0-9_-]{16,}", 0, r"\1***"),  # OpenAI, Anthropic
        (("aiza",), r"\b(AIza)[A-Za-z0-9_-]{30,}", 0, r"\1***"),  # Google
        (("ya29.",), r"\b(ya29\.)[A-Za-z0-9_-]{20,}", 0, r"\1***"),
        (("npm_",), r"\b(npm_)[A-Za-z0-9]{30,}", 0, r"\1***"),
        (("pypi-",), r"\b(pypi-)[A-Za-z0-9_-]{32,}", 0, r"\1***"),
        (("nvapi-",), r"\b(nvapi-)[A-Za-z0-9_-]{20,}", 0, r"\1***"),  # NVIDIA
        (("dckr_pat_",), r"\b(dckr_pat_)[A-Za-z0-9_-]{20,}", 0, r"\1***"),  # Docker
        # Weights & Biases: 40 hex digits look like a commit id, so only where a key is spoken of
        (("api",), r"(?i:(\bapi[ _-]?key\b[^\n]{0,40}?\b))[0-9a-f]{40}\b", 0, r"\1***"),
        (("wandb login",), r"(\bwandb login[ \t]{1,4}(?:--relogin[ \t]{1,4})?)[0-9a-f]{40}\b", 0, r"\1***"),
        (("wandb_v1_",), r"\b(wandb_v1_)[A-Za-z0-9_]{20,}", 0, r"\1***"),
        # JSON Web Tokens (RFC 7519)
        (("eyj",), r"(?<![A-Za-z0-9_-])(eyJ)[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?", 0, r"\1***"),
        # PEM private keys (RFC 7468): what follows the header on its line
        (("private key-----",), r"(-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY-----)[^\n]+", 0, r"\1***"),
        (("sig=",), r"""([?&;]sig=)[^&\s"';]+""", re.IGNORECASE, r"\1***"),  # Azure shared access signature
        (("munge:",), r"(\bMUNGE:)[A-Za-z0-9+/=]{16,}(:?)", 0, r"\1***\2"),  # munge(7) credential
    )
)
"""(hints, pattern, replacement). What a pattern matches holds one of its hints, in small letters: a cheap filter."""
_LIKE = {0x130: "i", 0x131: "i", 0x17F: "s", 0x212A: "k"}
"""Letters that re.IGNORECASE takes for those of ASCII, beside capitals."""
_NAME_HINTS = ("pass", "pwd", "secret", "token", "jwt", "key", "signature")
"""The same for `_ASSIGNED` and `_OPTION`."""


def _hide(match: re.Match[str]) -> str:
    bare = match["bare"]
    if bare is not None and _HARMLESS.fullmatch(bare):
        return match[0]
    return f"{match['key']}{match['open'] or match['open1'] or ''}{HIDDEN}"


@lru_cache(maxsize=4096)  # one line is cited by several rules, in several parts
def secrets(text: str) -> str:
    """`text` with passwords, tokens and keys replaced by `***`; everything else as it was.

    Ordinary hex (commit ids, addresses, UUIDs, cgroup names) and kernel lines stay. A secret that has neither a
    telling prefix nor a telling key beside it cannot be recognised.
    """
    small = (text if text.isascii() else text.translate(_LIKE)).lower()
    for hints, pattern, by in _RULES:
        for hint in hints:
            if hint in small:
                text = pattern.sub(by, text)
                break
    for hint in _NAME_HINTS:
        if hint in small:
            return _OPTION.sub(_hide, _ASSIGNED.sub(_hide, text))
    return text


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def clean(text: str) -> str:
    r"""`text` that is safe on a terminal, in one line: what cannot be seen is made visible, a tab becomes a blank.

    Escaped as `\x1b`, `\u202e` are control characters (C0, C1, DEL, newline), format characters (bidi overrides, zero
    width), line and paragraph separators, lone surrogates, private and unassigned characters. Letters of any language
    stay. A backslash of the text is not doubled: this is for reading, the JSON form is exact.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        " " if c == "\t" else _escape(c) if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") else c
        for c in text
    )


def plain(text: str) -> str:
    r"""As `clean`, and in ASCII only: other letters are escaped too (`é` as `\xe9`).

    The text report is read on consoles, in mails and through `tail` under any locale; an escape is ugly but says
    which character it was, which `?` does not.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(" " if c == "\t" else c if " " <= c <= "~" else _escape(c) for c in text)


# Rows of the kernel's task dump, mm/oom_kill.c dump_task(): `[%7d] %5d %5d %8lu ... %8lu         %5hd %s`. After the
# pid come uid, tgid, 4 to 7 counts, then nine blanks and oom_score_adj, then the name, which may hold anything, blanks
# and digits too. Since 6.8 there are 10 numbers, before 7 or (4.x) 8.
_ROWS = tuple(
    re.compile(rf"(\[ {{0,7}}\d{{1,8}}\] {{1,6}}(\d{{1,10}})(?: {{1,9}}-?\d{{1,20}}){{{n}}} {{9,14}}-?\d{{1,4}} )(.*)$")
    for n in (8, 6, 5)
)
# The same where a log shipper squeezed the blanks: names are taken to start at the eighth column, rather too early.
_SQUEEZED = re.compile(r"(\[ {0,7}\d{1,8}\] {1,6}(\d{1,10})(?: {1,16}-?\d{1,20}){6} )(.*)$")
_ROW = re.compile(r"\[ {0,7}\d{1,8}\] {1,6}\d")
"""How each of these begins."""
_KILLED = re.compile(r"(\bKilled process \d{1,10} \()(.*)(\) total-vm:\d.*?\bUID:(\d{1,10}).*)$")
_OOM_KILL = re.compile(r"(\boom-kill:.*,task=)(.*)(,pid=\d{1,10},uid=(\d{1,10})\s*)$")


def mask_process(line: str, own_uid: int | None) -> str:
    """A kernel OOM line with the name of a process of another uid than `own_uid` as `(other user's process)`.

    Knows rows of the task dump and the lines `Killed process` and `oom-kill:`. Other lines, and all lines when
    `own_uid` is None (the job's owner is not known, so nobody is another user), are returned as they are.
    """
    if own_uid is None or len(line) > 1200:  # printk ends a line below 1,024 (LOG_LINE_MAX)
        return line
    if _ROW.search(line):
        for pattern in (*_ROWS, _SQUEEZED):
            match = pattern.search(line)
            if match:
                return line if int(match[2]) == own_uid else line[: match.start()] + match[1] + OTHER
    for begin, pattern in (("Killed process ", _KILLED), ("oom-kill:", _OOM_KILL)):
        match = pattern.search(line) if begin in line else None
        if match:
            return line if int(match[4]) == own_uid else line[: match.start()] + match[1] + OTHER + match[3]
    return line
