//! Facts about processes (those of the host, their memory, the pods' rights) and about memory.

use std::fs;
use std::io;
use std::path::Path;

/// Settings for the kernel's reaction to its own faults (admin-guide/sysctl/kernel.rst).
const SYSCTLS: [&str; 4] = ["hung_task_panic", "panic", "panic_on_oops", "softlockup_panic"];

/// One fact per line:
/// - `host NAME PID RESIDENT-BYTES`, `member GROUP NAME`, with its control group, and `search-path
///   NAME FOLDERS`, with its `PATH`, for each process in the mount namespace of `init`;
/// - `pod NAME PID EFFECTIVE BOUNDING` with two capability sets, and `seccomp NAME MODE`, for each
///   other process;
/// - `apparmor NAME PROFILE` with the profile of each process and its mode;
/// - `blocked NAME SIGNALS` with the blocked signals of each process;
/// - `memory TOTAL AVAILABLE` in bytes;
/// - `kernel NAME NUMBER` for each of [`SYSCTLS`];
/// - `hears LINK NUMBER` with each link's `accept_ra`.
pub fn facts(proc: &Path, init: &str) -> io::Result<Vec<String>> {
    let mut facts = Vec::new();
    let host = fs::read_link(proc.join(init).join("ns/mnt"))?;
    for entry in fs::read_dir(proc)? {
        let folder = entry?.path();
        let Some(pid) = folder.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok())
        else {
            continue;
        };
        // A process may end at any time, and kernel threads have no program.
        let (Ok(namespace), Ok(status), Ok(program)) = (
            fs::read_link(folder.join("ns/mnt")),
            fs::read_to_string(folder.join("status")),
            fs::read_link(folder.join("exe")),
        ) else {
            continue;
        };
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        facts.push(format!("blocked {name} {}", field(&status, "SigBlk:")));
        // A kernel without AppArmor has no such file.
        let profile = fs::read_to_string(folder.join("attr/apparmor/current")).unwrap_or_default();
        facts.push(format!("apparmor {name} {}", profile.trim()));
        if namespace != host {
            facts.push(format!("seccomp {name} {}", field(&status, "Seccomp:")));
        }
        if namespace == host {
            let group = fs::read_to_string(folder.join("cgroup")).unwrap_or_default();
            facts.push(format!("member {} {name}", absolute(&group)));
            let variables = fs::read_to_string(folder.join("environ")).unwrap_or_default();
            facts.push(format!("search-path {name} {}", search_path(&variables)));
        }
        facts.push(match namespace == host {
            true => format!("host {name} {pid} {}", kibibytes(&status, "VmRSS:")),
            false => format!(
                "pod {name} {pid} {} {}",
                field(&status, "CapEff:"),
                field(&status, "CapBnd:")
            ),
        });
    }
    let memory = fs::read_to_string(proc.join("meminfo"))?;
    facts.push(format!(
        "memory {} {}",
        kibibytes(&memory, "MemTotal:"),
        kibibytes(&memory, "MemAvailable:")
    ));
    for name in SYSCTLS {
        let number = fs::read_to_string(proc.join("sys/kernel").join(name))?;
        facts.push(format!("kernel {name} {}", number.trim()));
    }
    for link in fs::read_dir(proc.join("sys/net/ipv6/conf"))? {
        let link = link?;
        let number = fs::read_to_string(link.path().join("accept_ra"))?;
        facts.push(format!("hears {} {}", link.file_name().to_string_lossy(), number.trim()));
    }
    Ok(facts)
}

fn field<'a>(text: &'a str, name: &str) -> &'a str {
    text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim()
}

/// The `PATH` among the variables of `/proc/PID/environ`, each of which ends with a NUL.
fn search_path(variables: &str) -> &str {
    variables.split('\0').find_map(|variable| variable.strip_prefix("PATH=")).unwrap_or_default()
}

/// The path of a control group below the root of all. `/proc/PID/cgroup` has it relative to the
/// reader's own group: `0::/../../system/kubelet`.
fn absolute(group: &str) -> String {
    let path = group.trim().trim_start_matches("0::");
    let names = path.split('/').filter(|name| !name.is_empty() && *name != "..");
    names.fold(String::new(), |path, name| path + "/" + name)
}

/// A field that the kernel prints in KiB, in bytes; 0 if it is missing.
fn kibibytes(text: &str, name: &str) -> u64 {
    field(text, name)
        .strip_suffix(" kB")
        .and_then(|number| number.trim().parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_parsed_as_the_kernel_prints_them() {
        let status = "Name:\tkubelet\nVmRSS:\t   80208 kB\nCapEff:\t0000000000003000\n";
        assert_eq!(kibibytes(status, "VmRSS:"), 80_208 * 1024);
        assert_eq!(field(status, "CapEff:"), "0000000000003000");
        assert_eq!(kibibytes(status, "VmSwap:"), 0);
    }

    #[test]
    fn a_search_path_is_one_of_several_variables() {
        assert_eq!(search_path("MYPATH=/x\0PATH=/bin:/opt\0HOME=/tmp\0"), "/bin:/opt");
        assert_eq!(search_path("HOME=/tmp\0"), "");
    }

    #[test]
    fn a_control_group_is_the_same_for_every_reader() {
        assert_eq!(absolute("0::/../../../system/kubelet\n"), "/system/kubelet");
        assert_eq!(absolute("0::/system/shims\n"), "/system/shims");
        assert_eq!(absolute("0::/../..\n"), "");
    }

    #[test]
    fn this_process_is_among_the_facts() {
        let facts = facts(Path::new("/proc"), "self").unwrap();
        let own = format!(" {} ", std::process::id());
        assert!(
            facts.iter().any(|fact| fact.starts_with("host probe-") && fact.contains(&own)),
            "{facts:?}"
        );
    }
}
