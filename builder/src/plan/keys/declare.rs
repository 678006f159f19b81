//! The declarations: a table, a choice between tables, and the name of a key.

/// A field's name as a key of a file, where words are joined with hyphens: `gate-hold-s`.
pub const fn kebab<const LENGTH: usize>(field: &str) -> [u8; LENGTH] {
    let mut name = [0; LENGTH];
    let mut index = 0;
    while index < LENGTH {
        let byte = field.as_bytes()[index];
        name[index] = if byte == b'_' { b'-' } else { byte };
        index += 1;
    }
    name
}

/// The key of a field: `key!(BoardFile.gate_hold_s)` is `"gate-hold-s"`, and does not compile for a
/// struct without that field.
macro_rules! key {
    ($table:ident . $field:ident) => {{
        let _ = |table: &$table| {
            let _ = &table.$field;
        };
        key!($field)
    }};
    ($field:ident) => {
        const {
            const NAME: &[u8] =
                &$crate::plan::keys::kebab::<{ stringify!($field).len() }>(stringify!($field));
            match std::str::from_utf8(NAME) {
                Ok(name) => name,
                Err(_) => panic!("an identifier is UTF-8"),
            }
        }
    };
}

/// Declares a table: a struct with a field for each key. A field is `None` where the key is absent
/// or its value was refused.
macro_rules! table {
    (
        $(#[$meta:meta])*
        $name:ident {
            $( $(#[doc = $about:literal])+ $field:ident: $need:ident $value:ty, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $(
                $(#[doc = $about])+
                pub $field: Option<$crate::plan::document::Located<$value>>,
            )*
        }

        impl $crate::plan::keys::Table for $name {
            const KEYS: &'static [$crate::plan::keys::Key] = &[
                $(
                    $crate::plan::keys::Key {
                        name: key!($field),
                        need: $crate::plan::keys::Need::$need,
                        shape: <$value as $crate::plan::keys::Field>::SHAPE,
                        about: concat!($($about),+).trim_ascii(),
                    },
                )*
            ];

            fn present(&self) -> Vec<(&'static str, &$crate::plan::document::Spot)> {
                let all = [$((key!($field), self.$field.as_ref().map(|found| &found.key))),*];
                all.into_iter().filter_map(|(name, key)| Some((name, key?))).collect()
            }
        }

        impl $crate::plan::keys::Field for $name {
            const SHAPE: $crate::plan::keys::Shape =
                $crate::plan::keys::Shape::Table(<Self as $crate::plan::keys::Table>::KEYS);

            fn read(item: &$crate::plan::document::Item) -> Option<Self> {
                item.table()?;
                Some($name {
                    $( $field: item.get(key!($field)).and_then(|found| found.read()), )*
                })
            }
        }
    };
}

/// Declares a choice between tables: an enum with a variant for each. The first key of a table
/// distinguishes it from the others.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        $name:ident { $( $(#[$about:meta])+ $variant:ident($table:ty), )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub enum $name {
            $( $(#[$about])+ $variant($table), )*
        }

        impl $crate::plan::keys::Field for $name {
            const SHAPE: $crate::plan::keys::Shape =
                $crate::plan::keys::Shape::Choice(&[
                    $( <$table as $crate::plan::keys::Table>::KEYS ),*
                ]);

            fn read(item: &$crate::plan::document::Item) -> Option<Self> {
                let kinds: &'static [&'static [$crate::plan::keys::Key]] =
                    &[$( <$table as $crate::plan::keys::Table>::KEYS ),*];
                let chosen = $crate::plan::keys::check::chosen(item.table()?, kinds);
                let [chosen] = chosen[..] else { return None };
                $(
                    if chosen[0].name == <$table as $crate::plan::keys::Table>::KEYS[0].name {
                        let table = <$table as $crate::plan::keys::Field>::read(item);
                        return table.map($name::$variant);
                    }
                )*
                None
            }
        }
    };
}
