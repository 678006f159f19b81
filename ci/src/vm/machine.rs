//! The virtual machines that checks boot.

use super::node::NodeUnderTest;
use crate::image;
use crate::site::Site;
use osbuild::checkout::Checkout;
use osbuild::error::{Error, Result};
use osbuild::plan::{Architecture, Bus, Date, Plan, Qemu, Strictness, resolve};
use osbuild::ship::keys::{DEV, Keys, Trust};
use osbuild::ship::vm::boot::Boot;
use osbuild::ship::vm::files::NodeFiles;
use osbuild::ship::vm::machine::{Download, Forward, SecureBoot};
use osbuild::ship::vm::network::Network;
pub use osbuild::ship::vm::network::Protocols;
use osbuild::ship::vm::run::{RunOptions, Until, run, start};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The address of this host on QEMU's user network.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
/// The same by IPv6.
pub const HOST6: Ipv6Addr = Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 2);

/// Processors of a machine. Emulated processors wait for each other's locks: two machines of one
/// processor in parallel get more done than two machines of two.
pub const PROCESSORS: u32 = 1;

/// How long a node may take to become ready, and to print each line that a check waits for.
pub const TIMEOUT: Duration = Duration::from_secs(600);

/// A line of the kernel if the firmware has verified it.
pub const SECURE_BOOT_ON: &str = "UEFI Secure Boot is enabled";

/// A virtual machine that is powered off: builds the options of `osbuild run`.
///
/// The image is only read; what the node writes is lost unless [`Machine::keep`] names a file.
pub struct Machine<'a> {
    site: &'a Site<'a>,
    timeout: Duration,
    options: RunOptions,
}

impl<'a> Machine<'a> {
    /// QEMU's q35 with 2 GiB of memory and firmware that starts any program. The console is written
    /// to the log `log`.
    pub fn new(site: &'a Site<'a>, image: impl Into<PathBuf>, log: &str) -> Self {
        let options = RunOptions {
            image: image.into(),
            architecture: Architecture::Amd64,
            qemu: Qemu {
                machine: "q35".into(),
                cpu: "max".into(),
                memory_mib: 2048,
                cpus: PROCESSORS,
                bus: Bus::VirtioBlk,
            },
            sector_size: 512,
            firmware: None,
            download: Download::Refused,
            disk_size_mib: None,
            keep: None,
            record: None,
            forwards: Vec::new(),
            files: NodeFiles::default(),
            network: Network::default(),
            name: None,
            hostname: None,
            secure_boot: SecureBoot::Off,
            watchdog: false,
            arguments: Vec::new(),
            announcement: None,
            until: Until::PowerOff,
            timeout: None,
            show_console: false,
            log: site.log(log),
            cache: site.machine.clone(),
        };
        Machine { site, timeout: TIMEOUT, options }
    }

    /// The machine of a recipe's board, whose firmware starts any program.
    pub fn of_board(
        site: &'a Site<'a>,
        recipe: &str,
        image: impl Into<PathBuf>,
        log: &str,
    ) -> Result<Self> {
        Machine::new(site, image, log).board(&plan(&site.project(), recipe)?)
    }

    /// Builds a recipe, and returns the machine that `osbuild run` boots it on: that of its board,
    /// with Secure Boot enforced.
    pub fn of_recipe(site: &'a Site<'a>, recipe: &str, log: &str) -> Result<Self> {
        Machine::of_recipe_in(site, &site.project(), recipe, log)
    }

    /// Like [`Machine::of_recipe`], in another copy of the checkout.
    pub fn of_recipe_in(
        site: &'a Site<'a>,
        project: &Path,
        recipe: &str,
        log: &str,
    ) -> Result<Self> {
        let image = image::image_in(site, project, recipe)?;
        let (plan, trust) = (plan(project, recipe)?, Keys::named(project, DEV)?.trust()?);
        let machine = Machine::new(site, image, log).board(&plan)?.trusting(trust);
        Ok(machine.with(|options| options.watchdog = plan.board.watchdog_s > 0))
    }

    /// Takes architecture, processor, memory and sector size from the board of a plan.
    fn board(self, plan: &Plan) -> Result<Self> {
        let qemu = plan.board.qemu.clone().ok_or_else(|| {
            Error::build(format!("QEMU cannot stand in for `{}`", plan.board.name))
        })?;
        Ok(self.with(|options| {
            options.architecture = plan.architecture;
            options.qemu = Qemu { cpus: PROCESSORS, ..qemu };
            options.sector_size = plan.board.sector_size;
        }))
    }

