//! The machine, through the firmware's services.

use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use osbuild_abi::console::{SLOTBOOT_STARTS, SLOTBOOT_TOOK};
use osbuild_abi::slot::{VARIABLE, VENDOR};
use osbuild_formats::gpt::{Geometry, Source, Write};
use osbuild_protocol::BootReport;
use osbuild_slots::{Header, Machine, Slot};
use sha2::{Digest, Sha256};
use uefi::boot::{self, LoadImageSource};
use uefi::runtime::{self, VariableAttributes, VariableVendor};
use uefi::{CStr16, CString16, Guid, Handle, cstr16};

use crate::boot_disk::BootDisk;
use crate::clock::Clock;
use crate::memory::Pages;
use crate::{WATCHDOG, console, floor, print, set_watchdog};

/// The machine, with the times that slotboot's own time does not include.
pub struct Firmware {
    disk: BootDisk,
    clock: Clock,
    hashing: Duration,
    loading: Duration,
    verifies: bool,
}

impl Firmware {
    /// A machine that boots from this disk. `clock` was started with the program.
    pub fn new(disk: BootDisk, clock: Clock) -> Firmware {
        let verifies = is_one(cstr16!("SecureBoot")) && !is_one(cstr16!("SetupMode"));
        Firmware { disk, clock, hashing: Duration::ZERO, loading: Duration::ZERO, verifies }
    }

    fn print_times(&self) {
        let own = self.clock.elapsed().saturating_sub(self.hashing + self.loading);
        let [own, hashing, loading] = [own, self.hashing, self.loading].map(seconds);
        console::line(format_args!(
            "{SLOTBOOT_TOOK}{own} s, to hash {hashing} s, the firmware to load {loading} s"
        ));
    }
}

impl Source for Firmware {
    type Error = uefi::Error;

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> uefi::Result {
        self.disk.read_at(offset, bytes)
    }
}

impl Machine for Firmware {
    type Memory = Pages;
    type Image = Handle;

    fn memory(&mut self, size: usize) -> Option<Pages> {
        Pages::new(size)
    }

    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn write(&mut self, write: &Write) -> uefi::Result {
        self.disk.write(write)
    }

    fn verifies(&self) -> bool {
        self.verifies
    }

    fn sha256(&mut self, bytes: &[u8]) -> [u8; 32] {
        let before = self.clock.elapsed();
        let digest = Sha256::digest(bytes).into();
        self.hashing += self.clock.since(before);
        digest
    }

    fn print(&mut self, line: &str) {
        print(line);
    }

    /// The UKI gets no load options, and finds no file system on its partition.
    fn load(&mut self, slot: &Slot, uki: &[u8]) -> Result<Handle, String> {
        let path = self.disk.path_of(slot)?;
        let before = self.clock.elapsed();
        let source = LoadImageSource::FromBuffer { buffer: uki, file_path: Some(&path) };
        let loaded = boot::load_image(boot::image_handle(), source);
        self.loading += self.clock.since(before);
        loaded.map_err(|error| format!("the firmware refuses it: {}", error.status()))
    }

    fn unload(&mut self, image: Handle) {
        // If this fails, the image only occupies memory.
        let _ = boot::unload_image(image);
    }

    fn floor(&mut self) -> u32 {
        floor::read()
    }

    fn raise_floor(&mut self, epoch: u32) -> Result<(), String> {
        floor::write(epoch)
    }

    fn start(
        &mut self,
        slot: &Slot,
        header: &Header,
        image: Handle,
        report: &BootReport,
    ) -> String {
        if let Err(error) = set_variable(report) {
            print(format_args!("the node will not know its slot: {error}"));
        }
        let (name, version, text) = (slot.name, &header.version, &report.text);
        console::line(format_args!("{SLOTBOOT_STARTS}{name} {version}: {text}"));
        self.print_times();
        set_watchdog(WATCHDOG);
        match boot::start_image(image) {
            Ok(()) => "it returned".to_string(),
            Err(error) => format!("it returned: {}", error.status()),
        }
    }
}

/// Seconds with three decimals.
fn seconds(time: Duration) -> String {
    format!("{}.{:03}", time.as_secs(), time.subsec_millis())
}

/// Leaves the report for `init` in a variable that lasts until the machine is powered off.
fn set_variable(report: &BootReport) -> Result<(), String> {
    let name = CString16::try_from(VARIABLE).map_err(|error| error.to_string())?;
    let vendor = Guid::try_parse(VENDOR).map_err(|error| error.to_string())?;
    // Setting an existing non-volatile variable would keep it non-volatile, and `init` ignores
    // those.
    let _ = runtime::delete_variable(&name, &VariableVendor(vendor));
    let attributes = VariableAttributes::BOOTSERVICE_ACCESS | VariableAttributes::RUNTIME_ACCESS;
    let set = runtime::set_variable(
        &name,
        &VariableVendor(vendor),
        attributes,
        report.to_string().as_bytes(),
    );
    set.map_err(|error| error.to_string())
}

/// Whether a global variable of one byte is 1.
fn is_one(name: &CStr16) -> bool {
    let mut byte = [0];
    let found = runtime::get_variable(name, &VariableVendor::GLOBAL_VARIABLE, &mut byte);
    found.is_ok_and(|(bytes, _)| *bytes == [1])
}
