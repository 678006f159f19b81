//! Assembly: layers become an initramfs, that and the kernel a UKI, and that with DATA a disk image. All of it in this process, because it
//! is pure and takes less time than to ask whether it is needed.

use super::digest::Digest;
use super::disk::{OnDisk, remove};
use super::executor::Steps;
use super::image;
use super::inventory::{Inventory, PATH};
use super::out::{BOOT, IMAGE, INITRAMFS, INITRAMFS_SIGNATURE, Out, TO_SIGN, UKI};
use super::sign::{Beside, EfiProgram, Signable, Signed, Signer, to_sign};
use super::stages::{BuiltLayer, CompiledKernel};
use super::store::Store;
use crate::error::{Context, Error, Result, both};
use crate::plan::{Locked, Plan};
use crate::report::{Outcome, Report, bytes};
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_abi::{cmdline, paths};
use osbuild_formats::cpio::{self, Entry};
use osbuild_formats::epoch;
use osbuild_formats::uki::{self, Parts};
use osbuild_slots::Header;
use serde_json::json;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// The console that `init` writes to before it has mounted anything (Documentation/admin-guide/devices.txt).
const CONSOLE: (u32, u32) = (5, 1);

/// What an image is assembled from.
pub struct Assembly<'a> {
    /// What is built.
    pub plan: &'a Plan<Locked>,
    /// What an installer does unless its stick is edited.
    pub settings: Option<Vec<u8>>,
    /// The kernel.
    pub kernel: CompiledKernel,
    /// What the firmware starts.
    pub boot: Digest,
    /// The layers of the root, the lowest first.
    pub layers: Vec<BuiltLayer>,
    /// `init`, which mounts the layers.
    pub init: Digest,
    /// DATA's file system.
    pub data: Digest,
    /// What the image says of itself.
    pub inventory: Inventory,
    /// Who signs what the firmware starts and the UKI; nobody for an unsigned image.
    pub signer: Option<&'a dyn Signer>,
    /// How the steps that made all this came to their results.
    pub steps: Steps,
}

/// What a build left.
#[derive(Clone, Debug)]
pub struct Built {
    /// The disk image.
    pub image: PathBuf,
    /// The UKI.
    pub uki: PathBuf,
    /// The initramfs.
    pub initramfs: PathBuf,
    /// The signature of the initramfs; none when nobody signed.
    pub initramfs_signature: Option<PathBuf>,
    /// The folder with what has to be signed; none when somebody did.
    pub to_sign: Option<PathBuf>,
    /// Whether all of it was there already.
    pub was_current: bool,
    /// How its steps came to their results.
    pub steps: Steps,
}

/// What the firmware verifies.
struct Programs {
    /// What it starts.
    boot: EfiProgram,
    /// What that starts.
    uki: EfiProgram,
}

