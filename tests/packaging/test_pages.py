"""Man pages and completion say what the parsers say."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tools import pages


@pytest.mark.parametrize("command", pages.COMMANDS)
def test_every_verb_and_option_is_in_the_page(command: str) -> None:
    text = pages.man(command).replace("\\-", "-").replace("\\fB", "").replace("\\fR", "").replace("\\fI", "")
    parser = pages.parser_of(command)
    for part in (parser, *(verb for verb, _ in pages.parts(parser))):
        assert part is parser or f".SS {part.prog.partition(' ')[2]}\n" in text
        for action in part._actions:
            for option in action.option_strings:
                assert option in text
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "VERBS", "FILES", "SEE ALSO"):
        assert f".SH {section}\n" in text


def test_no_text_becomes_a_request() -> None:
    assert pages._roff(".TH x") == "\\&.TH x" and pages._roff("'a\n.b") == "\\&'a .b" and pages._roff("a\\n") == "a\\en"


def complete(*words: str) -> set[str]:
    bash = shutil.which("bash")
    assert bash
    script = (
        f"{pages.bash(words[0])}\nCOMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}\n"
        f"_{words[0].replace('-', '_')}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    return set(
        subprocess.run([bash, "-c", script], capture_output=True, text=True, timeout=60, check=True).stdout.split()
    )


@pytest.mark.parametrize(
    ("words", "some", "none"),
    [
        (("slurm-triage", ""), {"diagnose", "doctor", "service"}, {"sweep"}),
        (("slurm-triage", "service", ""), {"run", "sweep", "status"}, {"diagnose"}),
        (("slurm-triage", "diagnose", "--f"), {"--format"}, {"--evidence"}),
        (("slurm-triage", "diagnose", "--format", ""), {"text", "json", "brief"}, {"--evidence"}),
        (("slurm-triage", "service", "status", "--"), {"--json", "--config"}, {"--format"}),
        (("slurm-triage-agent", "st"), {"status"}, {"run"}),
        (("sdiag-history", ""), {"list"}, {"diagnose"}),
    ],
)
def test_completion(words: tuple[str, ...], some: set[str], none: set[str]) -> None:
    found = complete(*words)
    assert some <= found and not none & found
