//! The pod `osd`: keeps the resources of a node and serves them with COSI's service `State`, beside
//! gRPC's services for health and reflection.
//!
//! With `--keep` a file has them, too; with `--host` they take effect on the node, through `init`.
//! The program prints errors on stderr, and ends only by a signal.

#![forbid(unsafe_code)]

use osbuild_failure::{Explain, Outcome};
use osbuild_resources::Resource;
use pod_osd::access::clients::Clients;
use pod_osd::access::identity::Identity;
use pod_osd::access::rules::Rules;
use pod_osd::attach::terminal::ON_TERMINAL;
use pod_osd::catalog::{self, Accepts, Catalog};
use pod_osd::configuration::ConfigurationService;
use pod_osd::connections::Connections;
use pod_osd::debug::call::Containers;
use pod_osd::debug::waiting::{self, Waiting};
use pod_osd::host::Host;
use pod_osd::init::Init;
use pod_osd::inspect::files::Places;
use pod_osd::inspect::reach::Files;
use pod_osd::inspection::InspectionService;
use pod_osd::keeper::{self, Keeper, Kept, KeptAccess};
use pod_osd::network::Network;
use pod_osd::node::NodeService;
use pod_osd::shared::SharedStore;
use pod_osd::state::StateService;
use pod_osd::{attach, connections, inspect, inspection, observed, plugins, server, socket};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

const USAGE: &str = "\
usage: osd [--accept-any-type] [--keep FOLDER] [--host PATH] [--admin PATH]
           [--observe [--packages FILE]] [--listen ADDRESS --clients FILE… [--node NAME]]
           [--plugins FOLDER [--test-plugin NAME]] [--inspect PATH]
           [--debug PATH] --socket PATH
       osd inspect --socket PATH --logs FOLDER --processes FOLDER --pod NAME
                   --resolver FILE --hosts FILE --authorities FILE
                   --share FOLDER --kubelet FOLDER --os-release FILE
       osd install FILE
       osd attach --socket PATH
       osd on-terminal COMMAND…

Keeps resources and serves them over gRPC (cosi.resource.State, health, reflection).

  --socket PATH      the Unix socket, which only osd's user may connect to
  --keep FOLDER      keep the resources in this folder; without it they are gone when osd ends
  --host PATH        hold the node to its resources, through this socket of init
  --admin PATH       show the state of the node and reboot it, through this socket of init
  --observe          show as resources what there is: links, addresses, routes, the kernel; with
                     --admin also slots, processes and the release
  --packages FILE    with --observe, show the packages that the image is made of, from this list
  --listen ADDRESS   serve with TLS at this address and port, too
  --clients FILE     the CA of the clients there in PEM; of several files the first that exists
                     counts, and while there is none nothing listens
  --node NAME        the name of the node in its cluster, for whose pods tokens count there
  --plugins FOLDER   serve plugins, each at the socket NAME/socket in this folder
  --test-plugin NAME serve a plugin that may do everything, with --accept-any-type only, for the
                     tests of other projects
  --inspect PATH     show logs, processes, what the node reaches and packets of its links, through
                     this socket of `osd inspect`
  --debug PATH       with --admin, run debug containers, whose program connects to this socket
  --accept-any-type  accept resources without a known definition, for the tests of other projects

`osd inspect` reads logs and processes for osd, with rights that osd does not have, tries what the
node reaches, and captures packets.

  --logs FOLDER      the logs of the daemons, and in `pods` those of the containers
  --processes FOLDER the processes (proc(5))
  --pod NAME         the pod that this process is in
  --resolver FILE    the name servers (resolv.conf(5))
  --hosts FILE       names and their addresses (hosts(5))
  --authorities FILE the certificates in PEM of those who sign the certificates of servers; may be
                     given several times
  --share FOLDER     the files of the image, of which clients may read some
  --kubelet FOLDER   the configurations of the kubelet, which they may read
  --os-release FILE  the name of the operating system (os-release(5)), which they may read

In a debug container, `osd attach` starts a command and connects it with the socket of `--debug`;
`osd install` copies the program there, and `osd on-terminal` is a command with a terminal.
";

/// How long a loss of revocations lasts.
const UNTIL: &str = "no client may call over the network until one on the node writes a revocation";

enum Command {
    Serve(Box<Options>),
    Inspect(Box<inspect::Options>),
    Install(PathBuf),
    Attach(PathBuf),
    OnTerminal(Vec<String>),
    Help,
}

struct Options {
    socket: PathBuf,
    keep: Option<PathBuf>,
    host: Option<PathBuf>,
    admin: Option<PathBuf>,
    observe: Option<observed::Sources>,
    remote: Option<Remote>,
    plugins: Option<plugins::Options>,
    inspect: Option<PathBuf>,
    debug: Option<PathBuf>,
    accepts: Accepts,
}

/// Where it serves clients on the network, the files with their CAs, and the name of the node in
/// its cluster.
struct Remote {
    address: SocketAddr,
    clients: Vec<PathBuf>,
    node: Option<String>,
}

