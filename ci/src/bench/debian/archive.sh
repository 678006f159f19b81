# Makes the archive "$1" of a minimal Debian 12 with the packages "$2".
mmdebstrap --quiet --variant=minbase --include="$2" bookworm "$1.part.tar"
mv "$1.part.tar" "$1"
