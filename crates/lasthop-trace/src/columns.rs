//! Records as columns, so that a data frame can be built without knowing their fields.

use lasthop_core::{Direction, Host, Protocol, SackList};
use serde::Serialize;
use std::borrow::Cow;

/// One column of a table; `None` where the value is not defined for that row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Column {
    /// Counts, nanoseconds, sequence numbers; 0 and 1 for truth values.
    Int(Vec<Option<u64>>),
    /// Measured values, in the unit at the end of the column's name.
    Float(Vec<Option<f64>>),
    /// Names and labels. Labels, of which a long run has many, are not copied.
    Text(Vec<Cow<'static, str>>),
}

impl Column {
    pub fn len(&self) -> usize {
        match self {
            Self::Int(cells) => cells.len(),
            Self::Float(cells) => cells.len(),
            Self::Text(cells) => cells.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    pub name: &'static str,
    /// Its label, without the unit.
    pub label: &'static str,
    /// Unit; empty for names and for counts, whose unit is the label.
    pub unit: &'static str,
    /// Definition: the lines of the field's documentation, each preceded by a blank.
    pub definition: &'static str,
}

/// A record type whose rows can be turned into named columns.
pub trait Columnar: Sized {
    /// The meanings of the columns that have a label.
    const MEANINGS: &'static [Meaning];

    /// One column per field, in the order of the fields and with their names, even without rows.
    fn columns(rows: &[Self]) -> Vec<(&'static str, Column)>;
}

/// A field type that knows its kind of column.
pub(crate) trait Cell: Sized {
    fn column<'a>(cells: impl Iterator<Item = &'a Self>) -> Column
    where
        Self: 'a;
}

macro_rules! cells {
    ($($ty:ty => $kind:ident($value:expr);)*) => {$(
        impl $crate::columns::Cell for $ty {
            fn column<'a>(cells: impl Iterator<Item = &'a Self>) -> $crate::columns::Column {
                $crate::columns::Column::$kind(cells.map($value).collect())
            }
        }
    )*};
}
pub(crate) use cells;

cells! {
    u64 => Int(|cell| Some(*cell));
    Option<u64> => Int(|cell| *cell);
    u32 => Int(|cell| Some(u64::from(*cell)));
    Option<u32> => Int(|cell| cell.map(u64::from));
    u8 => Int(|cell| Some(u64::from(*cell)));
    bool => Int(|cell| Some(u64::from(*cell)));
    f64 => Float(|cell| Some(*cell));
    Option<f64> => Float(|cell| *cell);
    String => Text(|cell| cell.clone().into());
    Option<&'static str> => Text(|cell| cell.unwrap_or_default().into());
    Direction => Text(|cell| cell.name().into());
    Host => Text(|cell| if *cell == Host::Server { "server".into() } else { "client".into() });
    Protocol => Text(|cell| cell.name().into());
    // `start-end` of each block, in the order of the option, separated by blanks.
    Option<Box<SackList>> => Text(|cell| {
        let Some(list) = cell else { return Cow::Borrowed("") };
        let blocks = list.as_slice().iter().map(|block| format!("{}-{}", block.start, block.end));
        blocks.collect::<Vec<String>>().join(" ").into()
    });
}

/// Defines a record: the struct, its columns and their meanings, from one list of fields. A field that is
/// part of users' results is followed by `= (label, unit)`.
macro_rules! columnar {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[doc = $doc:literal])* $field:ident: $ty:ty $(= $meaning:tt)?,)*
    }) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[doc = $doc])* pub $field: $ty,)*
        }

        impl $crate::columns::Columnar for $name {
            const MEANINGS: &'static [$crate::columns::Meaning] = $crate::columns::meanings!(
                [] $([$field [$($doc)*] $($meaning)?])*
            );

            fn columns(rows: &[Self]) -> Vec<(&'static str, $crate::columns::Column)> {
                vec![$((
                    stringify!($field),
                    <$ty as $crate::columns::Cell>::column(rows.iter().map(|row| &row.$field)),
                ),)*]
            }
        }
    };
}
pub(crate) use columnar;

/// Lists the meanings of the fields that have a label.
macro_rules! meanings {
    ([$($done:tt)*] [$field:ident [$($doc:literal)*] ($label:literal, $unit:literal)] $($rest:tt)*) => {
        $crate::columns::meanings!([$($done)* $crate::columns::Meaning {
            name: stringify!($field),
            label: $label,
            unit: $unit,
            definition: concat!($($doc),*),
        },] $($rest)*)
    };
    ([$($done:tt)*] [$field:ident [$($doc:literal)*]] $($rest:tt)*) => {
        $crate::columns::meanings!([$($done)*] $($rest)*)
    };
    ([$($done:tt)*]) => { &[$($done)*] };
}
pub(crate) use meanings;

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_core::SackBlock;

    columnar! {
        #[derive(Clone, Debug)]
        pub struct Fruit {
            name: String,
            pieces: u32,
            weight_g: Option<f64>,
        }
    }

    #[test]
    fn columns_carry_the_names_the_order_and_the_gaps_of_the_fields() {
        let rows = [
            Fruit { name: "apple".into(), pieces: 3, weight_g: Some(180.5) },
            Fruit { name: "plum".into(), pieces: 7, weight_g: None },
        ];
        assert_eq!(
            Fruit::columns(&rows),
            vec![
                ("name", Column::Text(vec!["apple".into(), "plum".into()])),
                ("pieces", Column::Int(vec![Some(3), Some(7)])),
                ("weight_g", Column::Float(vec![Some(180.5), None])),
            ]
        );
    }

    #[test]
    fn a_table_without_rows_still_has_its_columns() {
        let columns = Fruit::columns(&[]);
        assert_eq!(columns.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["name", "pieces", "weight_g"]);
        assert!(columns.iter().all(|(_, column)| column.is_empty()));
    }

    #[test]
    fn sack_blocks_are_listed_in_the_order_of_the_option() {
        let mut sack = SackList::default();
        sack.push(SackBlock { start: 1609, end: 2145 });
        sack.push(SackBlock { start: 537, end: 1073 });
        assert_eq!(
            Cell::column([Some(Box::new(sack)), None].iter()),
            Column::Text(vec!["1609-2145 537-1073".into(), "".into()])
        );
    }
}
