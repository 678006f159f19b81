//! A program in Go, skopeo, honours the variables of a proxy as containerd and the kubelet do: all
//! three read them with Go's `net/http`. The proxy is tinyproxy, in a network in which registries
//! are not on the loopback, which no program asks a proxy for.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::{self, sleep};
use std::time::Duration;

use osbuild_protocol::{Proxy, ProxyExclusion, Setting};
use tempfile::TempDir;

/// This variable is set in that network.
const INSIDE: &str = "OSBUILD_TEST_INSIDE";
/// Makes the network, and runs the test there that its first argument names.
const SCRIPT: &str = "ip link set lo up && for address in 192.0.2.1 192.0.2.2 198.51.100.7 \
                      169.254.169.254; do ip address add $address/32 dev lo; done && \
                      exec \"$0\" --exact \"$1\" --nocapture";
const PROXY_PORT: u16 = 3128;
const PORT: u16 = 5000;
const PAUSE: Duration = Duration::from_millis(20);
const MANIFEST: &str = concat!(
    "{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",",
    "\"config\":{\"mediaType\":\"application/vnd.oci.image.config.v1+json\",\"size\":2,\"digest\":",
    "\"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a\"},\"layers\":[]}"
);

#[test]
fn a_program_in_go_takes_the_proxy_and_its_exclusions_from_the_variables() {
    if std::env::var_os(INSIDE).is_some() {
        return skopeo_asks_the_proxy_in_a_network_of_its_own();
    }
    let status = Command::new("unshare")
        .args(["--net", "bash", "-c", SCRIPT])
        .arg(std::env::current_exe().unwrap())
        .arg("a_program_in_go_takes_the_proxy_and_its_exclusions_from_the_variables")
        .env(INSIDE, "1")
        .status()
        .expect("`unshare` of util-linux is not installed");
    assert!(status.success(), "{status}");
}

/// tinyproxy, until it is dropped.
struct Tinyproxy {
    child: Child,
    log: PathBuf,
    _folder: TempDir,
}

impl Tinyproxy {
    fn start() -> Tinyproxy {
        let folder = tempfile::tempdir().unwrap();
        let [file, log] = ["tinyproxy.conf", "tinyproxy.log"].map(|name| folder.path().join(name));
        let text = format!(
            "Port {PROXY_PORT}\nListen 127.0.0.1\nAllow 127.0.0.1\nTimeout 60\nMaxClients 20\n\
             LogLevel Connect\nLogFile \"{}\"\n",
            log.display()
        );
        fs::write(&file, text).unwrap();
        let mut command = Command::new("tinyproxy");
        let child = command.arg("-d").arg("-c").arg(file).stdout(Stdio::null()).spawn();
        let child = child.expect("`tinyproxy` is not installed");
        while TcpStream::connect((Ipv4Addr::LOCALHOST, PROXY_PORT)).is_err() {
            sleep(PAUSE);
        }
        Tinyproxy { child, log, _folder: folder }
    }

    /// How many requests for this host it has got.
    fn requests(&self, host: &str) -> usize {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let text = format!("GET http://{host}:{PORT}/");
        log.lines().filter(|line| line.contains(&text)).count()
    }
}

impl Drop for Tinyproxy {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).unwrap();
    }
}

/// A registry without TLS that has one manifest.
fn serve(address: Ipv4Addr) {
    let listener = TcpListener::bind((address, PORT)).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A client may close the connection at any time.
            thread::spawn(move || drop(answer(stream)));
        }
    });
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).split(b'\n').map_while(Result::ok);
    // A client that begins TLS learns that there is none.
    let is_http = lines.next().is_some_and(|line| line.starts_with(b"GET /v2/"));
    if is_http {
        lines.find(|line| line.as_slice() == b"\r");
    }
    let status = if is_http { "200 OK" } else { "400 Bad Request" };
    let length = MANIFEST.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/vnd.oci.image.manifest.v1+json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{MANIFEST}"
    )
}

fn proxy(words: &str) -> Proxy {
    match Setting::parse(&format!("proxy {words}")) {
        Ok(Setting::Proxy(proxy)) => proxy,
        other => panic!("{words}: {other:?}"),
    }
}

fn skopeo_asks_the_proxy_in_a_network_of_its_own() {
    let tinyproxy = Tinyproxy::start();
    let words = format!("http=http://127.0.0.1:{PROXY_PORT} no-proxy=198.51.100.0/24");
    let api_server = [ProxyExclusion::of_url("https://192.0.2.2:6443").unwrap()];
    let variables = proxy(&words).environment(&api_server);
    for (host, is_proxied) in [
        ("192.0.2.1", true),
        ("198.51.100.7", false),
        ("192.0.2.2", false),
        ("169.254.169.254", false),
        ("127.0.0.1", false),
    ] {
        serve(host.parse().unwrap());
        let output = Command::new("skopeo")
            .args(["inspect", "--raw", "--tls-verify=false"])
            .arg(format!("docker://{host}:{PORT}/a:1"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .output()
            .expect("`skopeo` is not installed");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.trim_end(), MANIFEST, "{host}: {output:?}");
        assert_eq!(tinyproxy.requests(host) > 0, is_proxied, "{host}");
    }
}
