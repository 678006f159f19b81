//! The names of the files with static pods of settings, which are in one folder with those of the
//! image and of DATA.

const START: &str = "osbuild-setting-";
const END: &str = ".json";

/// That with the pod of this name.
pub fn of_pod(name: &str) -> String {
    format!("{START}{name}{END}")
}

/// Whether it is such a name.
pub fn is_one(file: &str) -> bool {
    file.starts_with(START) && file.ends_with(END)
}
