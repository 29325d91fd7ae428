#!/bin/sh
# Sees to it that there is a C compiler with make, for the tests of the SPANK plugin; installs one where root may (Debian).
set -eu

cc --version >/dev/null 2>&1 && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    for pause in 5 15 0; do
        apt-get update -q >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends gcc libc6-dev >&2 && exit 0
        sleep "$pause"
    done
fi
echo 'test: there is no C compiler for the SPANK plugin; on Debian: apt-get install gcc libc6-dev' >&2
exit 1
