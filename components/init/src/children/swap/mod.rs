//! `init swap on SIZE MEMORY-LIMIT` makes swap of the zram device, and `init swap off` removes it.
//! Both may have to move all pages of another swap back into memory, so it is a child.

mod header;

use std::fs::File;
use std::io::Write;
use std::path::Path;

use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_protocol::SwapAmounts;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::host::swap_settings::{DEVICE, Zram};
use crate::sys;

/// Does what the arguments say, and prints a line about it.
pub fn run(arguments: &[&str]) -> Outcome {
    let zram = Zram::default();
    match arguments {
        ["on", size, memory_limit] => {
            let number = |text: &str| text.parse().explain(format_args!("read `{text}`"));
            let (size, memory_limit) = (number(size)?, number(memory_limit)?);
            on(&zram, SwapAmounts { size, memory_limit })?;
            let (size, memory_limit) = (size >> 20, memory_limit >> 20);
            println!("the node has {size} MiB of swap, in at most {memory_limit} MiB of memory");
        }
        ["off"] => {
            off(&zram)?;
            println!("the node has no swap");
        }
        _ => return Err(Failure::new("swap is turned on or off")),
    }
    Ok(())
}

/// Makes swap. One of this size stays, as its limit can be changed while it is used.
fn on(zram: &Zram, amounts: SwapAmounts) -> Outcome {
    let SwapAmounts { size, memory_limit } = amounts;
    if zram.used().is_some() && zram.size()? == size {
        return set(zram, "mem_limit", memory_limit);
    }
    off(zram)?;
    let made = set(zram, "disksize", size)
        .and_then(|()| set(zram, "mem_limit", memory_limit))
        .and_then(|()| write_header(size))
        .and_then(|()| sys::swap_on(DEVICE_PATH).explain("turn the swap on"));
    if made.is_err() {
        let _ = reset(zram);
    }
    made
}

/// Turns the swap off, and frees the memory of its pages.
fn off(zram: &Zram) -> Outcome {
    if zram.used().is_some() {
        let off = sys::swap_off(DEVICE_PATH);
        off.explain("turn the swap off, which moves all of it back into memory")?;
    }
    if zram.size()? == 0 { Ok(()) } else { reset(zram) }
}

/// [`DEVICE`], for the kernel.
const DEVICE_PATH: &std::ffi::CStr = c"/dev/zram0";

fn reset(zram: &Zram) -> Outcome {
    set(zram, "reset", 1)
}

fn set(zram: &Zram, file: &str, value: u64) -> Outcome {
    let path = zram.file(file);
    std::fs::write(&path, value.to_string()).explain(format_args!("set {}", path.display()))
}

fn write_header(size: u64) -> Outcome {
    let what = || format!("write the header of {DEVICE}");
    let mut identifier = [0; 16];
    getrandom(&mut identifier, GetRandomFlags::empty()).explain(what())?;
    let bytes = header::bytes(size, rustix::param::page_size(), identifier);
    let mut device = File::options().write(true).open(Path::new(DEVICE)).explain(what())?;
    device.write_all(&bytes).and_then(|()| device.sync_all()).explain(what())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_has_one_path() {
        assert_eq!(DEVICE_PATH.to_str(), Ok(DEVICE));
    }
}
