//! Which controllers there are: who has which name, and what each reads and writes.

use super::access::Access;
use super::limits::{MAX_CONTROLLERS, MAX_NAME};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::time::SystemTime;

/// Owners of what `osd` itself writes.
const RESERVED: [&str; 4] = ["meta", "host", "init", "osd"];

/// The secret of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token(pub String);

/// A connection. No number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// A controller that is registered, or was. Its name is its plugin's as long as it has resources or
/// the plugin has a grant; one without resources goes when its plugin needs the place for another.
#[derive(Clone, Debug)]
pub struct Controller {
    /// Its plugin.
    pub plugin: String,
    /// Its inputs and outputs.
    pub access: Access,
    /// When it last got a message to reconcile.
    pub reconciled: Option<SystemTime>,
    /// The registration, while there is one.
    registration: Option<Registration>,
}

#[derive(Clone, Debug)]
struct Registration {
    token: Token,
    session: SessionId,
    /// How many reconciliations were asked for.
    asked: u64,
}

/// Why a controller is not registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its name is none.
    InvalidName,
    /// Its name is in use.
    NameInUse(String),
    /// Another controller has the type exclusively, or would have.
    OutputInUse {
        /// The type.
        type_name: String,
        /// That controller.
        by: String,
    },
    /// The plugin has as many as it may.
    TooMany,
}

/// All controllers by their names.
#[derive(Debug, Default)]
pub struct Registry {
    controllers: BTreeMap<String, Controller>,
}

impl Controller {
    /// Whether it is registered.
    pub fn is_registered(&self) -> bool {
        self.registration.is_some()
    }

    fn is_of(&self, session: SessionId) -> bool {
        self.registration.as_ref().is_some_and(|one| one.session == session)
    }
}

impl Registry {
    /// Registers a controller for a session.
    pub fn register(
        &mut self,
        name: &str,
        plugin: &str,
        access: Access,
        token: Token,
        session: SessionId,
    ) -> Result<(), Refusal> {
        if !is_name(name) {
            return Err(Refusal::InvalidName);
        }
        let known = self.controllers.get(name);
        if known.is_some_and(|known| known.plugin != plugin || known.is_registered()) {
            return Err(Refusal::NameInUse(name.to_owned()));
        }
        let of_plugin = self.controllers.values().filter(|one| one.plugin == plugin);
        if known.is_none() && of_plugin.count() >= MAX_CONTROLLERS {
            return Err(Refusal::TooMany);
        }
        for (by, other) in self.controllers.iter().filter(|(_, other)| other.is_registered()) {
            if let Some(type_name) = access.conflict(&other.access) {
                let (type_name, by) = (type_name.to_owned(), by.clone());
                return Err(Refusal::OutputInUse { type_name, by });
            }
        }
        let reconciled = known.and_then(|known| known.reconciled);
        let registration = Some(Registration { token, session, asked: 0 });
        let controller = Controller { plugin: plugin.to_owned(), access, reconciled, registration };
        self.controllers.insert(name.to_owned(), controller);
        Ok(())
    }

    /// The name of the controller with this token, if the session has registered it.
    pub fn named_by(&self, token: &Token, session: SessionId) -> Option<&str> {
        let mut of_session = self.controllers.iter().filter(|(_, one)| one.is_of(session));
        let found = of_session.find(|(_, one)| {
            one.registration.as_ref().is_some_and(|registration| registration.token == *token)
        });
        found.map(|(name, _)| name.as_str())
    }

    /// The controller with this name.
    pub fn get(&self, name: &str) -> Option<&Controller> {
        self.controllers.get(name)
    }

    /// All controllers by their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Controller)> {
        self.controllers.iter().map(|(name, one)| (name.as_str(), one))
    }

    /// Gives the controller other inputs. New ones ask for a reconciliation.
    pub fn set_access(&mut self, name: &str, access: Access) {
        let Some(controller) = self.controllers.get_mut(name) else { return };
        let known = controller.access.inputs();
        let has_new = access.inputs().iter().any(|input| !known.contains(input));
        controller.access = access;
        if has_new {
            self.ask(name);
        }
    }

    /// Asks for a reconciliation.
    pub fn ask(&mut self, name: &str) {
        let controller = self.controllers.get_mut(name);
        if let Some(one) = controller.and_then(|one| one.registration.as_mut()) {
            one.asked += 1;
        }
    }

    /// How many reconciliations the session's controller was asked for.
    pub fn asked(&self, name: &str, session: SessionId) -> Option<u64> {
        let controller = self.controllers.get(name).filter(|one| one.is_of(session))?;
        controller.registration.as_ref().map(|one| one.asked)
    }

    /// Notes that the controller has got a message to reconcile.
    pub fn reconcile(&mut self, name: &str, now: SystemTime) {
        if let Some(controller) = self.controllers.get_mut(name) {
            controller.reconciled = Some(now);
        }
    }

    /// Ends the registrations of a session.
    pub fn end(&mut self, session: SessionId) {
        let controllers = self.controllers.values_mut();
        controllers.filter(|one| one.is_of(session)).for_each(|one| one.registration = None);
    }

    /// Forgets the controllers of a plugin that are not registered and not named.
    pub fn forget(&mut self, plugin: &str, except: &BTreeSet<String>) {
        self.controllers.retain(|name, one| {
            one.plugin != plugin || one.is_registered() || except.contains(name)
        });
    }
}

