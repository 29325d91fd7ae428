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
# out of memory in one rank, time limit, preemption with a grace period, crash of one rank, lost node, exit 137
scenarios='oom_one_of_four_kbe timeout_plain pp_cancel_g8_exit0 segv_rank_of_four_two_nodes node_fail_norequeue exit137'
"$bin/python" -m tests.corpus.load "$corpus" --into "$work/jobs"

last=
for scenario in $scenarios; do
    for job in "$work"/jobs/*-"$scenario"; do
        [ -d "$job" ] || continue
        mkdir -p "$work/output/$scenario"
        say "slurm-triage diagnose --evidence ${job##*/} --record --output-dir output/$scenario"
        "$bin/slurm-triage" diagnose --evidence "$job" --record --output-dir "$work/output/$scenario" >"$work/last.txt"
        head -n 2 "$work/last.txt"
        [ -n "$last" ] || last=$work/output/$scenario
    done
done
[ -n "$last" ] || { echo 'demo: the corpus has none of the chosen jobs' >&2; exit 1; }

say "what the user finds beside the job's output"
ls "$last"
cat "$last"/*.diagnosis.txt

say 'sdiag-history list'
"$bin/sdiag-history" list
