//! QEMU's command line for a machine (`qemu-system-x86_64(1)`), a pure function of [`Hardware`].

use super::{Accelerator, Hardware, Reboot, text};
use crate::error::{Error, Result};
use crate::plan::{Architecture, Bus};
use crate::ship::vm::network::{Protocols, ipv4, mac};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::str::FromStr;

/// Forwards a port of the host's loopback to a port of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The host's address, one of 127.0.0.0/8.
    pub address: Ipv4Addr,
    /// The host's port; 0 for any free one.
    pub host: u16,
    /// The node's port.
    pub node: u16,
}

impl FromStr for Forward {
    type Err = Error;

    /// Reads `[ADDRESS:]HOST:NODE`.
    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let (rest, node) = text.rsplit_once(':')?;
            let (address, host) = match rest.split_once(':') {
                Some((address, host)) => (address.parse().ok()?, host),
                None => (Ipv4Addr::LOCALHOST, rest),
            };
            let (host, node) = (host.parse().ok()?, node.parse().ok()?);
            let is_usable = address.is_loopback() && host > 0 && node > 0;
            is_usable.then_some(Forward { address, host, node })
        };
        read().ok_or_else(|| {
            Error::usage(format!("`{text}` is not a port forward")).hint(
                "write a port of this machine and one of the node, `--forward 8080:80`, with an \
                 address of the loopback if you like, `--forward 127.0.0.2:8080:80`",
            )
        })
    }
}

impl Hardware {
    /// The arguments, without the program's name. The serial console is on stdin and stdout;
    /// `Ctrl-A x` ends QEMU.
    pub(super) fn arguments(&self) -> Result<Vec<String>> {
        let mut arguments: Vec<String> =
            ["-nodefaults", "-no-user-config", "-display", "none"].map(str::to_owned).into();
        let mut option = |name: &str, value: String| arguments.extend([format!("-{name}"), value]);
        option("machine", self.machine());
        option("accel", self.accelerator.argument().to_owned());
        option(
            "cpu",
            if self.accelerator == Accelerator::Kvm {
                "host".to_owned()
            } else {
                self.qemu.cpu.clone()
            },
        );
        option("smp", self.qemu.cpus.to_string());
        option("m", self.qemu.memory_mib.to_string());
        option(
            "drive",
            format!(
                "if=pflash,unit=0,format=raw,readonly=on,file={}",
                escaped(&text(&self.firmware.code)?)
            ),
        );
        option(
            "drive",
            format!(
                "if=pflash,unit=1,format=raw,file={}",
                escaped(&text(&self.firmware.variables)?)
            ),
        );
        if self.protects_variables() {
            // Only the firmware can write its variables.
            option("global", "driver=cfi.pflash01,property=secure,value=on".to_owned());
            option("global", "ICH9-LPC.disable_s3=1".to_owned());
        }
        option("drive", format!("if=none,id=disk,{}", self.disk.drive()?));
        for device in self.disk_devices()? {
            option("device", device);
        }
        for (name, value) in self.network() {
            option(name, value);
        }
        option("device", "virtio-rng-pci".to_owned());
        if self.watchdog {
            option("device", "i6300esb".to_owned());
            option("action", "watchdog=reset".to_owned());
        }
        option("chardev", "stdio,id=console,mux=on,signal=on".to_owned());
        option("serial", "chardev:console".to_owned());
        option("mon", "chardev=console,mode=readline".to_owned());
        if self.reboot == Reboot::PowerOff {
            arguments.push("-no-reboot".to_owned());
        }
        arguments.extend(self.arguments.iter().cloned());
        Ok(arguments)
    }

    /// The network card, and the user network through which the node reaches the host's networks.
    /// On a shared network both are connected to this process instead of to each other.
    fn network(&self) -> Vec<(&'static str, String)> {
        // No boot ROM: Debian has it in a separate package, and network boot is not needed.
        let card = "virtio-net-pci,netdev=net,romfile=";
        let Some(port) = &self.port else {
            return vec![("netdev", self.user_network("net")), ("device", card.to_owned())];
        };
        let stream = |id: &str, number: i32| {
            format!("stream,id={id},server=off,addr.type=fd,addr.str={number}")
        };
        let hub_port = |id: &str, end: &str| format!("hubport,id={id},hubid=0,netdev={end}");
        vec![
            ("netdev", stream("net", port.card.as_raw_fd())),
            ("device", format!("{card},mac={}", mac(port.number))),
            ("netdev", self.user_network("user")),
            ("netdev", stream("host", port.host.as_raw_fd())),
            ("netdev", hub_port("user-port", "user")),
            ("netdev", hub_port("host-port", "host")),
        ]
    }

