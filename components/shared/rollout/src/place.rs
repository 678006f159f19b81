//! Where a node is in the order of updates.

/// How many places there are.
pub const PLACES: u16 = 10_000;

/// The place that a name has: 0 to 9999. The nodes of the first percent have places below 100.
///
/// FNV-1a with a final mix (that of MurmurHash3), so that names that differ in their last digit
/// alone are far apart.
pub fn place(name: &str) -> u16 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    ((mixed ^ (mixed >> 33)) % u64::from(PLACES)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_spread_evenly_over_the_places() {
        let of_first_percent =
            (0..100_000).filter(|number| place(&format!("node-{number:06}")) < 100).count();
        assert!((900..1100).contains(&of_first_percent), "{of_first_percent}");
    }

    #[test]
    fn another_order_has_other_nodes_in_its_first_percent() {
        let is_first = |order: &str, number| place(&format!("{order} {number:032x}")) < 100;
        let of_both = (0..100_000_u32)
            .filter(|number| is_first("1.0.1", *number) && is_first("1.0.2", *number))
            .count();
        // One percent of one percent is 10.
        assert!(of_both < 40, "{of_both}");
    }
}