impl Assembly<'_> {
    /// Writes the image and its parts into `out`, unless they are there already.
    ///
    /// # Errors
    /// The UKI is too big for its slot, which is told before anything is written, or the disk is full.
    pub fn write(&self, store: &Store, report: &Report, out: &Out) -> Result<Built> {
        let key = self.key()?;
        let _alone = out.lock(store)?;
        let [image, uki, initramfs] = [IMAGE, UKI, INITRAMFS].map(|name| out.path(name));
        let was_current = out.is_current(&key);
        if !was_current {
            let packed = self.initramfs(store, report)?;
            let programs = Programs { boot: EfiProgram(self.boot(store)?), uki: EfiProgram(self.uki(store, &packed)?) };
            let (Programs { boot, uki: unified }, beside) = self.signed(programs, Beside::of(&packed), report)?;
            self.check_size(unified.0.len() as u64)?;
            out.begin()?;
            replace(&initramfs, report, "initramfs", |file| file.write_all(&packed).at("write", &initramfs))?;
            let mut written = self.leave(&[(BOOT, &boot), (UKI, &unified), (INITRAMFS, &beside)], &beside, out)?;
            drop(packed);
            replace(&uki, report, "uki", |file| file.write_all(&unified.0).at("write", &uki))?;
            let (header, data) = (self.header(&unified.0)?, store.path(&self.data)?);
            let settings = self.settings.as_deref();
            let disk = image::Contents { plan: self.plan, settings, boot: &boot.0, header: &header, uki: &unified.0, data };
            replace(&image, report, "image", |file| disk.write(file.get_mut(), &image))?;
            written.extend([image.clone(), uki.clone(), initramfs.clone()]);
            out.finish(&key, &written)?;
        }
        let [initramfs_signature, to_sign] = [(INITRAMFS_SIGNATURE, self.signer.is_some()), (TO_SIGN, self.signer.is_none())]
            .map(|(name, is_there)| is_there.then(|| out.path(name)));
        Ok(Built { image, uki, initramfs, initramfs_signature, to_sign, was_current, steps: self.steps.clone() })
    }

    /// The digest of all that decides about the bytes, this program among it. What goes into [`Parts`], [`Header`] and [`image::Contents`] stands
    /// here by name: a value that reaches the bytes and is not hashed here leaves an old image in place.
    fn key(&self) -> Result<Digest> {
        let (plan, board) = (self.plan, &self.plan.board);
        let layers: Vec<_> = self.layers.iter().map(|layer| json!([layer.name, layer.image.hex()])).collect();
        let decides = json!({
            "program": Digest::of_file(std::path::Path::new("/proc/self/exe"))?.hex(),
            "architecture": plan.architecture.name(),
            "stub": plan.lock.get().stub.sha256,
            "os-release": self.os_release(),
            "command-line": self.command_line(),
            "uname": self.kernel.release,
            "security-epoch": plan.security_epoch,
            "kernel": self.kernel.image.hex(),
            "init": self.init.hex(),
            "layers": layers,
            "inventory": self.inventory,
            "slot-version": plan.version,
            "slotboot": self.boot.hex(),
            "settings": self.settings.as_ref().map(|settings| Digest::of(settings).hex()),
            "data": self.data.hex(),
            "sector-size": board.sector_size,
            "esp-size-mib": board.esp_size_mib,
            "slot-size-mib": board.slot_size_mib,
            "data-size-mib": board.data_size_mib,
            "signer": self.signer.map(|signer| signer.certificate().fingerprint()),
        });
        Ok(Digest::of(decides.to_string().as_bytes()))
    }

    /// What the UKI says of itself to boot loaders and to people.
    fn os_release(&self) -> String {
        format!("ID=osbuild\nPRETTY_NAME=\"osbuild {}\"\nVERSION_ID={}\n", self.plan.recipe, self.plan.version)
    }

    fn inventory(&self) -> String {
        serde_json::to_string_pretty(&self.inventory).expect("an inventory always serializes")
    }

    /// The kernel's command line: the board's and the recipe's words, and what `init` must know.
    fn command_line(&self) -> String {
        let plan = self.plan;
        let ours = [
            format!("{}={}", cmdline::EPOCH, plan.lock.get().epoch),
            format!("{}={}", cmdline::MIN_RAM_MIB, plan.board.min_ram_mib),
            format!("{}={}", cmdline::GATE_HOLD, plan.board.gate_hold_s),
            format!("{}={}", cmdline::GATE_DEADLINE, plan.board.gate_deadline_s),
            format!("{}={}", cmdline::WATCHDOG, plan.board.watchdog_s),
        ];
        let in_memory = plan.installs.iter().map(|_| format!("{}={}", cmdline::DATA, cmdline::IN_MEMORY));
        plan.kernel.command_line.iter().cloned().chain(ours).chain(in_memory).collect::<Vec<_>>().join(" ")
    }

    fn initramfs(&self, store: &Store, report: &Report) -> Result<Vec<u8>> {
        let step = report.step("initramfs");
        let mut entries = vec![
            Entry::directory("/dev", 0o755),
            Entry::char_device("/dev/console", 0o600, CONSOLE.0, CONSOLE.1),
            Entry::file(paths::EARLY_INIT, 0o755, store.read(&self.init)?),
            Entry::file(&format!("/{PATH}"), 0o444, self.inventory().into_bytes()),
            Entry::directory(paths::LAYERS, 0o755),
        ];
        for (index, layer) in self.layers.iter().enumerate() {
            step.doing(layer.name.clone());
            entries.push(Entry::file(
                &format!("{}/{index:02}-{}.erofs", paths::LAYERS, layer.name),
                0o444,
                store.read(&layer.image)?,
            ));
        }
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        cpio::write(&entries, Vec::new()).or_build(|| "cannot pack the initramfs".into())
    }

    fn uki(&self, store: &Store, initramfs: &[u8]) -> Result<Vec<u8>> {
        let (plan, lock) = (self.plan, self.plan.lock.get());
        let stub = super::root::from_package(
            store,
            &lock.stub,
            &format!("usr/lib/systemd/boot/efi/linux{}.efi.stub", plan.architecture.efi()),
        )?;
        let parts = Parts {
            os_release: &self.os_release(),
            command_line: &self.command_line(),
            uname: &self.kernel.release,
            security_epoch: plan.security_epoch,
            initramfs,
            kernel: &store.read(&self.kernel.image)?,
        };
        uki::build(&stub, &parts).or_build(|| "cannot make the UKI".into())
    }

    /// slotboot, which says its security epoch: a node replaces it by no older one.
    fn boot(&self, store: &Store) -> Result<Vec<u8>> {
        epoch::stamp(&store.read(&self.boot)?, self.plan.security_epoch).or_build(|| format!("cannot make `{BOOT}`"))
    }

    /// What stands before the UKI in a slot. It is made of the UKI as it goes into the slot, with its signature.
    fn header(&self, uki: &[u8]) -> Result<Vec<u8>> {
        let header = Header { length: uki.len() as u64, sha256: *Digest::of(uki).hash(), version: self.plan.version.clone() };
        header.encode().or_build(|| "cannot make the header of a slot".into())
    }

    /// The same with signatures, if somebody signs.
    fn signed<'a>(&self, programs: Programs, initramfs: Beside<'a>, report: &Report) -> Result<(Programs, Beside<'a>)> {
        let Some(signer) = self.signer else { return Ok((programs, initramfs)) };
        let step = report.step("signature");
        let why = |name| move |error: Error| error.cause(format!("it is for `{name}`"));
        let boot = Signed::by(signer, programs.boot).map_err(why(BOOT));
        let uki = Signed::by(signer, programs.uki).map_err(why(UKI));
        let initramfs = Signed::by(signer, initramfs).map_err(why(INITRAMFS));
        let ((boot, uki), initramfs) = both(both(boot, uki), initramfs)?;
        step.done(&signer.certificate().name(), None, Outcome::Ran);
        Ok((Programs { boot: boot.into_inner(), uki: uki.into_inner() }, initramfs.into_inner()))
    }

    /// Leaves the signature of the initramfs, or what has to be signed of these products, and gives the files that were written.
    fn leave(&self, products: &[(&str, &dyn Signable)], initramfs: &Beside, out: &Out) -> Result<Vec<PathBuf>> {
        let (file, folder) = (out.path(INITRAMFS_SIGNATURE), out.path(TO_SIGN));
        if self.signer.is_none() {
            remove(&file)?;
            return to_sign::write(&folder, products);
        }
        remove(&folder)?;
        std::fs::write(&file, initramfs.signature()).at("write", &file)?;
        Ok(vec![file])
    }

    /// A slot could not hold a UKI of so many bytes.
    fn check_size(&self, uki: u64) -> Result<()> {
        let board = &self.plan.board;
        let has = (uki + HEADER_SIZE).div_ceil(1 << 20);
        let room = board.slot_size_mib;
        if has <= room {
            return Ok(());
        }
        let size = (has + 1).next_multiple_of(32);
        Err(Error::build(format!("the UKI does not fit its slot: it has {has} MiB, and there is room for {room}"))
            .cause(format!("the biggest parts of it: {}", self.biggest_parts()))
            .hint(format!("set `slot-size-mib = {size}` in `boards/{}.toml`", board.name)))
    }

    /// Three at most, and none that is not worth a thought.
    fn biggest_parts(&self) -> String {
        let layers = self.layers.iter().map(|layer| (format!("layer {}", layer.name), layer.image.size()));
        let mut parts: Vec<_> = layers.chain([("the kernel".to_owned(), self.kernel.image.size())]).collect();
        parts.retain(|(_, size)| *size >= 1 << 20);
        parts.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
        parts.iter().take(3).map(|(name, size)| format!("{name} ({})", bytes(*size))).collect::<Vec<_>>().join(", ")
    }
}

/// Writes a file beside `path` and gives it that name once it is whole.
fn replace(
    path: &std::path::Path,
    report: &Report,
    name: &str,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    let step = report.step(name);
    let unfinished = path.with_extension("unfinished");
    let mut file = BufWriter::new(File::create(&unfinished).at("write", path)?);
    let written = write(&mut file).and_then(|()| file.flush().at("write", path));
    if written.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    written?;
    std::fs::rename(&unfinished, path).at("write", path)?;
    let size = std::fs::metadata(path).at("read", path)?.len();
    step.done(&path.file_name().unwrap_or_default().to_string_lossy(), Some(size), Outcome::Ran);
    Ok(())
}
