//! An archive in the format that Linux calls `newc`
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

use std::borrow::Cow;
use std::io::{self, Cursor, Write};

use cpio::newc::{self, ModeFileType};
use cpio::{NewcBuilder, NewcReader};

use super::{Entry, Error, Kind};

const TYPE_MASK: u32 = 0o170000;

/// Writes an archive. Directories come first, everything else after them, both sorted by path: the
/// order of `entries` does not matter, and each entry follows its folder. The data of each file
/// start at a multiple of 4 bytes.
///
/// # Errors
/// An entry is invalid in an initramfs or is [`Kind::Sized`], or writing to `out` fails.
pub fn write<W: Write>(entries: &[Entry], out: W) -> Result<W, Error> {
    write_with(entries, out, |_, _| Ok(()))
}

/// Does the same. `give` gets the path of each entry of [`Kind::Sized`], and writes its bytes to
/// the writer that it gets.
///
/// # Errors
/// Those of [`write`]; or `give` wrote more or fewer bytes than the entry's size.
pub fn write_with<W: Write>(
    entries: &[Entry],
    mut out: W,
    mut give: impl FnMut(&str, &mut dyn Write) -> io::Result<()>,
) -> Result<W, Error> {
    for (entry, inode) in sorted(entries)?.into_iter().zip(1..) {
        let builder = NewcBuilder::new(&entry.path[1..]).ino(inode).mode(entry.mode);
        let builder = match entry.kind {
            Kind::Directory => builder.set_mode_file_type(ModeFileType::Directory).nlink(2),
            Kind::File(_) | Kind::Sized(_) => builder.set_mode_file_type(ModeFileType::Regular),
            Kind::Symlink(_) => builder.set_mode_file_type(ModeFileType::Symlink),
            Kind::CharDevice { major, minor } => {
                builder.set_mode_file_type(ModeFileType::Char).rdev_major(major).rdev_minor(minor)
            }
        };
        let mut writer = builder.write(out, entry.size() as u32);
        writer.write_all(entry.data())?;
        if let Kind::Sized(size) = entry.kind {
            let mut exact = Exact { inner: &mut writer, left: size };
            give(&entry.path, &mut exact)?;
            if exact.left > 0 {
                return Err(Error::Truncated(entry.path.clone()));
            }
        }
        out = writer.finish()?;
    }
    Ok(newc::trailer(out)?)
}

/// A writer for an exact number of bytes.
struct Exact<'a, W> {
    inner: &'a mut W,
    left: u64,
}

impl<W: Write> Write for Exact<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the contents of a file are larger than its entry says",
            ));
        }
        let written = self.inner.write(bytes)?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Checks all entries and sorts them into the archive's order.
fn sorted<'a, 'b>(entries: &'b [Entry<'a>]) -> Result<Vec<&'b Entry<'a>>, Error> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by_key(|entry| (entry.kind != Kind::Directory, &*entry.path));
    let folders: Vec<&str> = sorted
        .iter()
        .take_while(|entry| entry.kind == Kind::Directory)
        .map(|entry| &*entry.path)
        .collect();
    let mut paths: Vec<&str> = entries.iter().map(|entry| &*entry.path).collect();
    paths.sort_unstable();
    if let Some(pair) = paths.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::Twice(pair[0].to_owned()));
    }
    for entry in &sorted {
        entry.check()?;
        if !entry.folder().is_empty() && folders.binary_search(&entry.folder()).is_err() {
            return Err(Error::NoFolder(entry.path.clone()));
        }
    }
    Ok(sorted)
}

/// Reads an archive, which may be followed by zeros, and returns its entries in order.
///
/// # Errors
/// It is damaged, has an entry that our initramfs never has, or is followed by other bytes.
pub fn read(bytes: &[u8]) -> Result<Vec<Entry<'_>>, Error> {
    let mut cursor = Cursor::new(bytes);
    let mut entries = Vec::new();
    loop {
        let mut reader = NewcReader::new(cursor)?;
        let start = reader.offset()? as usize;
        let header = reader.entry().clone();
        let size = header.file_size() as usize;
        let data = bytes.get(start..).and_then(|rest| rest.get(..size));
        let data = data.ok_or_else(|| Error::Truncated(header.name().to_owned()))?;
        cursor = reader.skip()?;
        if header.is_trailer() {
            let end = (cursor.position() as usize).min(bytes.len());
            let behind = bytes[end..].iter().position(|byte| *byte != 0);
            return behind.map_or(Ok(entries), |zeros| Err(Error::Behind(end + zeros)));
        }
        entries.extend(entry(&header, data)?);
    }
}

/// Converts a header to an entry; `None` for the root itself, which some tools store.
fn entry<'a>(header: &newc::Entry, data: &'a [u8]) -> Result<Option<Entry<'a>>, Error> {
    let name = header.name().trim_start_matches("./").trim_start_matches('/');
    if name.is_empty() || name == "." {
        return Ok(None);
    }
    let path = format!("/{name}");
    let kind = match header.mode() & TYPE_MASK {
        0o040000 => Kind::Directory,
        0o100000 if header.nlink() < 2 => Kind::File(Cow::Borrowed(data)),
        0o120000 => {
            Kind::Symlink(String::from_utf8(data.to_vec()).map_err(|_| Error::Path(path.clone()))?)
        }
        0o020000 => Kind::CharDevice { major: header.rdev_major(), minor: header.rdev_minor() },
        _ => return Err(Error::Kind { path, mode: header.mode() }),
    };
    let entry = Entry { path, mode: header.mode() & 0o7777, kind };
    entry.check()?;
    Ok(Some(entry))
}
