//! A privileged pod cannot change the running kernel, which has what other programs require.

use super::facts::{Facts, expect};
use osbuild::ship::audit::inspect::Inspection;
use rustix::io::Errno;
use std::collections::BTreeSet;

type Holds = Result<(), String>;

/// The options that network plugins and container engines require.
const REQUIRED: &str = include_str!("../../../../components/linux/required.txt");
/// containerd's name for the profile of pods.
const POD_PROFILE: &str = "cri-containerd.apparmor.d";
/// How many options the list has at least.
const MIN_REQUIRED: usize = 50;

/// The image's kernel has every option of [`REQUIRED`].
pub fn has_what_others_require(inspection: &Inspection) -> Holds {
    let uki = inspection.uki.as_ref().ok_or("the image has no UKI")?;
    let options = uki.kernel_options.as_ref().ok_or("the kernel has no configuration")?;
    let lines = REQUIRED.lines().filter(|line| !line.starts_with(['#', '[']));
    let names: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let is_missing = |name: &&str| options.get(*name).is_none_or(|value| value != "y");
    expect(names.iter().copied().filter(is_missing).collect(), Vec::<&str>::new())?;
    expect(names.len() >= MIN_REQUIRED, true)
}

/// The signed command line turns an oops and a soft lockup into a panic, and a panic into a
/// restart.
pub fn restarts(facts: &Facts) -> Holds {
    expect(number(facts, "panic_on_oops")?, 1)?;
    expect(number(facts, "softlockup_panic")?, 1)?;
    expect(number(facts, "panic")?, 10)
}

/// A number that the kernel reports.
pub fn number(facts: &Facts, name: &str) -> Result<u64, String> {
    let fact = facts.all("kernel").find(|fact| fact[0] == name);
    fact.and_then(|fact| fact.get(1)?.parse().ok())
        .ok_or_else(|| format!("the probe does not report `kernel {name}`"))
}

/// The probe has every capability and no seccomp filter, so a refusal is the kernel's own.
pub fn gives_all_rights(facts: &Facts) -> Holds {
    let last = facts.number("rights", 1)?;
    let rights = facts.all("rights").next().unwrap_or_default();
    expect(u64::from_str_radix(rights[0], 16), Ok(u64::MAX >> 63_u64.saturating_sub(last)))?;
    expect(rights.get(2), Some(&"0"))?;
    // The kernel checks the caller's capability before the arguments.
    expect(error(facts, "call", "reboot")?, Errno::INVAL.raw_os_error())?;
    expect(error(facts, "device", "null")?, 0)?;
    expect(error(facts, "pci", "read")?, 0)
}

/// The kernel reports lockdown, and refuses root a write to a device's registers.
pub fn is_locked_down(facts: &Facts) -> Holds {
    let levels = facts.all("lockdown").next().unwrap_or_default();
    if !["[integrity]", "[confidentiality]"].iter().any(|level| levels.contains(level)) {
        return Err(format!("the kernel reports {levels:?}"));
    }
    expect(error(facts, "pci", "write")?, Errno::PERM.raw_os_error())
}

/// The system calls are not compiled in, so no capability and no flaw in lockdown enables them.
pub fn starts_no_kernel_and_loads_no_module(facts: &Facts) -> Holds {
    let calls = ["kexec_load", "kexec_file_load", "init_module", "finit_module"];
    calls.iter().try_for_each(|call| match error(facts, "call", call)? {
        number if number == Errno::NOSYS.raw_os_error() => Ok(()),
        number => Err(format!("`{call}` ends with error {number}")),
    })
}

/// Not even a device node that the probe makes itself opens the memory.
pub fn shows_no_memory(facts: &Facts) -> Holds {
    for name in ["mem", "port"] {
        expect(error(facts, "device", name)?, Errno::NXIO.raw_os_error())?;
    }
    expect(facts.0.lines().any(|fact| fact == "kcore"), false)
}

/// The programs of pods that are not privileged have the profile that `init` has loaded. containerd
/// gives none to a privileged pod, and none to the first container of a pod.
pub fn confines_pods(facts: &Facts) -> Holds {
    let profiles = |names: &[&str]| -> Vec<_> {
        let of_names = facts.all("apparmor").filter(|fact| names.contains(&fact[0]));
        of_names.map(|fact| fact.join(" ")).collect::<BTreeSet<_>>().into_iter().collect()
    };
    let confined = ["dhcp", "time"];
    expect(
        profiles(&confined),
        confined.map(|name| format!("{name} {POD_PROFILE} (enforce)")).into(),
    )?;
    let free = ["containerd", "init", "kubelet", "pause", "probe"];
    expect(profiles(&free), free.map(|name| format!("{name} unconfined")).into())
}

/// The error number of an attempt; 0 for success.
fn error(facts: &Facts, kind: &str, name: &str) -> Result<i32, String> {
    let fact = facts.all(kind).find(|fact| fact[0] == name);
    let number = fact.and_then(|fact| fact.get(1)?.parse().ok());
    number.ok_or_else(|| format!("the probe does not report `{kind} {name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The probe's report from Debian's kernel 6.1.192 for cloud machines, with an empty command
    /// line.
    const STOCK: &str = "\
rights 000001ffffffffff 40 0
lockdown [none] integrity confidentiality
call kexec_load 22
call kexec_file_load 9
call init_module 8
call finit_module 22
call reboot 22
device mem 0
device port 6
device null 0
pci read 0
pci write 0
kcore
";

    /// The same kernel, with `lockdown=integrity`.
    const LOCKED_DOWN: &str = "\
rights 000001ffffffffff 40 0
lockdown none [integrity] confidentiality
call kexec_load 1
call kexec_file_load 0
call init_module 8
call finit_module 22
call reboot 22
device mem 1
device port 6
device null 0
pci read 0
pci write 1
kcore
";

    #[test]
    fn an_open_kernel_is_found_to_be_open() {
        let stock = Facts(STOCK.to_owned());
        assert_eq!(gives_all_rights(&stock), Ok(()));
        assert!(is_locked_down(&stock).unwrap_err().contains("[none]"));
        assert!(starts_no_kernel_and_loads_no_module(&stock).unwrap_err().contains("`kexec_load`"));
        assert!(shows_no_memory(&stock).is_err());
    }

    #[test]
    fn a_word_on_the_command_line_is_not_enough() {
        let locked_down = Facts(LOCKED_DOWN.to_owned());
        assert_eq!(is_locked_down(&locked_down), Ok(()));
        assert!(starts_no_kernel_and_loads_no_module(&locked_down).is_err());
        assert!(shows_no_memory(&locked_down).is_err());
    }

    #[test]
    fn a_pod_with_fewer_rights_shows_nothing() {
        for (what, weaker) in [
            ("000001ffffffffff", "00000000a80425fb"),
            (" 40 0", " 40 2"),
            ("reboot 22", "reboot 1"),
        ] {
            assert!(gives_all_rights(&Facts(STOCK.replace(what, weaker))).is_err(), "{weaker}");
        }
        assert!(gives_all_rights(&Facts(String::new())).is_err());
    }
}
