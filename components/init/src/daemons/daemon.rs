//! How each of the two daemons is started. They are programs in Go, and so are the shims and the
//! network plugins, which inherit the environment of containerd.

use crate::processes::process::Launch;

/// The garbage of a program in Go is collected once its heap has grown by half, instead of once it
/// has doubled (`https://go.dev/doc/gc-guide#GOGC`): the node's memory is for its pods.
const GARBAGE_COLLECTION: (&str, &str) = ("GOGC", "50");

/// A daemon's launch with this command line, `PATH`, variables and control group.
pub fn launch(
    words: Vec<String>,
    search_path: &'static str,
    mut variables: Vec<(&'static str, String)>,
    cgroup: &'static str,
) -> Launch {
    let (name, percent) = GARBAGE_COLLECTION;
    variables.push((name, percent.to_owned()));
    Launch { search_path, variables, cgroup: Some(cgroup), ..Launch::new(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_keeps_its_variables_and_collects_garbage_early() {
        let variables = vec![("NO_PROXY", "localhost".to_owned())];
        let launch = launch(vec!["/bin/kubelet".to_owned()], "/bin", variables, "/cgroup");
        let variables: Vec<_> =
            launch.variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(variables, [("NO_PROXY", "localhost"), ("GOGC", "50")]);
    }
}
