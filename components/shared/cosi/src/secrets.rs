// The fields of `osbuild.v1` that are secret, in one list: the build leaves them out of `Debug`,
// and `osd` out of all that it shows. `build.rs` includes the file, too, so it has no other items.

/// The fields that are secret: the message and the field's name, which is the same in YAML.
pub const SECRETS: [(&str, &str); 2] =
    [("RegistryCredentialSpec", "password"), ("RegistryCredentialSpec", "token")];
