//! Other projects' programs read the image that the VMs boot: each format that we write has an
//! independent reader.

use crate::check::{Outcome, unmet};
use crate::image::{RECIPE, certificate};
use crate::site::{Ran, Site};
use osbuild::engine::digest::Digest;
use osbuild::error::{Context, Error, Problem, Result};
use osbuild::ship::audit::inspect::{Inspection, inspect};
use osbuild_abi::slot::HEADER_SIZE;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The products of a build, and a folder for extracted files.
struct Products<'a> {
    site: &'a Site<'a>,
    out: PathBuf,
    folder: TempDir,
    image: Inspection,
}

/// The boot program, extracted from the ESP.
const LOADER: &str = "loader.efi";

/// A claim's name, and its check.
type Claim = (&'static str, fn(&Products) -> Result<()>);

const CLAIMS: &[Claim] = &[
    ("sgdisk finds no problem in the partition table", partition_table),
    ("fsck.fat finds no problem in the ESP, and mtools an EFI application in it", system_partition),
    ("cgpt reads the state of the slots, and dd the UKI in the first one", slots),
    ("e2fsck finds no problem in DATA", data),
    ("objcopy finds the initramfs in the UKI", uki),
    ("sbverify finds a good signature in the UKI and in the boot program", signature),
    ("openssl finds a good signature beside the initramfs", signature_beside),
    ("cpio unpacks the initramfs, and fsck.erofs finds no problem in a layer", initramfs),
    ("skopeo finds every pod's image in the layout", images),
];

/// Independent programs read every product of a build.
pub fn others_read_what_we_write(site: &Site) -> Result<Outcome> {
    let out = site.project().join("out").join(RECIPE);
    let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let image = inspect(&out.join("image.raw"))?;
    let products = Products { site, out, folder, image };
    let mut outcome = Outcome::default();
    for (name, claim) in CLAIMS {
        match claim(&products) {
            Ok(()) => outcome.passed += 1,
            Err(error) => outcome
                .problems
                .extend(error.problems.into_iter().map(|problem| of_claim(name, problem))),
        }
    }
    Ok(outcome)
}

/// The problem of a claim, with the reader's problem as its cause.
fn of_claim(name: &str, problem: Problem) -> Problem {
    let why = problem.message.clone();
    Problem { message: unmet(name).message, ..problem }.cause(why)
}

impl Products<'_> {
    fn run(&self, program: &str, arguments: &[&str]) -> Result<Ran> {
        self.site.finish(
            "readers",
            Command::new(program).args(arguments).current_dir(self.folder.path()),
        )
    }

    fn path(&self, name: &str) -> String {
        self.out.join(name).display().to_string()
    }

    /// Offset and size of a partition in bytes.
    fn partition(&self, purpose: &str) -> Result<(u64, u64)> {
        let mut partitions = self.image.disk.iter().flat_map(|disk| &disk.partitions);
        let found = partitions.find(|partition| partition.purpose == purpose);
        let found = found
            .ok_or_else(|| Error::build(format!("the image has no partition for {purpose}")))?;
        Ok((found.start, found.size))
    }
}

fn partition_table(products: &Products) -> Result<()> {
    let ran = products.run("sgdisk", &["--verify", &products.path("image.raw")])?;
    if ran.output.contains("No problems found") {
        Ok(())
    } else {
        Err(ran.failure("sgdisk reports problems"))
    }
}

fn system_partition(products: &Products) -> Result<()> {
    loader(products)?;
    products.run("fsck.fat", &["-n", "esp"])?;
    let ran = products.run("objdump", &["--private-headers", LOADER])?;
    if ran.output.contains("(EFI application)") {
        Ok(())
    } else {
        Err(ran.failure("objdump finds no EFI application"))
    }
}

/// Extracts the boot program from the ESP with `mcopy`.
fn loader(products: &Products) -> Result<()> {
    let (start, size) = products.partition("esp")?;
    let volume = products.folder.path().join("esp");
    copy_part(Path::new(&products.path("image.raw")), &volume, start, size)?;
    products.run("mcopy", &["-o", "-i", "esp", "::/EFI/BOOT/BOOTX64.EFI", LOADER]).map(drop)
}

