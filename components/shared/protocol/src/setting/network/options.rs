//! Options of links that the node makes and of firewall rules: words `NAME=VALUE`.

use crate::Refusal;

/// Options that are not read yet.
pub struct Options<'a> {
    /// Whose they are, for messages.
    of: &'static str,
    unread: Vec<(&'a str, &'a str)>,
}

impl<'a> Options<'a> {
    /// Reads words with one space between. `of` is what the options are those of, such as `a link`.
    ///
    /// # Errors
    /// A word is no option, or an option is there twice.
    pub fn parse(of: &'static str, words: &'a str) -> Result<Self, Refusal> {
        let mut options: Vec<(&str, &str)> = Vec::new();
        for word in words.split(' ').filter(|word| !word.is_empty()) {
            let option = word.split_once('=').filter(|(name, value)| {
                let is_new = options.iter().all(|(other, _)| other != name);
                is_new && !value.is_empty()
            });
            options.push(option.ok_or_else(|| unexpected(of, word))?);
        }
        Ok(Self { of, unread: options })
    }

    /// The value of an option.
    pub fn take(&mut self, name: &str) -> Option<&'a str> {
        let at = self.unread.iter().position(|(other, _)| *other == name)?;
        Some(self.unread.swap_remove(at).1)
    }

    /// The value of an option that has to be there.
    ///
    /// # Errors
    /// It is missing.
    pub fn expect(&mut self, name: &str) -> Result<&'a str, Refusal> {
        let of = self.of;
        let refuse = || Refusal::malformed(format!("the option `{name}` of {of} is missing"));
        self.take(name).ok_or_else(refuse)
    }

    /// Whether an option is `on`. One that is missing is not.
    ///
    /// # Errors
    /// It has another value.
    pub fn take_switch(&mut self, name: &str) -> Result<bool, Refusal> {
        match self.take(name) {
            None => Ok(false),
            Some("on") => Ok(true),
            Some(_) => Err(Refusal::malformed(format!("the option `{name}` is `on` or missing"))),
        }
    }

    /// The end of the options.
    ///
    /// # Errors
    /// There is another one.
    pub fn end(self) -> Result<(), Refusal> {
        match self.unread.first() {
            None => Ok(()),
            Some((name, _)) => Err(unexpected(self.of, name)),
        }
    }
}

fn unexpected(of: &str, word: &str) -> Refusal {
    Refusal::malformed(format!("{of} cannot have the option `{word}`"))
}

/// Reads a number as everybody writes it.
pub fn number<T: std::str::FromStr + ToString>(word: &str) -> Option<T> {
    word.parse::<T>().ok().filter(|number| number.to_string() == word)
}
