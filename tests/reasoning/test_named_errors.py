"""The program's own error: quoted with its message, and with the first frame in the user's code."""

from __future__ import annotations

import pytest

from tests.reasoning.build import completed, confirmed, failed, told

TRACEBACK = 'Traceback (most recent call last):\n  File "/home/user1/{}", line {}, in {}\n    work()\n{}\n'
VALUE_ERROR = TRACEBACK.format("reader.py", 12, "read", "ValueError: flux is negative")
BROKEN_PIPE = TRACEBACK.format("writer.py", 30, "write", "BrokenPipeError: [Errno 32] Broken pipe")
RESET = TRACEBACK.format("net.py", 7, "recv", "ConnectionResetError: [Errno 104] Connection reset by peer")
CHILD = TRACEBACK.format(
    "run.py", 5, "main", "subprocess.CalledProcessError: Command 'x' returned non-zero exit status 1."
)

NAMED = {
    "python": (VALUE_ERROR, ["ValueError: flux is negative", "reader.py line 12 in read"]),
    "java": (
        'Exception in thread "main" java.lang.StackOverflowError\n'
        + "\tat org.reads.Assembler.depth(Assembler.java:10)\n" * 1024,
        ["java.lang.StackOverflowError", "Assembler.java line 10"],
    ),
    "java-class": (
        "Error: Could not find or load main class org.reads.Main\nCaused by: java.lang.ClassNotFoundException: x\n",
        ["Could not find or load main class org.reads.Main"],
    ),
    "r": ("Error in fit(d) : no complete cases\nCalls: run -> fit\nExecution halted\n", ["no complete cases"]),
    "r-next-line": (
        "Error in solve.default(crossprod(x), crossprod(x,  : \n  system is exactly singular\nExecution halted\n",
        ["Error in solve.default", "system is exactly singular"],
    ),
    "octave": (
        "error: operator *: nonconformant arguments (op1 is 3x4, op2 is 3x4)\nerror: called from\n"
        "    orbit at line 7 column 5\n",
        ["nonconformant arguments", "orbit line 7"],
    ),
    "matlab": (
        "Error using load\nUnable to read file 'in.mat'.\n\nError in fit_all (line 12)\nx = load('in.mat');\n",
        ["Error using load", "Unable to read file", "fit_all line 12"],
    ),
    "julia": (
        "ERROR: LoadError: UndefVarError: `steps` not defined\nStacktrace:\n [1] run(n::Int64)\n"
        "   @ Main ~/sim/run.jl:12\n",
        ["UndefVarError: `steps` not defined", "run.jl line 12"],
    ),
    "node": (
        "/home/user1/render.js:12\nError: tile 12: no such layer\n    at paint (/home/user1/render.js:12:40)\n"
        "    at node:internal/main/run_main_module:28:49\n\nNode.js v20.19.2\n",
        ["Error: tile 12: no such layer", "render.js line 12 in paint"],
    ),
    "perl": (
        "Can't locate Bio/SeqIO.pm in @INC (you may need to install the Bio::SeqIO module) at x.pl line 2.\n"
        "BEGIN failed--compilation aborted at x.pl line 2.\n",
        ["Can't locate Bio/SeqIO.pm"],
    ),
    "go": (
        "panic: runtime error: index out of range [3] with length 3\n\ngoroutine 1 [running]:\nmain.main()\n"
        "\t/home/user1/sort/main.go:12 +0x1d\nexit status 2\n",
        ["index out of range [3]", "main.go line 12"],
    ),
    "sanitizer": (
        "==9==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x50\nREAD of size 8\n"
        "    #0 0x55 in main /home/user1/kinetics.cpp:33\n",
        ["heap-buffer-overflow", "kinetics.cpp line 33 in main"],
    ),
    "shell": ("/var/spool/slurmd/job00077/slurm_script: line 4: DATA: unbound variable\n", ["DATA: unbound variable"]),
    "make": ("make: *** No rule to make target 'a.f90', needed by 'a.o'.  Stop.\n", ["No rule to make target"]),
    "gromacs": ("Fatal error:\nThe number of ranks is not compatible\n", ["Fatal error:", "The number of ranks"]),
    "lammps": (
        "ERROR: Lost atoms: original 4000 current 3994 (src/thermo.cpp:489)\nLast command: run 1000\n",
        ["Lost atoms: original 4000 current 3994"],
    ),
    "espresso": (
        "     Error in routine c_bands (1):\n     too many bands are not converged\n\n     stopping ...\n",
        ["Error in routine c_bands", "too many bands"],
    ),
    "openfoam": (
        "--> FOAM FATAL ERROR: \nUnknown patchField type wal\n\nFOAM exiting\n",
        ["FOAM FATAL ERROR", "Unknown patchField type wal"],
    ),
    "licence": ("License checkout failed.\nLicense Manager Error -4\n", ["License Manager Error -4"]),
}