    /// QEMU's user network. Its DHCP server sends the host name, if one is set.
    fn user_network(&self, id: &str) -> String {
        // Enabling one protocol disables the other.
        let protocols = match self.protocols {
            Protocols::Both => "",
            Protocols::Ipv4 => ",ipv4=on",
            Protocols::Ipv6 => ",ipv6=on",
        };
        let start = match &self.port {
            Some(port) if self.protocols != Protocols::Ipv6 => {
                format!(",dhcpstart={}", ipv4(port.number))
            }
            _ => String::new(),
        };
        let name = self
            .hostname
            .as_deref()
            .map(|name| format!(",hostname={}", escaped(name)))
            .unwrap_or_default();
        let forwards: String = self.forwards.iter().map(forward).collect();
        format!("user,id={id}{protocols}{start}{name}{forwards}")
    }

    fn machine(&self) -> String {
        let smm = if self.protects_variables() { ",smm=on" } else { "" };
        format!("{}{smm}", self.qemu.machine)
    }

    /// Whether the firmware protects its variables with System Management Mode, which QEMU does not
    /// have for arm64.
    fn protects_variables(&self) -> bool {
        self.secure_boot && self.architecture == Architecture::Amd64
    }

    /// The disk, and the controller that it needs, if any.
    fn disk_devices(&self) -> Result<Vec<String>> {
        let (controller, device) = match self.qemu.bus {
            Bus::Ahci => (Some("ich9-ahci"), "ide-hd,bus=controller.0"),
            Bus::Nvme => (None, "nvme,serial=osbuild"),
            Bus::Usb => (Some("qemu-xhci"), "usb-storage,bus=controller.0"),
            Bus::VirtioBlk => (None, "virtio-blk-pci"),
            Bus::VirtioScsi => (Some("virtio-scsi-pci"), "scsi-hd,bus=controller.0"),
        };
        // QEMU merges requests up to the maximum number of buffers of a write (IOV_MAX), and cannot
        // record one with its own buffer for the metadata in front: the node has an I/O error.
        let merging = match self.qemu.bus {
            Bus::VirtioBlk if self.disk.is_recorded() => ",request-merging=off",
            _ => "",
        };
        let size = self.sector_size;
        if self.qemu.bus == Bus::Ahci && size != 512 {
            return Err(Error::usage(format!(
                "QEMU's AHCI does not support disks with sectors of {size} bytes"
            ))
            .hint("try `--bus nvme`"));
        }
        let disk = format!(
            "{device},id=booted,drive=disk,bootindex=0,\
             logical_block_size={size},physical_block_size={size}{merging}"
        );
        Ok(controller
            .map(|controller| format!("{controller},id=controller"))
            .into_iter()
            .chain([disk])
            .collect())
    }
}

/// Escapes a value for an option's list by doubling commas.
pub(super) fn escaped(value: &str) -> String {
    value.replace(',', ",,")
}

fn forward(forward: &Forward) -> String {
    let Forward { address, host, node } = forward;
    format!(",hostfwd=tcp:{address}:{host}-:{node}")
}

#[cfg(test)]
mod tests {
    use super::super::{Firmware, VirtualDisk};
    use super::*;
    use crate::plan::Qemu;
    use crate::ship::vm::network::Port;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    fn hardware() -> Hardware {
        Hardware {
            architecture: Architecture::Amd64,
            qemu: Qemu {
                machine: "q35".into(),
                cpu: "max".into(),
                memory_mib: 2048,
                cpus: 2,
                bus: Bus::VirtioBlk,
            },
            accelerator: Accelerator::Tcg,
            firmware: Firmware { code: "/code.fd".into(), variables: "/vars.fd".into() },
            secure_boot: false,
            disk: VirtualDisk::existing("/out/a,b.raw".into()),
            lock: None,
            sector_size: 512,
            forwards: vec![],
            protocols: Protocols::Both,
            port: None,
            hostname: None,
            watchdog: false,
            arguments: vec![],
            reboot: Reboot::Allow,
        }
    }

    fn on(bus: Bus) -> Hardware {
        let hardware = hardware();
        Hardware { qemu: Qemu { bus, ..hardware.qemu }, ..hardware }
    }

    fn line(hardware: &Hardware) -> String {
        hardware.arguments().unwrap().join(" ")
    }

    #[test]
    fn a_comma_in_a_path_does_not_end_it() {
        assert!(line(&hardware()).contains("file=/out/a,,b.raw"));
    }

    #[test]
    fn a_forwarded_port_is_open_only_on_the_loopback() {
        let forwards = vec!["8080:80".parse().unwrap()];
        assert!(
            line(&Hardware { forwards, ..hardware() })
                .contains("-netdev user,id=net,hostfwd=tcp:127.0.0.1:8080-:80 ")
        );
        let forwards = vec!["127.0.0.2:8080:80".parse().unwrap()];
        assert!(
            line(&Hardware { forwards, ..hardware() }).contains(",hostfwd=tcp:127.0.0.2:8080-:80 ")
        );
    }

