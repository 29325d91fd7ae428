#!/bin/sh
# Builds the programs that jobs call: build.sh SOURCE TARGET
set -eu

source=$1 target=$2
mkdir -p "$target"
for file in "$source"/*.c; do
    name=$(basename "$file" .c)
    gcc -O0 -g0 -o "$target/$name" "$file"
done
for file in "$source"/*.py; do
    install -m 755 "$file" "$target/"
done
# An x86 program with the machine field of its ELF header set to aarch64 (183): the kernel refuses to run it.
cp "$target/solver" "$target/engine"
printf '\267\000' | dd of="$target/engine" bs=1 seek=18 conv=notrunc status=none
# A file that is no program: no execute bit.
printf 'x = 1\n' >"$target/data.bin"
chmod 644 "$target/data.bin"
