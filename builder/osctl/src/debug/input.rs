//! The user's input, which a thread reads, because stdin blocks.

use std::io::{self, Read};
use tokio::sync::mpsc;

/// The bytes of a message.
const PART: usize = 16 << 10;

/// Begins to read stdin. Nothing comes after its end. The thread goes on until the process ends.
pub fn read() -> mpsc::Receiver<Vec<u8>> {
    let (to, parts) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut buffer = vec![0; PART];
        loop {
            match io::stdin().read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(length @ 1..) if to.blocking_send(buffer[..length].to_vec()).is_ok() => {}
                _ => return,
            }
        }
    });
    parts
}
