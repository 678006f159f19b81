# Compiles what a package of this workspace depends on. In workspace/ the sources of our own packages are empty.
. /build/source.sh
build
# Our own packages were only there to be left out: what they left behind would pass for the real thing.
for ours in $OURS; do
    find target \( -name "$ours-*" -o -name "lib$ours-*" -o -name "$(echo "$ours" | tr - _)-*" -o -name "lib$(echo "$ours" | tr - _)-*" \) -prune -exec rm -rf {} +
done
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf dependencies.tar target
