//! Assembly: layers become an initramfs, that and the kernel a UKI, and that with DATA a disk
//! image. All of it in this process, because it is pure and takes less time than to ask whether it
//! is needed, and in pieces, because a node with large pods may be larger than memory.

use super::image;
use super::inventory::{Inventory, PATH};
use super::out::{BOOT, IMAGE, INITRAMFS, INITRAMFS_SIGNATURE, Out, TO_SIGN, UKI};
use super::sign::{DetachedSignature, EfiFile, EfiProgram, Signable, Signed, Signer, to_sign};
use super::stages::{BuiltLayer, CompiledKernel};
use crate::engine::digest::Digest;
use crate::engine::executor::Steps;
use crate::engine::fs_error::{IoContext, remove};
use crate::engine::store::Store;
use crate::error::{Context, Error, Result, both};
use crate::plan::{Locked, Plan};
use crate::report::{Outcome, Report, bytes};
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_abi::{cmdline, paths};
use osbuild_formats::cpio::{self, Entry};
use osbuild_formats::epoch;
use osbuild_formats::uki::{Frame, Parts};
use osbuild_slots::Header;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The console that `init` writes to before it has mounted anything
/// (Documentation/admin-guide/devices.txt).
const CONSOLE: (u32, u32) = (5, 1);

/// How much is written at once.
const BUFFER: usize = 256 << 10;

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
    uki: EfiFile,
}

