//! Tokens of ServiceAccounts, which anybody may show to `osd`, and the keys of those who sign them.

use std::time::{Duration, UNIX_EPOCH};

use osbuild_cosi::v1::{TokenBinding, TokenIssuerSpec};
use pod_osd::access::token::Token;
use pod_osd::access::token::issuer::{Moment, TokenIssuer};
use pod_osd::access::token::key::PublicKey;

use crate::target::{Memory, Outcome, Target};

/// See the module. The same bytes are read as a token and as keys. Of all tokens, the issuer's own
/// one alone is verified.
pub const TARGET: Target =
    Target { name: "tokens", seeds, run, memory: Memory { base: 1 << 20, per_byte: 64 } };

/// The key of the issuer, and a token that PyJWT has signed with it, for the node `edge-7`.
const KEYS: &str = "\
    {\"keys\": [{\"use\": \"sig\", \"kty\": \"EC\", \"kid\": \"H2JbWhz_LL4h9hvdr2VY0KDuBVdve\
    UwviwxaYy78b3w\", \"crv\": \"P-256\", \"alg\": \"ES256\", \"x\": \"93geJGcMC0yKRgZB-W_xm\
    wKb6Oe0n1VQnblFkmnII20\", \"y\": \"71jL_qZV1ijdN5drLFUh3ywGTD_84hlVdIvYV5P4rR0\"}]}";
const TOKEN: &str = "\
    eyJhbGciOiJFUzI1NiIsImtpZCI6IkgySmJXaHpfTEw0aDlodmRyMlZZMEtEdUJWZHZlVXd2aXd4YVl5NzhiM3ci\
    LCJ0eXAiOiJKV1QifQ.eyJhdWQiOlsibm9kZS1hcGkub3NidWlsZCJdLCJleHAiOjE3OTU3ODQ0MDAsImlhdCI6M\
    Tc5NTc4MDgwMCwibmJmIjoxNzk1NzgwODAwLCJpc3MiOiJodHRwczovL2V4YW1wbGUub3JnIiwia3ViZXJuZXRlc\
    y5pbyI6eyJuYW1lc3BhY2UiOiJhIiwibm9kZSI6eyJuYW1lIjoiZWRnZS03IiwidWlkIjoibiJ9LCJwb2QiOnsib\
    mFtZSI6InAiLCJ1aWQiOiJ1In0sInNlcnZpY2VhY2NvdW50Ijp7Im5hbWUiOiJiIiwidWlkIjoicyJ9fSwic3ViI\
    joic3lzdGVtOnNlcnZpY2VhY2NvdW50OmE6YiJ9.jTDuJh7Bii9UfD1OeCOFVw6nGc5Cl63kLyAnDMUUuXsGk_Qe\
    QDmZ3jNdpF04ZWB24hKsmrAsoCGNsIB0BCXm5A";

/// A time at which it counts, in seconds since 1970.
const NOW: u64 = 1_795_780_860;
const NODE: &str = "edge-7";

fn run(input: &[u8]) -> Outcome {
    let Ok(text) = std::str::from_utf8(input) else { return Outcome::Refused };
    let keys = PublicKey::all(text);
    assert!(keys.iter().all(|keys| (1..=8).contains(&keys.len())));
    let Ok(token) = Token::parse(text) else { return Outcome::of(&keys) };
    assert!(text.as_bytes().starts_with(token.signed));
    let is_own = TOKEN.as_bytes().starts_with(token.signed);
    let user = token.claims.user().to_string();
    let now = UNIX_EPOCH + Duration::from_secs(NOW);
    let issuer = issuer();
    let verified = issuer.verify(token, Moment { now, is_synchronized: true }, Some(NODE));
    if let Ok((shown, role)) = &verified {
        assert!(is_own && shown.user() == user && *role == "reader");
        assert_eq!(issuer.recheck(shown, Some(NODE)), Ok("reader"));
    }
    Outcome::Accepted
}

fn issuer() -> TokenIssuer {
    let word = |text: &str| text.to_owned();
    let binding =
        TokenBinding { namespace: word("a"), service_account: word("b"), role: word("reader") };
    let spec = TokenIssuerSpec {
        issuer: word("https://example.org"),
        public_keys: word(KEYS),
        bindings: vec![binding],
        ..TokenIssuerSpec::default()
    };
    TokenIssuer::new(&spec).expect("the spec is valid")
}

fn seeds() -> Vec<Vec<u8>> {
    let token = Token::parse(TOKEN).expect("the token is one");
    let now = UNIX_EPOCH + Duration::from_secs(NOW);
    let moment = Moment { now, is_synchronized: true };
    issuer().verify(token, moment, Some(NODE)).expect("the token is the issuer's");
    let pem = "-----BEGIN PUBLIC KEY-----\n\
               MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE033p5AHd2TzJjewlQg/R+c4Zpaf/\n\
               tQT8pFlgkVnMAaYleTyZo3iTmIvJ0gw+2zvKf4uKwImnG8LrsDoGil4qmw==\n\
               -----END PUBLIC KEY-----\n";
    [TOKEN, KEYS, pem].map(|text| text.as_bytes().to_vec()).into()
}
