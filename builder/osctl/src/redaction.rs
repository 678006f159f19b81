//! Removes what looks like a secret from a text that goes to other people.
//!
//! It knows the forms that keys, tokens and passwords usually have. A secret without such a form
//! stays.

use regex_lite::Regex;
use std::sync::LazyLock;

/// The replacement for a secret.
const REMOVED: &str = "[removed]";

/// A name of a secret, which a longer one may end with. A quote after it may be escaped: JSON is
/// also in strings of JSON.
macro_rules! name {
    () => {
        r#"(?:password|passwd|passphrase|secret|token|api[-_]?key)\\*["']?"#
    };
}

/// The characters between such a name and its value, on the same line.
macro_rules! separator {
    () => {
        r"[ \t]*[:=][ \t]*"
    };
}

/// The forms of secrets. The group `before`, if there is one, stays, and so does all of a match
/// with the group `harmless`: what only resembles a secret.
static SECRETS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // A private key in PEM, also without its end.
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----|[\s\S]*)",
        // The key of a client in a kubeconfig.
        r#"(?<before>client-key-data\\*["']?:\s*\\*["']?)[^\s"'\\]+"#,
        // A JSON Web Token, such as that of a ServiceAccount.
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
        // A bootstrap token of Kubernetes.
        r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b",
        // The header of a request.
        r"(?<before>\bBearer )[A-Za-z0-9._~+/=-]{16,}",
        r#"(?i)(?<before>\bauthorization"?\s*[:=]\s*"?basic )[A-Za-z0-9+/=]+"#,
        // A password in a URL, perhaps without a user. After the port of a host, an `@` belongs to
        // something else, such as a digest or the next value.
        concat!(
            r#"(?<harmless>://(?:\[[0-9A-Fa-f:.]+\]|[^/\s:@"]*):[0-9]{1,5}[/?#"',])"#,
            r#"|(?<before>://)[^/\s:@"]*:[^\s@"]+@"#
        ),
        // A value with the name of a secret, as a line of YAML, perhaps after the time of a log. It
        // may have spaces. A switch with such a name has no secret.
        concat!(
            r"(?im)(?<before>^(?:\d{4}-\d\d-\d\dT\S+ )?[ \t]*(?:- +)*[\w.-]*",
            name!(),
            r": +)",
            r#"(?:(?<harmless>(?:true|false)(?:[\s,;}\]]|$))|[^\s"'&{\[|>][^\n]*)"#
        ),
        // The same in quotes, which end it, on a command line, in a log, in JSON, TOML or YAML.
        concat!(
            r"(?i)(?<before>",
            name!(),
            separator!(),
            r#"")(?:(?<harmless>(?:true|false)")|(?:[^"\\\n]|\\[^\n])+)"#
        ),
        concat!(
            r"(?i)(?<before>",
            name!(),
            separator!(),
            r"')(?:(?<harmless>(?:true|false)')|(?:[^'\n]|'')+)"
        ),
        // The same in a string of JSON, where quotes of the value have three backslashes.
        concat!(
            r"(?i)(?<before>",
            name!(),
            separator!(),
            r#"\\")(?:(?<harmless>(?:true|false)\\")|(?:[^"\\\n]|\\\\\\["\\]|\\[^"\n])+)"#
        ),
        // The same without quotes, in any place: a word, but for the head of a block of YAML. A
        // quote before a colon with a blank ends the name of a volume.
        concat!(
            r"(?i)(?<before>",
            name!(),
            r"(?:[ \t]*=|:)[ \t]*",
            r#")(?:(?<harmless>(?:true|false|[|>][-+0-9]*)(?:[\s"',;&}\]]|$))"#,
            r#"|(?:\\[^\s"'\\nrt]|[^\s"',;&{\[=\\])[^\s"',;&]*)"#
        ),
        // A key of WireGuard, which a public one resembles.
        concat!(
            r#"(?i)(?<before>(?:private|preshared)[-_]?key\\*["']?\s*[:=]\s*\\*["']?)"#,
            r"[A-Za-z0-9+/]{43}="
        ),
    ]
    .iter()
    .filter_map(|form| Regex::new(form).ok())
    .collect()
});

