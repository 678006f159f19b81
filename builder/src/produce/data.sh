# Makes DATA: an empty ext4 that the first boot grows to the disk. The parameters that cannot be
# changed later suit terabytes and sectors of 4096 bytes: 4 KiB blocks, 64-bit block numbers, room
# to grow online to 8 TiB, a journal of 64 MiB, and one inode for each 16 KiB, which is the default
# for large disks (mke2fs gives a small one four times as many). The checksums have a seed, so that
# they do not depend on the UUID, which the first boot changes.
truncate -s "${SIZE_MIB}M" data.ext4
export E2FSPROGS_FAKE_TIME="$SOURCE_DATE_EPOCH"
mke2fs -q -t ext4 -L "$LABEL" -U "$UUID" -b 4096 -I 256 -i 16384 -J size=64 -m 1 -M /data -O 64bit,metadata_csum,metadata_csum_seed,^orphan_file \
    -E "hash_seed=$UUID,root_owner=0:0,nodiscard,lazy_itable_init=0,lazy_journal_init=0,resize=2147483648" data.ext4
