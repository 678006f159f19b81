use super::*;

const A: &str = "registry.example/a:1";
const B: &str = "registry.example/b:1";
const STATE: &str =
    "digest=sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef bytes=7";

/// A node whose containerd has its own images.
#[derive(Default)]
struct Node {
    images: SystemImages,
    now: Duration,
}

impl Node {
    fn apply(&mut self, name: &str) {
        self.images.apply(Source::Api, &image(name), self.now).unwrap();
    }

    fn withdraw(&mut self, name: &str) {
        self.images.withdraw(Source::Api, image(name).name(), self.now);
    }

    /// Waits for the child that starts next, and returns its arguments.
    fn child(&mut self) -> Vec<String> {
        for _ in 0..9 {
            self.now = self.now.max(self.images.deadline().expect("a child is due"));
            if let Some(arguments) = self.images.start(true, self.now) {
                return arguments;
            }
        }
        panic!("no child has started");
    }

    /// The child has ended with these lines.
    fn ends(&mut self, lines: &[&str]) {
        self.images.on_report(true, &lines.join("\n"), self.now);
    }

    /// The state and the error of an image, as requests show them.
    fn shown(&self, name: &str) -> (String, String) {
        let name = SettingName::SystemImage(image(name).name().clone());
        let observed = self.images.observe().find(|observed| observed.name == name).unwrap();
        (observed.current, observed.error)
    }
}

fn image(name: &str) -> SystemImage {
    SystemImage::new(SystemImageName::parse(name).unwrap())
}

#[test]
fn images_are_kept_and_then_watched() {
    let mut node = Node::default();
    assert_eq!(node.images.deadline(), None, "without settings no child runs");
    node.apply(A);
    node.apply(B);
    assert_eq!(node.child(), ["keep", A, B]);
    node.ends(&[&format!("pulled {A} {STATE}"), &format!("kept {B} {STATE}")]);
    assert_eq!(node.images.hold(), [format!("pulled the image `{A}`")]);
    assert_eq!(node.shown(A), (STATE.to_owned(), String::new()));
    assert_eq!(node.child(), ["watch", A, B]);
    node.ends(&[]);
    assert_eq!(node.child(), ["watch", A, B], "a watch ends by itself at times");
}

#[test]
fn an_image_that_was_removed_is_pulled_again_at_once() {
    let mut node = Node::default();
    node.apply(A);
    node.child();
    node.ends(&[&format!("kept {A} {STATE}")]);
    node.child();
    node.now += Duration::from_secs(60);
    let before = node.now;
    node.ends(&["changed"]);
    assert_eq!((node.child(), node.now), (vec!["keep".to_owned(), A.to_owned()], before));
    node.ends(&[&format!("pulled {A} {STATE}")]);
    let line = format!("another program removed the image `{A}`, it is there again");
    assert_eq!(node.images.hold(), [line]);
    node.child();
    node.ends(&["changed"]);
    node.child();
    assert_eq!(node.now, before + INTERVAL, "a program that removes it again has to wait");
}

#[test]
fn an_image_whose_registry_is_away_is_tried_again_less_and_less_often() {
    let mut node = Node::default();
    node.apply(A);
    node.child();
    let failed = format!("failed {A} pull it: Unavailable: no route");
    let mut waited = Vec::new();
    for _ in 0..7 {
        let before = node.now;
        node.ends(&[&failed]);
        assert_eq!(node.child(), ["keep", A]);
        waited.push((node.now - before).as_secs());
    }
    assert_eq!(waited, [10, 20, 40, 80, 160, 300, 300]);
    assert_eq!(node.shown(A), (String::new(), "pull it: Unavailable: no route".to_owned()));
    assert_eq!(node.images.hold().len(), 1, "the same error is on the console once");
    node.ends(&[&format!("pulled {A} {STATE}")]);
    assert_eq!(node.shown(A), (STATE.to_owned(), String::new()));
}

#[test]
fn a_change_ends_the_child_that_runs() {
    let mut node = Node::default();
    node.apply(A);
    node.child();
    node.ends(&[&format!("kept {A} {STATE}")]);
    node.child();
    assert!(!node.images.has_to_end());
    node.apply(B);
    assert!(node.images.has_to_end());
    assert_eq!(node.images.start(true, node.images.deadline().unwrap()), None, "one at a time");
    node.images.on_report(false, "", node.now);
    assert_eq!(node.shown(A), (STATE.to_owned(), String::new()));
    assert_eq!(node.child(), ["keep", A, B]);
    node.withdraw(A);
    node.images.on_report(false, &format!("kept {A} {STATE}\n"), node.now);
    assert_eq!(node.child(), ["keep", B]);
    node.ends(&[&format!("kept {B} {STATE}")]);
    node.child();
    node.withdraw(B);
    node.images.on_report(false, "", node.now);
    assert_eq!(node.child(), ["keep"], "the last one is released, too");
    node.ends(&[]);
    assert_eq!(node.images.start(true, node.now + MAX_RETRY), None);
    assert_eq!(node.images.deadline(), None);
}

#[test]
fn a_child_that_fails_leaves_its_reason_with_each_image() {
    let mut node = Node::default();
    node.apply(A);
    node.apply(B);
    node.child();
    node.images.on_report(false, "connect to /run/containerd/containerd.sock: gone\n", node.now);
    let reason = "connect to /run/containerd/containerd.sock: gone";
    assert_eq!(node.shown(B), (String::new(), reason.to_owned()));
    node.child();
    node.images.on_report(false, &format!("kept {A} {STATE}\n"), node.now);
    assert_eq!(node.shown(A), (STATE.to_owned(), String::new()));
    assert_eq!(node.shown(B).1, "its child was ended before it was done");
    node.child();
    node.ends(&[&format!("kept {A} {STATE}"), &format!("kept {B} {STATE}")]);
    node.child();
    node.images.on_report(false, "containerd has ended its events\n", node.now);
    assert_eq!(node.child(), ["keep", A, B], "a watch that fails is no watch");
}

#[test]
fn images_wait_for_those_that_come_with_the_node() {
    let mut node = Node::default();
    node.apply(A);
    let due = node.images.deadline().unwrap();
    assert_eq!(node.images.start(false, due), None);
    assert_eq!(node.images.deadline(), Some(due + LOADING));
}

#[test]
fn there_are_at_most_so_many() {
    let mut node = Node::default();
    for number in 0..MAX_SYSTEM_IMAGES {
        node.apply(&format!("registry.example/a:{number}"));
    }
    assert!(node.images.apply(Source::Api, &image(A), node.now).is_ok(), "it is there");
    let refusal = node.images.apply(Source::Api, &image(B), node.now).unwrap_err();
    assert_eq!(refusal.reason, "there are 32 system images already");
}

#[test]
fn a_line_is_read_as_it_was_written() {
    let name = || SystemImageName::parse(A).unwrap();
    let state = || SystemImageState::parse(STATE).unwrap();
    for line in [
        Line::Kept(name(), state()),
        Line::Pulled(name(), state()),
        Line::Failed(name(), "no route to the registry".to_owned()),
        Line::Changed,
    ] {
        assert_eq!(Line::parse(&line.encode()), Some(line));
    }
    let long = Line::parse(&format!("failed {A} \u{1b}\u{10348}{}", "a".repeat(2 * MAX_REASON)));
    assert_eq!(long, Some(Line::Failed(name(), "a".repeat(MAX_REASON))), "a reply has room for it");
    for text in ["", "kept", "kept a 7", &format!("kept {A}"), &format!("lost {A} {STATE}")] {
        assert_eq!(Line::parse(text), None, "{text}");
    }
}
