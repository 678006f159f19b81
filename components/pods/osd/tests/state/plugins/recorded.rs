//! The record of what plugins change.

use super::connected::{Connected, greeting, inputs, outputs, resource};
use super::node::{GRANT, GREETINGS, PLUGINS};
use crate::osd::{channel, code, create, thing};
use crate::remote::RemoteOsd;
use osbuild_cosi::v1::ApplyRequest;
use osbuild_cosi::v1::configuration_client::ConfigurationClient;
use tonic::Code;

#[tokio::test]
async fn what_a_plugin_changes_is_recorded_and_pushes_nothing_out() {
    let plugins = tempfile::tempdir().unwrap();
    let osd = RemoteOsd::start(&["--plugins", &plugins.path().display().to_string()]);
    let mut configuration = ConfigurationClient::new(osd.osd.channel().await);
    let apply = ApplyRequest { documents: GRANT.to_owned(), dry_run: false };
    configuration.apply(apply).await.unwrap();
    let channel = channel(&plugins.path().join("greeter/socket")).await;
    let mut plugin = Connected { channel, token: String::new() };
    plugin.register("greeter.a", inputs(), outputs()).await.unwrap();
    assert_eq!(plugin.list(PLUGINS, GREETINGS).await.unwrap(), 0);
    let refused = plugin.create(resource("system", GREETINGS, "a")).await;
    assert_eq!(code(refused), Code::PermissionDenied);
    plugin.create(greeting("a")).await.unwrap();
    let of_plugin = "call: plugin \"greeter\": cosi.runtime.Controller";
    let last = format!("{of_plugin}Adapter/Create: done: Greetings.example(plugins/a)\n");
    let record = osd.recorded(&last, 1).await;
    for line in ["Runtime/RegisterController: done: greeter.a\n", "Adapter/Create: refused: "] {
        assert!(record.contains(&format!("{of_plugin}{line}")), "{record}");
    }
    assert_eq!(record.matches(of_plugin).count(), 3, "{record}");

    for number in 0..200 {
        plugin.create(greeting(&number.to_string())).await.unwrap();
    }
    create(&mut osd.osd.client().await, thing("last")).await.unwrap();
    let record = osd.recorded("call: local: cosi.resource.State/Create: done: ", 1).await;
    let lines = record.matches(of_plugin).count();
    assert!((60..150).contains(&lines), "{lines}");
}
