//! A recipe's lock, which the builder writes and reads back from a repository.

use osbuild::plan::Lock;

use crate::target::{Memory, Outcome, Target};

/// See the module.
pub const TARGET: Target = Target { name: "lock", seeds, run, memory: Memory::per_byte(1024) };

fn run(input: &[u8]) -> Outcome {
    let Ok(text) = str::from_utf8(input) else { return Outcome::Refused };
    let read = Lock::parse("recipes/a.lock", text);
    match &read {
        Ok(lock) => {
            assert_eq!(
                Lock::parse("recipes/a.lock", &lock.print()).as_ref(),
                Ok(lock),
                "a printed lock is read back"
            );
            lock.sources(&[]);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    Outcome::of(&read)
}

fn seeds() -> Vec<Vec<u8>> {
    let package = "{ package = \"gcc\", version = \"4:12.2.0-3\", architecture = \"amd64\", \
                   sha256 = \"aa\", size = 1 }";
    let list =
        |name: &str| format!("[{name}]\nasked = [\"gcc\"]\npackages = [\n    {package},\n]\n");
    let go = "[[go]]\ncomponent = \"runc\"\nmodule = \"m\"\nversion = \"v1.4.3\"\nasked = \"aa\"\n\
              go-mod = \"\"\"\nmodule x\n\"\"\"\n\
              modules = [\n    \
              { path = \"m\", version = \"v1\", sum = \"h1:\", mod-sum = \"h1:\", \
              zip = { sha256 = \"aa\", size = 1 }, mod = { sha256 = \"aa\", size = 1 } },\n]\n";
    let head = format!(
        "version = 1\nrecipe = \"a\"\nepoch = 1790000000\nwanted = \"aa\"\n\
         kernel-source = {package}\nstub = {package}\n"
    );
    let toolchain = "[toolchain.go]\nversion = \"1.26.8\"\nsum = \"h1:\"\nsha256 = \"aa\"\n\
                     size = 1\n[toolchain.rust]\nversion = \"1.95.0\"\ntargets = [\"t\"]\n\
                     sha256 = \"aa\"\nsize = 1\n[crates]\ndigest = \"aa\"\n";
    vec![
        [&*head, &list("sandbox"), &list("cross"), &list("files"), go, toolchain]
            .concat()
            .into_bytes(),
    ]
}
