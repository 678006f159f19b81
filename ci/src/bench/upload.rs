//! The time in which `osbuild publish aws` uploads blocks, compared with a minimal client that
//! uploads to the same server in the same run.

use super::Row;
use crate::site::Site;
use osbuild::engine::digest::Digest;
use osbuild::error::{Context, Result};
use osbuild::report::{Color, Report, Verbosity};
use osbuild::ship::aws::{Content, send};
use osbuild_aws::{BLOCK_SIZE, Client, Credentials, RegionalClient, Retry, Service};
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Blocks to upload: as many as two nodes have.
const BLOCKS: usize = 512;

/// How many blocks either client uploads at a time.
const WORKERS: usize = 16;

/// Rounds of each measurement. The fastest counts: other load only makes an upload slower.
const ROUNDS: usize = 5;

/// The memory that the upload may use.
const MEMORY: u64 = 200 << 20;

/// The aim: the share of the minimal client's rate.
const SHARE: f64 = 0.8;

pub fn rows(site: &Site) -> Result<Vec<Row>> {
    let path = site.root.join("out/ci/upload.raw");
    write(&path)?;
    let content = Content::read(&path)?;
    let address = serve()?;
    let (mut ours, mut shortest) = (Duration::MAX, Duration::MAX);
    // 5 resets the peak resident set size of this process (proc(5)).
    fs::write("/proc/self/clear_refs", "5")
        .or_build(|| "cannot reset the peak of memory".into())?;
    for _ in 0..ROUNDS {
        shortest = shortest.min(minimal(&address, &path, &content)?);
        ours = ours.min(upload(&address, &content)?);
    }
    let memory = peak_memory()?;
    fs::remove_file(&path).or_build(|| "cannot remove the uploaded file".into())?;
    Ok(vec![
        Row::time(
            format!("{} MiB uploaded by a minimal client", (BLOCKS * BLOCK_SIZE) >> 20),
            shortest,
        ),
        Row::time("the same by `osbuild publish aws`", ours).below(shortest.div_f64(SHARE)),
        Row::size("peak memory of both", memory).less_than(MEMORY),
    ])
}

/// Writes a disk whose blocks all differ and contain data.
fn write(path: &Path) -> Result<()> {
    let mut block = vec![1; BLOCK_SIZE];
    let file = fs::File::create(path).or_build(|| format!("cannot write `{}`", path.display()))?;
    for index in 0..BLOCKS {
        block[..8].copy_from_slice(&index.to_le_bytes());
        file.write_all_at(&block, (index * BLOCK_SIZE) as u64)
            .or_build(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(())
}

/// Starts a server that accepts every block without a check.
fn serve() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").or_build(|| "cannot listen".into())?;
    let address = listener.local_addr().or_build(|| "cannot listen".into())?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    Ok(address)
}

/// Accepts blocks until the client disconnects.
fn answer(mut stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::with_capacity(64 << 10, stream.try_clone().ok()?);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().ok()?
                }
                None if line.trim_end().is_empty() => break,
                _ => {}
            }
        }
        std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink()).ok()?;
        stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}").ok()?;
    }
}

fn upload(address: &SocketAddr, content: &Content) -> Result<Duration> {
    let retry = Retry::default();
    let secrets = [("AWS_ACCESS_KEY_ID", "bench"), ("AWS_SECRET_ACCESS_KEY", "bench")];
    let secrets: HashMap<_, _> =
        secrets.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let endpoints = vec![(Service::Ebs, format!("http://{address}"))];
    let client = Credentials::from_variables(&retry, secrets)
        .and_then(|credentials| Client::new(credentials, retry, endpoints))
        .or_build(|| "cannot make a client".into())?;
    let here = RegionalClient::new(&client, &"eu-central-1".parse()?);
    let step = Report::new(Verbosity::Quiet, Color::Never).step("upload");
    let began = Instant::now();
    send(&here, "snap-1", content, 0, &step, &|_| Ok(()))?;
    Ok(began.elapsed())
}

/// Uploads the same blocks from the same file in a minimum of steps: read, write, wait for the
/// response. Neither client computes the digests.
fn minimal(address: &SocketAddr, path: &Path, content: &Content) -> Result<Duration> {
    let began = Instant::now();
    let next = AtomicUsize::new(0);
    let work = || -> std::io::Result<()> {
        let (mut stream, file, mut block) =
            (TcpStream::connect(address)?, fs::File::open(path)?, vec![0; BLOCK_SIZE]);
        stream.set_nodelay(true)?;
        while let Some((index, sha256)) = content.blocks.get(next.fetch_add(1, Ordering::Relaxed)) {
            file.read_exact_at(&mut block, u64::from(*index) * BLOCK_SIZE as u64)?;
            let checksum = Digest::new(*sha256, BLOCK_SIZE as u64);
            let path = format!("/snapshots/snap-1/blocks/{index}");
            write!(
                stream,
                "PUT {path} HTTP/1.1\r\nHost: x\r\nx-amz-checksum: {checksum}\r\n\
                 Content-Length: {BLOCK_SIZE}\r\n\r\n"
            )?;
            stream.write_all(&block)?;
            let mut answer = [0; 45];
            stream.read_exact(&mut answer)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })
    .or_build(|| "cannot send blocks".into())?;
    Ok(began.elapsed())
}

/// The peak resident set size of this process since its reset, in bytes.
fn peak_memory() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/status")
        .or_build(|| "cannot read the peak of memory".into())?;
    let kibibytes = text.lines().find_map(|line| {
        line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    Ok(kibibytes.unwrap_or(0) << 10)
}