/// The text without what looks like a secret.
pub fn redacted(text: &str) -> String {
    SECRETS.iter().fold(text.to_owned(), |text, secret| {
        let clean = |found: &regex_lite::Captures| {
            if found.name("harmless").is_some() {
                return found[0].to_owned();
            }
            let before = found.name("before").map_or("", |before| before.as_str());
            format!("{before}{REMOVED}")
        };
        secret.replace_all(&text, clean).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key of WireGuard.
    const KEY: &str = "+C5uPI+LwtD0ASrcA8O3unwdwbH4oh00+FQs+0Pho28=";

    #[test]
    fn every_form_is_one() {
        assert_eq!(SECRETS.len(), 13);
    }

    #[test]
    fn a_planted_secret_is_removed() {
        let key = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----";
        for (text, clean) in [
            (format!("a\n{key}\nb"), "a\n[removed]\nb"),
            (format!("a {} b", key.replace('\n', "\\n")), "a [removed] b"),
            (key[..40].to_owned(), "[removed]"),
            ("client-key-data: TUhj\nb".into(), "client-key-data: [removed]\nb"),
            ("with eyJhbGciOiJS.eyJpc3MiOiJr.c2ln-_x now".into(), "with [removed] now"),
            ("join with abcdef.0123456789abcdef now".into(), "join with [removed] now"),
            ("Authorization: Bearer 0123456789abcdefgh".into(), "Authorization: Bearer [removed]"),
            ("proxy http://bob:pw@10.0.0.1:3128/".into(), "proxy http://[removed]10.0.0.1:3128/"),
            ("redis://:pw@10.0.0.5:6379".into(), "redis://[removed]10.0.0.5:6379"),
            ("postgres://app:p/w@db a".into(), "postgres://[removed]db a"),
            ("postgres://o'app,1:it's,1@db a".into(), "postgres://[removed]db a"),
            ("http://bob:123@10.0.0.1:3128/".into(), "http://[removed]10.0.0.1:3128/"),
            ("https://a:1/ http://b:pw@c".into(), "https://a:1/ http://[removed]c"),
            ("Authorization: Basic dXNlcjpwdw==".into(), "Authorization: Basic [removed]"),
            ("password: hunter2\na: b".into(), "password: [removed]\na: b"),
            ("run --token=hunter2 -v".into(), "run --token=[removed] -v"),
            (format!("made private-key={KEY} b"), "made private-key=[removed] b"),
            (format!("privateKey: {KEY}\nb"), "privateKey: [removed]\nb"),
            (r#"{"Password": "hunter2", "a": 1}"#.into(), r#"{"Password": "[removed]", "a": 1}"#),
            ("bootstrapToken: abc".into(), "bootstrapToken: [removed]"),
            ("token: false-start".into(), "token: [removed]"),
            ("useToken: true, password: a".into(), "useToken: true, password: [removed]"),
        ] {
            assert_eq!(redacted(&text), clean);
        }
    }

    #[test]
    fn a_secret_ends_where_its_form_ends_it() {
        for (text, clean) in [
            (r#"a password="hunter2" b=1"#, r#"a password="[removed]" b=1"#),
            (r"run --password=\$ecret1 -v", "run --password=[removed] -v"),
            (r#"token="a b,c&d\"e f" g"#, r#"token="[removed]" g"#),
            ("password = \"x\"\na = 1", "password = \"[removed]\"\na = 1"),
            ("password: 'it''s, 1'\na: b", "password: '[removed]'\na: b"),
            (r#"{"password":"a,b&c d"}"#, r#"{"password":"[removed]"}"#),
            (r#"m="{\"secret\":\"h 2\",\"a\":1}""#, r#"m="{\"secret\":\"[removed]\",\"a\":1}""#),
            (r#""{\"token\":\"a\\\"b\"}""#, r#""{\"token\":\"[removed]\"}""#),
            (r#"m="use password=\"a b\" now""#, r#"m="use password=\"[removed]\" now""#),
            ("password: correct horse\na: b", "password: [removed]\na: b"),
            ("- adminPassword: a, b # c\n  d: e", "- adminPassword: [removed]\n  d: e"),
            ("2026-01-02T03:04:05Z   password: a b", "2026-01-02T03:04:05Z   password: [removed]"),
            ("password=\"cut off", "password=\"[removed]"),
            ("password = hunter2", "password = [removed]"),
            ("login password:hunter2 failed", "login password:[removed] failed"),
            (r#"{"token":12345, "a": 1}"#, r#"{"token":[removed], "a": 1}"#),
            (r#"{"client-key-data":"TUhj","a":1}"#, r#"{"client-key-data":"[removed]","a":1}"#),
            ("?token=abc&limit=1", "?token=[removed]&limit=1"),
        ] {
            assert_eq!(redacted(text), clean);
            assert_eq!(redacted(clean), clean);
        }
        let text = format!("privateKey = \"{KEY}\"");
        assert_eq!(redacted(&text), "privateKey = \"[removed]\"");
    }

    #[test]
    fn what_helps_stays() {
        for text in [
            "kubelet.go:42] node not found: token expired, bearer authentication failed",
            "GET https://10.0.2.2:6443/api/v1/nodes/edge-1?timeout=10s 401",
            "sha256:788a08205ffa06405256d6932637e62e7b46f01f57de4a8d60765b20a1d824b9",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "version 1.35.8, registry.k8s.io/pause:3.10, fd00::1, 10.0.2.15/24",
            r#"{"server":"https://10.0.0.1:6443","context":"admin@kubernetes"}"#,
            r#"{"server":"https://example","context":"a:admin@kubernetes"}"#,
            "docker://registry.example:5000/pause@sha256:788a08205ffa",
            "docker://[fd00::1]:5000/pause@sha256:788a08205ffa",
            "{'server':'https://10.0.0.1:6443','context':'admin@kubernetes'}",
            "automountServiceAccountToken: false\nhostNetwork: true",
            "set --rotate-token=true",
            r#"{"rotateToken":"true","a":1} token="" password: ''"#,
            "token:\n  next: 1\npassword: |\nsecrets: [a, b]",
            "if token == nil, the secret \"regcred\" was not found",
            "I0102 1 reflector.go:9] \"Secret regcred: synced\" pod=\"default/web\"",
            "MountVolume.SetUp failed for volume \"a-secret\" : secret \"a-secret\" not found",
            r#"for volume \"db-token\" : configmap \"x\" not found"#,
        ] {
            assert_eq!(redacted(text), text);
        }
    }
}
