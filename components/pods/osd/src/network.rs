//! The connections of clients on the network, whose callers their certificates or tokens name.

use crate::access::announce::announce;
use crate::access::authentication::{CertificateProof, Proof};
use crate::access::caller::ShownCertificate;
use crate::access::clients::Clients;
use crate::access::expiry::Expiring;
use crate::access::quota::{Held, Limited, Quotas};
use crate::access::rules::Rules;
use crate::access::token::session::TokenSession;
use crate::access::{caller, record, tls};
use crate::connections::{Accepted, Connection, PAUSE, Peer, Places, RemotePeer, report};
use crate::init::Init;
use crate::limits::{HANDSHAKE_TIMEOUT, MAX_REMOTE_CONNECTIONS};
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_packet_filter::Connection as Ends;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::io;
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
    let from = stream.peer_addr();
    let shaken = timeout(HANDSHAKE_TIMEOUT, shake_hands(stream, &tls, permit, &shared)).await;
    match shaken.unwrap_or_else(|_| Err(too_long(from))) {
        // The server ends together with the process.
        Ok(connection) => drop(to.send(connection).await),
        Err(failure) => record::refused(&failure),
    }
}

/// The client has not finished the handshake, or was one stranger too many for all of the time.
fn too_long(from: io::Result<SocketAddr>) -> Failure {
    let from = from.map_or_else(|_| "a client".to_owned(), |from| from.to_string());
    let seconds = HANDSHAKE_TIMEOUT.as_secs();
    Failure::new(format!("{from}: the handshake, or a place for a stranger, took {seconds} s"))
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
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let (proof, place) = match chain.first() {
        Some(certificate) => {
            let (proof, place) = by_certificate(certificate, from, quotas, rules)?;
            (Proof::Certificate(Arc::new(proof)), Some(place))
        }
        // It takes the place of its ServiceAccount with its first token.
        None => {
            let session = TokenSession::begin(rules.clone(), quotas.clone(), from).await;
            (Proof::Tokens(Arc::new(session)), None)
        }
    };
    let (caller, client) = (proof.caller(), proof.clone());
    let excluded = Box::pin(rules.clone().until_refused(move || client.caller()));
    let stream = Expiring::new(stream, from, proof.clone(), excluded);
    let connection = Ends { local: at, peer: from };
    let remote = Some(RemotePeer { proof, rules: rules.clone(), connection });
    let peer = Peer { caller, opened: Instant::now(), remote };
    let places = Places { of_side: permit, of_caller: place };
    Ok(Connection::new(stream, peer, places))
}

/// The client with this certificate, and the place that its connection takes.
fn by_certificate(
    certificate: &CertificateDer,
    from: SocketAddr,
    quotas: &Quotas,
    rules: &Rules,
) -> Outcome<(CertificateProof, Held)> {
    let not_after = caller::not_after(certificate)?;
    let shown = ShownCertificate::of(certificate)?;
    let fingerprint = shown.fingerprint.clone();
    let caller = rules.caller(shown).ok_or_else(|| Failure::new("its role is gone"))?;
    let quota = quotas.of(Sha256::digest(certificate).into());
    let place = quota
        .hold(Limited::Connections, 1)
        .map_err(|status| Failure::new(format!("{caller} from {from}: {}", status.message())))?;
    record::connected(&caller, &fingerprint, from);
    let (caller, has_called) = (Arc::new(caller), AtomicBool::new(false));
    Ok((CertificateProof { caller, quota, not_after, has_called }, place))
}
