# Unpacks the image that an installer carries, with holes where it is zero. What follows makes a layer of it: the installer reads any part of it
# at once, and the kernel unpacks that.
zstd --quiet --decompress --sparse image.raw.zst -o root/usr/share/osbuild/install/image.raw