    #[test]
    fn a_network_has_the_requested_protocols() {
        let line = |protocols| line(&Hardware { protocols, ..hardware() });
        assert!(line(Protocols::Both).contains("-netdev user,id=net "));
        assert!(line(Protocols::Ipv4).contains("-netdev user,id=net,ipv4=on "));
        assert!(line(Protocols::Ipv6).contains("-netdev user,id=net,ipv6=on "));
    }

    #[test]
    fn the_card_of_a_shared_network_is_not_connected_to_the_user_network() {
        let [card, host] = [(); 2].map(|()| Arc::new(UnixStream::pair().unwrap().0));
        let fds = [card.as_raw_fd(), host.as_raw_fd()];
        let port = Some(Port { number: 2, card, host });
        let shared = Hardware { port, hostname: Some("c".into()), ..hardware() };
        let expected = format!(
            "-netdev stream,id=net,server=off,addr.type=fd,addr.str={} \
             -device virtio-net-pci,netdev=net,romfile=,mac=52:54:00:00:02:11 \
             -netdev user,id=user,dhcpstart=10.0.2.17,hostname=c \
             -netdev stream,id=host,server=off,addr.type=fd,addr.str={} \
             -netdev hubport,id=user-port,hubid=0,netdev=user \
             -netdev hubport,id=host-port,hubid=0,netdev=host ",
            fds[0], fds[1]
        );
        assert!(line(&shared).contains(&expected), "{}", line(&shared));
        let without_ipv4 = Hardware { protocols: Protocols::Ipv6, ..shared };
        assert!(line(&without_ipv4).contains("-netdev user,id=user,ipv6=on,hostname=c "));
    }

    #[test]
    fn a_host_name_is_sent_by_dhcp_if_it_is_set() {
        assert!(line(&hardware()).contains("-netdev user,id=net "));
        let named = Hardware {
            hostname: Some("edge-7".into()),
            forwards: vec!["8080:80".parse().unwrap()],
            ..hardware()
        };
        assert!(
            line(&named)
                .contains("-netdev user,id=net,hostname=edge-7,hostfwd=tcp:127.0.0.1:8080-:80 ")
        );
    }

    #[test]
    fn the_disk_has_the_boards_bus_and_sector_size() {
        let nvme = Hardware { sector_size: 4096, ..on(Bus::Nvme) };
        assert!(line(&nvme).contains(
            "-device nvme,serial=osbuild,id=booted,drive=disk,bootindex=0,\
             logical_block_size=4096,physical_block_size=4096"
        ));
    }

    #[test]
    fn requests_of_a_recorded_disk_are_not_merged() {
        let off = ",request-merging=off";
        assert!(!line(&hardware()).contains(off));
        let disk = VirtualDisk::existing("/out/a.raw".into()).recorded("/out/writes".into());
        assert!(line(&Hardware { disk, ..hardware() }).contains(off));
    }

    #[test]
    fn a_disk_that_needs_a_controller_follows_it() {
        for bus in [Bus::Ahci, Bus::Usb, Bus::VirtioScsi] {
            let line = line(&on(bus));
            let (controller, disk) = (
                line.find(",id=controller -device "),
                line.find(",bus=controller.0,id=booted,drive=disk,bootindex=0,"),
            );
            assert!(controller.unwrap() < disk.unwrap(), "{line}");
        }
    }

    #[test]
    fn a_bus_without_the_sector_size_is_refused_with_an_alternative() {
        let error = Hardware { sector_size: 4096, ..on(Bus::Ahci) }.arguments().unwrap_err();
        assert_eq!(error.problems[0].hint.as_deref(), Some("try `--bus nvme`"));
    }

    #[test]
    fn the_hosts_processor_is_used_only_with_kvm() {
        assert!(line(&hardware()).contains("-accel tcg,thread=multi -cpu max"));
        assert!(
            line(&Hardware { accelerator: Accelerator::Kvm, ..hardware() })
                .contains("-accel kvm -cpu host")
        );
    }

    #[test]
    fn a_watchdog_resets_the_machine() {
        assert!(
            line(&Hardware { watchdog: true, ..hardware() })
                .contains("-device i6300esb -action watchdog=reset ")
        );
        assert!(!line(&hardware()).contains("i6300esb"));
    }

    #[test]
    fn firmware_with_secure_boot_protects_its_variables() {
        assert!(
            line(&hardware()).contains("-machine q35 ") && !line(&hardware()).contains("secure")
        );
        let secure = line(&Hardware { secure_boot: true, ..hardware() });
        assert!(
            secure.contains("-machine q35,smm=on ") && secure.contains("property=secure,value=on")
        );
    }

    #[test]
    fn a_wrong_forward_is_refused_with_an_example() {
        for wrong in [
            "",
            "80",
            "80:",
            ":80",
            "80:0",
            "65536:80",
            "80:80:80",
            "a:b",
            "10.0.0.1:80:80",
            "0.0.0.0:80:80",
            "::1:80:80",
        ] {
            let error = wrong.parse::<Forward>().unwrap_err();
            assert!(error.to_string().contains("--forward 8080:80"), "{wrong}: {error}");
        }
    }
}
