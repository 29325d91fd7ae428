"""When a program's last act is an error that only its own code, call or input brings about."""

from __future__ import annotations

import re

from slurm_triage.facts import Job
from slurm_triage.facts._logic import any_of, true, unknown
from slurm_triage.facts.telling import exception_type
from slurm_triage.model import Fact

OWN_TYPES = frozenset({
    "ModuleNotFoundError", "NameError", "SyntaxError", "IndentationError", "TabError", "UnboundLocalError", "TypeError",
    "KeyError", "AttributeError",
})  # fmt: skip
"""Python exceptions that no device, file system or peer raises. Assertions, indices and imports ask for the outside."""
GIVEN = re.compile(r"NoneType|KeyError: '[A-Z][A-Z0-9_]{3,60}'")
"""What failed before gave None, or a launcher did not set its variable: the exception is only where it was noticed."""

ABSOLUTE = re.compile(r"(?:^|[\s'\"‘`:])/\S")
"""A path from the root: it may be missing with the whole file system."""

OWN_ERRORS = ("module_not_found", "usage_error", "conda_error", "file_not_found", "file_exists", "program_not_found")
"""Families that tell of a wrong call: an option, a module, an environment, a path."""
SURE_ERRORS = (
    "usage_error", "conda_error", "glibc_not_found", "cuda_no_kernel_image", "argument_list_too_long", "script_error",
    "java_launch",
)  # fmt: skip
"""Those of them that end the program that prints them."""


def own_error(job: Job) -> Fact:
    """The last act is such an error, by its type, by srun's word about the exit, or by the exit code itself."""
    says = "it ended on an error of its own code, call or input, and nothing else speaks"
    kin = (*OWN_ERRORS, "python_exception", "error_line", "r_error")
    code = job.proof.unopposed(says, job.program.says_bad_input, *kin)
    return any_of(says, _by_type(job, says), _by_exit(job, says), code if job.log.read else unknown(says, "", ""))


def _by_type(job: Job, says: str) -> Fact:
    sure = job.log.of(*SURE_ERRORS)
    told = {(s.cite.file, s.cite.line) for s in sure}
    every = [s for s in job.telling.own_errors if s.id == "python_exception"]
    every = [s for s in every if (s.cite.file, s.cite.line) not in told]
    own = tuple(s for s in every if exception_type(s) in OWN_TYPES and not GIVEN.search(s.cite.text))
    if len(own) < len(every):
        return unknown(says, "an exception was named that may have its cause outside", job.log.how)
    return job.proof.ended_on(says, (*own, *sure), *OWN_ERRORS, "cuda_error_other")


def _by_exit(job: Job, says: str) -> Fact:
    """srun says that the task itself exited, and the few lines before it are all understood."""
    ended = [d for d in job.exits.deaths if d.witness == "slurm" and d.code is not None and 0 < d.code < 126]
    if not ended or not job.proof.understood.holds:
        return unknown(says, "the output holds more than is understood, or no task's exit", job.log.how)
    absolute = [s for s in job.log.of("file_not_found", "program_not_found") if ABSOLUTE.search(s.cite.text)]
    if absolute:
        return unknown(says, "a path is missing that a mount may have held", "look for it on another node")
    proof = job.proof.ended_on(says, job.log.of(*OWN_ERRORS), *OWN_ERRORS)
    return true(says, [*proof.cites, *(d.cite for d in ended[:1])]) if proof.holds else proof
