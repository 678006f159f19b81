//! Keeps the time and the place of the build out of the program.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "uefi") {
        // The header's time becomes a digest of the file, and no debug database is written and
        // named in it.
        println!("cargo::rustc-link-arg-bins=/Brepro");
        println!("cargo::rustc-link-arg-bins=/DEBUG:NONE");
    }
}
