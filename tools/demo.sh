#!/bin/sh
# A tour in half a minute, on recorded jobs: diagnose, write the user's file, fill a history, query it.
# Works in a temporary folder that is removed at the end; needs .venv (tools/venv.sh run).
set -eu

cd "$(dirname "$0")/.."
bin=$PWD/.venv/bin
work=$(mktemp -d "${TMPDIR:-/tmp}/slurm-triage-demo.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
SDIAG_HISTORY=$work/history.sqlite
export SDIAG_HISTORY

say() { printf '\n==== %s\n' "$*"; }

corpus=recorded-24.11
# out of memory in one rank, time limit, preemption with a grace period, crash of one rank, lost node, exit code 143
jobs='1088-oom_one_of_four_kbe 1025-timeout_plain 1009-pp_cancel_g8_exit0
1064-segv_rank_of_four_two_nodes 1003-node_fail_norequeue 1045-exit143'
# shellcheck disable=SC2086 # a list
"$bin/python" -m tests.corpus.load "$corpus" $jobs --into "$work/jobs"

first=
for job in $jobs; do
    mkdir -p "$work/output/$job"
    say "slurm-triage diagnose --evidence $job --record --output-dir output/$job"
    "$bin/slurm-triage" diagnose --evidence "$work/jobs/$job" --record --output-dir "$work/output/$job" >"$work/said"
    head -n 2 "$work/said"
    first=${first:-$work/output/$job}
done

say "what the user finds beside the job's output"
ls "$first"
cat "$first"/*.diagnosis.txt

say 'sdiag-history list'
"$bin/sdiag-history" list
