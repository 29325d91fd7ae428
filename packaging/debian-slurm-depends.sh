#!/bin/sh
# Prints the substitution slurm:Depends for the plugin: the packages of exactly the release of Slurm whose headers are in
# the folder INCLUDE (default /usr/include). Nothing where no package owns the headers: then it is the site's to see to.
set -eu

include=${1:-/usr/include}
header=$include/slurm/slurm_version.h
[ -e "$header" ] || header=$include/slurm/slurm.h
number=$(sed -n 's/^#define[[:space:]]*SLURM_VERSION_NUMBER[[:space:]]*\(0x[0-9a-fA-F]*\).*/\1/p' "$header" 2>/dev/null | head -n 1)
if [ -z "$number" ]; then
    echo "slurm-depends: $header names no version of Slurm" >&2
    exit 1
fi
# 0xMMmmuu: 0x180b05 is 24.11.5
major=$((number >> 16 & 255)) minor=$((number >> 8 & 255))
from=$(printf '%d.%02d' "$major" "$minor") below=$(printf '%d.%02d~' "$major" "$((minor + 1))")
case $(dpkg-query -S "$header" 2>/dev/null) in
    *slurm-smd*) package=slurm-smd ;;
    *libslurm-dev*) package=slurm-wlm-basic-plugins ;;
    *)
        echo "slurm-depends: no package owns $header: the plugin for Slurm $from names none" >&2
        echo 'slurm:Depends='
        exit 0
        ;;
esac
echo "slurm:Depends=$package (>= $from), $package (<< $below)"
