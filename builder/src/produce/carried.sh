# Makes the layer with the image that an installer carries. Nearly all of the image is compressed
# already, so the layer is not: it has chunks, and chunks of zeros are holes. EROFS would decompress
# a long run of compressed zeros once for each small read. Extended attributes are left out, as in
# `layer.sh`.
zstd --quiet --decompress --sparse image.raw.zst -o root/usr/share/osbuild/install/image.raw
find root -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
mkfs.erofs --quiet --all-root -x-1 -T "$SOURCE_DATE_EPOCH" -U "$UUID" --chunksize=65536 \
    layer.erofs root
