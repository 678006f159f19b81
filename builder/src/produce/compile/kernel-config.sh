# Makes the kernel's configuration: what was asked for over allnoconfig.
# Reads source.deb and asked.config; writes kernel.config, and Kconfig (every Kconfig file in one) to explain what was dropped.
mkdir linux
ar p source.deb data.tar.xz | tar -xJO --wildcards './usr/src/linux-source-*.tar.xz' |
    tar --no-same-owner -xJ --strip-components=1 -C linux --wildcards '*/Kconfig*' '*/Makefile*' '*/scripts/*' '*/include/uapi/*' '*/tools/include/*' '*.tc'
make -s -C linux ARCH="$ARCH" CROSS_COMPILE="$CROSS_COMPILE" KCONFIG_ALLCONFIG=/build/asked.config allnoconfig
mv linux/.config kernel.config
find linux -name 'Kconfig*' | sort | xargs cat >Kconfig
