# Unpacks crates/*.crate into a directory source (cargo's source replacement). cargo compares the
# digests with Cargo.lock.
export CARGO_HOME=/build/cargo PATH="/toolchain/rust/bin:$PATH"
mkdir -p vendor cargo crates
find crates -name '*.crate' -exec sha256sum {} + | while read -r digest file; do
    tar --no-same-owner -xzf "$file" -C vendor
    name=${file##*/}
    printf '{"files":{},"package":"%s"}' "$digest" >"vendor/${name%.crate}/.cargo-checksum.json"
done
cat >cargo/config.toml <<END
[source.crates-io]
replace-with = "locked"
[source.locked]
directory = "/build/vendor"
[net]
offline = true
END
# Panic messages contain source paths, which must not name the sandbox.
export RUSTFLAGS="--remap-path-prefix=/build/= --remap-path-prefix=/toolchain/="
build() { cargo build --quiet --offline --profile node --target "$TARGET" --manifest-path workspace/Cargo.toml --target-dir target -p "$PACKAGE"; }
