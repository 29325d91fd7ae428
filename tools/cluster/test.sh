#!/bin/sh
# Runs the scenarios of tests/cluster on the mini cluster, which is started if it does not run: test.sh [options]
set -eu

cd "$(dirname "$0")/../.."
tools/cluster/cluster.sh up
# Not just `import docker`: the folder docker/ of the checkout would do for that.
.venv/bin/python -c 'import docker.errors' 2>/dev/null ||
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --retries 5 --editable '.[cluster]'
exec .venv/bin/python -m tests.cluster.run "$@"
