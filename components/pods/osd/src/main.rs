//! The pod `osd`: keeps the resources of a node and serves them with COSI's service `State`, beside
//! gRPC's services for health and reflection.
//!
//! With `--keep` a file has them, too; with `--host` they take effect on the node, through `init`.
//! The program prints errors on stderr, and ends only by a signal.

#![forbid(unsafe_code)]

use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::Fingerprint;
use pod_osd::access::announce::announce;
use pod_osd::access::identity::Identity;
use pod_osd::access::tls;
use pod_osd::catalog::{Accepts, Catalog};
use pod_osd::configuration::ConfigurationService;
use pod_osd::connections::Accepted;
use pod_osd::host::Host;
use pod_osd::init::Init;
use pod_osd::keeper::{self, Keeper, Kept};
use pod_osd::shared::SharedStore;
use pod_osd::state::StateService;
use pod_osd::{connections, server, socket};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

const USAGE: &str = "\
usage: osd [--accept-any-type] [--keep FOLDER] [--host PATH] [--listen ADDRESS --clients FILE]
           --socket PATH

Keeps resources and serves them over gRPC (cosi.resource.State, health, reflection).

  --socket PATH      the Unix socket, which only osd's user may connect to
  --keep FOLDER      keep the resources in this folder; without it they are gone when osd ends
  --host PATH        hold the node to its resources, through this socket of init
  --listen ADDRESS   serve with TLS at this address and port, too
  --clients FILE     the CA of the clients there in PEM; without such a file nothing listens
  --accept-any-type  accept resources without a known definition, for the tests of other projects
";

enum Command {
    Serve(Options),
    Help,
}

struct Options {
    socket: PathBuf,
    keep: Option<PathBuf>,
    host: Option<PathBuf>,
    network: Option<Network>,
    accepts: Accepts,
}

/// Where it serves clients on the network.
struct Network {
    address: SocketAddr,
    clients: PathBuf,
}

fn main() -> ExitCode {
    let outcome = match command(std::env::args().skip(1)) {
        Some(Command::Serve(options)) => serve(options),
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

fn command(mut words: impl Iterator<Item = String>) -> Option<Command> {
    let (mut socket, mut keep, mut host, mut accepts) = (None, None, None, Accepts::Known);
    let (mut listen, mut clients) = (None, None);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--socket" => socket = Some(words.next()?.into()),
            "--keep" => keep = Some(words.next()?.into()),
            "--host" => host = Some(words.next()?.into()),
            "--listen" => listen = Some(words.next()?.parse().ok()?),
            "--clients" => clients = Some(words.next()?.into()),
            "--accept-any-type" => accepts = Accepts::Any,
            "--help" => return Some(Command::Help),
            _ => return None,
        }
    }
    let network = match (listen, clients) {
        (Some(address), Some(clients)) => Some(Network { address, clients }),
        (None, None) => None,
        _ => return None,
    };
    Some(Command::Serve(Options { socket: socket?, keep, host, network, accepts }))
}

/// Serves until a signal ends the process. One thread is enough: what waits for a disk or for
/// `init` has threads of its own.
fn serve(Options { socket, keep, host, network, accepts }: Options) -> Outcome<()> {
    exit_on_signals()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .explain("start the runtime")?;
    let (store, catalog) = (Arc::new(SharedStore::new()?), Catalog::new(accepts)?);
    catalog.publish(&store)?;
    let is_restored = match &keep {
        Some(folder) => restore(&store, folder),
        None => true,
    };
    // The generation before the first change.
    store.record_generation("osd");
    runtime.block_on(async {
        let (accepted, connections) = mpsc::channel(1);
        let served = match network {
            Some(network) => listen(&network, keep.as_deref(), accepted.clone()).await?,
            None => None,
        };
        let keeper = keep.map(|folder| Keeper::start(&folder, store.clone()).map(Arc::new));
        let keeper = keeper.transpose()?;
        let init = host.map(|socket| Arc::new(Init::new(socket)));
        if let (Some(init), Some(fingerprint)) = (&init, served) {
            tokio::spawn(announce(init.clone(), fingerprint));
        }
        if let Some(init) = init.clone() {
            let host = Host { store: store.clone(), keeper: keeper.clone(), init };
            tokio::spawn(host.run(!is_restored));
        }
        connections::local(socket::listen(&socket)?, accepted);
        let state = StateService::new(store.clone(), catalog, keeper.clone());
        let configuration = ConfigurationService { store, keeper, init };
        server::serve(connections, state, configuration).await.explain("serve")
    })
}

/// Serves clients on the network, if there is a CA of theirs. Prints the address and returns the
/// fingerprint of the node.
async fn listen(
    network: &Network,
    keep: Option<&Path>,
    accepted: Accepted,
) -> Outcome<Option<Fingerprint>> {
    let Network { address, clients } = network;
    let identity = keep.map_or_else(Identity::temporary, Identity::in_folder)?;
    let fingerprint = identity.fingerprint();
    let Some(tls) = tls::acceptor(clients, identity)? else {
        println!("no client may connect over the network: there is no `{}`", clients.display());
        return Ok(None);
    };
    let listener = TcpListener::bind(address).await;
    let listener = listener.explain(format_args!("listen at {address}"))?;
    let address = listener.local_addr().explain("read the address")?;
    println!("listening at {address} as {fingerprint}");
    connections::remote(listener, tls, accepted);
    Ok(Some(fingerprint))
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
    for resource in resources {
        let kind = resource.content.key.kind().clone();
        if let Err(error) = store.write(&kind, |store| store.restore(resource)) {
            eprintln!("error: a kept resource is lost: {error}");
        }
    }
    true
}

/// Makes SIGTERM and SIGINT end the process, which the kernel does not do for PID 1 of a container.
fn exit_on_signals() -> Outcome<()> {
    static ALWAYS: AtomicBool = AtomicBool::new(true);
    for signal in [SIGTERM, SIGINT] {
        register_conditional_shutdown(signal, 0, &ALWAYS).explain("handle signals")?;
    }
    Ok(())
}
