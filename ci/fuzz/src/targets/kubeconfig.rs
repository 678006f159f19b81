//! Kubeconfigs, which a pod has left on DATA.

use std::path::Path;

use osbuild_kubeconfig::Kubeconfig;

use crate::target::{Memory, Outcome, Target};

/// See the module. The memory that is independent of the input is for files that an input names.
pub const TARGET: Target =
    Target { name: "kubeconfig", seeds, run, memory: Memory { base: 8 << 20, per_byte: 64 } };

/// The most bytes that are read of a file that a kubeconfig names.
const MAX_FILE: usize = 1 << 20;

fn run(input: &[u8]) -> Outcome {
    let Ok(text) = std::str::from_utf8(input) else { return Outcome::Refused };
    let config = match Kubeconfig::parse(text, Path::new("/nonexistent")) {
        Ok(config) => config,
        Err(failure) => {
            assert!(!failure.to_string().contains('\n'), "{failure}");
            return Outcome::Refused;
        }
    };
    let parts = [config.certificate_authority(), config.client_certificate(), config.client_key()];
    for text in parts.into_iter().flatten().flatten() {
        assert!(text.len() <= MAX_FILE.max(input.len()));
    }
    if let Ok(Some(token)) = config.token() {
        assert_eq!(token.trim(), token);
    }
    Outcome::Accepted
}

fn seeds() -> Vec<Vec<u8>> {
    let inline = "current-context: here\n\
        contexts:\n- {name: there, context: {cluster: b, user: b}}\n\
        - {name: here, context: {cluster: a, user: a}}\n\
        clusters:\n- name: a\n  cluster:\n    server: https://a:6443\n    \
        tls-server-name: kubernetes\n    certificate-authority-data: Q0E=\n\
        users:\n- name: a\n  user:\n    client-certificate-data: Q0VSVA==\n    \
        client-key-data: S0VZ\n    token: ' abc '\n";
    let in_files = "current-context: c\n\
        contexts:\n- {name: c, context: {cluster: c, user: c}}\n\
        clusters:\n- {name: c, cluster: {server: 'https://[::1]', certificate-authority: ca.crt}}\n\
        users:\n- name: c\n  user: {client-certificate: pair.pem, client-key: pair.pem, \
        tokenFile: token}\n";
    let anchors = "users: &a\n- {name: u, user: {token: t}}\nclusters: []\nusers2: *a\n";
    let aliases = format!("kind: {}\n", super::documents::aliases());
    let texts = [inline, in_files, "kind: Config\n", anchors, &aliases];
    texts.map(|text| text.as_bytes().to_vec()).into()
}