@pytest.mark.parametrize("language", NAMED)
def test_error_is_quoted_and_cited(language: str) -> None:
    output, parts = NAMED[language]
    answer = told(failed("reading input\n" + output))
    assert answer.cause == "app_error"
    for part in parts:
        assert part in answer.summary
    assert any(parts[0] in cite.text for cite in answer.evidence)


@pytest.mark.parametrize("language", NAMED)
def test_error_of_a_job_that_ended_well_is_no_cause(language: str) -> None:
    output, _ = NAMED[language]
    answer = told(completed("reading input\n" + output + "step 2 done\n" * 30))
    assert answer.cause != "app_error"
    assert "app_error" not in confirmed(answer)


@pytest.mark.parametrize("language", NAMED)
def test_an_error_that_was_survived_is_not_the_one_that_is_quoted(language: str) -> None:
    output, parts = NAMED[language]
    last = TRACEBACK.format("main.py", 3, "stop", "IndexError: list index out of range")
    answer = told(failed(output + "step done\n" * 50 + last))
    assert parts[0] not in answer.summary
    if answer.cause == "app_error":
        assert "IndexError: list index out of range, at /home/user1/main.py line 3 in stop" in answer.summary


def test_a_rank_that_lost_its_peer_is_not_the_one_that_is_quoted() -> None:
    lost = TRACEBACK.format(
        "train.py", 9, "step", "RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.1]:1972"
    )
    own = TRACEBACK.format("train.py", 4, "load", "RuntimeError: shape '[32, 10]' is invalid for input of size 330")
    for output in (own + lost, lost + own):
        assert "shape '[32, 10]' is invalid for input of size 330, at" in told(failed(output)).summary


def test_what_the_mpi_library_says_is_quoted_not_that_it_is_fatal() -> None:
    text = (
        "[c1:00000] *** An error occurred in MPI_Recv\n[c1:00000] *** reported by process [1270939649,1]\n"
        "[c1:00000] *** on communicator MPI_COMM_WORLD\n[c1:00000] *** MPI_ERR_TRUNCATE: message truncated\n"
        "[c1:00000] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\n"
    )
    answer = told(failed(text, 15))
    assert any("MPI_ERR_TRUNCATE: message truncated" in cite.text for cite in answer.evidence)


@pytest.mark.parametrize("echo", [BROKEN_PIPE, RESET, CHILD], ids=["pipe", "reset", "child"])
@pytest.mark.parametrize("first", [True, False])
def test_an_echo_never_outdoes_another_exception(echo: str, first: bool) -> None:
    answer = told(failed(echo + VALUE_ERROR if first else VALUE_ERROR + echo))
    assert "ValueError: flux is negative, at /home/user1/reader.py line 12" in answer.summary


@pytest.mark.parametrize(
    "line",
    [
        "PASSED tests/test_fit.py::test_r[Error in fit(d) : no data]",
        "expect_error(fit(d), 'Error in fit(d) : no data')",
        "progress: 40 %, java.lang.StackOverflowError caught and handled",
        "usage: run with --trace to see AddressSanitizer reports",
        "the option -q hides Argument list too long",
        "see the FAQ: FOAM FATAL ERROR",
        "# panic: is never printed in this mode",
        "Node.js v20.19.2 is used for the report",
    ],
)
def test_the_same_words_elsewhere_name_no_error(line: str) -> None:
    answer = told(failed(f"reading input\n{line}\nsolver: stopped at step 9\n", 3))
    assert line[:40] not in answer.summary
