//! Changes at a high rate.

use crate::kept::{get_of, keep};
use crate::limits::{MEMORY_LIMIT, peak};
use crate::osd::{Osd, create, metadata, thing, update};
use osbuild_cosi::resource::{Resource, Spec};
use std::time::{Duration, Instant};
use tokio::time::interval;

const TYPE: &str = "KernelParameters.osbuild";

/// Changes a second, by clients that each change a setting of their own.
const RATE: u64 = 500;
const CLIENTS: u64 = 10;

/// The variable with the number of seconds for which settings change, and the number without it.
const SECONDS: &str = "OSD_TEST_SECONDS";
const FEW_SECONDS: u64 = 1;

/// How late the last change may be: of a minute on a machine with nothing else to do, and of the
/// seconds without the variable, beside all other tests.
const LATENESS: Duration = Duration::from_secs(3);
const LATENESS_BESIDE_OTHERS: Duration = Duration::from_secs(30);

/// The most bytes on DATA: the settings, and the generations before.
const MAX_KEPT: u64 = 1 << 20;

fn parameter(number: u64, value: u64) -> Resource {
    let mut parameter = thing(&number.to_string());
    metadata(&mut parameter).r#type = TYPE.into();
    let yaml_spec = format!("key: net.ipv4.neigh.eth{number}.gc_stale_time\nvalue: '{value}'\n");
    Resource { spec: Some(Spec { proto_spec: vec![], yaml_spec }), ..parameter }
}

/// The check `many changes` runs it for a minute with the program of a node.
#[tokio::test]
async fn five_hundred_changes_a_second_are_kept_in_time_and_in_little_room() {
    let (seconds, lateness) = match std::env::var(SECONDS) {
        Ok(seconds) => (seconds.parse().unwrap(), LATENESS),
        Err(_) => (FEW_SECONDS, LATENESS_BESIDE_OTHERS),
    };
    let folder = tempfile::tempdir().unwrap();
    let [flag, value] = keep(folder.path());
    let mut osd = Osd::start_with(&[&flag, &value]);
    let began = Instant::now();
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let mut client = osd.client().await;
        clients.push(tokio::spawn(async move {
            let mut pace = interval(Duration::from_millis(1000 * CLIENTS / RATE));
            let mut last = create(&mut client, parameter(number, 0)).await.unwrap();
            for value in 1..=seconds * RATE / CLIENTS {
                pace.tick().await;
                let spec = parameter(number, value).spec;
                last = update(&mut client, Resource { spec, ..last }).await.unwrap();
            }
            last
        }));
    }
    let mut written = Vec::new();
    for client in clients {
        written.push(client.await.unwrap());
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(seconds) + lateness, "{took:?}");

    let peak = peak(&mut osd);
    assert!(peak < MEMORY_LIMIT, "{} MiB", peak >> 20);
    let kept: u64 = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(kept < MAX_KEPT, "{kept} bytes");

    osd.restart_with(&[&flag, &value]);
    let client = &mut osd.client().await;
    for last in written {
        let id = &last.metadata.as_ref().unwrap().id;
        assert_eq!(get_of(client, TYPE, id).await.unwrap(), last);
    }
}
