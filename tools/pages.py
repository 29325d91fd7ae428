"""The man page and the bash completion of a command, from its own parser: python -m tools.pages man|bash COMMAND"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slurm_triage import __version__

Parser = argparse.ArgumentParser


@dataclass(frozen=True)
class Page:
    """What a parser does not say: the section of the manual, files, and pages that belong to it."""

    section: int
    title: str
    files: Mapping[str, str]
    also: str


HISTORY = {"/var/lib/slurm-triage/history.sqlite": "the history"}
COMMANDS = {
    "slurm-triage": Page(
        1,
        "why did this Slurm job die, and who has to act",
        {
            "/etc/slurm-triage/service.toml": "settings of the service",
            "/etc/slurm-triage/knowledge.d": "signatures, causes and rules that a site adds",
            "/etc/slurm-triage/templates": "a site's own template of the text report",
            **HISTORY,
            "/var/spool/slurm-triage": "the spool of a node",
            "/var/spool/slurm-triage-ctld": "the spool of the controller's host",
        },
        "sdiag-history(1), slurm-triage-agent(8), sacct(1), scontrol(1)",
    ),
    "sdiag-history": Page(1, "what killed jobs of this cluster", HISTORY, "slurm-triage(1), sacct(1)"),
    "slurm-triage-agent": Page(
        8,
        "brings evidence of jobs that ended badly from a node to the service, and diagnoses to users",
        {
            "/etc/slurm-triage/agent.toml": "settings of the agent",
            "/var/spool/slurm-triage": "the spool of a node, with the agent's own outbox and targets",
        },
        "slurm-triage(1), slurm.conf(5), systemd.path(5)",
    ),
}


def parser_of(command: str) -> Parser:
    """The parser of a command."""
    if command == "slurm-triage-agent":
        agent = importlib.import_module("slurm_triage.node.cli")
        parser = Parser(prog=command, description="The agent of slurm-triage on a node.")
        parser.add_argument("--version", action="version", version=__version__)
        agent.add_actions(parser)
        return parser
    module = {"slurm-triage": "slurm_triage.cli", "sdiag-history": "slurm_triage.history.cli"}[command]
    made: Parser = importlib.import_module(module)._parser()
    return made


def parts(parser: Parser) -> Iterator[tuple[Parser, str]]:
    """The parsers of the verbs of a parser and of their actions, in order, each with what its parent says of it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            said = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, below in action.choices.items():
                yield below, said.get(name, "")
                yield from parts(below)


def _own(parser: Parser) -> list[argparse.Action]:
    """Options and arguments of a parser, without verbs and without --help, which is said once."""
    return [
        action
        for action in parser._actions
        if not isinstance(action, (argparse._SubParsersAction, argparse._HelpAction))
        and action.help != argparse.SUPPRESS
    ]


# ------------------------------------------------------------------------------------------------ man page


def _roff(text: str) -> str:
    """Text as one line of roff that begins no request."""
    escaped = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _date() -> str:
    """The day of the sources, where the maker of a package says so, else today."""
    return time.strftime("%Y-%m-%d", time.gmtime(float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())))


def man(command: str) -> str:
    """The man page."""
    page, parser = COMMANDS[command], parser_of(command)
    lines = [
        f'.TH {_roff(command.upper())} {page.section} {_date()} "slurm\\-triage {__version__}" "slurm\\-triage"',
        ".SH NAME",
        f"{_roff(command)} \\- {_roff(page.title)}",
        ".SH SYNOPSIS",
        *_synopsis(parser),
    ]
    below = list(parts(parser))
    for verb, _ in below:
        if not any(isinstance(action, argparse._SubParsersAction) for action in verb._actions):
            lines += [".PP", *_synopsis(verb)]
    lines += [".SH DESCRIPTION", _roff(parser.description or page.title), ".SH OPTIONS", *_options(parser)]
    lines += [".TP", "\\fB\\-h\\fR, \\fB\\-\\-help\\fR", "a summary, of the command or of a verb of it"]
    if below:
        lines.append(".SH VERBS")
    for verb, said in below:
        lines += [f".SS {_roff(verb.prog.partition(' ')[2])}", _roff(verb.description or said or verb.prog)]
        lines += _options(verb)
    lines.append(".SH FILES")
    for path, what in page.files.items():
        lines += [".TP", f"\\fI{_roff(path)}\\fR", _roff(what)]
    lines += [".SH SEE ALSO", _roff(page.also), ""]
    return "\n".join(lines)


def _synopsis(parser: Parser) -> list[str]:
    usage = re.sub(r"\[-h\] ?", "", parser.format_usage().partition(": ")[2])
    name = parser.prog
    return [f"\\fB{_roff(name)}\\fR {_roff(' '.join(usage.split())[len(name) :])}".rstrip()]


def _options(parser: Parser) -> list[str]:
    lines = []
    formatter = parser._get_formatter()
    for action in _own(parser):
        value = formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
        if action.option_strings:
            names = ", ".join(f"\\fB{_roff(option)}\\fR" for option in action.option_strings)
            head = f"{names} \\fI{_roff(value)}\\fR" if value else names
        else:
            head = f"\\fI{_roff(formatter._format_args(action, action.dest))}\\fR"
        lines += [".TP", head, _roff(formatter._expand_help(action)) if action.help else "\\&"]
    return lines


# ------------------------------------------------------------------------------------------------ completion


def bash(command: str) -> str:
    """The completion: verbs, options, choices of an option, else files."""
    parser = parser_of(command)
    function = "_" + command.replace("-", "_")
    cases = [_case("", parser), *(_case(verb.prog.partition(" ")[2], verb) for verb, _ in parts(parser))]
    values = dict(_choices(parser)) | {k: v for verb, _ in parts(parser) for k, v in _choices(verb)}
    lines = [
        f"# bash completion of {command}; made of its parser.",
        f"{function}() {{",
        '    local here=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} at="" word words=""',
        "    COMPREPLY=()",
        "    case $before in",
        *(
            f"        {option}) mapfile -t COMPREPLY < <(compgen -W '{' '.join(words)}' -- \"$here\"); return ;;"
            for option, words in values.items()
        ),
        "    esac",
        '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        '        case "${at:+$at }$word" in',
        *(f"            '{verb.prog.partition(' ')[2]}') at=${{at:+$at }}$word ;;" for verb, _ in parts(parser)),
        "        esac",
        "    done",
        "    case $at in",
        *cases,
        "    esac",
        '    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$here")',
        "}",
        f"complete -o default -F {function} {command}",
        "",
    ]
    return "\n".join(line for line in lines if line)


def _case(verb: str, parser: Parser) -> str:
    words = [option for action in _own(parser) for option in action.option_strings] + ["--help"]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words += list(action.choices)
        elif not action.option_strings and action.choices:
            words += [str(choice) for choice in action.choices]
    return f"        '{verb}') words='{' '.join(words)}' ;;"


def _choices(parser: Parser) -> Iterator[tuple[str, list[str]]]:
    for action in _own(parser):
        if action.choices:
            yield from ((option, [str(choice) for choice in action.choices]) for option in action.option_strings)


def main(argv: list[str]) -> int:
    """Prints what is asked for."""
    makers = {"man": man, "bash": bash}
    if len(argv) != 2 or argv[0] not in makers or argv[1] not in COMMANDS:
        print(f"usage: python -m tools.pages man|bash {'|'.join(COMMANDS)}", file=sys.stderr)
        return 2
    sys.stdout.write(makers[argv[0]](argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
