#!/bin/sh
# Builds the programs of our own cases: build.sh TARGET. Run on a node of the cluster, whose compilers it uses.
set -eu

cd "$(dirname "$0")"
target=$1
mkdir -p "$target"
gcc -O0 -shared -fPIC -o "$target/libsmooth.so" smooth.c
gcc -O0 -w -pthread -fstack-protector-all -U_FORTIFY_SOURCE -o "$target/relax" relax.c -L"$target" -lsmooth -Wl,-rpath,"$target"
gcc -O0 -o "$target/leak" leak.c
g++ -O1 -g -std=c++17 -o "$target/kinetics" kinetics.cpp
g++ -O1 -g -std=c++17 -fsanitize=address -o "$target/kinetics-asan" kinetics.cpp
gfortran -O0 -g -fcheck=bounds -ffpe-trap=zero,invalid -fbacktrace -o "$target/advect" advect.f90
mpicc.openmpi -O0 -o "$target/ring-openmpi" ring.c
mpicc.mpich -O0 -o "$target/ring-mpich" ring.c
javac -nowarn -d "$target" Assembler.java
cp spectra.py loader.py train.py torchrun.py older_store.py relay.py survey.R orbit.m render.js "$target/"
# Needs a library that is there when it is linked and gone when it runs.
cp "$target/libsmooth.so" "$target/libmesh5.so"
gcc -O0 -w -o "$target/mesher" relax.c -L"$target" -l:libmesh5.so -lsmooth -pthread
rm "$target/libmesh5.so"
printf 'fits\r\n' >"$target/empty.so"
printf '#!/bin/bash\r\necho step\r\nsrun hostname\r\n' >"$target/stage.sh"
printf '#!/bin/bash\necho step\n' >"$target/noexec.sh"
chmod 755 "$target/stage.sh"
chmod 644 "$target/noexec.sh"
