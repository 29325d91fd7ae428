#!/bin/sh
# Makes .venv ready: tools/venv.sh run|dev
#
# `run` installs slurm-triage with what it needs to run, `dev` also what its tests need. A stamp in .venv holds the
# checksum of pyproject.toml and of the interpreter: while both are the same nothing is done and no network is needed.
# SLURM_TRIAGE_PYTHON names the interpreter (default python3).
set -eu

cd "$(dirname "$0")/.."
python=${SLURM_TRIAGE_PYTHON:-python3}

fail() {
    echo "venv: $*" >&2
    exit 1
}

case "${1:-}" in
    run) package=. ;;
    dev) package='.[dev]' ;;
    *) fail 'usage: tools/venv.sh run|dev' ;;
esac

version=$("$python" -c 'import sys; print(sys.version_info >= (3, 10), sys.version)') ||
    fail "no Python at '$python'; set SLURM_TRIAGE_PYTHON to one of 3.10 or later"
case "$version" in
    True*) ;;
    *) fail "'$python' is too old ($version): 3.10 or later is needed; set SLURM_TRIAGE_PYTHON" ;;
esac

key=$({ cat pyproject.toml; echo "$version"; pwd; } | cksum)
# An environment of another interpreter, or one that was left half made, is made anew.
found=$(.venv/bin/python -c 'import sys; print(True, sys.version)' 2>/dev/null || :)
if [ "$found" = "$version" ]; then
    [ "$(cat .venv/.stamp-dev 2>/dev/null)" = "$key" ] && exit 0
    [ "$1" = run ] && [ "$(cat .venv/.stamp-run 2>/dev/null)" = "$key" ] && exit 0
fi
if [ "$found" != "$version" ] || [ ! -x .venv/bin/pip ]; then
    rm -rf .venv
    "$python" -m venv .venv || {
        rm -rf .venv
        fail "'$python -m venv' failed; on Debian: apt-get install python3-venv"
    }
fi

try=1
until .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --retries 5 --editable "$package"; do
    [ "$try" -lt 3 ] || fail 'pip could not install the packages (3 tries)'
    echo "venv: pip failed, try $((try + 1)) of 3 follows in $((try * 5)) s" >&2
    sleep $((try * 5))
    try=$((try + 1))
done
echo "$key" >".venv/.stamp-$1"
