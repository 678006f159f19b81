//! Images of containers that the node keeps: `[[system-images]]`.

use crate::bounded::bounded;
use osbuild_protocol::{MAX_SYSTEM_IMAGES, SystemImage, SystemImageName};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    image: String,
}

/// Reads images, of which no two have the same name.
pub fn images<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SystemImage>, D::Error> {
    let mut images: Vec<SystemImage> = Vec::new();
    for Entry { image: name } in Vec::<Entry>::deserialize(deserializer)? {
        let parsed = SystemImageName::parse(&name).map(SystemImage::new);
        let image = parsed.map_err(|refusal| D::Error::custom(refusal.reason))?;
        if images.contains(&image) {
            return Err(D::Error::custom(format!("the image `{name}` is there twice")));
        }
        images.push(image);
    }
    bounded(images, MAX_SYSTEM_IMAGES, "system images")
}
