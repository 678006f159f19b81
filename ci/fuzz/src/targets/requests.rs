//! Requests that pods send to `init`'s sockets.

use init::lines::Lines;
use osbuild_protocol::{MAX_LINE, Request, Socket};

use crate::target::{Memory, Outcome, Target, in_pieces};

/// See the module. For inputs see [`in_pieces`].
pub const TARGET: Target = Target { name: "requests", seeds, run, memory: Memory::per_byte(64) };

fn run(input: &[u8]) -> Outcome {
    let Some(lines) = in_pieces(input, lines) else { return Outcome::Refused };
    let mut outcome = Outcome::Refused;
    for line in lines {
        for socket in Socket::ALL {
            if let Ok(request) = Request::decode(socket, &line) {
                outcome = Outcome::Accepted;
                let written = request.to_string();
                assert!(written.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{written:?}");
                assert_eq!(Request::decode(socket, &written), Ok(request), "{written:?}");
            }
        }
    }
    outcome
}

fn lines(bytes: &[u8], size: usize) -> Vec<String> {
    let mut waiting = Lines::default();
    let mut lines = Vec::new();
    for piece in bytes.chunks(size) {
        waiting.push(piece);
        while let Some(line) = waiting.take(MAX_LINE) {
            assert!(line.len() <= 3 * MAX_LINE);
            lines.push(line);
        }
        assert!(waiting.pending() < MAX_LINE);
    }
    lines
}

fn seeds() -> Vec<Vec<u8>> {
    let requests = [
        "hostname Node-1.example.org",
        "resolv 10.0.2.3 fec0::3 search example.org a_b.example",
        "resolv",
        "ntp 10.0.2.4 ::1",
        "address 10.0.2.15/24 on eth0",
        "address fe80::1/64 10.0.2.15/24 on eth0.1",
        "address on eth0",
        "router-advertisements on eth0",
        "last",
        "set -7 by 2 of 3",
        "refused 7 by 1 of 1",
        "status",
        "restart kubelet",
        "reboot",
        "power-off",
        "slot",
        "try",
        "boot-program",
        "apply static-pod web host-network volume=c:memory:1Mi container=web image=a/b:1 \
         arg=a%20b env=A=b limit-memory=64Mi port=80/TCP mount=c:ro:/c user=7 privileged \
         capability=CHOWN liveness=0:9:0:0:http:80:/ readiness=0:0:0:0:exec:/b,%2c",
        "apply routing-rule ipv4 2000 table=7 from=10.0.0.0/8 iif=lo fwmark=0x1/0xff",
        "apply nat lan masquerade link=wwan* sources=10.8.0.0/24,fd00::/64",
        "apply nat web destination link=eth0 protocol=tcp address=192.0.2.7 port=80 to=10.8.0.5 \
         to-port=8080",
        "apply route 0.0.0.0/0 512 table 7 via 10.0.2.2 on eth0",
        "apply link wg0 made wireguard private-key=+C5uPI+LwtD0ASrcA8O3unwdwbH4oh00+FQs+0Pho28= \
         listen-port=9 fwmark=0x1 peers=I2VYQH8unqEV3+Q4DFptm46PcT4LJqU+7euvnbk9pl4=,\
         endpoint=[::1]:9,keepalive=9,allowed=::/0",
        "wireguard wg0 public-key=I2VYQH8unqEV3+Q4DFptm46PcT4LJqU+7euvnbk9pl4= listen-port=9",
        "apply motd Rack%207%0a100%25",
        "withdraw motd",
        "apply seccomp-profile a default=ERRNO/1 architectures=X86 calls=LOG:read \
         argument=0:1:0:EQ",
        "withdraw seccomp-profile a",
        "apply cluster-join server=https://a:6443 ca=MIIB token=abcdef.0123456789abcdef \
         dns=10.96.0.10,fd00::a domain=a.b",
        "withdraw cluster-join",
        "cluster 1790000000 not-ready ask 10.0.2.2: refused",
        "apply credential-provider ecr cache=12h api=v1 images=*.a,b:5000/c arg=get%20it env=A=b",
        "withdraw credential-provider ecr",
        "apply control-plane apiVersion:%20kubeadm.k8s.io/v1%0akind:%20ClusterConfiguration%0a",
        "withdraw control-plane",
        "apply swap size=50% memory-limit=256Mi pods",
        "withdraw swap",
        "apply system-image a.example/b:1 kept",
        "withdraw system-image a.example/b:1",
        "apply kernel-module dm-crypt built-in",
        "withdraw kernel-module dm_crypt",
        "withdraw static-pod web",
        "apply volume db wwid=t10.ATA%20%20QEMU",
        "withdraw volume db",
        "progress 2 comes [phase=downloading received=1 of=2 offered=2 checked=1 next=2]",
        "serves sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    ];
    let all = format!("\u{7}{}\r\n", requests.join("\n")).into_bytes();
    let each = requests.map(|line| format!("\u{40}{line}\n").into_bytes());
    std::iter::once(all).chain(each).collect()
}
