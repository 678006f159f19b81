//! The file on DATA with the settings that requests over the socket `host` have given values: one
//! on each line.

use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::{MAX_PARAMETERS, Setting, SettingName};

use crate::data;

/// The name of the file.
const FILE: &str = "host-settings";
/// The maximum length of the file in bytes: that of all settings, each as long as it can be, and
/// of as many that are refused.
const MAX_LENGTH: u64 = 96 << 10;
/// The maximum number of lines that are kept although they are refused.
const MAX_REFUSED: usize = MAX_PARAMETERS;

/// The text of the file; none if there is no file.
pub fn read() -> Outcome<Option<String>> {
    let text = data::folder::open()?.read_text(FILE, MAX_LENGTH);
    text.explain(format_args!("read {FILE} on DATA"))
}

/// Replaces the file, flushed to the disk.
pub fn write(text: &str) -> Outcome {
    let data = data::folder::open()?;
    data.replace(FILE, text.as_bytes(), 0o644).explain(format_args!("write {FILE} on DATA"))
}

/// The text for these settings, and for the lines that were refused.
pub fn text(settings: impl Iterator<Item = Setting>, refused: &Refused) -> String {
    let lines = settings.map(|setting| setting.to_string()).chain(refused.0.iter().cloned());
    lines.map(|line| format!("{line}\n")).collect()
}

/// Lines of the file that this release refuses. They are kept: the release that wrote them may run
/// again.
#[derive(Default)]
pub struct Refused(Vec<String>);

impl Refused {
    /// Adds a line, unless there are too many.
    pub fn add(&mut self, line: &str) {
        if self.0.len() < MAX_REFUSED {
            self.0.push(line.to_owned());
        }
    }

    /// Forgets the line about a setting.
    pub fn forget(&mut self, name: &SettingName) {
        let is_about = |line: &String| Setting::parse(line).is_ok_and(|line| line.name() == *name);
        self.0.retain(|line| !is_about(line));
    }

    /// Those that are settings of a form that this release knows.
    pub fn settings(&self) -> impl Iterator<Item = Setting> {
        self.0.iter().filter_map(|line| Setting::parse(line).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(line: &str) -> Setting {
        Setting::parse(line).unwrap()
    }

    #[test]
    fn a_refused_line_stays_in_the_file_until_its_setting_is_withdrawn() {
        let mut refused = Refused::default();
        refused.add("motd hello");
        refused.add("kernel-parameter kernel.panic 0");
        let name = setting("host-name edge-7");
        let kept = |refused: &Refused| text([name.clone()].into_iter(), refused);
        let all = "host-name edge-7\nmotd hello\nkernel-parameter kernel.panic 0\n";
        assert_eq!(kept(&refused), all);
        assert_eq!(refused.settings().count(), 1);
        refused.forget(&name.name());
        assert_eq!(kept(&refused), all);
        refused.forget(&setting("kernel-parameter kernel.panic 1").name());
        assert_eq!(kept(&refused), "host-name edge-7\nmotd hello\n");
    }

    #[test]
    fn the_number_of_refused_lines_is_bounded() {
        let mut refused = Refused::default();
        (0..2 * MAX_REFUSED).for_each(|number| refused.add(&format!("motd {number}")));
        assert_eq!(text([].into_iter(), &refused).lines().count(), MAX_REFUSED);
    }
}
