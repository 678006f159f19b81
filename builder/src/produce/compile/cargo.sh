# Compiles one package of this workspace with the results in dependencies.tar: `cargo.sh PROGRAM …`.
# Writes out/PROGRAM.
. /build/source.sh
tar --no-same-owner -xf dependencies.tar
build
mkdir -p out
for program in "$@"; do cp "target/$TARGET/node/$program" out/; done
