# Builds the kernel. Reads source.deb and kernel.config; writes kernel (the image) and release (its version).
mkdir linux
ar p source.deb data.tar.xz | tar -xJO --wildcards './usr/src/linux-source-*.tar.xz' | tar --no-same-owner -xJ --strip-components=1 -C linux
mv kernel.config linux/.config
build() { make -C linux ARCH="$ARCH" CROSS_COMPILE="$CROSS_COMPILE" "$@"; }
build -s olddefconfig
build -j"$(nproc)" "$TARGET"
build -s kernelrelease >release
mv "linux/arch/$ARCH/boot/$TARGET" kernel
