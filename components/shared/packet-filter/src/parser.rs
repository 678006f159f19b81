//! Reads the text of a filter. `and` and `or` bind equally, from left to right, and `not` binds
//! more, as pcap-filter(7) has it.

use crate::condition::Condition;
use crate::error::FilterError;
use crate::framing::Framing;
use crate::qualifiers::{Direction, Kind, Protocol, Qualifiers};
use crate::token::{Token, tokens};
use crate::{primitive, value};

/// The most parentheses inside each other.
const MAX_DEPTH: usize = 64;

/// Reads a filter. An empty text has the condition that always holds.
pub fn parse(text: &str, framing: Framing) -> Result<Condition, FilterError> {
    let tokens = tokens(text)?;
    let mut parser = Parser { text, tokens: &tokens, framing, last: None, tags: 0, depth: 0 };
    if parser.peek() == Token::End {
        return Ok(Condition::Always);
    }
    let condition = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(condition),
        Token::Close => Err(parser.wrong("there is no `(` for it")),
        _ => Err(parser.without_sign()),
    }
}

/// The parser of a filter's text.
pub struct Parser<'a> {
    text: &'a str,
    /// The words that are left. The last one is the end.
    tokens: &'a [(usize, Token<'a>)],
    pub framing: Framing,
    /// The qualifiers of the last value, which the next value takes if it has none.
    last: Option<Qualifiers>,
    /// The VLAN tags that the filter has named.
    pub tags: u32,
    depth: usize,
}

/// A place in the text.
#[derive(Clone, Copy, Debug)]
pub struct Here<'a> {
    text: &'a str,
    position: usize,
}

impl Here<'_> {
    /// An error at the place.
    pub fn wrong(self, problem: &str) -> FilterError {
        FilterError::at(self.text, self.position, problem)
    }
}

