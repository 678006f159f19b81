//! The configuration of the control plane that settings ask for, in a file for the pod
//! `control-plane`. When another program changes it, it is written again. The pod writes beside it
//! for which text it has made the control plane, and why not.

use std::path::Path;

use osbuild_abi::paths::{
    API_CONTROL_PLANE, CONTROL_PLANE_CONFIGURATION, CONTROL_PLANE_ERROR, CONTROL_PLANE_MADE,
    POD_MANIFESTS,
};
use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::{ControlPlane, Observed, Refusal, RefusalCode, Setting, SettingName};
use osbuild_ranks::{Ranked, Source};

use super::run_files;

/// The manifest of the pod, in [`POD_MANIFESTS`].
const MANIFEST: &str = "control-plane.yaml";
/// The maximum number of characters of the pod's error that are shown.
const MAX_ERROR: usize = 512;

/// The sources by which an image takes the configuration of a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It does not have the pod.
    None,
    /// The node document configures the pod, and requests do not.
    Document,
    /// Requests do, too.
    Requests,
}

/// The values of all sources.
#[derive(Default)]
pub struct ControlPlaneSetting {
    values: Ranked<ControlPlane>,
    /// Why the file is not as it shall be.
    error: String,
}

/// The sources of this image.
pub fn support() -> Support {
    match (Path::new(POD_MANIFESTS).join(MANIFEST).exists(), Path::new(API_CONTROL_PLANE).exists())
    {
        (false, _) => Support::None,
        (true, false) => Support::Document,
        (true, true) => Support::Requests,
    }
}

impl ControlPlaneSetting {
    /// Gives it the value of `source`.
    ///
    /// # Errors
    /// The image does not allow it, or the file cannot be written: then it stays as it was.
    pub fn apply(
        &mut self,
        source: Source,
        plane: &ControlPlane,
        support: Support,
    ) -> Result<(), Refusal> {
        let reason = match support {
            Support::None => Some("the image does not have the pod `control-plane`"),
            // Its static pods may mount any folder of the node.
            Support::Document if source == Source::Api => Some(
                "the recipe of the node allows no control plane of a setting (`control-plane` of \
                 `[api]`)",
            ),
            Support::Document | Support::Requests => None,
        };
        if let Some(reason) = reason {
            return Err(Refusal::new(RefusalCode::NotAllowed, reason));
        }
        let former = self.values.set(source, Some(plane.clone()));
        let put = self.put();
        if put.is_err() {
            self.values.set(source, former);
            let _ = self.put();
        }
        put.map_err(Refusal::from)
    }

    /// Withdraws the value of `source`, so that the next one is in effect.
    ///
    /// # Errors
    /// The file cannot be replaced or removed.
    pub fn withdraw(&mut self, source: Source) -> Outcome {
        self.values.set(source, None);
        self.put()
    }

    /// Writes the file again if another program has changed it. Returns a line for the console.
    pub fn hold(&mut self) -> Option<String> {
        if self.is_as_it_shall_be() {
            return None;
        }
        let before = self.error.clone();
        match self.put() {
            Ok(()) => Some(format!(
                "another program changed {CONTROL_PLANE_CONFIGURATION}, it is as before again"
            )),
            Err(failure) => (self.error != before).then(|| failure.to_string()),
        }
    }

    /// The configuration that requests have set, and whether the pod has made the control plane
    /// with the one in effect. Nothing if no source has one.
    pub fn observe(&self) -> Option<Observed> {
        let (source, plane) = self.values.effective()?;
        let is_made = run_files::read(CONTROL_PLANE_MADE).as_deref() == Some(plane.as_str());
        let reported = || run_files::read(CONTROL_PLANE_ERROR).unwrap_or_default();
        let printable = |text: String| -> String {
            text.chars().filter(|one| !one.is_control()).take(MAX_ERROR).collect()
        };
        let error = match self.error.as_str() {
            "" if is_made => String::new(),
            "" => printable(reported()),
            error => error.to_owned(),
        };
        Some(Observed {
            name: SettingName::ControlPlane,
            wanted: self.of(Source::Api).map(Setting::ControlPlane),
            source: Some(source),
            current: if is_made { ControlPlane::MADE.to_owned() } else { String::new() },
            error,
        })
    }

    /// The value of a source.
    pub fn of(&self, source: Source) -> Option<ControlPlane> {
        self.values.get(source).cloned()
    }

    fn effective(&self) -> Option<&str> {
        self.values.effective().map(|(_, plane)| plane.as_str())
    }

