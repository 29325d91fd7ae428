#!/bin/sh
# Prints the shell scripts of the project: files whose first line names sh or bash.
set -eu

cd "$(dirname "$0")/.."
find . \( -name .git -o -name .venv -o -name '.*_cache' -o -name build -o -name dist \) -prune -o -type f -print |
    while IFS= read -r file; do
        if head -c 64 "$file" | head -n 1 | grep -aqE '^#! ?(/usr)?/bin/(env )?(ba|da)?sh( |$)'; then
            printf '%s\n' "$file"
        fi
    done
