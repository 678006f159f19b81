# Makes a read-only layer of the node's root out of root/. `modes` has a line `MODE PATH` for each path that is not 0644, 0755 or a folder's.
# A big cluster compresses better and is read faster than it is stored; lz4 starts the node soonest (docs/decisions).
mkdir -p root
while read -r mode path; do chmod "$mode" "root$path"; done <modes
find root -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
mkfs.erofs --quiet --all-root -T "$SOURCE_DATE_EPOCH" -U "$UUID" -zlz4hc,12 -C65536 layer.erofs root