    /// Connects the disk to another bus.
    pub fn bus(self, bus: Bus) -> Self {
        self.with(|options| options.qemu.bus = bus)
    }

    /// Sets the size of the memory in MiB.
    pub fn memory(self, mib: u64) -> Self {
        self.with(|options| options.qemu.memory_mib = mib)
    }

    /// Sets the number of processors.
    pub fn processors(self, count: u32) -> Self {
        self.with(|options| options.qemu.cpus = count)
    }

    /// Sets the logical sector size of the disk in bytes.
    pub fn sector_size(self, bytes: u32) -> Self {
        self.with(|options| options.sector_size = bytes)
    }

    /// Makes the disk larger than the image: its size in MiB.
    pub fn disk_size(self, mib: u64) -> Self {
        self.with(|options| options.disk_size_mib = Some(mib))
    }

    /// Keeps the disk and the firmware's variables in this file and the one beside it. A file that
    /// exists is booted as it is.
    pub fn keep(self, disk: impl Into<PathBuf>) -> Self {
        self.with(|options| options.keep = Some(disk.into()))
    }

    /// Records every write and every flush of the disk in this file.
    pub fn record(self, file: PathBuf) -> Self {
        self.with(|options| options.record = Some(file))
    }

    /// Forwards the port `host` of the loopback to the port `node` of the node.
    pub fn forward(self, host: u16, node: u16) -> Self {
        self.with(|options| {
            options.forwards.push(Forward { address: Ipv4Addr::LOCALHOST, host, node })
        })
    }

    /// Connects it to a network of several nodes, on which it has this name.
    pub fn on_network(self, network: &str, name: &str) -> Self {
        self.with(|options| {
            options.network.shared = Some(network.to_owned());
            options.name = Some(name.to_owned());
        })
    }

    /// Sets the protocols of its network, which are both without this.
    pub fn protocols(self, protocols: Protocols) -> Self {
        self.with(|options| options.network.protocols = protocols)
    }

    /// Places the files of a folder that is laid out like the node's root.
    pub fn files(self, root: &Path) -> Result<Self> {
        let files = NodeFiles::read(root, &[])?;
        Ok(self.with(|options| options.files = files))
    }

    /// Makes the network's DHCP server assign a host name.
    pub fn hostname(self, name: &str) -> Self {
        self.with(|options| options.hostname = Some(name.to_owned()))
    }

    /// Makes the firmware start only programs that these keys signed.
    pub fn trusting(self, trust: Trust) -> Self {
        self.secure_boot(SecureBoot::enforced(trust))
    }

    /// Sets what the firmware starts.
    pub fn secure_boot(self, secure_boot: SecureBoot) -> Self {
        self.with(|options| options.secure_boot = secure_boot)
    }

    /// Adds a hardware watchdog.
    pub fn watchdog(self) -> Self {
        self.with(|options| options.watchdog = true)
    }

    /// Passes more arguments to QEMU.
    pub fn arguments(self, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.with(|options| options.arguments.extend(arguments.into_iter().map(Into::into)))
    }

    /// Powers off where the node would reboot.
    pub fn without_reboot(self) -> Self {
        self.with(|options| options.until = Until::Ready)
    }

    /// Replaces [`TIMEOUT`].
    pub fn timeout(self, timeout: Duration) -> Self {
        Machine { timeout, ..self }
    }

    /// Powers on, and returns at once.
    pub fn start(self) -> Result<NodeUnderTest<'a>> {
        let node = start(self.site.report, &self.options)?;
        Ok(NodeUnderTest::new(node, self.options.log, self.timeout))
    }

    /// Powers on, and returns when the node is ready. It waits briefly for an address: a node can
    /// be ready without one.
    pub fn boot(self) -> Result<NodeUnderTest<'a>> {
        let mut node = self.start()?;
        node.ready()?;
        node.address()?;
        Ok(node)
    }

    /// Boots until the node is ready and powers off, as `osbuild run --until ready` does.
    pub fn run_until_ready(self) -> Result<Boot> {
        let Machine { site, timeout, mut options } = self.without_reboot();
        options.timeout = Some(timeout);
        run(site.report, &options)
    }

    fn with(mut self, change: impl FnOnce(&mut RunOptions)) -> Self {
        change(&mut self.options);
        self
    }
}

/// The plan of a recipe.
fn plan(project: &Path, recipe: &str) -> Result<Plan> {
    let project = Checkout { root: project.to_owned() }.read()?;
    // The date affects only warnings.
    resolve(&project, recipe, Date::from_unix(0), Strictness::Build)
}
