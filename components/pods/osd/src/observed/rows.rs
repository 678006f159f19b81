//! The resources of a type before they are written.

use std::collections::BTreeMap;

/// The specs of a type by identifier, as many as there may be: those of the lowest rank.
#[derive(Debug)]
pub struct Rows<M> {
    max_count: usize,
    rows: BTreeMap<(u32, String), M>,
    /// How many there were beyond the limit.
    pub left_out: u64,
}

impl<M> Rows<M> {
    /// None yet.
    pub fn at_most(max_count: usize) -> Rows<M> {
        Rows { max_count, rows: BTreeMap::new(), left_out: 0 }
    }

    /// Adds one, in the place of one of the same rank and identifier.
    pub fn insert(&mut self, rank: u32, id: String, row: M) {
        self.rows.insert((rank, id), row);
        if self.rows.len() > self.max_count {
            self.rows.pop_last();
            self.left_out += 1;
        }
    }

    /// The specs by identifier.
    pub fn into_specs(self) -> BTreeMap<String, M> {
        self.rows.into_iter().map(|((_, id), row)| (id, row)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_the_highest_rank_are_left_out_and_counted() {
        let mut rows = Rows::at_most(2);
        for (rank, id) in [(9, "c"), (1, "b"), (5, "a"), (1, "b")] {
            rows.insert(rank, id.to_owned(), rank);
        }
        assert_eq!(rows.left_out, 1);
        let expected = [("a".to_owned(), 5), ("b".to_owned(), 1)];
        assert_eq!(rows.into_specs(), BTreeMap::from(expected));
    }
}
