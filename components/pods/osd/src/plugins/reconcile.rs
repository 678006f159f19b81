//! The messages that wake a controller.

use super::access::{Input, InputKind};
use super::limits::RECONCILE_INTERVAL;
use super::registry::SessionId;
use super::sessions::Sessions;
use crate::watch::Watch;
use futures_util::future::{Either, select, select_all};
use futures_util::stream::unfold;
use osbuild_cosi::runtime::ReconcileEventsResponse;
use osbuild_resources::{Change, Event, Key, Owner, Phase, Query, Resource, Target};
use std::pin::{Pin, pin};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_stream::Stream;
use tonic::Status;

/// The messages for a controller.
pub type Messages = Pin<Box<dyn Stream<Item = Result<ReconcileEventsResponse, Status>> + Send>>;

/// Begins the messages for a controller of a session. They are made when the plugin takes them, so
/// that all changes in the meantime are one.
pub fn open(sessions: &Arc<Sessions>, name: String, session: SessionId) -> Messages {
    let (sessions, changes) = (sessions.clone(), sessions.changes());
    let feed = Feed { sessions, name, session, changes, inputs: Vec::new(), asked: 0, last: None };
    Box::pin(unfold(feed, |mut feed| async move {
        feed.next().await.map(|()| (Ok(ReconcileEventsResponse {}), feed))
    }))
}

struct Feed {
    sessions: Arc<Sessions>,
    name: String,
    session: SessionId,
    changes: watch::Receiver<()>,
    inputs: Vec<Watched>,
    /// How many reconciliations were asked for before the last message.
    asked: u64,
    /// When the last message was made.
    last: Option<Instant>,
}

struct Watched {
    input: Input,
    watch: Watch,
}

impl Feed {
    /// Waits until the controller has something to do. None once its registration has ended.
    async fn next(&mut self) -> Option<()> {
        if let Some(last) = self.last {
            self.wait().await?;
            sleep_until(last + RECONCILE_INTERVAL).await;
        }
        // Changes until now are part of this message. A watch that was too slow is opened again.
        self.inputs.retain_mut(|watched| watched.watch.read(usize::MAX).is_ok());
        self.asked = self.follow()?;
        self.last = Some(Instant::now());
        self.sessions.reconcile(&self.name);
        Some(())
    }

    async fn wait(&mut self) -> Option<()> {
        loop {
            self.changes.borrow_and_update();
            if self.follow()? > self.asked {
                return Some(());
            }
            let owner = Owner(self.name.clone());
            let inputs = self.inputs.iter_mut();
            let inputs: Vec<_> = inputs.map(|watched| Box::pin(watched.changed(&owner))).collect();
            let others = pin!(self.changes.changed());
            if inputs.is_empty() {
                others.await.ok()?;
                continue;
            }
            match select(select_all(inputs), others).await {
                Either::Left(_) => return Some(()),
                Either::Right((changed, _)) => changed.ok()?,
            }
        }
    }

    /// Watches the inputs that the controller has now. Returns how many reconciliations were asked
    /// for.
    fn follow(&mut self) -> Option<u64> {
        let (access, asked) = self.sessions.due(&self.name, self.session)?;
        self.inputs.retain(|watched| access.inputs().contains(&watched.input));
        for input in access.inputs() {
            if !self.inputs.iter().any(|watched| watched.input == *input) {
                let watch = self.sessions.store().watch_input(target(input)).ok()?;
                self.inputs.push(Watched { input: input.clone(), watch });
            }
        }
        Some(asked)
    }
}

fn target(input: &Input) -> Target {
    let Input { kind, id, .. } = input;
    match id.as_ref().map(|id| Key::new(kind.clone(), id)) {
        Some(Ok(key)) => Target::Resource(key),
        _ => Target::Kind(kind.clone(), Query::default()),
    }
}

impl Watched {
    /// Waits for a change that the controller learns of.
    async fn changed(&mut self, owner: &Owner) {
        loop {
            // After missed changes the controller has to look at everything.
            let Ok(events) = self.watch.next(usize::MAX).await else { return };
            if events.iter().any(|event| is_due(self.input.role, event, owner)) {
                return;
            }
        }
    }
}

/// Whether a controller with such an input learns of the event.
fn is_due(role: InputKind, event: &Event, owner: &Owner) -> bool {
    let Event::Changed(change, _) = event else { return false };
    match (role, change) {
        (InputKind::Weak | InputKind::Strong, _) => true,
        (InputKind::DestroyReady, Change::Destroyed(_)) => false,
        (InputKind::DestroyReady, change) => is_destroy_ready(change.resource(), owner),
    }
}

fn is_destroy_ready(resource: &Resource, owner: &Owner) -> bool {
    let content = &resource.content;
    resource.owner == *owner && content.phase == Phase::TearingDown && content.finalizers.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_resources::{Bookmark, Content, Kind, Spec, Version};
    use std::time::UNIX_EPOCH;

    fn event(owner: &str, phase: Phase, finalizers: &[&str]) -> Event {
        let key = Key::new(Kind::new("plugins", "Things.example").unwrap(), "a").unwrap();
        let mut content = Content { phase, ..Content::new(key, Spec::default()) };
        content.finalizers = finalizers.iter().map(|one| (*one).to_owned()).collect();
        let (owner, created, version) = (Owner(owner.to_owned()), UNIX_EPOCH, Version::FIRST);
        let new = Arc::new(Resource { content, version, owner, created, updated: created });
        Event::Changed(Change::Created(new), Bookmark::from_client(vec![]))
    }

    #[test]
    fn a_controller_learns_of_its_own_resources_that_can_be_destroyed() {
        let is_due = |event| is_due(InputKind::DestroyReady, &event, &Owner("me".to_owned()));
        assert!(is_due(event("me", Phase::TearingDown, &[])));
        assert!(!is_due(event("you", Phase::TearingDown, &[])));
        assert!(!is_due(event("me", Phase::TearingDown, &["other"])));
        assert!(!is_due(event("me", Phase::Running, &[])));
        let any = event("you", Phase::Running, &["other"]);
        assert!(super::is_due(InputKind::Weak, &any, &Owner("me".to_owned())));
    }
}
