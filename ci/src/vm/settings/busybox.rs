//! An image with busybox.

use super::carried_image::CarriedImage;

/// The name of the image.
pub const IMAGE: &str = "example.org/tools:1";

/// The image.
pub const BUSYBOX: CarriedImage = CarriedImage {
    name: IMAGE,
    fill: "\
mkdir -p root/bin
for name in $(/bin/busybox --list); do ln -sf busybox \"root/bin/$name\"; done
cp --remove-destination /bin/busybox root/bin/busybox",
    configuration: "{\"Env\":[\"PATH=/bin\"]}",
};
