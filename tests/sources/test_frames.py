"""The frame in the user's own code and the message below a heading, for the languages that print them."""

from __future__ import annotations

import pytest

from slurm_triage.case import EvidenceFile, Manifest
from slurm_triage.clock import Clock, offset_of
from slurm_triage.model import Sign
from slurm_triage.sources import Context, job_log

CONTEXT = Context(Clock(offset_of("Z")), Manifest())


def signs(text: str, id: str) -> list[Sign]:
    events = job_log.parse(EvidenceFile("job.out", data=text.encode()), CONTEXT)
    return [event for event in events if isinstance(event, Sign) and event.id == id]


def frame(text: str) -> tuple[str, str, str]:
    """File, line and function of the only frame."""
    (found,) = signs(text, "error_frame")
    assert found.cite.text == text.split("\n")[found.cite.line - 1], "the frame's own line is cited"
    return found.fields["file"], found.fields["line"], found.fields.get("function", "")


PYTHON = (
    "Traceback (most recent call last):\n"
    '  File "/home/user1/train.py", line 12, in <module>\n    main()\n'
    '  File "/home/user1/model.py", line 40, in forward\n    x = self.conv(x)\n'
    '  File "/opt/venv/lib/python3.11/site-packages/torch/nn/conv.py", line 9, in forward\n    raise e\n'
    "ValueError: bad shape\n"
)


def test_python_names_the_innermost_frame_of_the_users_code() -> None:
    assert frame(PYTHON) == ("/home/user1/model.py", "40", "forward")
    (found,) = signs(PYTHON, "error_frame")
    assert found.fields["of"] == "8"
    library = PYTHON.replace("/home/user1", "/opt/venv/lib/python3.11/site-packages/x")
    assert signs(library, "error_frame") == []


def test_frames_of_ranks_do_not_mix() -> None:
    text = (
        "[rank0]: Traceback (most recent call last):\n[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "b.py", line 2, in g\n[rank0]:   File "a.py", line 1, in f\n'
        "[rank1]: KeyError: 'b'\n[rank0]: KeyError: 'a'\n"
    )
    assert [(s.fields["rank"], s.fields["file"]) for s in signs(text, "error_frame")] == [("1", "b.py"), ("0", "a.py")]


BELOW = {
    "java": (
        'Exception in thread "main" java.lang.NumberFormatException: For input string: "x"\n'
        "\tat java.base/java.lang.Integer.parseInt(Integer.java:661)\n"
        "\tat java.lang.Integer.parseInt(Integer.java:580)\n"
        "\tat org.reads.Assembler.main(Assembler.java:27)\n",
        ("Assembler.java", "27", "org.reads.Assembler.main"),
    ),
    "node": (
        "TypeError: x is not a function\n    at node:internal/modules/run_main:28:49\n"
        "    at draw (/home/user1/node_modules/d3/d3.js:1:2)\n    at paint (/home/user1/render.js:10:27)\n",
        ("/home/user1/render.js", "10", "paint"),
    ),
    "gfortran": (
        "Fortran runtime error: End of file\n\nError termination. Backtrace:\n#0  0x7f in ???\n#1  0x55 in advect\n"
        "\tat /home/user1/advect.f90:29\n#2  0x55 in main\n\tat /home/user1/advect.f90:3\n",
        ("/home/user1/advect.f90", "29", ""),
    ),
    "go": (
        "panic: runtime error: index out of range [3] with length 3\n\ngoroutine 1 [running]:\nruntime.gopanic(...)\n"
        "\t/usr/local/go/src/runtime/panic.go:884 +0x1d\nmain.main()\n\t/home/user1/sort/main.go:12 +0x1d\n",
        ("/home/user1/sort/main.go", "12", ""),
    ),
    "octave": (
        "error: 'keplerr' undefined\nerror: called from\n    orbit at line 5 column 5\n",
        ("orbit", "5", ""),
    ),
    "matlab": (
        "Error using load\nUnable to read file 'a.mat'.\n\nError in run_fit (line 12)\nx = load('a.mat');\n",
        ("run_fit", "12", ""),
    ),
    "julia": (
        "ERROR: LoadError: UndefVarError: `steps` not defined\nStacktrace:\n [1] getindex\n   @ Base ./array.jl:924\n"
        " [2] run(n::Int64)\n   @ Main ~/sim/run.jl:12\n",
        ("~/sim/run.jl", "12", ""),
    ),
    "ruby": (
        "x.rb:3:in `require': cannot load such file -- foo (LoadError)\n\tfrom /home/user1/y.rb:8:in `<main>'\n",
        ("/home/user1/y.rb", "8", ""),
    ),
    "lua": (
        "lua: grid.lua:14: attempt to index a nil value\nstack traceback:\n\t[C]: in ?\n\tmain.lua:3: in main chunk\n",
        ("main.lua", "3", ""),
    ),
    "asan": (
        "==9==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x50\n"
        "    #0 0x7f in operator new(unsigned long) ../../../../src/libsanitizer/asan/asan_new_delete.cpp:98\n"
        "    #1 0x55 in main /home/user1/kinetics.cpp:33\n",
        ("/home/user1/kinetics.cpp", "33", "main"),
    ),
}


@pytest.mark.parametrize("language", BELOW)
def test_frame_below_the_error(language: str) -> None:
    text, expected = BELOW[language]
    assert frame(text) == expected
    rest = text.split("\n", 1)[1]
    if language not in ("octave", "gfortran"):
        assert signs(rest, "error_frame") == [], "frames without an error are none"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Error in solve.default(crossprod(x),  : \n  Lapack routine dgesv: system is exactly singular\n", "Lapack"),
        ("Error using load\nUnable to read file 'a.mat'. No such file.\n", "Unable to read"),
        ("--> FOAM FATAL ERROR: \nUnknown patchField type wal for field U\n", "Unknown patchField"),
        ("Fatal error:\nThe number of ranks is not compatible with the decomposition\n", "The number of ranks"),
        ("     Error in routine c_bands (1):\n     too many bands are not converged\n", "too many bands"),
        ("thread 'main' panicked at src/main.rs:4:5:\nindex out of bounds: the len is 3\n", "index out of bounds"),
    ],
    ids=["r", "matlab", "openfoam", "gromacs", "espresso", "rust"],
)
def test_message_below_the_heading(text: str, message: str) -> None:
    (found,) = signs(text, "error_message")
    assert found.fields["message"].startswith(message)
    assert (found.fields["of"], found.cite.line) == ("1", 2)


def test_a_message_in_the_line_itself_takes_no_other_one() -> None:
    assert signs("Error in fit(x) : no data\nreading the next file\n", "error_message") == []
    assert signs("Execution halted\nstep 2 starts\n", "error_message") == []


def test_a_flood_of_errors_is_followed_for_a_while_only() -> None:
    flood = "".join(f"panic: {number}\n\t/home/user1/a.go:{number}\n" for number in range(1, 5000))
    assert 0 < len(signs(flood, "error_frame")) <= 2000
