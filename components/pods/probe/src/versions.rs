//! Facts about versions: the running kernel's, and each upstream program's own output.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// Programs of the host that print their version.
const PROGRAMS: [&str; 4] = ["containerd", "containerd-shim-runc-v2", "kubelet", "runc"];

/// `version NAME WORDS` lines.
pub fn facts(host: &Path) -> io::Result<Vec<String>> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mut facts = vec![format!("version linux {}", kernel.trim())];
    for program in PROGRAMS {
        // The shim knows no long flag.
        let flag = if program == "containerd-shim-runc-v2" { "-v" } else { "--version" };
        // Static programs run from another root too.
        let output = Command::new(host.join("bin").join(program)).arg(flag).output()?;
        let words = String::from_utf8_lossy(&output.stdout)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        facts.push(format!("version {program} {words}"));
    }
    Ok(facts)
}
