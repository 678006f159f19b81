//! Settings of the image, of a document and of a console that the host has refused. No client sends
//! them again, so `init` itself tries those that it may take later, such as a parameter of a link
//! that another program makes.

use std::time::Duration;

use osbuild_protocol::{Observed, Refusal, RefusalCode, Setting, SettingName};
use osbuild_ranks::Source;

use super::Settings;

/// The pause before they are tried again.
const RETRY: Duration = Duration::from_secs(10);

/// The settings, in the order in which they were refused.
#[derive(Default)]
pub struct Postponed {
    refused: Vec<(Source, Setting, Refusal)>,
    /// When to try them again, since boot.
    due: Option<Duration>,
}

impl Postponed {
    /// The host has refused a setting of `source`.
    pub fn add(&mut self, source: Source, setting: Setting, refusal: Refusal, now: Duration) {
        if may_pass(&refusal) {
            self.due.get_or_insert(now + RETRY);
        }
        self.refused.push((source, setting, refusal));
    }

    /// The source has other settings now.
    pub fn forget(&mut self, source: Source) {
        self.refused.retain(|(of, ..)| *of != source);
    }

    /// When to try them again, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.due
    }

    /// Takes out the settings to try now.
    fn take_due(&mut self, now: Duration) -> Vec<(Source, Setting, Refusal)> {
        if self.due.take_if(|due| *due <= now).is_none() {
            return Vec::new();
        }
        self.refused.extract_if(.., |(_, _, refusal)| may_pass(refusal)).collect()
    }

    /// Adds the reasons to what the host has: a setting that no request has given a value is not in
    /// effect because of that.
    pub fn complete(&self, settings: &mut Vec<Observed>) {
        for (source, setting, refusal) in &self.refused {
            let (name, error) = (setting.name(), refusal.reason.clone());
            match settings.iter_mut().find(|known| known.name == name) {
                Some(known) if known.wanted.is_none() && known.error.is_empty() => {
                    known.error = error;
                }
                Some(_) => {}
                None => settings.push(Observed {
                    name,
                    wanted: None,
                    source: Some(*source),
                    current: String::new(),
                    error,
                }),
            }
        }
    }
}

/// Whether the host may take the setting later.
fn may_pass(refusal: &Refusal) -> bool {
    !matches!(refusal.code, RefusalCode::NotAllowed | RefusalCode::Malformed)
}

impl Settings {
    /// Gives settings the values of `source`. Returns the reasons why some are not set.
    pub(super) fn apply_all(
        &mut self,
        source: Source,
        settings: impl Iterator<Item = Result<Setting, Refusal>>,
        now: Duration,
    ) -> Vec<String> {
        let mut reasons = Vec::new();
        for setting in settings {
            let refusal = match setting {
                Err(refusal) => refusal,
                Ok(setting) => match self.apply(source, &setting, now) {
                    Ok(()) => continue,
                    Err(refusal) => {
                        self.postponed.add(source, setting, refusal.clone(), now);
                        refusal
                    }
                },
            };
            reasons.push(refusal.reason);
        }
        reasons
    }

    /// When to try settings again that the host has refused, since boot.
    pub fn postponed_deadline(&self) -> Option<Duration> {
        self.postponed.deadline()
    }

    /// Tries them again. Returns those that are set now.
    pub fn retry_postponed(&mut self, now: Duration) -> Vec<SettingName> {
        let mut set = Vec::new();
        for (source, setting, _) in self.postponed.take_due(now) {
            match self.apply(source, &setting, now) {
                Ok(()) => set.push(setting.name()),
                Err(refusal) => self.postponed.add(source, setting, refusal, now),
            }
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    /// A setting that the host of no test has: a parameter of a link.
    fn of_a_link() -> Setting {
        Setting::parse("kernel-parameter net.ipv4.conf.osbuild-absent.arp_ignore 1").unwrap()
    }

    #[test]
    fn a_setting_that_the_host_refuses_for_the_moment_is_tried_again_until_its_source_changes() {
        let mut settings = Settings::default();
        let reasons = settings.apply_all(Source::Image, [Ok(of_a_link())].into_iter(), NOW);
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        assert_eq!(settings.postponed_deadline(), Some(NOW + RETRY));
        assert_eq!(settings.retry_postponed(NOW), [], "it is too early");
        assert_eq!(settings.retry_postponed(NOW + RETRY), []);
        assert_eq!(settings.postponed_deadline(), Some(NOW + 2 * RETRY), "once more");
        settings.postponed.forget(Source::Image);
        assert_eq!(settings.retry_postponed(NOW + 2 * RETRY), []);
        assert_eq!(settings.postponed_deadline(), None);
    }

    #[test]
    fn a_setting_that_the_image_forbids_is_not_tried_again() {
        let mut postponed = Postponed::default();
        let forbidden = Refusal::new(RefusalCode::NotAllowed, "the image does not allow it");
        postponed.add(Source::Document, of_a_link(), forbidden, NOW);
        assert_eq!(postponed.deadline(), None);
        let mut shown = Vec::new();
        postponed.complete(&mut shown);
        assert_eq!(shown[0].error, "the image does not allow it", "but people see it");
        assert_eq!((shown[0].source, shown.len()), (Some(Source::Document), 1));
    }

    #[test]
    fn the_value_of_a_request_has_no_error_of_a_document() {
        let mut postponed = Postponed::default();
        postponed.add(Source::Document, of_a_link(), Refusal::from(failure()), NOW);
        let wanted = Some(of_a_link());
        let requested = Observed {
            name: of_a_link().name(),
            wanted,
            source: Some(Source::Api),
            current: "1".to_owned(),
            error: String::new(),
        };
        let mut shown = vec![requested.clone()];
        postponed.complete(&mut shown);
        assert_eq!(shown, [requested]);
    }

    fn failure() -> osbuild_failure::Failure {
        osbuild_failure::Failure::new("there is no such link")
    }
}
