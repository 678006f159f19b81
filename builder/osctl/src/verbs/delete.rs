//! `osctl delete`: deletes a resource.

use super::guard::Guard;
use super::print_lines;
use crate::cli::Delete;
use crate::connection::Connection;
use crate::definitions::{self, Definition};
use crate::error::{Error, Result, printable};
use osbuild_cosi::resource::TeardownAndDestroyRequest;

/// Tears the resource down, waits until nothing holds it any more, and destroys it.
pub async fn run(connection: &Connection, delete: Delete) -> Result<()> {
    let Delete { r#type: type_name, id, unguarded } = delete;
    let Definition { namespace, type_name, may_disconnect, .. } =
        definitions::named(connection, &type_name).await?;
    let done = printable(&format!("deleted {type_name}/{id}"));
    let request = TeardownAndDestroyRequest { namespace, r#type: type_name, id, options: None };
    let guard = Guard::begin(connection, unguarded, async || Ok(may_disconnect)).await?;
    let destroyed = connection.state().teardown_and_destroy(request).await;
    guard.end(destroyed.map_err(Error::from)).await?;
    print_lines(&[done])
}