fn main() -> ExitCode {
    let outcome = match command(std::env::args().skip(1)) {
        Some(Command::Serve(options)) => serve(*options),
        Some(Command::Inspect(options)) => inspect(*options),
        Some(Command::Install(path)) => attach::install(&path),
        Some(Command::Attach(socket)) => attach(&socket),
        Some(Command::OnTerminal(words)) => return attach::terminal::become_command(&words),
        Some(Command::Help) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        None => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn command(words: impl Iterator<Item = String>) -> Option<Command> {
    let mut words = words.peekable();
    let parts = ["inspect", "install", "attach", ON_TERMINAL];
    match words.next_if(|word| parts.contains(&word.as_str())).as_deref() {
        Some("inspect") => inspect_command(words),
        Some(ON_TERMINAL) => Some(Command::OnTerminal(words.collect())),
        Some(part) => match (part, &*words.collect::<Vec<_>>()) {
            ("install", [path]) => Some(Command::Install(path.into())),
            ("attach", [flag, path]) if flag == "--socket" => Some(Command::Attach(path.into())),
            _ => None,
        },
        None => serve_command(words),
    }
}

fn inspect_command(mut words: impl Iterator<Item = String>) -> Option<Command> {
    let (mut socket, mut logs, mut processes, mut pod) = (None, None, None, None);
    let (mut resolver, mut hosts, mut authorities) = (None, None, Vec::new());
    let (mut share, mut kubelet, mut os_release) = (None, None, None);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--socket" => socket = Some(words.next()?.into()),
            "--logs" => logs = Some(words.next()?.into()),
            "--processes" => processes = Some(words.next()?.into()),
            "--pod" => pod = Some(words.next()?),
            "--resolver" => resolver = Some(words.next()?.into()),
            "--hosts" => hosts = Some(words.next()?.into()),
            "--authorities" => authorities.push(words.next()?.into()),
            "--share" => share = Some(words.next()?.into()),
            "--kubelet" => kubelet = Some(words.next()?.into()),
            "--os-release" => os_release = Some(words.next()?.into()),
            _ => return None,
        }
    }
    Some(Command::Inspect(Box::new(inspect::Options {
        socket: socket?,
        logs: logs?,
        processes: processes?,
        pod: pod?,
        files: Files { resolver: resolver?, hosts: hosts?, authorities },
        places: Places { share: share?, kubelet: kubelet?, os_release: os_release? },
    })))
}

fn serve_command(mut words: impl Iterator<Item = String>) -> Option<Command> {
    let (mut socket, mut keep, mut host, mut accepts) = (None, None, None, Accepts::Known);
    let (mut admin, mut listen, mut clients, mut node) = (None, None, Vec::new(), None);
    let (mut folder, mut test_plugin, mut inspect, mut observe) = (None, None, None, false);
    let (mut debug, mut packages) = (None, None);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--socket" => socket = Some(words.next()?.into()),
            "--keep" => keep = Some(words.next()?.into()),
            "--host" => host = Some(words.next()?.into()),
            "--admin" => admin = Some(words.next()?.into()),
            "--observe" => observe = true,
            "--packages" => packages = Some(words.next()?.into()),
            "--listen" => listen = Some(words.next()?.parse().ok()?),
            "--clients" => clients.push(words.next()?.into()),
            "--node" => node = Some(words.next()?),
            "--plugins" => folder = Some(words.next()?.into()),
            "--test-plugin" => test_plugin = Some(words.next()?),
            "--inspect" => inspect = Some(words.next()?.into()),
            "--debug" => debug = Some(words.next()?.into()),
            "--accept-any-type" => accepts = Accepts::Any,
            "--help" => return Some(Command::Help),
            _ => return None,
        }
    }
    let remote = match (listen, clients.is_empty()) {
        (Some(address), false) => Some(Remote { address, clients, node }),
        (None, true) if node.is_none() => None,
        _ => return None,
    };
    if debug.is_some() && admin.is_none() {
        return None;
    }
    if packages.is_some() && !observe {
        return None;
    }
    if test_plugin.is_some() && (folder.is_none() || accepts != Accepts::Any) {
        return None;
    }
    let plugins = folder.map(|folder| plugins::Options { folder, test_plugin });
    let socket = socket?;
    let observe = observe.then(|| observed::Sources { admin: admin.clone(), packages });
    Some(Command::Serve(Box::new(Options {
        socket,
        keep,
        host,
        admin,
        observe,
        remote,
        plugins,
        inspect,
        debug,
        accepts,
    })))
}

