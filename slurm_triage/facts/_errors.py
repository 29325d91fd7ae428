"""Families with which languages and large programs name an error that ended them."""

from __future__ import annotations

LANGUAGES = (
    "java_launch", "julia_error", "node_error", "ruby_error", "haskell_error", "lua_error", "tcl_error",
    "sanitizer_report", "argument_list_too_long", "script_error", "build_error",
)  # fmt: skip
"""Of run times, shells and build tools."""

CODES = ("gromacs_error", "lammps_error", "quantum_chemistry_error", "openfoam_error")
"""Of large programs that print a heading of their own."""

NAMED = (*LANGUAGES, *CODES)
