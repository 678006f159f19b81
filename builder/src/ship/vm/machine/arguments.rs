//! QEMU's command line for a machine (`qemu-system-x86_64(1)`), a pure function of [`Hardware`].

use super::{Accelerator, Hardware, Reboot, text};
use crate::error::{Error, Result};
use crate::plan::{Architecture, Bus};
use std::str::FromStr;

/// Forwards a port of the host's loopback to a port of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The host's port; 0 for any free one.
    pub host: u16,
    /// The node's port.
    pub node: u16,
}

/// The protocols of QEMU's user network. It has a DHCP server for IPv4, and router advertisements
/// with a prefix and a name server for IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// IPv4 and IPv6.
    #[default]
    Both,
    /// IPv4 alone.
    Ipv4,
    /// IPv6 alone.
    Ipv6,
}

impl Network {
    /// The part of the option `netdev`: enabling one protocol disables the other.
    fn argument(self) -> &'static str {
        match self {
            Network::Both => "",
            Network::Ipv4 => ",ipv4=on",
            Network::Ipv6 => ",ipv6=on",
        }
    }
}

impl FromStr for Forward {
    type Err = Error;

    /// Reads `HOST:NODE`.
    fn from_str(text: &str) -> Result<Self> {
        let ports = text
            .split_once(':')
            .and_then(|(host, node)| Some((host.parse().ok()?, node.parse().ok()?)));
        match ports {
            Some((host @ 1.., node @ 1..)) => Ok(Forward { host, node }),
            _ => Err(Error::usage(format!("`{text}` is not a port forward"))
                .hint("write a port of this machine and one of the node: `--forward 8080:80`")),
        }
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
        option("netdev", self.netdev());
        // No boot ROM: Debian has it in a separate package, and network boot is not needed.
        option("device", "virtio-net-pci,netdev=net,romfile=".to_owned());
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

    /// A private network through which the node reaches the host's networks. Its DHCP server sends
    /// the host name, if one is set.
    fn netdev(&self) -> String {
        let name = self
            .hostname
            .as_deref()
            .map(|name| format!(",hostname={}", escaped(name)))
            .unwrap_or_default();
        let forwards: String = self.forwards.iter().map(forward).collect();
        format!("user,id=net{}{name}{forwards}", self.network.argument())
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
        let size = self.sector_size;
        if self.qemu.bus == Bus::Ahci && size != 512 {
            return Err(Error::usage(format!(
                "QEMU's AHCI does not support disks with sectors of {size} bytes"
            ))
            .hint("try `--bus nvme`"));
        }
        let disk = format!(
            "{device},id=booted,drive=disk,bootindex=0,\
             logical_block_size={size},physical_block_size={size}"
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
    format!(",hostfwd=tcp:127.0.0.1:{}-:{}", forward.host, forward.node)
}

#[cfg(test)]
mod tests {
    use super::super::{Firmware, VirtualDisk};
    use super::*;
    use crate::plan::Qemu;

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
            sector_size: 512,
            forwards: vec![],
            network: Network::Both,
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
    }

    #[test]
    fn a_network_has_the_requested_protocols() {
        let line = |network| line(&Hardware { network, ..hardware() });
        assert!(line(Network::Both).contains("-netdev user,id=net "));
        assert!(line(Network::Ipv4).contains("-netdev user,id=net,ipv4=on "));
        assert!(line(Network::Ipv6).contains("-netdev user,id=net,ipv6=on "));
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
        for wrong in ["", "80", "80:", ":80", "80:0", "65536:80", "80:80:80", "a:b"] {
            let error = wrong.parse::<Forward>().unwrap_err();
            assert!(error.to_string().contains("--forward 8080:80"), "{wrong}: {error}");
        }
    }
}
