//! Devices in folders like those of sysfs.

use super::*;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

/// Devices of PCI, one of them with a disk, in the tree of devices.
const BRIDGE: &str = "devices/pci0000:00/0000:00:1c.0";
const CARD: &str = "devices/pci0000:00/0000:00:1c.0/0000:01:00.0";
const VIRTIO: &str = "devices/pci0000:00/0000:00:02.0";
const STICK: &str = "devices/pci0000:00/0000:00:14.0/usb2/2-1";

struct Sysfs(TempDir);

impl Sysfs {
    fn new() -> Sysfs {
        let sysfs = Sysfs(tempfile::tempdir().unwrap());
        for class in [DISKS, PCI_DEVICES, USB_DEVICES, "bus/virtio/devices"] {
            fs::create_dir_all(sysfs.path(class)).unwrap();
        }
        sysfs
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A device with these files, a driver and a subsystem, unless they are empty.
    fn add(&self, place: &str, subsystem: &str, driver: &str, files: &[(&str, &[u8])]) {
        let folder = self.path(place);
        fs::create_dir_all(&folder).unwrap();
        for (link, name) in [("subsystem", subsystem), ("driver", driver)] {
            if !name.is_empty() {
                symlink(self.path("bus").join(name), folder.join(link)).unwrap();
            }
        }
        for (file, bytes) in files {
            fs::create_dir_all(folder.join(file).parent().unwrap()).unwrap();
            fs::write(folder.join(file), bytes).unwrap();
        }
        let class = match subsystem {
            "block" => DISKS.to_owned(),
            bus => format!("bus/{bus}/devices"),
        };
        let link = self.path(&class).join(folder.file_name().unwrap());
        symlink(&folder, link).unwrap();
    }

    fn add_pci(&self, place: &str, driver: &str, class: &str) {
        let files: [(&str, &[u8]); 4] = [
            ("class", class.as_bytes()),
            ("vendor", b"0x10DE\n"),
            ("device", b"0x2235\n"),
            ("modalias", b"pci:v000010DEd00002235\n"),
        ];
        self.add(place, "pci", driver, &files);
    }

    fn rows(&self) -> std::collections::BTreeMap<String, DeviceInfoSpec> {
        read(self.0.path()).unwrap().into_specs()
    }
}

#[test]
fn a_card_without_a_driver_is_shown_with_its_numbers() {
    let sysfs = Sysfs::new();
    sysfs.add_pci(BRIDGE, "pcieport", "0x060400\n");
    sysfs.add_pci(CARD, "", "0x030200\n");
    let expected = DeviceInfoSpec {
        kind: "pci".into(),
        class: "display".into(),
        class_id: "030200".into(),
        vendor_id: "10de".into(),
        product_id: "2235".into(),
        modalias: "pci:v000010DEd00002235".into(),
        parent: "pci/0000:00:1c.0".into(),
        ..DeviceInfoSpec::default()
    };
    assert_eq!(sysfs.rows()["pci/0000:01:00.0"], expected);
    assert_eq!(sysfs.rows()["pci/0000:00:1c.0"].drivers, ["pcieport"]);
    symlink(sysfs.path("bus/pci/drivers/nouveau"), sysfs.path(CARD).join("driver")).unwrap();
    assert_eq!(sysfs.rows()["pci/0000:01:00.0"].drivers, ["nouveau"]);
    fs::remove_file(sysfs.path(PCI_DEVICES).join("0000:01:00.0")).unwrap();
    assert_eq!(sysfs.rows().into_keys().collect::<Vec<_>>(), ["pci/0000:00:1c.0"]);
}

#[test]
fn a_disk_of_virtio_has_its_serial_number_size_and_driver() {
    let sysfs = Sysfs::new();
    sysfs.add_pci(VIRTIO, "virtio-pci", "0x010000\n");
    let virtio = format!("{VIRTIO}/virtio1");
    sysfs.add(&virtio, "virtio", "virtio_blk", &[("vendor", b"0x1af4\n")]);
    let disk = format!("{virtio}/block/vda");
    let files: [(&str, &[u8]); 4] = [
        ("serial", b"volume-1"),
        ("size", b"41943040\n"),
        ("ro", b"0\n"),
        ("queue/rotational", b"1\n"),
    ];
    sysfs.add(&disk, "block", "", &files);
    symlink(sysfs.path(&virtio), sysfs.path(&disk).join("device")).unwrap();
    let expected = DeviceInfoSpec {
        kind: "disk".into(),
        serial: "volume-1".into(),
        bytes: 20 << 30,
        transport: "virtio".into(),
        drivers: vec!["virtio_blk".into()],
        rotational: true,
        parent: "pci/0000:00:02.0".into(),
        ..DeviceInfoSpec::default()
    };
    assert_eq!(sysfs.rows()["disk/vda"], expected);
}

#[test]
fn a_stick_is_a_device_of_usb_and_a_disk_of_it() {
    let sysfs = Sysfs::new();
    let files: [(&str, &[u8]); 6] = [
        ("idVendor", b"0951\n"),
        ("idProduct", b"1666\n"),
        ("bDeviceClass", b"00\n"),
        ("manufacturer", "Kingstön\u{202e}\n".as_bytes()),
        ("product", b"DataTraveler\n"),
        ("serial", b"\x1b[2J0019\n"),
    ];
    sysfs.add(STICK, "usb", "usb", &files);
    let interface = format!("{STICK}/2-1:1.0");
    let files: [(&str, &[u8]); 3] = [
        ("bInterfaceNumber", b"00\n"),
        ("bInterfaceClass", b"08\n"),
        ("modalias", b"usb:v0951p1666\n"),
    ];
    sysfs.add(&interface, "usb", "usb-storage", &files);
    let unit = format!("{interface}/host6/target6:0:0/6:0:0:0");
    fs::create_dir_all(sysfs.path("bus/scsi/devices")).unwrap();
    let files: [(&str, &[u8]); 3] = [
        ("vendor", b"Kingston\n"),
        ("model", b"DataTraveler 3.0\n"),
        ("vpd_pg80", b"\x00\x80\x00\x04A17 "),
    ];
    sysfs.add(&unit, "scsi", "sd", &files);
    let disk = format!("{unit}/block/sda");
    sysfs.add(&disk, "block", "", &[("removable", b"1\n"), ("size", b"2\n")]);
    symlink(sysfs.path(&unit), sysfs.path(&disk).join("device")).unwrap();
    let rows = sysfs.rows();
    assert_eq!(rows.keys().collect::<Vec<_>>(), ["disk/sda", "usb/2-1"]);
    let stick = &rows["usb/2-1"];
    assert_eq!((stick.class.as_str(), stick.class_id.as_str()), ("storage", "08"));
    assert_eq!((stick.vendor_id.as_str(), stick.product_id.as_str()), ("0951", "1666"));
    assert_eq!(stick.drivers, ["usb-storage"]);
    assert_eq!(stick.vendor, "Kingst\\xc3\\xb6n\\xe2\\x80\\xae");
    assert_eq!(stick.serial, "\\x1b[2J0019");
    let DeviceInfoSpec { serial, transport, parent, drivers, vendor, .. } = &rows["disk/sda"];
    let texts = [serial, transport, parent, vendor].map(String::as_str);
    assert_eq!((texts, rows["disk/sda"].removable), (["A17", "usb", "usb/2-1", "Kingston"], true));
    assert_eq!(drivers, &["sd"]);
}

#[test]
fn what_software_has_made_is_not_hardware() {
    let sysfs = Sysfs::new();
    for disk in ["loop0", "zram0", "dm-0"] {
        sysfs.add(&format!("devices/virtual/block/{disk}"), "block", "", &[("size", b"8\n")]);
    }
    let hidden = "devices/pci0000:00/0000:00:04.0/nvme/nvme0/nvme0c0n1";
    sysfs.add(hidden, "block", "", &[("hidden", b"1\n")]);
    let shown = "devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1";
    sysfs.add(shown, "block", "", &[("wwid", b"eui.0025385b71b0a2e1\n")]);
    let rows = sysfs.rows();
    assert_eq!(rows.keys().collect::<Vec<_>>(), ["disk/nvme0n1"]);
    assert_eq!(rows["disk/nvme0n1"].wwid, "eui.0025385b71b0a2e1");
    assert_eq!(rows["disk/nvme0n1"].transport, "nvme");
}

#[test]
fn the_machine_is_what_its_firmware_says() {
    let sysfs = Sysfs::new();
    fs::create_dir_all(sysfs.path(FIRMWARE)).unwrap();
    assert!(sysfs.rows().is_empty());
    for (file, text) in [
        ("sys_vendor", "QEMU\n"),
        ("product_name", "Standard PC (Q35 + ICH9, 2009)\n"),
        ("product_serial", "R9\n"),
        ("bios_vendor", "EDK II\n"),
        ("bios_date", "02/02/2022\n"),
    ] {
        fs::write(sysfs.path(FIRMWARE).join(file), text).unwrap();
    }
    let machine = &sysfs.rows()[MACHINE_ID];
    assert_eq!((machine.vendor.as_str(), machine.serial.as_str()), ("QEMU", "R9"));
    assert_eq!(
        (machine.kind.as_str(), machine.firmware.as_str()),
        ("machine", "EDK II 02/02/2022")
    );
}

#[test]
fn devices_beyond_the_limit_are_counted_and_the_machine_and_disks_stay() {
    let sysfs = Sysfs::new();
    fs::create_dir_all(sysfs.path(FIRMWARE)).unwrap();
    fs::write(sysfs.path(FIRMWARE).join("sys_vendor"), "QEMU").unwrap();
    sysfs.add("devices/platform/soc/mmc_host/mmc0/mmc0:0001/block/mmcblk0", "block", "", &[]);
    for number in 0..TYPE.max_count {
        sysfs.add_pci(&format!("devices/pci0000:00/0000:{number:02x}:00.0"), "", "0x020000\n");
    }
    let rows = read(sysfs.0.path()).unwrap();
    assert_eq!(rows.left_out, 2);
    let specs = rows.into_specs();
    assert!(specs.contains_key(MACHINE_ID) && specs["disk/mmcblk0"].transport == "mmc");
}

#[test]
fn a_machine_without_the_file_system_has_an_error() {
    let empty = tempfile::tempdir().unwrap();
    assert!(read(empty.path()).unwrap_err().ends_with("shows no devices"));
}

/// As far as this machine has any.
#[test]
fn the_disks_of_this_machine_have_the_sizes_that_the_kernel_lists() {
    let Ok(rows) = read(Path::new(SYSFS)) else { return };
    let lists = fs::read_to_string("/proc/partitions").unwrap();
    for (id, spec) in rows.into_specs() {
        let Some(name) = id.strip_prefix("disk/") else { continue };
        let line = lists.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let found = line.into_iter().find(|words| words.get(3) == Some(&name));
        // A drive without a medium is not in the list.
        if let Some(words) = found {
            assert_eq!(spec.bytes / 1024, words[2].parse::<u64>().unwrap(), "{id}");
        }
    }
}
