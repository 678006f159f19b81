//! `StorageDrivers.osbuild`: the storage drivers of pods, as `init` finds their sockets.

use super::ObservedType;
use super::rows::Rows;
use crate::settings::{column, names};
use osbuild_cosi::v1::StorageDriverSpec;
use osbuild_protocol::{DriverSocket, MAX_DRIVERS, NodeStatus, StorageDriver};

pub const TYPE: ObservedType = ObservedType {
    names: names("StorageDrivers", "StorageDriver"),
    columns: &[
        column("Registration", "{.registrationListens}"),
        column("Endpoint", "{.endpointListens}"),
        column("Error", "{.error}"),
    ],
    max_count: MAX_DRIVERS,
};

/// The specs.
///
/// # Errors
/// `init` has not looked, as it does after the first request, or could not.
pub fn rows(status: &NodeStatus) -> Result<Rows<StorageDriverSpec>, String> {
    let found = status.storage_drivers.as_ref().ok_or("init has not looked at the drivers")?;
    let mut rows = Rows::at_most(TYPE.max_count);
    for driver in &found.drivers {
        rows.insert(0, driver.name.clone(), spec(driver));
    }
    rows.left_out += found.left_out;
    Ok(rows)
}

fn spec(driver: &StorageDriver) -> StorageDriverSpec {
    let StorageDriver { registration, endpoint, .. } = driver;
    let sockets = [registration, endpoint].into_iter().flatten();
    let dead: Vec<&str> =
        sockets.filter(|socket| !socket.listens).map(|socket| socket.path.as_str()).collect();
    let error = match dead.is_empty() {
        true => String::new(),
        false => {
            format!("no process listens at {}: the driver's pod has ended", dead.join(" and "))
        }
    };
    let path = |socket: &Option<DriverSocket>| {
        socket.as_ref().map_or_else(String::new, |socket| socket.path.clone())
    };
    let listens = |socket: &Option<DriverSocket>| socket.as_ref().is_some_and(|one| one.listens);
    StorageDriverSpec {
        registration: path(registration),
        registration_listens: listens(registration),
        endpoint: path(endpoint),
        endpoint_listens: listens(endpoint),
        error,
    }
}