/// Serves until a signal ends the process. One thread is enough: what waits for a disk or for
/// `init` has threads of its own.
fn serve(options: Options) -> Outcome<()> {
    let Options { socket, keep, host, admin, observe, remote, plugins, inspect, debug, accepts } =
        options;
    exit_on_signals()?;
    let runtime = runtime()?;
    let (store, catalog) = (Arc::new(SharedStore::new()?), Catalog::new(accepts));
    catalog::publish(&store)?;
    let is_restored = keep.as_ref().is_none_or(|folder| restore(&store, folder));
    if keep.as_ref().is_some_and(|folder| !restore_access(&store, folder)) {
        store.lose_revocations();
    }
    // The generation before the first change.
    store.record_generation("osd");
    runtime.block_on(async {
        let (accepted, local) = mpsc::channel(1);
        let (accepted_remote, remote_connections) = mpsc::channel(1);
        let connections = Connections { local, remote: remote_connections };
        let init = host.map(|socket| Arc::new(Init::new(socket)));
        if let Some(Remote { address, clients, node }) = remote {
            let identity = keep.as_deref().map_or_else(Identity::temporary, Identity::in_folder)?;
            let rules = Arc::new(Rules::new(store.clone(), node));
            let clients = Clients::new(clients, identity, rules);
            let network = Network { address, clients, init: init.clone(), quotas: Arc::default() };
            tokio::spawn(network.listen(accepted_remote));
        }
        let keeper = keep.map(|folder| Keeper::start(&folder, store.clone()).map(Arc::new));
        let keeper = keeper.transpose()?;
        if let Some(init) = init.clone() {
            let host = Host { store: store.clone(), keeper: keeper.clone(), init };
            tokio::spawn(host.run(!is_restored));
        }
        if let Some(sources) = observe {
            observed::start(store.clone(), sources)?;
        }
        connections::local(socket::listen(&socket)?, accepted);
        if let Some(options) = plugins {
            plugins::start(store.clone(), options)?;
        }
        let state = StateService::new(store.clone(), catalog, keeper.clone());
        let configuration = ConfigurationService { store, keeper, init };
        let debug = match (debug, &admin) {
            (Some(socket), Some(admin)) => Some(containers(&socket, admin, inspect.clone())?),
            _ => None,
        };
        let node = NodeService { admin: admin.map(Init::new), debug };
        let inspection = InspectionService::new(inspect);
        server::serve(connections, state, configuration, node, inspection).await.explain("serve")
    })
}

/// The debug containers of a node, whose program connects to this socket.
fn containers(socket: &Path, admin: &Path, inspect: Option<PathBuf>) -> Outcome<Containers> {
    let waiting = Arc::new(Waiting::default());
    waiting::serve(socket, waiting.clone())?;
    let inspect = inspect.map(inspection::client);
    Ok(Containers::new(Init::new(admin.to_owned()), waiting, inspect))
}

/// Serves as the program in a debug container until its command ends.
fn attach(socket: &Path) -> Outcome<()> {
    runtime()?.block_on(attach::run(socket))
}

/// Serves as the container `inspect` until a signal ends the process.
fn inspect(options: inspect::Options) -> Outcome<()> {
    exit_on_signals()?;
    runtime()?.block_on(inspect::serve(options))
}

fn runtime() -> Outcome<Runtime> {
    Builder::new_current_thread().enable_all().build().explain("start the runtime")
}

/// Puts the kept resources back. Returns whether there were any: what `init` holds is not withdrawn
/// because a file is missing or damaged.
fn restore(store: &SharedStore, folder: &Path) -> bool {
    let kept = keeper::read(folder).unwrap_or_else(|failure| {
        eprintln!("error: {failure}; osd begins with what init holds");
        None
    });
    let Some(Kept { resources, generations }) = kept else { return false };
    store.restore_generations(generations);
    put_back(store, resources);
    true
}

/// Puts back who may call. Returns whether that is known: a damaged file must not let in who was
/// excluded.
fn restore_access(store: &SharedStore, folder: &Path) -> bool {
    match keeper::read_access(folder) {
        Ok(KeptAccess { resources, are_lost: false }) => put_back(store, resources),
        Ok(KeptAccess { resources, are_lost: true }) => {
            put_back(store, resources);
            eprintln!("error: an earlier process has lost revocations; {UNTIL}");
            false
        }
        Err(failure) => {
            eprintln!("error: {failure}; {UNTIL}");
            false
        }
    }
}

/// Puts resources back into the store. Returns whether none is lost.
fn put_back(store: &SharedStore, resources: Vec<Resource>) -> bool {
    let mut is_whole = true;
    for resource in resources {
        let kind = resource.content.key.kind().clone();
        if let Err(error) = store.write(&kind, |store| store.restore(resource)) {
            eprintln!("error: a kept resource is lost: {error}");
            is_whole = false;
        }
    }
    is_whole
}

/// Makes SIGTERM and SIGINT end the process, which the kernel does not do for PID 1 of a container.
fn exit_on_signals() -> Outcome<()> {
    static ALWAYS: AtomicBool = AtomicBool::new(true);
    for signal in [SIGTERM, SIGINT] {
        register_conditional_shutdown(signal, 0, &ALWAYS).explain("handle signals")?;
    }
    Ok(())
}
