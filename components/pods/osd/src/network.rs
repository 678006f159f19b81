//! The connections of clients on the network, whose callers their certificates name.

use crate::access::announce::announce;
use crate::access::caller::ShownCertificate;
use crate::access::clients::Clients;
use crate::access::expiry::Expiring;
use crate::access::quota::{Limited, Quotas};
use crate::access::rules::Rules;
use crate::access::{caller, record, tls};
use crate::connections::{Accepted, Connection, PAUSE, Peer, Places, RemotePeer, report};
use crate::init::Init;
use crate::limits::{HANDSHAKE_TIMEOUT, MAX_REMOTE_CONNECTIONS};
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_packet_filter::Connection as Ends;
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// The pause before the program looks again whether clients may connect.
const CLOSED_PAUSE: Duration = Duration::from_secs(2);

/// Where clients on the network connect, and which may.
pub struct Network {
    /// The address and port.
    pub address: SocketAddr,
    /// The CAs of those that may connect.
    pub clients: Clients,
    /// `init`, which prints the node's fingerprint.
    pub init: Option<Arc<Init>>,
    /// The quotas of the clients.
    pub quotas: Arc<Quotas>,
}

impl Network {
    /// Listens while there is a CA of clients. What keeps it from that is printed, and tried again.
    pub async fn listen(mut self, to: Accepted) {
        let mut printed = String::new();
        loop {
            let Err(failure) = self.listen_once(&to, &mut printed).await;
            let failure = failure.to_string();
            if failure != printed {
                record::write(&format!("no client may connect over the network: {failure}"));
                printed = failure;
            }
            sleep(CLOSED_PAUSE).await;
        }
    }

    /// Listens until there is no CA any more. One connection too many is closed at once; one whose
    /// handshake is not finished counts. They take no places of local clients. What was printed
    /// before is news again once it listens.
    async fn listen_once(&mut self, to: &Accepted, printed: &mut String) -> Outcome<Infallible> {
        self.acceptor()?;
        let listener = TcpListener::bind(self.address).await;
        let listener = listener.explain(format_args!("listen at {}", self.address))?;
        self.begin(listener.local_addr().explain("read the address")?);
        printed.clear();
        let permits = Arc::new(Semaphore::new(MAX_REMOTE_CONNECTIONS));
        loop {
            let accepted = listener.accept().await;
            let tls = self.acceptor()?;
            let Ok((stream, _)) = accepted.inspect_err(report) else {
                sleep(PAUSE).await;
                continue;
            };
            let Ok(permit) = permits.clone().try_acquire_owned() else { continue };
            let shared = (self.quotas.clone(), self.clients.rules().clone());
            tokio::spawn(serve(stream, tls, permit, shared, to.clone()));
        }
    }

    fn acceptor(&mut self) -> Outcome<TlsAcceptor> {
        self.clients.acceptor()?.ok_or_else(|| Failure::new("there is no CA of clients"))
    }

    fn begin(&self, address: SocketAddr) {
        let fingerprint = self.clients.identity().fingerprint();
        record::write(&format!("listening at {address} as {fingerprint}"));
        if let Some(init) = &self.init {
            tokio::spawn(announce(init.clone(), fingerprint));
        }
    }
}

async fn serve(
    stream: TcpStream,
    tls: TlsAcceptor,
    permit: OwnedSemaphorePermit,
    shared: (Arc<Quotas>, Arc<Rules>),
    to: Accepted,
) {
    let shaken = timeout(HANDSHAKE_TIMEOUT, shake_hands(stream, &tls, permit, &shared)).await;
    match shaken.unwrap_or_else(|_| Err(Failure::new("it takes too long"))) {
        // The server ends together with the process.
        Ok(connection) => drop(to.send(connection).await),
        Err(failure) => record::refused(&failure),
    }
}

async fn shake_hands(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    permit: OwnedSemaphorePermit,
    (quotas, rules): &(Arc<Quotas>, Arc<Rules>),
) -> Outcome<Connection> {
    stream.set_nodelay(true).explain("configure a connection")?;
    let from = stream.peer_addr().explain("read an address")?;
    let at = stream.local_addr().explain("read an address")?;
    let stream = match acceptor.accept(stream).await {
        Err(error) if tls::is_without_role(&error) => {
            return Err(Failure::new(format!(
                "{from}: the certificate names no role as its organization"
            )));
        }
        Err(error) if tls::is_revoked(&error) => {
            return Err(Failure::new(format!("{from}: the certificate is revoked")));
        }
        accepted => accepted.explain(from)?,
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let certificate = certificate.ok_or_else(|| Failure::new("a client has no certificate"))?;
    let not_after = caller::not_after(certificate)?;
    let shown = ShownCertificate::of(certificate)?;
    let fingerprint = shown.fingerprint.clone();
    let caller = rules.caller(shown).ok_or_else(|| Failure::new("its role is gone"))?;
    let quota = quotas.of(Sha256::digest(certificate).into());
    let place = quota
        .hold(Limited::Connections, 1)
        .map_err(|status| Failure::new(format!("{caller} from {from}: {}", status.message())))?;
    record::connected(&caller, &fingerprint, from);
    let has_called = Arc::new(AtomicBool::new(false));
    let client = format!("{caller} from {from}");
    let caller = Arc::new(caller);
    let excluded = Box::pin(rules.clone().until_refused(caller.clone()));
    let stream = Expiring::new(stream, client, has_called.clone(), not_after, excluded);
    let connection = Ends { local: at, peer: from };
    let remote = Some(RemotePeer { quota, rules: rules.clone(), has_called, connection });
    let peer = Peer { caller, opened: Instant::now(), remote };
    let places = Places { of_side: permit, of_caller: Some(place) };
    Ok(Connection::new(stream, peer, places))
}
