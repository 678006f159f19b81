//! Unified kernel images: systemd's UEFI stub with a kernel, an initramfs and a command line in
//! additional PE sections (UAPI group's specification "Unified Kernel Image").

use std::fmt;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};

use osbuild_abi::slot::EPOCH_SECTION;

use crate::{epoch, pe};

const CODE: u32 = 0x0000_0020;
const READ: u32 = 0x4000_0000;

/// The parts of a UKI, besides the stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The text of the node's os-release.
    pub os_release: &'a str,
    /// The kernel's command line: printable ASCII, without a newline.
    pub command_line: &'a str,
    /// The kernel's release, as `uname -r` prints it.
    pub uname: &'a str,
    /// The security epoch: 0 if the UKI has none.
    pub security_epoch: u32,
    /// The initramfs.
    pub initramfs: &'a [u8],
    /// The kernel, which is a PE image itself. Read back, it may end with up to 64 KiB of zeros,
    /// the padding of the file.
    pub kernel: &'a [u8],
}

/// Why a UKI was not made or not read.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// The stub cannot take the sections.
    Stub(pe::Error),
    /// The kernel is not a PE image.
    Kernel(pe::Error),
    /// The UKI is not a PE image.
    Image(pe::Error),
    /// Stub and kernel are for different machines.
    Machine {
        /// The stub's machine.
        stub: u16,
        /// The kernel's machine.
        kernel: u16,
    },
    /// This section is missing or empty.
    Missing(&'static str),
    /// The text of this section has invalid characters.
    Text(&'static str),
}

/// Makes a UKI for the machine of `stub`.
pub fn build(stub: &[u8], parts: &Parts) -> Result<Vec<u8>, Error> {
    let frame = Frame::new(stub, parts, parts.initramfs.len() as u64)?;
    let mut uki = Cursor::new(Vec::with_capacity(frame.length() as usize));
    frame.write(parts.initramfs, &mut uki).expect("memory takes every write");
    Ok(uki.into_inner())
}

/// A UKI without its initramfs, which may be too large for memory.
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    extended: pe::Extended,
    /// The contents of the sections before the initramfs, in order.
    texts: [String; 4],
    kernel: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Makes a UKI for the machine of `stub`, with an initramfs of `initramfs_size` bytes. The
    /// initramfs of `parts` is ignored.
    ///
    /// # Errors
    /// The kernel is for another machine, a part is missing, or the stub cannot take the sections.
    pub fn new(stub: &[u8], parts: &Parts<'a>, initramfs_size: u64) -> Result<Self, Error> {
        let machine = pe::Image::parse(stub).map_err(Error::Stub)?.machine;
        let kernel = pe::Image::parse(parts.kernel).map_err(Error::Kernel)?;
        if kernel.machine != machine {
            return Err(Error::Machine { stub: machine, kernel: kernel.machine });
        }
        for (name, text) in [(".cmdline", parts.command_line), (".uname", parts.uname)] {
            if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                return Err(Error::Text(name));
            }
        }
        let texts = [
            parts.os_release.to_owned(),
            parts.command_line.to_owned(),
            parts.uname.to_owned(),
            epoch::text(parts.security_epoch),
        ];
        let section = |name, size| pe::Addition {
            name,
            size,
            virtual_size: 0,
            characteristics: pe::READ_ONLY_DATA,
        };
        let size = |text: &String| text.len() as u64;
        // The kernel is last and has its full memory size, so that the stub can start it in place.
        let linux = section(".linux", parts.kernel.len() as u64);
        let linux = pe::Addition {
            virtual_size: kernel.size_of_image,
            characteristics: CODE | READ,
            ..linux
        };
        let sections = [
            section(".osrel", size(&texts[0])),
            section(".cmdline", size(&texts[1])),
            section(".uname", size(&texts[2])),
            section(EPOCH_SECTION, size(&texts[3])),
            section(".initrd", initramfs_size),
            linux,
        ];
        for name in NAMES {
            if sections.iter().any(|section| section.name == name && section.size == 0) {
                return Err(Error::Missing(name));
            }
        }
        Ok(Frame {
            extended: pe::extend(stub, &sections).map_err(Error::Stub)?,
            texts,
            kernel: parts.kernel,
        })
    }

    /// Bytes of the whole UKI.
    pub fn length(&self) -> u64 {
        self.extended.length
    }

    /// Writes the UKI from the start of `out`, which is empty, and copies the initramfs without
    /// holding it in memory.
    ///
    /// # Errors
    /// `initramfs` has fewer bytes than announced, or reading or writing fails.
    pub fn write<W: Write + Seek>(&self, mut initramfs: impl Read, out: &mut W) -> io::Result<()> {
        let pe::Extended { head, places, length, checksum } = &self.extended;
        let mut summed = Summed { inner: &mut *out, sum: pe::Checksum::default(), length: 0 };
        summed.write_all(head)?;
        let [before @ .., initrd, linux] = &places[..] else {
            unreachable!("there are six sections")
        };
        for (text, place) in self.texts.iter().zip(before) {
            summed.pad(place.start)?;
            summed.write_all(text.as_bytes())?;
        }
        summed.pad(initrd.start)?;
        let size = initrd.end - initrd.start;
        if io::copy(&mut initramfs.by_ref().take(size), &mut summed)? != size {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the initramfs ended early"));
        }
        summed.pad(linux.start)?;
        summed.write_all(self.kernel)?;
        summed.pad(*length)?;
        let sum = summed.sum.finish();
        out.seek(SeekFrom::Start(*checksum))?;
        out.write_all(&sum.to_le_bytes())
    }
}

