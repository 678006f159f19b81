//! The kernel's files about a process (`/proc/PID/stat` and `cgroup`, proc(5)). The process has
//! chosen its name, and may have chosen its control group.

/// When it was started, in ticks of the clock since boot. Its name may have any bytes, and stands
/// in parentheses.
pub fn start(stat: &[u8]) -> Option<u64> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let after_name = str::from_utf8(&stat[end + 1..]).ok()?;
    // It is the 22nd field, and the name is the second one.
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Its control group of version 2, as a path from the root of all.
pub fn control_group(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| line.strip_prefix("0::"))
}

/// The identifier of the pod in a path of the kubelet or of a control group: `…/pods/UID/…` or
/// `…/podUID/…`.
pub fn pod(path: &str) -> Option<&str> {
    let is_uid = |text: &&str| {
        text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    };
    let parts = || path.split(['/', '\n']);
    let of_group = parts().filter_map(|part| part.strip_prefix("pod"));
    let of_kubelet = parts().skip_while(|part| *part != "pods").skip(1).take(1);
    of_group.chain(of_kubelet).find(is_uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_found_behind_any_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
        for name in ["sleep", "a) S 1 2", ") (", ""] {
            assert_eq!(start(format!("7 ({name}) {rest}\n").as_bytes()), Some(4711), "{name}");
        }
        assert_eq!(start(&[b"7 (\xff) ", rest.as_bytes()].concat()), Some(4711));
        for stat in ["", "7 sleep S 1", "7 (sleep) S 1 2"] {
            assert_eq!(start(stat.as_bytes()), None, "{stat}");
        }
        let own = std::fs::read("/proc/self/stat").unwrap();
        assert!(start(&own).is_some_and(|ticks| ticks > 0));
    }

    #[test]
    fn a_control_group_is_that_of_version_2() {
        assert_eq!(control_group("0::/system/kubelet\n"), Some("/system/kubelet"));
        assert_eq!(control_group("1:name=systemd:/a\n0::/b\n"), Some("/b"));
        assert_eq!(control_group("1:cpu:/a\n"), None);
    }

    #[test]
    fn a_pod_is_in_the_path_of_its_control_group_and_of_its_files() {
        let uid = "0f3bd76e-8c3f-4d5e-9a51-7b0f5f8f2a11";
        for path in [
            format!("/kubepods/burstable/pod{uid}/82c46260"),
            format!("/var/lib/kubelet/pods/{uid}/volumes"),
            format!("1:cpu:/a\n0::/kubepods/pod{uid}\n"),
        ] {
            assert_eq!(pod(&path), Some(uid), "{path}");
        }
        for path in ["/system/kubelet", "/podruntime/containerd", "/kubepods/pod82c46260", ""] {
            assert_eq!(pod(path), None, "{path}");
        }
    }
}
