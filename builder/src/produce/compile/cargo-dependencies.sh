# Compiles the dependencies of a package of this workspace. In workspace/ the sources of our own
# packages are empty.
. /build/source.sh
build
# Remove the results of our own empty packages: cargo would take them for up to date.
for ours in $OURS; do
    find target \( -name "$ours-*" -o -name "lib$ours-*" -o -name "$(echo "$ours" | tr - _)-*" -o -name "lib$(echo "$ours" | tr - _)-*" \) -prune -exec rm -rf {} +
done
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf dependencies.tar target
