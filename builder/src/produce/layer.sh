# Makes a read-only layer of the node's root from root/. `modes` has a line `MODE PATH` for each
# path whose mode is not the usual one. Large clusters compress better, and with LZ4 the node boots
# fastest (decision 3). Extended attributes are left out (-x-1): those of these files come from the
# host, such as labels of SELinux and inherited access control lists.
mkdir -p root
while read -r mode path; do chmod "$mode" "root$path"; done <modes
find root -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
mkfs.erofs --quiet --all-root -x-1 -T "$SOURCE_DATE_EPOCH" -U "$UUID" -zlz4hc,12 -C65536 \
    layer.erofs root
