# Makes the kernel's configuration: what was asked for over allnoconfig.
# Reads source.deb and asked.config; writes kernel.config, Kconfig (every Kconfig file in one) to explain what was dropped,
# and objects (each line of a makefile that says which option makes which object).
mkdir linux
ar p source.deb data.tar.xz | tar -xJO --wildcards './usr/src/linux-source-*.tar.xz' |
    tar --no-same-owner -xJ --strip-components=1 -C linux --wildcards '*/Kconfig*' '*/Makefile*' '*/Kbuild' '*/scripts/*' '*/include/uapi/*' '*/tools/include/*' '*.tc'
make -s -C linux ARCH="$ARCH" CROSS_COMPILE="$CROSS_COMPILE" KCONFIG_ALLCONFIG=/build/asked.config allnoconfig
mv linux/.config kernel.config
find linux -name 'Kconfig*' | sort | xargs cat >Kconfig
find linux -name Makefile -o -name Kbuild | sort | xargs cat | sed -e ':join' -e '/\\$/{N; s/\\\n//; t join' -e '}' >joined
sed -n '/^obj-\$(CONFIG_/p' joined >objects
