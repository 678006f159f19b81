# Makes the layer with the image that an installer carries. It is not compressed, as nearly all of it is: in chunks, of which those that are zero
# are holes. Read by pieces, zeros that are compressed well would be unpacked anew for each piece.
zstd --quiet --decompress --sparse image.raw.zst -o root/usr/share/osbuild/install/image.raw
find root -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
mkfs.erofs --quiet --all-root -T "$SOURCE_DATE_EPOCH" -U "$UUID" --chunksize=65536 layer.erofs root