/// Computes the checksum of all bytes written through it.
struct Summed<W> {
    inner: W,
    sum: pe::Checksum,
    length: u64,
}

impl<W: Write> Summed<W> {
    /// Writes zeros up to the offset `end`.
    fn pad(&mut self, end: u64) -> io::Result<()> {
        io::copy(&mut io::repeat(0).take(end - self.length), self).map(drop)
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum.push(&bytes[..written]);
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The required sections of a UKI.
const NAMES: [&str; 5] = [".osrel", ".cmdline", ".uname", ".initrd", ".linux"];

/// Reads a UKI that has all five sections.
pub fn read(uki: &[u8]) -> Result<Parts<'_>, Error> {
    let image = pe::Image::parse(uki).map_err(Error::Image)?;
    let [os_release, command_line, uname, initramfs, kernel] =
        NAMES.map(|name| image.section(name).map(pe::Section::data).ok_or(Error::Missing(name)));
    let text = |data, name| std::str::from_utf8(data).map_err(|_| Error::Text(name));
    Ok(Parts {
        os_release: text(os_release?, ".osrel")?,
        command_line: text(command_line?, ".cmdline")?,
        uname: text(uname?, ".uname")?,
        security_epoch: epoch::of(&image)
            .map_err(|epoch::NotANumber| Error::Text(EPOCH_SECTION))?,
        initramfs: initramfs?,
        kernel: kernel?,
    })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stub(_) => write!(f, "the UEFI stub cannot take the sections of a UKI"),
            Self::Kernel(_) => write!(f, "the kernel cannot be started by UEFI"),
            Self::Image(_) => write!(f, "no UKI"),
            Self::Machine { stub, kernel } => {
                write!(f, "the UEFI stub is for machine `{stub:#x}`, the kernel for `{kernel:#x}`")
            }
            Self::Missing(name) => write!(f, "section `{name}` of the UKI is missing or empty"),
            Self::Text(name) => {
                write!(f, "section `{name}` of the UKI has characters that do not belong there")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Stub(error) | Self::Kernel(error) | Self::Image(error) => Some(error),
            _ => None,
        }
    }
}
