# Makes the disk "$1" from the archive "$2" of Debian's root and the folder "$3" of more files. The
# working directory has the node's root in `node`, with the same programs.
mkdir root
tar --directory root --extract --file "$2"
for name in containerd containerd-shim-runc-v2 kubelet runc; do
    cp "node/bin/$name" root/usr/local/bin/
done
cp --recursive --no-preserve=ownership "$3/." root/
units=root/etc/systemd/system
mkdir --parents "$units/network-online.target.wants"
ln --symbolic ../containerd.service ../kubelet.service /lib/systemd/system/systemd-networkd.service \
    "$units/multi-user.target.wants/"
ln --symbolic /lib/systemd/system/systemd-networkd-wait-online.service \
    "$units/network-online.target.wants/"

# One EFI program, without a boot loader that would wait.
echo "root=/dev/vda2 ro quiet console=ttyS0 no_timer_check" >command-line
objcopy \
    --add-section .osrel=root/usr/lib/os-release --change-section-vma .osrel=0x20000 \
    --add-section .cmdline=command-line --change-section-vma .cmdline=0x30000 \
    --add-section .linux="$(echo root/boot/vmlinuz-*)" --change-section-vma .linux=0x2000000 \
    --add-section .initrd="$(echo root/boot/initrd.img-*)" --change-section-vma .initrd=0x4000000 \
    /usr/lib/systemd/boot/efi/linuxx64.efi.stub BOOTX64.EFI
truncate --size=126M esp
mkfs.vfat esp
mmd -i esp ::EFI ::EFI/BOOT
mcopy -i esp BOOTX64.EFI ::EFI/BOOT/

mke2fs -q -t ext4 -d root file-system 3960M
truncate --size=4096M "$1"
sfdisk --quiet "$1" <<TABLE
label: gpt
start=1MiB, size=126MiB, type=uefi
start=128MiB, size=3960MiB, type=linux
TABLE
dd if=esp of="$1" bs=1M seek=1 conv=notrunc,sparse
dd if=file-system of="$1" bs=1M seek=128 conv=notrunc,sparse
rm --recursive root esp file-system
