//! Clients on the network: what is recorded of them, and how their connections end.

use crate::osd::{Client, NAMESPACE, TYPE, all, code, create, metadata, thing, watch};
use crate::remote::RemoteOsd;
use osbuild_cosi::resource::{
    DestroyRequest, GetRequest, ListRequest, ListResponse, TeardownAndDestroyRequest, WatchOptions,
};
use std::io::Read;
use std::time::{Duration, Instant, SystemTime};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use tonic::{Code, Response, Status, Streaming};

/// How long a call may go on that waits for another one.
pub const WAIT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_call_that_its_client_aborts_is_recorded() {
    let remote = RemoteOsd::start(&[]);
    let alice = remote.identity("alice", "admin");
    let mut client = remote.state(&alice).await;
    let mut held = thing("a");
    metadata(&mut held).finalizers.push("network".into());
    create(&mut client, held).await.unwrap();
    let request = || TeardownAndDestroyRequest {
        namespace: "system".into(),
        r#type: TYPE.into(),
        id: "a".into(),
        options: None,
    };
    let waits = timeout(WAIT, client.teardown_and_destroy(request())).await;
    assert!(waits.is_err(), "{waits:?}");
    let line = "call: admin \"alice\": cosi.resource.State/TeardownAndDestroy: aborted";
    remote.recorded(line, 1).await;

    let mut client = remote.state(&alice).await;
    let task = tokio::spawn(async move { client.teardown_and_destroy(request()).await });
    tokio::time::sleep(WAIT).await;
    // Its runtime forgets the connection with the call.
    task.abort();
    remote.recorded(line, 2).await;
}

#[tokio::test]
async fn changes_on_the_node_are_recorded_and_looks_are_not() {
    let remote = RemoteOsd::start(&[]);
    let local = &mut remote.osd.client().await;
    create(local, thing("a")).await.unwrap();
    assert_eq!(code(create(local, thing("a")).await), Code::AlreadyExists);
    let get = GetRequest {
        namespace: NAMESPACE.into(),
        r#type: TYPE.into(),
        id: "a".into(),
        options: None,
    };
    local.get(get).await.unwrap();
    create(local, thing("b")).await.unwrap();
    let of_local = "call: local: cosi.resource.State/";
    let last = format!("{of_local}Create: done: Things.example(system/b)\n");
    let record = remote.recorded(&last, 1).await;
    for line in ["Create: done: Things.example(system/a)\n", "Create: refused: "] {
        assert!(record.contains(&format!("{of_local}{line}")), "{record}");
    }
    assert_eq!(record.matches(of_local).count(), 3, "{record}");
}

#[tokio::test]
async fn a_reader_pushes_nothing_out_of_the_record() {
    let remote = RemoteOsd::start(&[]);
    let [alice, bob] =
        [("alice", "admin"), ("bob", "reader")].map(|(name, role)| remote.identity(name, role));
    let reader = &mut remote.state(&bob).await;
    let get = || GetRequest {
        namespace: NAMESPACE.into(),
        r#type: TYPE.into(),
        id: "a".into(),
        options: None,
    };
    for _ in 0..200 {
        assert_eq!(code(reader.get(get()).await), Code::NotFound);
        assert_eq!(code(create(reader, thing("a")).await), Code::PermissionDenied);
    }
    let admin = &mut remote.state(&alice).await;
    for number in 0..100 {
        create(admin, thing(&number.to_string())).await.unwrap();
    }
    let done = "call: admin \"alice\": cosi.resource.State/Create: done";
    let record = remote.recorded(done, 100).await;
    let lines = record.matches("call: reader \"bob\"").count();
    assert!((60..200).contains(&lines), "{lines}");
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(code(reader.get(get()).await), Code::NotFound);
    remote.recorded("lines are left out: calls of reader \"bob\" that change nothing", 1).await;
}

/// The limit of the pod's memory, in KiB.
pub const MEMORY_LIMIT: usize = 64 << 10;