    fn is_as_it_shall_be(&self) -> bool {
        run_files::read(CONTROL_PLANE_CONFIGURATION).as_deref() == self.effective()
    }

    /// Has the file follow.
    fn put(&mut self) -> Outcome {
        if self.is_as_it_shall_be() {
            return Ok(());
        }
        let put = run_files::set(CONTROL_PLANE_CONFIGURATION, self.effective())
            .explain("set the configuration of the control plane");
        self.error = put.as_ref().err().map(ToString::to_string).unwrap_or_default();
        put
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

    use crate::sys::own_mounts;

    fn plane(name: &str) -> ControlPlane {
        let text = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclusterName: ";
        ControlPlane::parse(&format!("{text}{name}\n")).unwrap()
    }

    /// Runs a test on a thread where `/run` is as on a node.
    fn on_a_node(work: impl FnOnce(&mut ControlPlaneSetting) + Send) {
        let inside = || {
            own_mounts().expect("these tests require uid 0 and CAP_SYS_ADMIN");
            mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
            mount("node", "/run", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None).unwrap();
            work(&mut ControlPlaneSetting::default());
        };
        let ended = std::thread::scope(|scope| scope.spawn(inside).join());
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }

    fn file() -> Option<String> {
        run_files::read(CONTROL_PLANE_CONFIGURATION)
    }

    #[test]
    fn the_file_has_the_highest_rank_and_goes_with_the_last_value() {
        on_a_node(|setting| {
            let [document, api] = ["document", "api"].map(plane);
            setting.apply(Source::Api, &api, Support::Requests).unwrap();
            setting.apply(Source::Document, &document, Support::Document).unwrap();
            assert_eq!(file().as_deref(), Some(api.as_str()));
            setting.withdraw(Source::Api).unwrap();
            assert_eq!(file().as_deref(), Some(document.as_str()));
            setting.withdraw(Source::Document).unwrap();
            assert!(file().is_none() && setting.observe().is_none() && setting.hold().is_none());
        });
    }

    #[test]
    fn requests_have_a_control_plane_only_if_the_image_allows_it() {
        on_a_node(|setting| {
            let mut apply = |source, support| setting.apply(source, &plane("a"), support);
            for (source, support, reason) in [
                (Source::Api, Support::Document, "`control-plane` of `[api]`"),
                (Source::Api, Support::None, "does not have the pod"),
                (Source::Document, Support::None, "does not have the pod"),
            ] {
                let refusal = apply(source, support).unwrap_err();
                assert_eq!(refusal.code, RefusalCode::NotAllowed);
                assert!(refusal.reason.contains(reason), "{refusal}");
            }
            assert_eq!(file(), None);
        });
    }

    #[test]
    fn it_is_made_once_the_pod_has_reported_its_text() {
        on_a_node(|setting| {
            setting.apply(Source::Api, &plane("a"), Support::Requests).unwrap();
            let shown = |made: Option<&str>, error: Option<&str>| {
                run_files::set(CONTROL_PLANE_MADE, made).unwrap();
                run_files::set(CONTROL_PLANE_ERROR, error).unwrap();
                let Observed { current, error, .. } = setting.observe().unwrap();
                (current, error)
            };
            let [made, none] = [ControlPlane::MADE, ""].map(str::to_owned);
            assert_eq!(shown(None, None), (none.clone(), none.clone()));
            let error = Some("kubeadm\u{1b} fails\n");
            assert_eq!(shown(Some("another\n"), error), (none.clone(), "kubeadm fails".to_owned()));
            let text = plane("a").as_str().to_owned();
            assert_eq!(shown(Some(&text), error), (made, none));
        });
    }

    #[test]
    fn a_file_that_another_program_changes_is_written_again() {
        on_a_node(|setting| {
            setting.apply(Source::Document, &plane("a"), Support::Document).unwrap();
            assert!(setting.hold().is_none());
            let changes: [fn(&str); 3] = [
                |file| std::fs::write(file, "kind: Other\n").unwrap(),
                |file| std::fs::remove_file(file).unwrap(),
                |file| {
                    std::fs::remove_file(file).unwrap();
                    std::fs::create_dir(file).unwrap();
                },
            ];
            for change in changes {
                change(CONTROL_PLANE_CONFIGURATION);
                assert!(setting.hold().unwrap().ends_with("it is as before again"));
                assert_eq!(file().as_deref(), Some(plane("a").as_str()));
            }
        });
    }
}
