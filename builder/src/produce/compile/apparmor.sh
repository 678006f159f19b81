# Compiles an AppArmor profile. Reads parser.deb and profile; writes compiled. The package says what kernels of its release
# know, which later ones still accept. Without that file, the parser would ask the kernel of the machine that builds.
mkdir parser
ar p parser.deb data.tar.xz | tar --no-same-owner -xJ -C parser
parser/sbin/apparmor_parser --config-file /dev/null --features-file parser/usr/share/apparmor-features/features \
    --skip-cache --skip-kernel-load --abort-on-error --Werror --ofile compiled profile
test -s compiled