/// A list whose messages the client does not take.
async fn untaken_list(mut client: Client) -> Result<Streaming<ListResponse>, Status> {
    let (namespace, r#type) = (NAMESPACE.into(), TYPE.into());
    let request = ListRequest { namespace, r#type, options: None };
    client.list(request).await.map(Response::into_inner)
}

#[tokio::test]
async fn clients_that_take_nothing_do_not_fill_the_memory() {
    let mut remote = RemoteOsd::start(&[]);
    let local = &mut remote.osd.client().await;
    for id in ["a", "b", "c"] {
        let mut large = thing(id);
        large.spec.as_mut().unwrap().proto_spec = vec![0; 1_000_000];
        create(local, large).await.unwrap();
    }
    let mut held = Vec::new();
    let mut refused = 0;
    for caller in 0..4 {
        let reader = remote.identity(&caller.to_string(), "reader");
        for _ in 0..16 {
            let client = remote.state(&reader).await;
            for _ in 0..20 {
                match untaken_list(client.clone()).await {
                    Ok(stream) => held.push(stream),
                    Err(status) => {
                        assert_eq!(status.code(), Code::ResourceExhausted);
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(held.len() <= 256 && refused >= 4 * 16 * 20 - 256, "{} {refused}", held.len());
    let memory = peak_memory(remote.osd.process().id());
    assert!(memory < MEMORY_LIMIT, "{memory} KiB");
    let mut watches = Vec::new();
    for _ in 0..1000 {
        watches.push(watch(local, all(WatchOptions::default())).await.unwrap());
    }
    // The quota of the dropped calls is available to others.
    drop(held);
    let client = remote.state(&remote.identity("0", "reader")).await;
    while untaken_list(client.clone()).await.is_err() {
        tokio::task::yield_now().await;
    }
}

/// The most memory that a process has had, in KiB.
pub fn peak_memory(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

#[tokio::test]
async fn one_caller_keeps_no_other_out() {
    let remote = RemoteOsd::start(&[]);
    let [greedy, other] = ["greedy", "other"].map(|name| remote.identity(name, "reader"));
    let mut connections = Vec::new();
    for _ in 0..16 {
        connections.push(remote.state(&greedy).await);
    }
    let mut watches = Vec::new();
    for _ in 0..64 {
        let client = &mut connections[0];
        watches.push(watch(client, all(WatchOptions::default())).await.unwrap());
    }
    let refused = connections[1].watch(all(WatchOptions::default())).await;
    assert_eq!(code(refused), Code::ResourceExhausted);
    let mut seventeenth = remote.tls(&greedy).await.unwrap();
    let read = timeout(10 * WAIT, seventeenth.read(&mut [0; 64])).await.unwrap();
    assert!(!matches!(read, Ok(1..)), "{read:?}");
    remote.recorded("this client would hold more than 16 connections", 1).await;
    watch(&mut remote.state(&other).await, all(WatchOptions::default())).await.unwrap();
}

#[tokio::test]
async fn a_certificate_without_a_role_is_refused_at_the_handshake() {
    let remote = RemoteOsd::start(&[]);
    let mut stream = remote.tls(&remote.identity("alice", "osbuild")).await.unwrap();
    let alert = stream.read(&mut [0; 64]).await.unwrap_err();
    let alert = alert.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let denied = rustls::Error::AlertReceived(rustls::AlertDescription::AccessDenied);
    assert_eq!(alert, Some(&denied));
    remote.recorded("the certificate names no role as its organization", 1).await;
}

#[tokio::test]
async fn a_client_that_makes_no_call_is_closed() {
    let remote = RemoteOsd::start(&[]);
    let mut stream = remote.tls(&remote.identity("alice", "reader")).await.unwrap();
    let closed = async { while !matches!(stream.read(&mut [0; 64]).await, Ok(0) | Err(_)) {} };
    let began = Instant::now();
    timeout(Duration::from_secs(30), closed).await.unwrap();
    assert!(began.elapsed() > Duration::from_secs(9));
    let record = remote.recorded("it makes no call", 1).await;
    assert!(record.contains("connection: closed: reader \"alice\" from 127.0.0.1:"), "{record}");
}

#[tokio::test]
async fn a_connection_ends_with_its_certificate() {
    let remote = RemoteOsd::start(&[]);
    let end = SystemTime::now() + Duration::from_secs(3);
    let alice = remote.identity_until("alice", "reader", end);
    let mut client = remote.state(&alice).await;
    watch(&mut client, all(WatchOptions::default())).await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(client.watch(all(WatchOptions::default())).await.is_err());
    remote.recorded("its certificate has expired", 1).await;
    let mut again = remote.tls(&alice).await.unwrap();
    assert!(again.read(&mut [0; 64]).await.is_err());
}

/// A call that fails, and whose line in the record is long. It is one that may change something, of
/// which all are recorded.
async fn refused(client: &mut Client) -> Code {
    let (namespace, r#type, id) = (NAMESPACE.into(), TYPE.into(), "a".repeat(200));
    code(client.destroy(DestroyRequest { namespace, r#type, id, options: None }).await)
}

#[tokio::test]
async fn a_reader_of_the_record_that_takes_nothing_holds_up_no_call() {
    let (remote, mut record) = RemoteOsd::start_unread(&[]);
    let client = &mut remote.state(&remote.identity("alice", "admin")).await;
    // More than the pipe and the queue hold.
    for _ in 0..2000 {
        assert_eq!(refused(client).await, Code::NotFound);
    }
    std::thread::spawn(move || std::io::copy(&mut record, &mut std::io::sink()));
    tokio::time::sleep(WAIT).await;
    assert_eq!(refused(client).await, Code::NotFound);
}

#[tokio::test]
async fn lines_that_nobody_has_read_are_counted() {
    let (remote, mut record) = RemoteOsd::start_unread(&[]);
    let client = &mut remote.state(&remote.identity("alice", "admin")).await;
    for _ in 0..2000 {
        refused(client).await;
    }
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        record.read_to_string(&mut text).unwrap();
        text
    });
    tokio::time::sleep(WAIT).await;
    refused(client).await;
    tokio::time::sleep(WAIT).await;
    drop(remote);
    let record = reader.join().unwrap();
    let lost = record.lines().find_map(|line| line.strip_prefix("record: ")).unwrap();
    let lost: usize =
        lost.strip_suffix(" lines are lost: nobody has read them").unwrap().parse().unwrap();
    let written = record.lines().filter(|line| line.starts_with("call: ")).count();
    assert_eq!(written + lost, 2001, "{lost}");
}

#[tokio::test]
async fn a_closed_record_ends_no_osd() {
    let (mut remote, record) = RemoteOsd::start_unread(&[]);
    drop(record);
    let client = &mut remote.state(&remote.identity("alice", "admin")).await;
    for id in ["a", "b"] {
        create(client, thing(id)).await.unwrap();
    }
    assert!(remote.osd.process().try_wait().unwrap().is_none());
}

#[tokio::test]
async fn refusals_are_recorded_once_a_second() {
    let remote = RemoteOsd::start(&[]);
    let stranger = remote.identity("mallory", "osbuild");
    let began = Instant::now();
    for _ in 0..20 {
        let mut stream = remote.tls(&stranger).await.unwrap();
        assert!(stream.read(&mut [0; 64]).await.is_err());
    }
    let at_most = 1 + usize::try_from(began.elapsed().as_secs()).unwrap();
    tokio::time::sleep(WAIT).await;
    let record = remote.recorded("connection: refused", 1).await;
    let lines = record.lines().filter(|line| line.starts_with("connection: refused")).count();
    assert!((1..=at_most).contains(&lines), "{record}");
}

#[tokio::test]
async fn what_ends_the_listening_is_recorded_each_time() {
    let remote = RemoteOsd::start(&[]);
    let clients = remote.osd.socket().with_file_name("clients.crt");
    let away = clients.with_extension("away");
    let mut address = remote.address.to_string();
    for times in 1..=2 {
        std::fs::rename(&clients, &away).unwrap();
        // A connection has the program read the file again.
        drop(tokio::net::TcpStream::connect(&address).await.unwrap());
        remote.recorded("no client may connect over the network", times).await;
        std::fs::rename(&away, &clients).unwrap();
        let record = remote.recorded("listening at ", times).await;
        let (_, listening) = record.rsplit_once("listening at ").unwrap();
        address = listening.split(' ').next().unwrap().to_owned();
    }
}
