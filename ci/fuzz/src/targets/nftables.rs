//! The kernel's lists of a table of nftables, which any program with the capability may have made.

use osbuild_nftables::{
    Batch, Chain, ChainKind, Decision, Expression, Family, Header, Hook, KeyKind, Listing, Meta,
    Rule, Set, Side, Table, is_about,
};
use osbuild_rtnetlink::answers;

use crate::target::{Memory, Outcome, Target};

/// See the module. Each rule that looks a set up has the whole set.
pub const TARGET: Target = Target { name: "nftables", seeds, run, memory: Memory::per_byte(4096) };

const TABLE: &str = "osbuild";

fn run(input: &[u8]) -> Outcome {
    let Some(table) = listed(input) else { return Outcome::Refused };
    // A table with known expressions, and without sets, is written and read again.
    let expressions = table.chains.iter().flat_map(|chain| &chain.rules);
    let mut expressions = expressions.flat_map(|rule| &rule.expressions);
    let is_other = |one: &Expression| matches!(one, Expression::Lookup(_) | Expression::Other(_));
    let has_other = expressions.any(is_other);
    // An attribute has at most 64 KiB.
    let is_long = input.len() > 8192;
    if table.flags == 0 && !has_other && !is_long && table.chains.iter().all(has_own_name) {
        let (bytes, _) = Batch::replacement(&table).finish(1);
        assert_eq!(listed(&bytes).as_ref(), Some(&table));
    }
    Outcome::Accepted
}

/// Whether the name of a chain and the comments of its rules can be written as they are.
fn has_own_name(chain: &Chain) -> bool {
    !chain.name.contains('\0')
        && chain.rules.iter().all(|rule| !rule.comment.contains('\0') && rule.comment.len() < 250)
}

fn listed(bytes: &[u8]) -> Option<Table> {
    let mut listing = Listing::new(TABLE);
    for answer in answers(bytes) {
        listing.take(&answer);
        let _ = is_about(&answer, TABLE);
    }
    let mut requests = 0;
    while listing.question().is_some() {
        requests += 1;
        assert!(requests <= 4 + bytes.len(), "the listing does not end");
    }
    listing.finish()
}

fn seeds() -> Vec<Vec<u8>> {
    let ports = Set::new(KeyKind::Port, [(vec![0, 22], vec![0, 22]), (vec![0, 80], vec![0, 90])]);
    let rules = [
        vec![
            Expression::ConntrackState,
            Expression::Mask(vec![6, 0, 0, 0]),
            Expression::Unequal(vec![0; 4]),
            Expression::Decision(Decision::Accept),
        ],
        vec![
            Expression::Meta(Meta::Protocol),
            Expression::Equal(vec![6]),
            Expression::Payload { header: Header::Transport, offset: 2, length: 2 },
            Expression::Lookup(ports),
            Expression::Decision(Decision::Drop),
        ],
        vec![
            Expression::AddressType(Side::Destination),
            Expression::Value(vec![10, 8, 0, 5]),
            Expression::SecondValue(vec![0, 80]),
            Expression::Translate { side: Side::Destination, family: Family::Ipv4, has_port: true },
            Expression::Masquerade,
        ],
    ];
    let table = |rules: &[Vec<Expression>]| {
        let rule = |expressions: &Vec<Expression>| Rule {
            comment: "api".to_owned(),
            expressions: expressions.clone(),
        };
        let hook = Hook {
            kind: ChainKind::Nat,
            number: Hook::PREROUTING,
            priority: -10,
            policy: Decision::Accept,
        };
        let chain = Chain {
            name: "input".to_owned(),
            hook: Some(hook),
            rules: rules.iter().map(rule).collect(),
        };
        let table = Table { name: TABLE.to_owned(), flags: 0, chains: vec![chain] };
        Batch::replacement(&table).finish(1).0
    };
    vec![table(&rules), table(&rules[..1]), Batch::removal(TABLE).finish(1).0]
}