fn is_name(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_graphic();
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_inner) && !RESERVED.contains(&name)
}

impl Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Refusal::InvalidName => write!(
                f,
                "a controller's name has up to {MAX_NAME} letters, digits and signs, and is none \
                 of `{}`",
                RESERVED.join("`, `")
            ),
            Refusal::NameInUse(name) => write!(f, "there is a controller `{name}` already"),
            Refusal::OutputInUse { type_name, by } => {
                write!(f, "the controller `{by}` writes `{type_name}`, which one alone may write")
            }
            Refusal::TooMany => write!(f, "a plugin has at most {MAX_CONTROLLERS} controllers"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::access::tests::{input, output};
    use super::super::access::{InputKind, OutputKind};
    use super::*;

    const FIRST: SessionId = SessionId(1);
    const SECOND: SessionId = SessionId(2);

    fn token(text: &str) -> Token {
        Token(text.to_owned())
    }

    fn writes(kind: OutputKind) -> Access {
        Access::new(vec![], vec![output(kind, "Things.example")]).unwrap()
    }

    fn reads(type_name: &str) -> Access {
        Access::new(vec![input(InputKind::Weak, type_name, None)], vec![]).unwrap()
    }

    #[test]
    fn a_token_is_valid_in_the_session_that_got_it_until_that_ends() {
        let mut registry = Registry::default();
        registry.register("a", "one", Access::default(), token("x"), FIRST).unwrap();
        assert_eq!(registry.named_by(&token("x"), FIRST), Some("a"));
        assert_eq!(registry.named_by(&token("x"), SECOND), None);
        assert_eq!(registry.named_by(&token("y"), FIRST), None);
        registry.end(SECOND);
        assert!(registry.named_by(&token("x"), FIRST).is_some());
        registry.end(FIRST);
        assert_eq!(registry.named_by(&token("x"), FIRST), None);
        assert!(!registry.get("a").unwrap().is_registered());
    }

    #[test]
    fn a_name_is_its_plugins_also_after_its_connection() {
        let mut registry = Registry::default();
        let mut register = |plugin, session| {
            let registered = registry.register("a", plugin, Access::default(), token("x"), session);
            registry.end(SECOND);
            registered
        };
        register("one", FIRST).unwrap();
        let in_use = Err(Refusal::NameInUse("a".to_owned()));
        assert_eq!(register("one", SECOND), in_use, "it is registered");
        assert_eq!(register("two", SECOND), in_use);
        registry.end(FIRST);
        let mut register =
            |plugin| registry.register("a", plugin, Access::default(), token("x"), SECOND);
        assert_eq!(register("two"), in_use);
        assert_eq!(register("one"), Ok(()));
    }

    #[test]
    fn an_exclusive_output_is_one_controllers_while_it_is_registered() {
        let mut registry = Registry::default();
        let exclusive = || writes(OutputKind::Exclusive);
        registry.register("a", "one", exclusive(), token("a"), FIRST).unwrap();
        for other in [exclusive(), writes(OutputKind::Shared)] {
            let refused = registry.register("b", "two", other, token("b"), SECOND).unwrap_err();
            assert_eq!(
                refused.to_string(),
                "the controller `a` writes `Things.example`, which one alone may write"
            );
        }
        registry.end(FIRST);
        let shared = || writes(OutputKind::Shared);
        registry.register("b", "two", shared(), token("b"), SECOND).unwrap();
        registry.register("c", "two", shared(), token("c"), SECOND).unwrap();
        assert!(registry.register("a", "one", exclusive(), token("a"), FIRST).is_err());
    }

    #[test]
    fn new_inputs_ask_for_a_reconciliation_and_fewer_do_not() {
        let mut registry = Registry::default();
        registry.register("a", "one", reads("A"), token("a"), FIRST).unwrap();
        let asked = |registry: &Registry| registry.asked("a", FIRST).unwrap();
        registry.set_access("a", reads("A"));
        registry.set_access("a", Access::default());
        assert_eq!(asked(&registry), 0);
        registry.set_access("a", reads("B"));
        assert_eq!(asked(&registry), 1);
        registry.ask("a");
        assert_eq!(asked(&registry), 2);
        assert_eq!(registry.asked("a", SECOND), None);
    }

    #[test]
    fn names_are_limited_and_forgotten_with_their_resources() {
        let mut registry = Registry::default();
        for name in ["", "a b", "\u{1b}", "osd", &"a".repeat(129)] {
            let registered = registry.register(name, "one", Access::default(), token("x"), FIRST);
            assert_eq!(registered, Err(Refusal::InvalidName), "{name}");
        }
        let register = |registry: &mut Registry, number: usize| {
            let name = format!("c{number}");
            registry.register(&name, "one", Access::default(), token(&name), FIRST)
        };
        (0..MAX_CONTROLLERS).for_each(|number| register(&mut registry, number).unwrap());
        registry.end(FIRST);
        assert_eq!(register(&mut registry, 100), Err(Refusal::TooMany));
        registry.forget("two", &BTreeSet::new());
        registry.forget("one", &BTreeSet::from(["c1".to_owned()]));
        let names: Vec<_> = registry.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["c1"]);
        register(&mut registry, 100).unwrap();
    }
}
