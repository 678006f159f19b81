//! `osctl delete`: deletes a resource.

use super::{print_lines, tries};
use crate::connection::Connection;
use crate::definitions::{self, Definition};
use crate::error::{Result, printable};
use osbuild_cosi::resource::TeardownAndDestroyRequest;

/// Tears the resource down, waits until nothing holds it any more, and destroys it.
pub async fn run(connection: &Connection, type_name: &str, id: &str) -> Result<()> {
    let Definition { namespace, type_name, .. } = definitions::named(connection, type_name).await?;
    let done = printable(&format!("deleted {type_name}/{id}"));
    let request = TeardownAndDestroyRequest {
        namespace,
        r#type: type_name,
        id: id.to_owned(),
        options: None,
    };
    connection.state().teardown_and_destroy(request).await?;
    tries::note_try(connection).await;
    print_lines(&[done])
}