fn slots(products: &Products) -> Result<()> {
    for (number, state) in
        [("2", "priority=1 tries=15 successful=0"), ("3", "priority=0 tries=0 successful=0")]
    {
        let ran = products.run("cgpt", &["show", "-i", number, &products.path("image.raw")])?;
        if !ran.output.contains(state) {
            return Err(ran.failure(&format!("cgpt does not find `{state}`")));
        }
    }
    let (start, _) = products.partition("slot")?;
    let uki = products.out.join("node.efi");
    let size = fs::metadata(&uki).or_build(|| "cannot read the UKI".to_owned())?.len();
    let (from, skip) =
        (format!("if={}", products.path("image.raw")), format!("skip={}", start + HEADER_SIZE));
    let flags = ["iflag=skip_bytes,count_bytes", "bs=1M", "status=none", "of=slot.efi"];
    products
        .run("dd", &[&[from.as_str(), &skip, &format!("count={size}")][..], &flags[..]].concat())?;
    same(&products.folder.path().join("slot.efi"), &uki)
}

fn data(products: &Products) -> Result<()> {
    let (start, _) = products.partition("data")?;
    products
        .run("e2fsck", &["-f", "-n", &format!("{}?offset={start}", products.path("image.raw"))])
        .map(drop)
}

fn uki(products: &Products) -> Result<()> {
    products.run(
        "objcopy",
        &["--dump-section", ".initrd=initrd", &products.path("node.efi"), "copy.efi"],
    )?;
    same(&products.folder.path().join("initrd"), &products.out.join("initramfs.cpio"))
}

fn signature(products: &Products) -> Result<()> {
    let certificate = certificate(products.site).display().to_string();
    loader(products)?;
    for program in [&products.path("node.efi"), LOADER] {
        products.run("sbverify", &["--cert", &certificate, program])?;
    }
    Ok(())
}

fn signature_beside(products: &Products) -> Result<()> {
    let (certificate, signed) =
        (certificate(products.site).display().to_string(), products.path("initramfs.cpio"));
    let words =
        ["cms", "-verify", "-binary", "-purpose", "any", "-inform", "DER", "-out", "/dev/null"];
    let files = ["-CAfile", &certificate, "-content", &signed, "-in", &format!("{signed}.sig")];
    products.run("openssl", &[&words[..], &files].concat()).map(drop)
}

fn initramfs(products: &Products) -> Result<()> {
    let archive = products.path("initramfs.cpio");
    products.run(
        "cpio",
        &["--extract", "--make-directories", "--quiet", "--file", &archive, "layers/*"],
    )?;
    for layer in layers(products)? {
        products
            .run("fsck.erofs", &["--extract=root", "--overwrite", "--no-preserve-owner", &layer])?;
    }
    Ok(())
}

fn layers(products: &Products) -> Result<Vec<String>> {
    let cannot = || "cpio has unpacked no layers".to_owned();
    let entries = fs::read_dir(products.folder.path().join("layers")).or_build(cannot)?;
    let mut layers: Vec<String> =
        entries.flatten().map(|entry| entry.path().display().to_string()).collect();
    layers.sort();
    if layers.is_empty() { Err(Error::build(cannot())) } else { Ok(layers) }
}

fn images(products: &Products) -> Result<()> {
    let pods = &products.image.root.pods;
    let names = pods.iter().flat_map(|pod| &pod.images);
    let mut count = 0;
    for name in names {
        products.run(
            "skopeo",
            &["inspect", "--raw", &format!("oci:root/usr/share/osbuild/images:{name}")],
        )?;
        count += 1;
    }
    if count == 0 { Err(Error::build("the node has no pod images")) } else { Ok(()) }
}

fn copy_part(from: &Path, to: &Path, start: u64, size: u64) -> Result<()> {
    let cannot = || format!("cannot copy a part of `{}`", from.display());
    let mut from = File::open(from).or_build(cannot)?;
    from.seek(SeekFrom::Start(start)).or_build(cannot)?;
    let mut to = File::create(to).or_build(cannot)?;
    std::io::copy(&mut from.take(size), &mut to).map(drop).or_build(cannot)
}

fn same(one: &Path, other: &Path) -> Result<()> {
    if Digest::of_file(one)? == Digest::of_file(other)? {
        return Ok(());
    }
    Err(Error::build(format!("`{}` differs from `{}`", one.display(), other.display())))
}
