//! A real proxy, tinyproxy, in a network in which the server of releases is not on the loopback,
//! which no program asks a proxy for.

mod world;

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use world::{Fault, Release, Server, World};

/// This variable is set in that network.
const INSIDE: &str = "OSBUILD_TEST_INSIDE";
/// Makes the network, and runs the test there that its first argument names.
const SCRIPT: &str = "ip link set lo up && ip address add 192.0.2.1/32 dev lo && \
                      exec \"$0\" --exact \"$1\" --nocapture";
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PORT: u16 = 3128;
const PAUSE: Duration = Duration::from_millis(20);

#[test]
fn a_release_comes_through_the_proxy_of_now() {
    if std::env::var_os(INSIDE).is_some() {
        return follows_the_proxy_in_a_network_of_its_own();
    }
    let status = Command::new("unshare")
        .args(["--net", "bash", "-c", SCRIPT])
        .arg(std::env::current_exe().unwrap())
        .arg("a_release_comes_through_the_proxy_of_now")
        .env(INSIDE, "1")
        .status()
        .expect("`unshare` of util-linux is not installed");
    assert!(status.success(), "{status}");
}

/// tinyproxy, until it is dropped.
struct Proxy {
    child: Child,
    log: PathBuf,
}

impl Proxy {
    fn start(folder: &Path) -> Proxy {
        let [configuration, log] =
            ["tinyproxy.conf", "tinyproxy.log"].map(|name| folder.join(name));
        let text = format!(
            "Port {PORT}\nListen 127.0.0.1\nAllow 127.0.0.1\nTimeout 60\nMaxClients 20\n\
             LogLevel Connect\nLogFile \"{}\"\n",
            log.display()
        );
        fs::write(&configuration, text).unwrap();
        let child = Command::new("tinyproxy")
            .arg("-d")
            .arg("-c")
            .arg(configuration)
            .stdout(Stdio::null())
            .spawn()
            .expect("`tinyproxy` is not installed");
        while std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).is_err() {
            sleep(PAUSE);
        }
        Proxy { child, log }
    }

    /// How many requests for the server it has got.
    fn requests(&self) -> usize {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| line.contains("GET http://192.0.2.1")).count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).unwrap();
    }
}

fn follows_the_proxy_in_a_network_of_its_own() {
    let world = World::new();
    let folder = world.publish(&Release::new(2));
    let server = Server::start_at(SERVER, &folder, Fault::None);
    let proxy = Proxy::start(&world.folder("keys"));
    let variables = world.folder("environment");
    let write = |text: &str| fs::write(&variables, text).unwrap();

    // Nobody listens there.
    write("HTTP_PROXY=http://127.0.0.1:1\nNO_PROXY=localhost,127.0.0.0/8\n");
    let line = world.run_until(&server.url(), |line, lines| {
        if lines == 1 {
            assert!(!line.contains("installed"), "{line}");
            write(&format!("HTTP_PROXY=http://127.0.0.1:{PORT}\nNO_PROXY=localhost\n"));
        }
        line.contains("installed")
    });
    assert_eq!(line, "2 is installed: the node reboots into it");
    assert!(proxy.requests() > 3, "{}", proxy.requests());

    // Requests to excluded addresses, and all requests without a proxy, go to the server itself.
    let before = proxy.requests();
    write(&format!("HTTP_PROXY=http://127.0.0.1:{PORT}\nNO_PROXY=192.0.2.0/24\n"));
    world.run_until(&server.url(), |_, lines| lines == 1);
    fs::remove_file(&variables).unwrap();
    world.run_until(&server.url(), |_, lines| lines == 1);
    assert_eq!(proxy.requests(), before);
}