impl<'a> Parser<'a> {
    pub fn peek(&self) -> Token<'a> {
        self.tokens[0].1
    }

    fn peek_second(&self) -> Token<'a> {
        self.tokens.get(1).map_or(Token::End, |(_, token)| *token)
    }

    fn advance(&mut self) {
        if self.tokens.len() > 1 {
            self.tokens = &self.tokens[1..];
        }
    }

    /// An error at the next word.
    pub fn wrong(&self, problem: impl Into<String>) -> FilterError {
        FilterError::at(self.text, self.tokens[0].0, problem)
    }

    /// The place of the next word, for an error when the word has been taken.
    pub fn here(&self) -> Here<'a> {
        Here { text: self.text, position: self.tokens[0].0 }
    }

    /// Takes the next word, of which an error says what it should be.
    pub fn word(&mut self, expected: &str) -> Result<&'a str, FilterError> {
        match self.peek() {
            Token::Word(word) => {
                self.advance();
                Ok(word)
            }
            Token::End => Err(self.wrong(format!("{expected} is missing at the end"))),
            _ => Err(self.wrong(format!("{expected} is missing before it"))),
        }
    }

    fn expression(&mut self) -> Result<Condition, FilterError> {
        let mut condition = self.term()?;
        loop {
            let combine = match self.peek() {
                Token::And => Condition::and,
                Token::Or => Condition::or,
                _ => return Ok(condition),
            };
            self.advance();
            condition = combine(condition, self.term()?);
        }
    }

    fn term(&mut self) -> Result<Condition, FilterError> {
        let is_not = self.negations();
        let condition = match self.peek() {
            Token::Open => self.inside(Parser::expression)?,
            _ => self.part()?,
        };
        Ok(if is_not { Condition::not(condition) } else { condition })
    }

    /// Takes all `not`. Returns whether their number is odd.
    fn negations(&mut self) -> bool {
        let mut is_not = false;
        while self.peek() == Token::Not {
            self.advance();
            is_not = !is_not;
        }
        is_not
    }

    /// Reads the text in parentheses with `read`.
    fn inside(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Condition, FilterError>,
    ) -> Result<Condition, FilterError> {
        if self.depth == MAX_DEPTH {
            return Err(self.wrong(format!("more than {MAX_DEPTH} `(` are inside each other")));
        }
        let opened = self.wrong("it is not closed");
        self.advance();
        self.depth += 1;
        let condition = read(self)?;
        self.depth -= 1;
        match self.peek() {
            Token::Close => self.advance(),
            Token::End => return Err(opened),
            _ => return Err(self.without_sign()),
        }
        Ok(condition)
    }

    /// Reads a value with the qualifiers before it, or a word that is a condition.
    fn part(&mut self) -> Result<Condition, FilterError> {
        let Token::Word(word) = self.peek() else {
            return Err(match self.peek() {
                Token::End => self.wrong("a condition is missing at the end"),
                _ => self.wrong("a condition is missing before it"),
            });
        };
        if let Some(protocol) = Protocol::named(word) {
            self.advance();
            return self.after_protocol(protocol);
        }
        if is_direction(word) || Kind::named(word).is_some() {
            return self.qualified(None);
        }
        if let Some(condition) = value::keyword(self, word)? {
            self.last = None;
            return Ok(condition);
        }
        match self.last {
            Some(qualifiers) if value::is_value(word) => value::value(self, qualifiers),
            _ if value::is_value(word) => {
                Err(self
                    .wrong(format!("what is `{word}`? write `host`, `net` or `port` before it")))
            }
            _ => Err(self.unknown(word)),
        }
    }

    /// An error at a word that no `and` or `or` precedes, which may be a mistyped one.
    fn without_sign(&self) -> FilterError {
        match self.peek() {
            Token::Word(word) if !is_known(word) => self.unknown(word),
            _ => self.wrong("`and` or `or` is missing before it"),
        }
    }

    fn unknown(&self, word: &str) -> FilterError {
        self.wrong(format!("`{word}` is not a word of a filter"))
    }

    /// Reads the rest of a condition after the name of a protocol. The rest may be empty.
    fn after_protocol(&mut self, protocol: Protocol) -> Result<Condition, FilterError> {
        match self.peek() {
            Token::Word(word) if is_direction(word) || Kind::named(word).is_some() => {
                self.qualified(Some(protocol))
            }
            Token::Word(word) if value::is_value(word) => {
                Err(self
                    .wrong(format!("what is `{word}`? write `host`, `net` or `port` before it")))
            }
            _ => {
                self.last = None;
                self.of_protocol(protocol)
            }
        }
    }

    /// All packets of a protocol.
    fn of_protocol(&self, protocol: Protocol) -> Result<Condition, FilterError> {
        let ether_type = match protocol {
            Protocol::Ether => return Err(self.wrong("`host` or `proto` is missing before it")),
            Protocol::Inner(inner) => return Ok(primitive::inner(inner, self.tags)),
            Protocol::Ip => primitive::IPV4,
            Protocol::Ip6 => primitive::IPV6,
            Protocol::Arp => primitive::ARP,
            Protocol::Rarp => primitive::RARP,
        };
        Ok(primitive::ether_type(ether_type, self.tags))
    }

    /// A direction, a kind, and values.
    fn qualified(&mut self, protocol: Option<Protocol>) -> Result<Condition, FilterError> {
        let direction = self.direction();
        let kind = match self.peek() {
            Token::Word(word) => Kind::named(word),
            _ => None,
        };
        if kind.is_some() {
            self.advance();
        }
        let qualifiers = Qualifiers {
            protocol,
            direction: direction.unwrap_or(Direction::Either),
            kind: kind.unwrap_or(Kind::Host),
        };
        if kind == Some(Kind::Protocol) && direction.is_some() {
            return Err(self.wrong("a protocol has no direction"));
        }
        self.last = Some(qualifiers);
        match self.peek() {
            Token::Open => self.inside(|parser| parser.values(qualifiers)),
            _ => value::value(self, qualifiers),
        }
    }

    /// `src`, `dst`, or both with `or` or `and` between them.
    fn direction(&mut self) -> Option<Direction> {
        let Token::Word(first) = self.peek() else { return None };
        if !is_direction(first) {
            return None;
        }
        let other = if first == "src" { "dst" } else { "src" };
        self.advance();
        let both = match self.peek() {
            Token::Or => Direction::Either,
            Token::And => Direction::Both,
            _ => return Some(one_end(first)),
        };
        if self.peek_second() != Token::Word(other) {
            return Some(one_end(first));
        }
        self.advance();
        self.advance();
        Some(both)
    }

    /// Values with `and` and `or` between them, as in `port (80 or 443)`.
    fn values(&mut self, qualifiers: Qualifiers) -> Result<Condition, FilterError> {
        let mut condition = self.one_value(qualifiers)?;
        loop {
            let combine = match self.peek() {
                Token::And => Condition::and,
                Token::Or => Condition::or,
                _ => return Ok(condition),
            };
            self.advance();
            condition = combine(condition, self.one_value(qualifiers)?);
        }
    }

    fn one_value(&mut self, qualifiers: Qualifiers) -> Result<Condition, FilterError> {
        let is_not = self.negations();
        let condition = value::value(self, qualifiers)?;
        Ok(if is_not { Condition::not(condition) } else { condition })
    }
}

fn is_known(word: &str) -> bool {
    let has_meaning = is_direction(word) || Kind::named(word).is_some();
    has_meaning
        || Protocol::named(word).is_some()
        || value::is_keyword(word)
        || value::is_value(word)
}

fn is_direction(word: &str) -> bool {
    matches!(word, "src" | "dst")
}

fn one_end(word: &str) -> Direction {
    if word == "src" { Direction::Source } else { Direction::Destination }
}