impl Assembly<'_> {
    /// Writes the image and its parts into `out`, unless they are there already.
    ///
    /// # Errors
    /// The UKI is too big for its slot, which is told before anything is written, or the disk is
    /// full.
    pub fn write(&self, store: &Store, report: &Report, out: &Out) -> Result<Built> {
        let key = self.key()?;
        let _alone = out.lock(store)?;
        let [image, uki, initramfs] = [IMAGE, UKI, INITRAMFS].map(|name| out.path(name));
        let was_current = out.is_current(&key);
        if !was_current {
            out.finish(&key, &self.make(store, report, out)?)?;
        }
        let [initramfs_signature, to_sign] =
            [(INITRAMFS_SIGNATURE, self.signer.is_some()), (TO_SIGN, self.signer.is_none())]
                .map(|(name, is_there)| is_there.then(|| out.path(name)));
        Ok(Built {
            image,
            uki,
            initramfs,
            initramfs_signature,
            to_sign,
            was_current,
            steps: self.steps.clone(),
        })
    }

    /// Makes all of it, and gives the files. A UKI may be larger than memory, and with it the
    /// initramfs: they are read and written in pieces.
    fn make(&self, store: &Store, report: &Report, out: &Out) -> Result<Vec<PathBuf>> {
        let mut initramfs = Draft::of(out.path(INITRAMFS))?;
        initramfs.write(report, "initramfs", |to, path| self.initramfs(store, to, path))?;
        let packed = Digest::of_reader(initramfs.start()?).at("read", &initramfs.path)?;
        let mut uki = Draft::of(out.path(UKI))?;
        uki.write(report, "uki", |to, path| {
            self.uki(store, &mut initramfs, packed.size(), to, path)
        })?;
        let programs = Programs {
            boot: EfiProgram(self.boot(store)?),
            uki: EfiFile::new(uki.reopen()?, &uki.path),
        };
        let (Programs { boot, uki: unified }, beside) =
            self.signed(programs, DetachedSignature::of_digest(packed), report)?;
        self.check_size(unified.length()?)?;
        out.begin()?;
        let mut written = vec![initramfs.keep()?];
        written.extend(self.leave(
            &[(BOOT, &boot), (UKI, &unified), (INITRAMFS, &beside)],
            &beside,
            out,
        )?);
        written.push(uki.keep()?);
        let (header, data) = (self.header(&unified)?, store.path(&self.data)?);
        let settings = self.settings.as_deref();
        let (length, unified) = (unified.length()?, unified.start()?);
        let disk = image::Contents {
            plan: self.plan,
            settings,
            boot: &boot.0,
            header: &header,
            uki: (length, unified),
            data,
        };
        let mut image = Draft::of(out.path(IMAGE))?;
        image.write(report, "image", |to, path| disk.write(to.get_mut(), path))?;
        written.push(image.keep()?);
        Ok(written)
    }

    /// The digest of all that decides about the bytes, this program among it. What goes into
    /// [`Parts`], [`Header`] and [`image::Contents`] stands here by name: a value that reaches the
    /// bytes and is not hashed here leaves an old image in place.
    fn key(&self) -> Result<Digest> {
        let (plan, board) = (self.plan, &self.plan.board);
        let layers: Vec<_> =
            self.layers.iter().map(|layer| json!([layer.name, layer.image.hex()])).collect();
        let decides = json!({
            "program": Digest::of_file(Path::new("/proc/self/exe"))?.hex(),
            "architecture": plan.architecture.name(),
            "stub": plan.stub().sha256,
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
        format!(
            "ID=osbuild\nPRETTY_NAME=\"osbuild {}\"\nVERSION_ID={}\n",
            self.plan.recipe, self.plan.version
        )
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
        let time_servers = (!plan.time_servers.is_empty())
            .then(|| format!("{}={}", cmdline::TIME_SERVERS, plan.time_servers.join(",")));
        let ours = ours.into_iter().chain(time_servers);
        let in_memory =
            plan.installs.iter().map(|_| format!("{}={}", cmdline::DATA, cmdline::IN_MEMORY));
        plan.kernel
            .command_line
            .iter()
            .cloned()
            .chain(ours)
            .chain(in_memory)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Writes the initramfs to `out`, which errors call `path`.
    fn initramfs(&self, store: &Store, out: &mut impl Write, path: &Path) -> Result<()> {
        let mut entries = vec![
            Entry::directory("/dev", 0o755),
            Entry::char_device("/dev/console", 0o600, CONSOLE.0, CONSOLE.1),
            Entry::file(paths::EARLY_INIT, 0o755, store.read(&self.init)?),
            Entry::file(&format!("/{PATH}"), 0o444, self.inventory().into_bytes()),
            Entry::directory(paths::LAYERS, 0o755),
        ];
        let named = |(index, layer): (usize, &BuiltLayer)| {
            (format!("{}/{index:02}-{}.erofs", paths::LAYERS, layer.name), layer.image)
        };
        let layers: BTreeMap<String, Digest> = self.layers.iter().enumerate().map(named).collect();
        entries.extend(layers.iter().map(|(name, image)| Entry::sized(name, 0o444, image.size())));
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        let mut failure = None;
        let packed = cpio::write_with(&entries, out, |name, to| {
            store.write_to(&layers[name], to, path).map_err(|error| {
                failure = Some(error);
                std::io::ErrorKind::Other.into()
            })
        });
        match (failure, packed) {
            (Some(error), _) => Err(error),
            (None, Err(cpio::Error::Io(error))) => Err(error).at("write", path),
            (None, packed) => packed.map(drop).or_build(|| "cannot pack the initramfs".into()),
        }
    }

    /// Writes the UKI with an initramfs of so many bytes to `out`, which errors call `path`.
    fn uki(
        &self,
        store: &Store,
        initramfs: &mut Draft,
        size: u64,
        out: &mut BufWriter<File>,
        path: &Path,
    ) -> Result<()> {
        let plan = self.plan;
        let stub = super::root::from_package(
            store,
            plan.stub(),
            &format!("usr/lib/systemd/boot/efi/linux{}.efi.stub", plan.architecture.efi()),
        )?;
        let parts = Parts {
            os_release: &self.os_release(),
            command_line: &self.command_line(),
            uname: &self.kernel.release,
            security_epoch: plan.security_epoch,
            initramfs: &[],
            kernel: &store.read(&self.kernel.image)?,
        };
        let frame =
            Frame::new(&stub, &parts, size).or_build(|| "cannot make the UKI".to_owned())?;
        frame.write(initramfs.start()?, out).at("write", path)
    }

    /// slotboot, which says its security epoch: a node replaces it by no older one.
    fn boot(&self, store: &Store) -> Result<Vec<u8>> {
        epoch::stamp(&store.read(&self.boot)?, self.plan.security_epoch)
            .or_build(|| format!("cannot make `{BOOT}`"))
    }

    /// What stands before the UKI in a slot. It is made of the UKI as it goes into the slot, with
    /// its signature.
    fn header(&self, uki: &EfiFile) -> Result<Vec<u8>> {
        let digest = uki.digest()?;
        let header = Header {
            length: digest.size(),
            sha256: *digest.hash(),
            version: self.plan.version.clone(),
        };
        header.encode().or_build(|| "cannot make the header of a slot".into())
    }

    /// The same with signatures, if somebody signs.
    fn signed(
        &self,
        programs: Programs,
        initramfs: DetachedSignature,
        report: &Report,
    ) -> Result<(Programs, DetachedSignature)> {
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

    /// Leaves the signature of the initramfs, or what has to be signed of these products, and gives
    /// the files that were written.
    fn leave(
        &self,
        products: &[(&str, &dyn Signable)],
        initramfs: &DetachedSignature,
        out: &Out,
    ) -> Result<Vec<PathBuf>> {
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
        Err(Error::build(format!(
            "the UKI does not fit its slot: it has {has} MiB, and there is room for {room}"
        ))
        .cause(format!("the biggest parts of it: {}", self.biggest_parts()))
        .hint(format!("set `slot-size-mib = {size}` in `boards/{}.toml`", board.name)))
    }

    /// Three at most, and none that is not worth a thought.
    fn biggest_parts(&self) -> String {
        let layers =
            self.layers.iter().map(|layer| (format!("layer {}", layer.name), layer.image.size()));
        let mut parts: Vec<_> =
            layers.chain([("the kernel".to_owned(), self.kernel.image.size())]).collect();
        parts.retain(|(_, size)| *size >= 1 << 20);
        parts.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
        parts
            .iter()
            .take(3)
            .map(|(name, size)| format!("{name} ({})", bytes(*size)))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// A file that is written beside the one whose name it gets once it is whole. One that is not kept
/// goes with it.
struct Draft {
    /// The name that it gets, by which errors call it.
    path: PathBuf,
    unfinished: PathBuf,
    file: File,
}

impl Draft {
    fn of(path: PathBuf) -> Result<Self> {
        let unfinished = path.with_extension("unfinished");
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&unfinished)
            .at("write", &path)?;
        Ok(Draft { path, unfinished, file })
    }

    /// Has it written as the step of this name.
    fn write(
        &mut self,
        report: &Report,
        name: &str,
        write: impl FnOnce(&mut BufWriter<File>, &Path) -> Result<()>,
    ) -> Result<()> {
        let step = report.step(name);
        let mut out = BufWriter::with_capacity(BUFFER, self.reopen()?);
        write(&mut out, &self.path)?;
        out.flush().at("write", &self.path)?;
        let size = self.file.metadata().at("read", &self.path)?.len();
        step.done(
            &self.path.file_name().unwrap_or_default().to_string_lossy(),
            Some(size),
            Outcome::Ran,
        );
        Ok(())
    }

    /// Its bytes from the first one on.
    fn start(&mut self) -> Result<&File> {
        self.file.seek(SeekFrom::Start(0)).at("read", &self.path)?;
        Ok(&self.file)
    }

    /// The same file once more.
    fn reopen(&self) -> Result<File> {
        self.file.try_clone().at("open", &self.path)
    }

    /// Gives it its name.
    fn keep(self) -> Result<PathBuf> {
        std::fs::rename(&self.unfinished, &self.path).at("write", &self.path)?;
        Ok(self.path.clone())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // One that was kept has another name. What cannot be removed is overwritten by the next
        // build.
        let _ = std::fs::remove_file(&self.unfinished);
    }
}
